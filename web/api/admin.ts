import { type QueryClient, queryOptions } from '@tanstack/react-query'
import type { KeyFacts, Limits, Session } from './accounts.ts'
import { baseUrl, call, post, read } from './http.ts'

/** What admins see of their organization, and operators of the whole service. Times are in ms since the Unix epoch. */

export type ListedKey = KeyFacts & { userName: string; kind: Session['kind']; limits: Limits }

export const keys = queryOptions({
  queryKey: ['admin', 'keys'],
  queryFn: async ({ signal }) => (await read<{ keys: ListedKey[] }>('/admin/keys', {}, { signal })).keys,
})

export const endKey = (keyId: string) => call('DELETE', `api/rest/v2/admin/keys/${encodeURIComponent(keyId)}`)

/** All workspaces of the organization, also those that the reader is no member of. */
export const workspaces = queryOptions({
  queryKey: ['admin', 'workspaces'],
  queryFn: async ({ signal }) =>
    (
      await read<{ workspaces: { workspaceName: string; members: number; projects: number }[] }>(
        '/admin/workspaces',
        {},
        { signal },
      )
    ).workspaces,
})

type GivenBy = 'project' | 'workspace' | 'service'

export type Sender = {
  /** Null for a model. */
  experimentKey: string | null
  projectName: string | null
  name: string
  lastMinute: number
  perMinute: number
  given: GivenBy
}

export type Usage = {
  types: { type: string; perMinute: number; given: GivenBy; senders: Sender[] }[]
  /** What the senders of metrics have of the limits by count. */
  experiments: {
    experimentKey: string
    projectName: string
    name: string
    metricNames: number
    metricNamesMax: number
    pointsMost: number
    pointsPerMetricMax: number
  }[]
  throttled: { experimentKey: string; projectName: string; name: string; reason: string; lastAt: number }[]
  fileBytes: number
  fileBytesMax: number | null
}

export const usage = (workspaceName: string) =>
  queryOptions({
    queryKey: ['admin', 'usage', workspaceName],
    queryFn: ({ signal }) => read<Usage>('/admin/usage', { workspaceName }, { signal }),
  })

export type Retention = {
  keptDays: Record<string, number>
  deletions: { type: string; upTo: number; rows: number; at: number }[]
}

export const retention = (workspaceName: string) =>
  queryOptions({
    queryKey: ['admin', 'retention', workspaceName],
    queryFn: ({ signal }) => read<Retention>('/admin/retention', { workspaceName }, { signal }),
  })

export const setRetention = (workspaceName: string, keptDays: Record<string, number | null>) =>
  call('PUT', 'api/rest/v2/admin/retention', { workspaceName, keptDays })

export type AuditAsked = { userName?: string; act?: string; workspaceName?: string; from?: number; to?: number }

export type AuditEntry = {
  at: number
  userName: string
  act: string
  subject: string
  details: Record<string, unknown>
}

type AuditPage = { entries: AuditEntry[]; nextPage: string | null }

export const readAudit = (asked: AuditAsked & { page?: string; pageSize?: number }, signal: AbortSignal) =>
  read<AuditPage>('/admin/audit', asked, { signal })

/** The address of the entries as a file. */
export function auditUrl(asked: AuditAsked, format: 'csv' | 'jsonl' | 'parquet'): string {
  const given = Object.entries({ ...asked, format }).filter(([, value]) => value !== undefined)
  const query = new URLSearchParams(given.map(([name, value]) => [name, String(value)]))
  return new URL(`api/rest/v2/export/audit?${query}`, baseUrl).href
}

export type DeadLetter = {
  deadLetterId: string
  queue: string
  rows: number
  receivedAt: number
  setAsideAt: number
  reason: string
}

export type DeadLettersPage = {
  deadLetters: DeadLetter[]
  total: number
  totalRows: number
  nextPage: string | null
}

export const readDeadLetters = (page: string | undefined, signal: AbortSignal) =>
  read<DeadLettersPage>('/admin/dead-letters', { page, pageSize: 100 }, { signal })

export type DeadLetterContent = DeadLetter & {
  bytes: number
  /** The first rows; null when the block is damaged. */
  content: Record<string, unknown>[] | null
  /** In hex. */
  firstBytes: string
}

export const deadLetter = (deadLetterId: string) =>
  queryOptions({
    queryKey: ['admin', 'dead-letter', deadLetterId],
    queryFn: ({ signal }) =>
      read<DeadLetterContent>(`/admin/dead-letters/${encodeURIComponent(deadLetterId)}`, {}, { signal }),
  })

export const replayDeadLetters = (deadLetterIds: string[]) =>
  post<{ replayed: string[]; missing: string[] }>('/admin/dead-letters/replay', { deadLetterIds })

export const discardDeadLetters = (deadLetterIds: string[]) =>
  post<{ discarded: string[]; missing: string[] }>('/admin/dead-letters/discard', { deadLetterIds })

export const refreshDeadLetters = (client: QueryClient) =>
  Promise.all([
    client.invalidateQueries({ queryKey: ['admin', 'dead-letters'] }),
    client.invalidateQueries({ queryKey: ['admin', 'queue'] }),
  ])

export type Queue = {
  kind: 'redis' | 'postgres'
  blocksMax: number
  memoryShare: number
  queues: { queue: string; waiting: number; active: number; delayed: number; oldestAt: number | null }[]
  webhooks: { pending: number; oldestDueAt: number | null }
  deadLetters: { letters: number; rows: number }
}

export const queue = queryOptions({
  queryKey: ['admin', 'queue'],
  queryFn: ({ signal }) => read<Queue>('/admin/queue', {}, { signal }),
})

export type Finding = { name: string; state: 'ok' | 'warning' | 'wrong'; says: string }

export type Health = { version: string; node: string; ok: boolean; findings: Finding[] }

export const health = queryOptions({
  queryKey: ['admin', 'health'],
  queryFn: ({ signal }) => read<Health>('/admin/health', {}, { signal }),
})

export type Backup = {
  backupId: string
  place: string
  startedAt: number
  finishedAt: number
  bytes: number
  version: string
}

export const backups = queryOptions({
  queryKey: ['admin', 'backups'],
  queryFn: async ({ signal }) => (await read<{ backups: Backup[] }>('/admin/backups', {}, { signal })).backups,
})
