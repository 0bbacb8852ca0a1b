import type { ClickHouse } from '../connection.ts'
import { timeOf } from './reads.ts'
import { pointsTable, storedValue } from './tables.ts'

/** What a metric did in a stretch of time; the extremes are null without a number. */
export type MetricWindow = { points: number; nans: number; least: number | null; greatest: number | null }

type Wanted = {
  experimentId: bigint
  metric: string
  /** In all contexts when absent. */
  context: string | undefined
  fromMs: number
  toMs: number
}

/** Reads what a metric of an experiment did from then until before then, by the time of each point. */
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
