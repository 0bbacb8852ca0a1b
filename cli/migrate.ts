import { setTimeout as sleep } from 'node:timers/promises'
import { openClickHouse } from '../store/clickhouse/connection.ts'
import { checkClickHouse } from '../store/clickhouse/migrations/check.ts'
import { openDatabase } from '../store/postgres/database.ts'
import { checkPostgres } from '../store/postgres/migrate.ts'
import { parseRoleSettings, type StoreUrls, toClickHouse } from './settings.ts'
import { nameStoreError } from './store-error.ts'
import { migrateStores } from './stores.ts'

const lookEveryMs = 1_000

/** Brings the given stores to this version, and prints the first key when it was made now. */
export async function migrate(): Promise<void> {
  const settings = parseRoleSettings(process.env)
  const { newKey } = await migrateStores(settings, settings.bootstrapApiKey, say)
  say('The stores are up to date.')
  if (newKey) say(`API key of the user admin, shown this once: ${newKey}`)
}

/**
 * Resolves when the stores answer and somebody else has brought them to this version, and prints what is waited for. For
 * supervisors that start everything at once: roles would end instead, and be started again ever more slowly.
 */
export async function waitUntilMigrated(): Promise<void> {
  const settings = parseRoleSettings(process.env)
  for (let told: string | undefined; ; await sleep(lookEveryMs)) {
    const reason = await findWhatIsMissing(settings)
    if (reason === undefined) return say('The stores are up to date.')
    if (reason !== told) say(`Waiting: ${reason}`)
    told = reason
  }
}

async function findWhatIsMissing(stores: StoreUrls): Promise<string | undefined> {
  const { postgresUrl, clickhouseUrl } = stores
  const database = openDatabase({ url: postgresUrl, connectionsMax: 1, onError: () => undefined })
  const clickhouse = openClickHouse(toClickHouse(stores))
  try {
    await nameStoreError('Postgres', postgresUrl, checkPostgres(database))
    await nameStoreError('ClickHouse', clickhouseUrl, checkClickHouse(clickhouse))
    return undefined
  } catch (error) {
    return (error as Error).message
  } finally {
    await Promise.all([clickhouse.close(), database.close()])
  }
}

function say(text: string) {
  process.stdout.write(`${text}\n`)
}
