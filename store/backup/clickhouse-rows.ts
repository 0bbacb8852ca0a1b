import type { Readable } from 'node:stream'
import { onCluster, systemTable, toLocal } from '../clickhouse/cluster/layout.ts'
import type { ClickHouse } from '../clickhouse/connection.ts'
import { toRanges } from '../clickhouse/long-inserts.ts'
import { migrateClickHouse } from '../clickhouse/migrations/migrate.ts'
import type { Table } from '../clickhouse/table.ts'
import { streamTables } from '../clickhouse/tables.ts'
import type { Files } from './files.ts'

/**
 * Copies rows by reading them, and restores them by inserting them: for a cluster, of which one server can copy its own shard
 * only. Reads and inserts go through the Distributed tables, so a copy has each row of one replica of each shard, and restores
 * into any number of shards, or into a single server.
 *
 * A table is copied in ranges of its first key, one query and one file each. The first and the last range are open, so every
 * row that is there when the copy begins is in one of them. A query sees whole inserts or nothing of them.
 */
export type CopiedTable = { name: string; columns: string[]; files: string[] }

const folder = 'clickhouse'

/** Of the replicas that are up, those that have fetched the inserts of the others; an error is better than a copy without some. */
const readSettings =
  'max_replica_delay_for_distributed_queries = 1, fallback_to_stale_replicas_for_distributed_queries = 0'

/** @param rowsMax of one file, unless a single experiment or model has more; 20 million by default */
export async function copyRows(
  clickhouse: ClickHouse,
  files: Files,
  say: (text: string) => void,
  rowsMax?: number,
): Promise<{ rows: number; tables: CopiedTable[] }> {
  const tables: CopiedTable[] = []
  const { signal } = new AbortController()
  let rows = 0
  for (const table of streamTables) {
    const from = `${clickhouse.database}.${table.name}`
    const copied: CopiedTable = { name: table.name, columns: toStoredColumns(table), files: [] }
    for (const range of await listRanges(clickhouse, table, rowsMax)) {
      say(`${table.name}: ${rows} rows in all`)
      const { stream } = await clickhouse.streamExport(
        `SELECT ${copied.columns.join(', ')} FROM ${from} WHERE ${range.where} SETTINGS ${readSettings} FORMAT Native`,
        { isWhole: false, signal },
      )
      const file = `${folder}/${table.name}-${copied.files.length + 1}.native.zst`
      await files.putCompressed(file, stream)
      copied.files.push(file)
      rows += range.rows
    }
    tables.push(copied)
  }
  return { rows, tables }
}

const toStoredColumns = (table: Table) => table.columns.map((it) => it.storedAs?.name ?? it.name)

/** None for an empty table. */
async function listRanges(clickhouse: ClickHouse, { name, primaryKey }: Table, rowsMax: number | undefined) {
  const [key] = primaryKey
  const ids = await clickhouse.rows<{ id: string; count: string }>(
    `SELECT ${key} AS id, count() AS count FROM ${clickhouse.database}.${name} GROUP BY id ORDER BY id SETTINGS ${readSettings}`,
  )
  const ranges = toRanges(ids, rowsMax)
  return ranges.map(({ rows }, at) => {
    const [before, its] = [ranges[at - 1], ranges[at]]
    const bounds = [before && `${key} > ${before.last}`, at < ranges.length - 1 && `${key} <= ${its?.last}`]
    return { rows, where: bounds.filter(Boolean).join(' AND ') || 'true' }
  })
}

/**
 * Makes the tables anew and inserts the copied rows.
 *
 * @param open reads a file of the backup, compressed as it is
 */
export async function restoreRows(
  clickhouse: ClickHouse,
  tables: readonly CopiedTable[],
  open: (file: string) => Promise<Readable>,
  say: (text: string) => void,
): Promise<void> {
  await clickhouse.command(`DROP DATABASE IF EXISTS ${clickhouse.database}${onCluster(clickhouse)} SYNC`)
  await migrateClickHouse(clickhouse, say)
  for (const { name, columns, files } of tables) {
    for (const [at, file] of files.entries()) {
      say(`${name}: ${at} of ${files.length} files`)
      await clickhouse.insertCopy(name, columns, await open(file))
    }
  }
}

/** The bytes that the copied tables take on the disks of one replica of each shard. */
export async function measureRows(clickhouse: ClickHouse): Promise<number> {
  const [row] = await clickhouse.rows<{ bytes: string }>(
    `SELECT sum(bytes_on_disk) AS bytes FROM ${systemTable(clickhouse, 'parts')}
     WHERE active AND database = {database:String} AND table IN ({tables:Array(String)})`,
    { database: clickhouse.database, tables: streamTables.map((it) => toLocal(clickhouse, it.name)) },
  )
  return Number(row?.bytes ?? 0)
}
