import type { ClickHouse } from './connection.ts'

/** Counts the rows of an experiment in a table of the stream. Repeated deliveries count once. */
export async function countRows(clickhouse: ClickHouse, table: string, experimentId: bigint): Promise<number> {
  const rows = await clickhouse.rows<{ rows: string }>(
    `SELECT count() AS rows FROM ${clickhouse.database}.${table} FINAL WHERE experiment_id = {id:UInt64}`,
    { id: String(experimentId) },
  )
  return Number(rows[0]?.rows ?? 0)
}
