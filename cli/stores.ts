import path from 'node:path'
import type { Logger } from 'pino'
import type { Closers } from '../runtime/closers.ts'
import { openClickHouse } from '../store/clickhouse/connection.ts'
import { migrateClickHouse } from '../store/clickhouse/migrations/migrate.ts'
import { openEmbeddedClickHouse } from '../store/embedded/clickhouse.ts'
import { checkFreeSpace, lockDataFolder, type PublishedStores } from '../store/embedded/data-folder.ts'
import { openEmbeddedPostgres } from '../store/embedded/postgres.ts'
import { bootstrap } from '../store/postgres/accounts/accounts.ts'
import { openDatabase } from '../store/postgres/database.ts'
import { withLock } from '../store/postgres/lock.ts'
import { migratePostgres } from '../store/postgres/migrate.ts'
import { checkRestored } from '../store/postgres/restore-mark.ts'
import { migrateQueue } from '../store/queue/postgres-queue.ts'
import { type Settings, type StoreUrls, toClickHouse } from './settings.ts'
import { nameStoreError } from './store-error.ts'
import type { Step } from './terminal/steps.ts'

/** Opens the stores of `svc up`: those given by address, and embedded ones for the others. */
export async function openStores(
  settings: Settings,
  progress: Step,
  closers: Closers,
  log: Logger,
): Promise<StoreUrls & Pick<PublishedStores, 'backupsFolder'>> {
  const { clickhouseUrl: givenClickHouse, postgresUrl: givenPostgres, redisUrl, objectsUrl } = settings
  const { clickhouseCluster, clickhouseInsertQuorum } = settings
  let { clickhouseSqlUrl } = settings
  const others = { clickhouseCluster, clickhouseInsertQuorum, redisUrl, objectsUrl }
  const folder = path.resolve(settings.dataFolder)
  if (givenClickHouse && givenPostgres) {
    return { clickhouseUrl: givenClickHouse, clickhouseSqlUrl, postgresUrl: givenPostgres, ...others }
  }

  const lock = lockDataFolder(folder)
  closers.push(async () => lock.release())
  await checkFreeSpace(folder)
  const postgresUrl =
    givenPostgres ??
    (await progress('Postgres', async () => {
      const postgres = await openEmbeddedPostgres({ folder: path.join(folder, 'postgres'), log })
      closers.push(() => postgres.close())
      return postgres.url
    }))
  let backupsFolder: string | undefined
  const clickhouseUrl =
    givenClickHouse ??
    (await progress('ClickHouse', async () => {
      const clickhouse = await openEmbeddedClickHouse({ folder: path.join(folder, 'clickhouse'), log, isNice: true })
      closers.push(() => clickhouse.close())
      backupsFolder = clickhouse.backupsFolder
      clickhouseSqlUrl = clickhouse.sqlUrl
      return clickhouse.url
    }))
  const stores = { clickhouseUrl, postgresUrl, redisUrl, objectsUrl, backupsFolder }
  lock.publish(stores)
  return { ...stores, ...others, clickhouseSqlUrl }
}

/** A Postgres advisory lock: ClickHouse has no locks. */
const migrationLock = 7_392_004

/** Migrates all stores to this version, and makes the first admin, workspace and key if there are none. */
export async function migrateStores(
  stores: StoreUrls,
  givenKey: string | undefined,
  say?: (text: string) => void,
): Promise<{ newKey?: string }> {
  const clickhouse = openClickHouse(toClickHouse(stores))
  const database = openDatabase({ url: stores.postgresUrl, connectionsMax: 1, onError: () => undefined })
  try {
    await nameStoreError('Postgres', stores.postgresUrl, checkRestored(database))
    await nameStoreError('Postgres', stores.postgresUrl, migratePostgres(stores.postgresUrl))
    if (stores.redisUrl === undefined) await migrateQueue(stores.postgresUrl)
    await nameStoreError(
      'ClickHouse',
      stores.clickhouseUrl,
      withLock(stores.postgresUrl, migrationLock, () => migrateClickHouse(clickhouse, say)),
    )
    return await bootstrap(database, givenKey)
  } finally {
    await Promise.all([clickhouse.close(), database.close()])
  }
}
