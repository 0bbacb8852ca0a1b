import type { ClickHouse } from '../connection.ts'
import { doubleText } from './double-text.ts'
import { seriesName } from './series-counts.ts'
import { describePoint, mergedCurrent, summaryTable } from './summary.ts'

/**
 * The current values of metrics, given by their summary names, for up to ten thousand experiments. The cost does not grow
 * with their points. A metric without points is absent.
 */
export async function readCurrentValues(
  clickhouse: ClickHouse,
  experimentIds: bigint[],
  names: string[],
): Promise<Map<bigint, Map<string, string>>> {
  const rows = await clickhouse.rows<{ id: string; name: string; value: string }>(
    `SELECT experiment_id AS id, name, ${doubleText(describePoint('current').value)} AS value FROM (
       SELECT experiment_id, ${seriesName} AS name, ${mergedCurrent}
       FROM ${clickhouse.database}.${summaryTable}
       WHERE experiment_id IN {ids:Array(UInt64)} AND name IN {names:Array(String)} GROUP BY experiment_id, name)`,
    { ids: experimentIds, names },
  )
  const found = new Map<bigint, Map<string, string>>()
  for (const { id, name, value } of rows) {
    const values = found.get(BigInt(id)) ?? new Map<string, string>()
    found.set(BigInt(id), values.set(name, value))
  }
  return found
}
