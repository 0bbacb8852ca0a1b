import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import type { Role } from '../../../cli/service.ts'
import { migrateStores } from '../../../cli/stores.ts'
import type { Closers } from '../../../runtime/closers.ts'
import { openClickHouse } from '../../../store/clickhouse/connection.ts'
import { findFreePort } from '../../../store/embedded/free-port.ts'
import { createApiKey } from '../../../store/postgres/accounts/api-key.ts'
import { openQueueBackend } from '../../../store/queue/open-queue.ts'
import { queueNames } from '../../../store/queue/queues.ts'
import { createClient } from '../../kit/http/client.ts'
import { type KeptProcess, keepProcess } from '../../kit/processes/supervised-process.ts'
import type { QueueKind } from '../../kit/service.ts'
import { openStores } from '../../kit/stores/supervised-stores.ts'

/** An experiment as clients name it, and as ClickHouse knows it. */
export type Experiment = { key: string; id: string }

export type Cluster = Awaited<ReturnType<typeof startCluster>>

type Settings = {
  queue: QueueKind
  closers: Closers
  diskBytes?: number | undefined
  /** Settings of the roles, as in the environment. */
  settings?: Record<string, string>
  /** What to start of each role. */
  roles?: Role[]
}

type KeptRole = { role: Role; url: string; process: KeptProcess }

const queuePrefix = 'faults'
const script = fileURLToPath(new URL('../../../cli/svc.ts', import.meta.url))

const usualRoles: Role[] = ['ingest', 'ingest', 'worker', 'worker', 'api']

/**
 * The service as in production, each part a process of its own that is started again when it ends: two ingest, two
 * workers, one api unless others are asked for, on stores of their own in a folder that goes away again.
 */
export async function startCluster({ queue, closers, diskBytes, settings = {}, roles: wanted = usualRoles }: Settings) {
  if (process.platform !== 'linux') throw new Error('Killing and watching processes this way needs Linux (/proc).')
  const folder = await mkdtemp(path.join(tmpdir(), 'svc-faults-'))
  closers.push(() => rm(folder, { recursive: true, force: true, maxRetries: 10 }))
  const stores = await openStores({ folder, queue, closers, diskBytes })
  const apiKey = createApiKey()
  await migrateStores(stores.urls, apiKey)

  const roles = await Promise.all(
    wanted.map((role, index) =>
      keepRole(role, `${role} ${wanted.slice(0, index + 1).filter((it) => it === role).length}`),
    ),
  )
  await Promise.all(roles.map((it) => it.process.ready()))
  const urlsOf = (role: Role) => roles.filter((it) => it.process.kind === role).map((it) => it.url)
  const apiUrl = urlsOf('api')[0] as string

  const clickhouse = openClickHouse({ url: stores.urls.clickhouseUrl })
  closers.push(() => clickhouse.close())

  return {
    apiKey,
    apiUrl,
    ingestUrls: urlsOf('ingest'),
    clickhouse,
    stores,
    processes: [...roles.map((it) => it.process), stores.clickhouse, stores.postgres, stores.redis].filter(
      (it) => it !== undefined,
    ),
    openQueueDepth,
    roles,
    keepRole,

    /** Makes experiments over HTTP, as trainers do. */
    async createExperiments(count: number): Promise<Experiment[]> {
      const client = createClient(apiUrl, { apiKey, workspaceName: 'default' })
      const keys: string[] = []
      for (let made = 0; made < count; made++) keys.push(await client.createExperiment())
      const database = new pg.Client({ connectionString: stores.urls.postgresUrl })
      await database.connect()
      const { rows } = await database.query<Experiment>('SELECT key, id::text AS id FROM experiments')
      await database.end()
      return rows.filter((it) => keys.includes(it.key))
    },
  }

  async function keepRole(role: Role, name: string): Promise<KeptRole> {
    const port = await findFreePort()
    const url = `http://127.0.0.1:${port}`
    const { PATH, HOME, TMPDIR } = process.env
    const kept = keepProcess({
      kind: role,
      name,
      command: {
        file: process.execPath,
        args: [script, role],
        environment: {
          PATH,
          HOME,
          TMPDIR,
          SVC_PORT: String(port),
          SVC_LOG_LEVEL: 'warn',
          SVC_QUEUE_PREFIX: queuePrefix,
          CLICKHOUSE_URL: stores.urls.clickhouseUrl,
          POSTGRES_URL: stores.urls.postgresUrl,
          REDIS_URL: stores.urls.redisUrl ?? '',
          OBJECTS_URL: stores.urls.objectsUrl ?? '',
          ...settings,
        },
      },
      async checkReady() {
        const answer = await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(5_000) })
        await answer.arrayBuffer()
        if (!answer.ok) throw new Error(`HTTP ${answer.status}`)
      },
    })
    closers.push(kept.close)
    return { role, url, process: kept }
  }

  /** Blocks that wait in all queues or are at work; undefined while the queue does not answer. */
  async function openQueueDepth(): Promise<() => Promise<number | undefined>> {
    const backend = openQueueBackend({
      redisUrl: stores.urls.redisUrl,
      postgresUrl: stores.urls.postgresUrl,
      prefix: queuePrefix,
      onError: () => undefined,
    })
    closers.push(() => backend.close())
    const producers = await Promise.all(queueNames.map((name) => backend.openProducer(name)))
    return async () => {
      const depths = await Promise.all(producers.map((it) => it.load())).catch(() => undefined)
      return depths?.reduce((sum, it) => sum + it.blocks, 0)
    }
  }
}
