import type { ClickHouse } from './clickhouse/connection.ts'
import { chunksTable } from './clickhouse/points/chunks.ts'
import type { Queries } from './postgres/database.ts'
import { markChunks } from './postgres/experiments/experiments.ts'

/**
 * Notes in Postgres which experiments have chunks in ClickHouse: reads look for chunks of no other. Ingest notes each experiment
 * before its first chunk, but a Postgres that was put back to an earlier time has forgotten some.
 *
 * @returns of how many it did not know
 */
export async function noteStoredChunks(clickhouse: ClickHouse, queries: Queries): Promise<number> {
  let [after, forgotten] = [0n, 0]
  for (;;) {
    const rows = await clickhouse.rows<{ id: string }>(
      `SELECT DISTINCT experiment_id AS id FROM ${clickhouse.database}.${chunksTable.name}
       WHERE experiment_id > {after:UInt64} ORDER BY id LIMIT ${atOnce}`,
      { after: String(after) },
    )
    const ids = rows.map((it) => BigInt(it.id))
    forgotten += await markChunks(queries, ids)
    if (ids.length < atOnce) return forgotten
    after = ids.at(-1) as bigint
  }
}

const atOnce = 10_000
