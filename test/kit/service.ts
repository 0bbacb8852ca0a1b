import { randomBytes } from 'node:crypto'
import type { Logger } from 'pino'
import { inject } from 'vitest'
import type { Intervals } from '../../cli/roles/parts.ts'
import { type Role, startService } from '../../cli/service.ts'
import { parseSettings, type StoreUrls } from '../../cli/settings.ts'
import { openClickHouse } from '../../store/clickhouse/connection.ts'
import { migrateClickHouse } from '../../store/clickhouse/migrations/migrate.ts'
import { ensureUser } from '../../store/postgres/accounts/accounts.ts'
import { createApiKey } from '../../store/postgres/accounts/api-key.ts'
import { insertApiKey } from '../../store/postgres/accounts/keys.ts'
import { openDatabase } from '../../store/postgres/database.ts'
import { createClient } from './http/client.ts'
import { keptLog } from './kept-log.ts'
import { copyClickHouseTemplate } from './stores/clickhouse-template.ts'
import { createDatabase, withDatabase } from './stores/databases.ts'

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
  const { templateDatabase, clickhouseTemplate } = inject('stores')
  const shared = storesWith(queue)
  const name = uniqueName('own').replaceAll('-', '_')
  const clickhouseUrl = withDatabase(clickhouseServerUrl ?? shared.clickhouseUrl, name)
  const clickhouse = openClickHouse({ url: clickhouseUrl })
  try {
    const [postgresUrl] = await Promise.all([
      createDatabase(shared.postgresUrl, name, templateDatabase),
      clickhouseServerUrl === undefined
        ? copyClickHouseTemplate(clickhouse, clickhouseTemplate)
        : migrateClickHouse(clickhouse),
    ])
    return { postgresUrl, clickhouseUrl, redisUrl: shared.redisUrl, objectsUrl: shared.objectsUrl }
  } finally {
    await clickhouse.close()
  }
}

/** A user of an organization of its own, or of a given one, with a workspace and a key; an admin, if asked for. */
export async function createUser(
  stores: StoreUrls,
  { isAdmin = false, organizationName = uniqueName('organization') } = {},
): Promise<{ apiKey: string; workspaceName: string; userName: string }> {
  // A machine that is very busy takes its time.
  const database = openDatabase({
    url: stores.postgresUrl,
    connectionsMax: 1,
    connectWaitMs: 60_000,
    onError: () => undefined,
  })
  try {
    const user = { userName: uniqueName('user'), workspaceName: uniqueName('workspace') }
    const { userId } = await ensureUser(database, {
      ...user,
      organizationName,
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

/** All test services have these, unless a test says otherwise. */
const testSettings = {
  SVC_PORT: '0',
  SVC_MASTER_KEY: testMasterKey,
  // Analysing a question takes a second on two cores, ten where others are busy, and that counts.
  SVC_SQL_SECONDS_MAX: '120',
}

const allRoles = new Set<Role>(['ingest', 'worker', 'webhook-worker', 'api'])

/** The whole service in this process, with a user to call it. Settings are given as in the environment. */
export async function openTestService(
  options: {
    stores?: StoreUrls
    roles?: Set<Role>
    settings?: Record<string, string>
    isAdmin?: boolean
    organizationName?: string
    log?: Logger
    intervals?: Intervals
  } = {},
) {
  const stores = { ...storesWith('postgres'), ...options.stores }
  const user = await createUser(stores, options)
  const settings = parseSettings({ ...testSettings, ...options.settings })
  const service = await startService(
    options.roles ?? allRoles,
    stores,
    settings,
    options.log ?? keptLog,
    options.intervals,
  )
  return {
    ...user,
    url: service.url,
    routes: service.routes,
    close: service.close,
    client: createClient(service.url, user),
  }
}
