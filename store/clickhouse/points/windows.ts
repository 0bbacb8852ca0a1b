import type { ClickHouse } from '../connection.ts'
import { timeOf } from './reads.ts'
import { pointsTable, storedValue } from './tables.ts'

/** The points of a metric in a time window. The extremes are null without a number. */
export type MetricWindow = { points: number; nans: number; least: number | null; greatest: number | null }

type Wanted = {
  experimentId: bigint
  metric: string
  /** All contexts if absent. */
  context: string | undefined
  fromMs: number
  toMs: number
}

/** Reads the points of a metric within [from, to), by the time of each point. */
export async function readMetricWindow(clickhouse: ClickHouse, wanted: Wanted): Promise<MetricWindow> {
  const [row] = await clickhouse.rows<{ points: string; nans: string; least: string; greatest: string }>(
    `SELECT count() AS points, countIf(isNaN(${storedValue} AS value)) AS nans,
       toString(minIf(value, NOT isNaN(value))) AS least, toString(maxIf(value, NOT isNaN(value))) AS greatest
     FROM ${clickhouse.database}.${pointsTable.name} FINAL
     WHERE experiment_id = {experiment:UInt64} AND metric = {metric:String}
       ${wanted.context === undefined ? '' : 'AND context = {context:String}'}
       AND ${timeOf} >= {from:Int64} AND ${timeOf} < {to:Int64}`,
    {
      experiment: String(wanted.experimentId),
      metric: wanted.metric,
      context: wanted.context ?? '',
      from: wanted.fromMs,
      to: wanted.toMs,
    },
  )
  const [points, nans] = [Number(row?.points ?? 0), Number(row?.nans ?? 0)]
  const toNumber = (text: string | undefined) => (points === nans ? null : Number(text?.replace('inf', 'Infinity')))
  return { points, nans, least: toNumber(row?.least), greatest: toNumber(row?.greatest) }
}
