import type { ClickHouse } from '../../../store/clickhouse/connection.ts'

/** Makes so many parts of the table of points, of one row each, in one statement. Merges should be stopped before. */
export async function insertParts(clickhouse: ClickHouse, count: number): Promise<void> {
  await clickhouse.command(
    `INSERT INTO ${clickhouse.database}.points (experiment_id, metric, step, value) SELECT 1, 'many', number, 0.5 FROM numbers(${count})`,
    { max_block_size: 1, min_insert_block_size_rows: 1, min_insert_block_size_bytes: 1, max_threads: 1 },
  )
}
