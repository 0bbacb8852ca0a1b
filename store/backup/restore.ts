import { createClosers } from '../../runtime/closers.ts'
import { fromLocal, onCluster, systemTable, toLocal } from '../clickhouse/cluster/layout.ts'
import type { ClickHouse } from '../clickhouse/connection.ts'
import { deleteExperimentRows } from '../clickhouse/deletions.ts'
import { rebuildDerived, tablesNotBackedUp } from '../clickhouse/derived-tables.ts'
import { migrateClickHouse } from '../clickhouse/migrations/migrate.ts'
import { monitoringTables } from '../clickhouse/monitoring/tables.ts'
import { experimentTables } from '../clickhouse/points/chunks.ts'
import { noteStoredForms } from '../form-notes.ts'
import type { ObjectStore } from '../objects/object-store.ts'
import { openObjects } from '../objects/open-objects.ts'
import { type Database, openDatabase } from '../postgres/database.ts'
import { openQueueBackend } from '../queue/open-queue.ts'
import { migrateQueue } from '../queue/postgres-queue.ts'
import type { Block } from '../queue/queue.ts'
import { type QueueName, queueNames } from '../queue/queues.ts'
import { openStoredRows, type Step, type Stores } from './backup.ts'
import { type ClickHouseRoute, restoreClickHouse } from './clickhouse-copy.ts'
import { openCompressed, readLines } from './files.ts'
import { type KeptObject, type Manifest, toPoolKey } from './manifest.ts'
import { checkMigrations, clearPostgres, examinePostgres, removeMark, restorePostgres } from './postgres-copy.ts'

/**
 * An interrupted restore can be repeated. Postgres carries a mark from the first change to the last, and no role starts on it
 * meanwhile (`restore-mark.ts`).
 */
type Settings = {
  stores: Stores
  target: ObjectStore
  route: ClickHouseRoute
  manifest: Manifest
  /** Delete the contents of stores that are not empty. */
  replace: boolean
  /** Inserts blocks of a queue; quarantines rows that ClickHouse refuses for good. */
  storeBlocks(name: QueueName, blocks: Block[], to: { clickhouse: ClickHouse; database: Database }): Promise<void>
  step: Step
}

export async function restoreBackup(settings: Settings): Promise<void> {
  const { stores, target, route, manifest, step } = settings
  const { id, postgres } = manifest
  const { postgresUrl, redisUrl, queuePrefix: prefix } = stores
  checkMigrations(postgres)
  const closers = createClosers()
  const onError = () => undefined
  try {
    const clickhouse = openStoredRows(stores)
    closers.push(() => clickhouse.close())
    const objects = await openObjects(stores.objectsUrl)
    closers.push(objects.close)
    const found = await examinePostgres(postgresUrl)
    if (found.connections > 0) {
      throw new Error(
        `${found.connections} other connections to the database in Postgres are open. Stop every role of svc (ingest, ` +
          'worker, api) and all other clients, and try again.',
      )
    }
    const mayReplace = settings.replace || found.isRestoring
    const holds = [...found.holds, ...(await listRows(clickhouse))]
    if (redisUrl !== undefined) holds.push(...(await listQueued(stores)))
    if (holds.length > 0 && !mayReplace) {
      throw new Error(
        `The stores are not empty, they contain ${holds.join(', ')}. Restore into empty ones, or pass "--replace" to ` +
          'delete their contents.',
      )
    }

    await step('Postgres', async () => {
      await clearPostgres(postgresUrl, id)
      await restorePostgres(postgresUrl, postgres, (file) => openCompressed(target, id, file))
      if (redisUrl === undefined) await migrateQueue(postgresUrl)
    })
    const database = openDatabase({ url: postgresUrl, connectionsMax: 2, onError })
    closers.push(() => database.close())
    await step('ClickHouse', async (say) => {
      await restoreClickHouse(clickhouse, route, { id, target, clickhouse: manifest.clickhouse }, say)
      await migrateClickHouse(clickhouse, say)
    })
    await step('queue', async (say) => {
      if (redisUrl !== undefined) {
        const backend = openQueueBackend({ redisUrl, postgresUrl, prefix, onError })
        closers.push(() => backend.close())
        for (const name of queueNames) await backend.discardBlocks(name)
      }
      for (const { name, file } of manifest.queue) {
        const isKnown = (queueNames as string[]).includes(name)
        if (!isKnown) throw new Error(`This version has no queue "${name}".`)
        await storeQueue(settings, name as QueueName, file, { clickhouse, database }, say)
      }
    })
    await step('summaries', async (say) => {
      await deleteUnknownRows(clickhouse, database, BigInt(postgres.lastClaim))
      // Postgres was copied first: an experiment may have got its first row or chunk after that.
      await noteStoredForms(clickhouse, database)
      await rebuildDerived(clickhouse, say)
    })
    await step('objects', (say) => restoreObjects(settings, objects, say))
    await removeMark(postgresUrl)
  } finally {
    await closers.closeAll().catch(() => undefined)
  }
}

