import type { ClickHouse } from './clickhouse/connection.ts'
import { chunksTable } from './clickhouse/points/chunks.ts'
import { pointsTable } from './clickhouse/points/tables.ts'
import type { PointForms } from './point-forms.ts'
import type { Queries } from './postgres/database.ts'
import { listWithoutForm, noteForm } from './postgres/experiments/experiments.ts'

const tableOfForm = { hasRows: pointsTable, hasChunks: chunksTable } as const

/** Their ids are in one statement. */
const atOnce = 5_000

/**
 * Notes in Postgres which experiments have rows of points in ClickHouse, and which have chunks: reads look in no other table. Ingest
 * notes each experiment before its first point in a form, but a Postgres that was put back to an earlier time has forgotten some.
 *
 * @returns how often it did not know
 */
export async function noteStoredForms(clickhouse: ClickHouse, queries: Queries): Promise<number> {
  const rows = await noteStored(clickhouse, queries, 'hasRows')
  return rows + (await noteStored(clickhouse, queries, 'hasChunks'))
}

async function noteStored(clickhouse: ClickHouse, queries: Queries, form: keyof PointForms): Promise<number> {
  let [afterId, forgotten] = [0n, 0]
  for (;;) {
    const ids = await listWithoutForm(queries, form, { afterId, limit: atOnce })
    if (ids.length > 0) {
      const found = await clickhouse.rows<{ id: string }>(
        `SELECT DISTINCT experiment_id AS id FROM ${clickhouse.database}.${tableOfForm[form].name}
         WHERE experiment_id IN (${ids.join(', ')})`,
      )
      const stored = found.map((it) => BigInt(it.id))
      if (stored.length > 0) forgotten += await noteForm(queries, form, stored)
    }
    if (ids.length < atOnce) return forgotten
    afterId = ids.at(-1) as bigint
  }
}
