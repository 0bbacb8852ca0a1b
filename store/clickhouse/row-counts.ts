import type { ClickHouse } from './connection.ts'
import { valueChunksTable } from './monitoring/value-chunks.ts'
import { chunksTable } from './points/chunks.ts'
import { pointsTable } from './points/tables.ts'
import type { Table } from './table.ts'

/** The tables that have the rows of a type: metrics may be rows or chunks. */
export const tablesOf = (table: Table): readonly Table[] =>
  table.name === pointsTable.name ? [table, chunksTable] : [table]

/** What a row of the table counts for: a chunk for its points or values. */
export const sizeOf = ({ name }: Pick<Table, 'name'>): string =>
  name === chunksTable.name || name === valueChunksTable.name ? 'count' : 'toUInt32(1)'

/** Counts what an experiment has in a table of the stream, and in that of its chunks. Repeated deliveries count once. */
export async function countRows(clickhouse: ClickHouse, table: Table, experimentId: bigint): Promise<number> {
  const counts = tablesOf(table).map(
    (it) => `SELECT sum(${sizeOf(it)}) AS rows
      FROM ${clickhouse.database}.${it.name} FINAL WHERE experiment_id = {id:UInt64}`,
  )
  const rows = await clickhouse.rows<{ rows: string }>(
    `SELECT sum(rows) AS rows FROM (${counts.join(' UNION ALL ')})`,
    {
      id: String(experimentId),
    },
  )
  return Number(rows[0]?.rows ?? 0)
}
