import type { ClickHouse } from './connection.ts'

/** How many rows of an experiment a table of the stream has. Rows that were delivered twice count once. */
export async function countRows(clickhouse: ClickHouse, table: string, experimentId: bigint): Promise<number> {
  const rows = await clickhouse.rows<{ rows: string }>(
    `SELECT count() AS rows FROM ${clickhouse.database}.${table} FINAL WHERE experiment_id = {id:UInt64}`,
    { id: String(experimentId) },
  )
  return Number(rows[0]?.rows ?? 0)
}
