import { setTimeout as sleep } from 'node:timers/promises'
import { openClickHouse } from '../store/clickhouse/connection.ts'
import { checkClickHouse } from '../store/clickhouse/migrations/check.ts'
import { openDatabase } from '../store/postgres/database.ts'
import { checkPostgres } from '../store/postgres/migrate.ts'
import { parseRoleSettings, type StoreUrls, toClickHouse } from './settings.ts'
import { nameStoreError } from './store-error.ts'
import { migrateStores } from './stores.ts'

const pollEveryMs = 1_000

/** Migrates the given stores to this version, and prints the first API key if it was made now. */
export async function migrate(): Promise<void> {
  const settings = parseRoleSettings(process.env)
  const { newKey } = await migrateStores(settings, settings.bootstrapApiKey, say)
  say('The stores are up to date.')
  if (newKey) say(`API key of the user admin, shown only once: ${newKey}`)
}

/**
 * Waits until the stores answer and are migrated, and prints the reason for waiting. For supervisors that start everything
 * at once: a role would exit and be restarted with growing delays.
 */
export async function waitUntilMigrated(): Promise<void> {
  const settings = parseRoleSettings(process.env)
  for (let printed: string | undefined; ; await sleep(pollEveryMs)) {
    const reason = await findMigrationError(settings)
    if (reason === undefined) return say('The stores are up to date.')
    if (reason !== printed) say(`Waiting: ${reason}`)
    printed = reason
  }
}

async function findMigrationError(stores: StoreUrls): Promise<string | undefined> {
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
