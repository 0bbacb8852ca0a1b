import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { type Logger, pino } from 'pino'
import { inject } from 'vitest'
import { type Role, startService } from '../../cli/service.ts'
import { parseSettings, type StoreUrls } from '../../cli/settings.ts'
import { migrateStores } from '../../cli/stores.ts'
import { findFreePort } from '../../store/embedded/free-port.ts'
import { ensureUser } from '../../store/postgres/accounts/accounts.ts'
import { createApiKey } from '../../store/postgres/accounts/api-key.ts'
import { insertApiKey } from '../../store/postgres/accounts/keys.ts'
import { openDatabase } from '../../store/postgres/database.ts'
import { eventually } from './eventually.ts'
import { createClient } from './http/client.ts'

/** The two kinds of queue; a test that runs on both is written once. */
export type QueueKind = 'postgres' | 'redis'

/** Those that can be tested here; the setup says which could not, and why. */
export function availableQueues(): QueueKind[] {
  return inject('stores').redisUrl === undefined ? ['postgres'] : ['postgres', 'redis']
}

/** The shared stores with a queue of the given kind. */
export function storesWith(queue: QueueKind): StoreUrls {
  const stores = inject('stores')
  return { ...stores, redisUrl: queue === 'redis' ? stores.redisUrl : undefined }
}

/** A name that no other test has. */
export function uniqueName(prefix: string): string {
  return `${prefix}-${randomBytes(6).toString('hex')}`
}

/**
 * Stores that no other test uses: databases of their own on the shared servers, with all tables. For tests that count
 * what is in a queue, or stop those who empty it.
 */
export async function openOwnStores(queue: QueueKind, clickhouseServerUrl?: string): Promise<StoreUrls> {
  const shared = storesWith(queue)
  const name = uniqueName('own').replaceAll('-', '_')
  const client = new pg.Client({ connectionString: shared.postgresUrl })
  await client.connect()
  await client.query(`CREATE DATABASE ${name}`)
  await client.end()
  const stores = {
    postgresUrl: withPath(shared.postgresUrl, name),
    clickhouseUrl: withPath(clickhouseServerUrl ?? shared.clickhouseUrl, name),
    redisUrl: shared.redisUrl,
    objectsUrl: shared.objectsUrl,
  }
  await migrateStores({ ...stores, redisUrl: undefined }, undefined)
  return stores
}

function withPath(url: string, name: string): string {
  const changed = new URL(url)
  changed.pathname = `/${name}`
  return changed.href
}

/** A user of an organization of its own, with a workspace and a key; the organization's admin, if asked for. */
export async function createUser(
  stores: StoreUrls,
  { isAdmin = false } = {},
): Promise<{ apiKey: string; workspaceName: string; userName: string }> {
  const database = openDatabase({ url: stores.postgresUrl, connectionsMax: 1, onError: () => undefined })
  try {
    const user = { userName: uniqueName('user'), workspaceName: uniqueName('workspace') }
    const { userId } = await ensureUser(database, {
      ...user,
      organizationName: uniqueName('organization'),
      isAdmin,
    })
    const apiKey = createApiKey()
    await insertApiKey(database, userId, apiKey)
    return { ...user, apiKey }
  } finally {
    await database.close()
  }
}

/** All tests share one Postgres, and so one master key. */
export const testMasterKey = Buffer.alloc(32, 7).toString('base64')

const allRoles = new Set<Role>(['ingest', 'worker', 'webhook-worker', 'api'])

/** The whole service in this process, with a user to call it. Settings are given as in the environment. */
export async function openTestService(
  options: {
    stores?: StoreUrls
    roles?: Set<Role>
    settings?: Record<string, string>
    isAdmin?: boolean
    log?: Logger
  } = {},
) {
  const stores = { ...storesWith('postgres'), ...options.stores }
  const user = await createUser(stores, options)
  const settings = parseSettings({ SVC_PORT: '0', SVC_MASTER_KEY: testMasterKey, ...options.settings })
  const service = await startService(
    options.roles ?? allRoles,
    stores,
    settings,
    options.log ?? pino({ level: 'silent' }),
  )
  return {
    ...user,
    url: service.url,
    routes: service.routes,
    close: service.close,
    client: createClient(service.url, user),
  }
}

export type RunningRole = {
  url: string
  pid: number
  /** Resolves with what the process ended with. */
  ended: Promise<{ code: number | null; signal: NodeJS.Signals | null }>
  kill(signal: NodeJS.Signals): void
  output(): string
}

const command = fileURLToPath(new URL('../../cli/svc.ts', import.meta.url))

/** Runs `svc` as a process with only the given environment, besides what Node needs. */
export function spawnSvc(args: string[], environment: Record<string, string>, cwd?: string): ChildProcess {
  const { PATH, HOME, TMPDIR } = process.env
  return spawn(process.execPath, [command, ...args], {
    env: { PATH, HOME, TMPDIR, ...environment },
    cwd,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
}

/** Starts a role as a process of its own and waits until it is ready. */
export async function startRole(
  role: Role,
  stores: StoreUrls,
  settings: Record<string, string> = {},
  options: string[] = [],
): Promise<RunningRole> {
  const port = settings.SVC_PORT ?? String(await findFreePort())
  const child = spawnSvc([role, ...options], {
    SVC_PORT: port,
    CLICKHOUSE_URL: stores.clickhouseUrl,
    POSTGRES_URL: stores.postgresUrl,
    REDIS_URL: stores.redisUrl ?? '',
    OBJECTS_URL: stores.objectsUrl ?? '',
    ...settings,
  })
  let output = ''
  child.stdout?.on('data', (chunk) => {
    output += chunk
  })
  child.stderr?.on('data', (chunk) => {
    output += chunk
  })
  let hasEnded = false
  const ended = new Promise<{ code: number | null; signal: NodeJS.Signals | null }>((resolve) => {
    child.once('exit', (code, signal) => {
      hasEnded = true
      resolve({ code, signal })
    })
  })
  const url = `http://127.0.0.1:${port}`
  await eventually(async () => {
    const answer = await fetch(`${url}/readyz`).catch((error) => {
      if (hasEnded) return undefined
      throw error
    })
    if (hasEnded) return
    if (!answer?.ok) throw new Error(`${role} is not ready: ${await answer?.text()}`)
  })
  if (hasEnded) throw new Error(`${role} ended while it started:\n${output}`)
  return { url, pid: child.pid as number, ended, kill: (signal) => child.kill(signal), output: () => output }
}
