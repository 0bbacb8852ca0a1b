import { bothForms } from '../../point-forms.ts'
import type { ClickHouse } from '../connection.ts'
import { selectStoredPoints } from './reads.ts'

/** The points of a metric in a time window. The extremes are null without a number. */
export type MetricWindow = { points: number; nans: number; least: number | null; greatest: number | null }

type Wanted = {
  experimentIds: bigint[]
  metric: string
  /** All contexts if absent. */
  context: string | undefined
  fromMs: number
  toMs: number
}

type Row = { experiment: string; points: string; nans: string; least: string; greatest: string }

/** So many ids fit well into a query. */
const experimentsAtOnce = 1_000

/** Reads the points of a metric of experiments within [from, to), by the time of each point. Those without points are left out. */
export async function readMetricWindows(clickhouse: ClickHouse, wanted: Wanted): Promise<Map<bigint, MetricWindow>> {
  const windows = new Map<bigint, MetricWindow>()
  for (let from = 0; from < wanted.experimentIds.length; from += experimentsAtOnce) {
    const rows = await clickhouse.rows<Row>(
      `SELECT toString(experiment_id) AS experiment, count() AS points, countIf(isNaN(value)) AS nans,
         toString(minIf(value, NOT isNaN(value))) AS least, toString(maxIf(value, NOT isNaN(value))) AS greatest
       FROM (${selectStoredPoints(clickhouse, {
         withSystem: false,
         forms: bothForms,
         isFinal: true,
         columns: 'experiment_id, ',
         series: `experiment_id IN {experiments:Array(UInt64)} AND metric = {metric:String}
           ${wanted.context === undefined ? '' : 'AND context = {context:String}'}`,
         points: 'time >= {from:Int64} AND time < {to:Int64}',
       })}) GROUP BY experiment_id`,
      {
        experiments: wanted.experimentIds.slice(from, from + experimentsAtOnce),
        metric: wanted.metric,
        context: wanted.context ?? '',
        from: wanted.fromMs,
        to: wanted.toMs,
      },
    )
    for (const row of rows) {
      const [points, nans] = [Number(row.points), Number(row.nans)]
      const toNumber = (text: string) => (points === nans ? null : Number(text.replace('inf', 'Infinity')))
      const extremes = { least: toNumber(row.least), greatest: toNumber(row.greatest) }
      windows.set(BigInt(row.experiment), { points, nans, ...extremes })
    }
  }
  return windows
}