/** The tables in ClickHouse that are not empty. */
async function listRows(clickhouse: ClickHouse): Promise<string[]> {
  const rows = await clickhouse.rows<{ name: string; rows: string }>(
    `SELECT name, sum(total_rows) AS rows FROM ${systemTable(clickhouse, 'tables')}
     WHERE database = {database:String} AND total_rows > 0 AND name NOT IN ({notBackedUp:Array(String)})
     GROUP BY name ORDER BY name`,
    { database: clickhouse.database, notBackedUp: tablesNotBackedUp.flatMap((it) => [it, toLocal(clickhouse, it)]) },
  )
  return rows.map((it) => `${it.rows} rows of ${fromLocal(clickhouse, it.name).replaceAll('_', ' ')}`)
}

/** The queues in Redis that are not empty. A queue in Postgres is part of Postgres. */
async function listQueued({ redisUrl, postgresUrl, queuePrefix: prefix }: Stores): Promise<string[]> {
  const backend = openQueueBackend({ redisUrl, postgresUrl, prefix, onError: () => undefined })
  try {
    const found: string[] = []
    for (const name of queueNames) {
      const { blocks } = await (await backend.openProducer(name)).load()
      if (blocks > 0) found.push(`${blocks} blocks in the queue ${name}`)
    }
    return found
  } finally {
    await backend.close()
  }
}

const bytesAtOnce = 16 * 1024 * 1024

async function storeQueue(
  { target, manifest, storeBlocks }: Settings,
  name: QueueName,
  file: string,
  to: { clickhouse: ClickHouse; database: Database },
  say: (text: string) => void,
) {
  let blocks: Block[] = []
  let bytes = 0
  let stored = 0
  const flush = async () => {
    if (blocks.length === 0) return
    await storeBlocks(name, blocks, to)
    stored += blocks.length
    say(`${name}: ${stored} blocks`)
    blocks = []
    bytes = 0
  }
  const lines = readLines<{ rows: number; receivedMs: number; block: string }>(target, manifest.id, file)
  for await (const { block, ...line } of lines) {
    const content = Buffer.from(block, 'base64')
    blocks.push({ ...line, bytes: content })
    bytes += content.length
    if (bytes >= bytesAtOnce) await flush()
  }
  await flush()
}

/** Deletes rows of experiments and events that are newer than the copy of Postgres. */
async function deleteUnknownRows(clickhouse: ClickHouse, database: Database, lastClaim: bigint): Promise<void> {
  const { database: name } = clickhouse
  const known = await database.rows<{ id: bigint }>('SELECT id FROM experiments')
  const ids = new Set(known.map((it) => it.id))
  const unknown = new Set<bigint>()
  for (const table of experimentTables) {
    const rows = await clickhouse.rows<{ id: string }>(`SELECT DISTINCT experiment_id AS id FROM ${name}.${table.name}`)
    for (const { id } of rows) if (!ids.has(BigInt(id))) unknown.add(BigInt(id))
  }
  if (unknown.size > 0) await deleteExperimentRows(clickhouse, [...unknown])
  for (const table of monitoringTables) {
    await clickhouse.command(
      `ALTER TABLE ${name}.${toLocal(clickhouse, table.name)}${onCluster(clickhouse)} DELETE WHERE claim > ${lastClaim}`,
      { mutations_sync: 2 },
    )
  }
}

const objectsAtOnce = 4

/** Skips objects that an interrupted restore has already written. */
async function restoreObjects({ target, manifest }: Settings, objects: ObjectStore, say: (text: string) => void) {
  const there = new Map<string, number>()
  for await (const { key, bytes } of objects.list('')) there.set(key, bytes)
  let done = 0
  const waiting = readLines<KeptObject>(target, manifest.id, manifest.objects.file)
  const copyOn = async () => {
    for await (const { key, bytes, sha256 } of waiting) {
      if (there.get(key) !== bytes) {
        const stored = await objects.put(key, await target.get(toPoolKey(key)))
        if (stored.sha256 !== sha256) {
          await objects.delete(key)
          throw new Error(`${toPoolKey(key)} has other content than was written.`)
        }
      }
      say(`${++done} of ${manifest.objects.count}`)
    }
  }
  await Promise.all(Array.from({ length: objectsAtOnce }, copyOn))
}
