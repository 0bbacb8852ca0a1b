import { maxBigInt, minBigInt } from '../../../runtime/bigint.ts'
import { formsOf, type PointForms } from '../../point-forms.ts'
import type { ClickHouse } from '../connection.ts'
import { matchesNames, possibleMetrics } from './charts.ts'
import { selectStoredPoints } from './reads.ts'
import { summaryTable } from './summaries/summary.ts'
import { present, systemPointsTable } from './tables.ts'

/** What a range is read over. Times are int64 in ms, the values of a metric are floats. */
export type RangeX = 'step' | 'time' | 'relative' | 'epoch' | { metric: string; context: string | undefined }

/** The value of an x: a float of a metric, otherwise an int64. */
export type Bound = bigint | number

export type RangeSeries = {
  experimentId: bigint
  startTimeMs: bigint
  metric: string
  context: string
  /** An upper bound: repeated deliveries are counted again. */
  rows: number
  low: { step: bigint; time: bigint }
  high: { step: bigint; time: bigint }
  hasSteps: boolean
} & PointForms

export type Range = {
  x: RangeX
  /** The bounds that were asked for: points beyond them are left out. */
  from: Bound | undefined
  to: Bound | undefined
  /** Rows that were accepted later are left out. */
  acceptedUntilMs: number | undefined
}

/** From the least to the greatest x. */
export type Extent = { from: Bound; to: Bound }

export type ReadRange = {
  series: RangeSeries
  isBucketed: boolean
  /** The points within the range, and those of the series without a value of x. */
  total: number
  withoutX: number
  /** JSON arrays by name. */
  columns: Record<string, string>
}

/** About how many points of each series are in the range: as many as if they were evenly spread. */
export function expectPoints(series: RangeSeries[], range: Range): number[] {
  const { x } = range
  if (typeof x === 'object' || x === 'epoch') return series.map((it) => it.rows)
  const axis = x === 'step' ? 'step' : 'time'
  const { from, to } = x === 'step' ? range : timesOf(series, range)
  return series.map(({ rows, low, high, hasSteps }) => {
    // Points without a step are all in the answer, as a count.
    if (x === 'step' && !hasSteps) return rows
    const [least, greatest] = [Number(low[axis]), Number(high[axis])]
    const within = Math.min(greatest, Number(to ?? greatest)) - Math.max(least, Number(from ?? least)) + 1
    return (rows * Math.max(0, within)) / (greatest - least + 1)
  })
}

/** The times that the range has points of, be they relative to the starts of several experiments. */
function timesOf(series: RangeSeries[], { x, from, to }: Range): { from: bigint | undefined; to: bigint | undefined } {
  const starts = x === 'relative' ? series.map((it) => it.startTimeMs) : [0n]
  const add = (bound: Bound | undefined, start: bigint) =>
    bound === undefined ? undefined : maxBigInt(int64Min, minBigInt(int64Max, BigInt(bound) + start))
  return { from: add(from, starts.reduce(minBigInt)), to: add(to, starts.reduce(maxBigInt)) }
}

const int64Max = 2n ** 63n - 1n
const int64Min = -(2n ** 63n)

export const startOf = 'transform(experiment_id, {ids:Array(UInt64)}, {starts:Array(Int64)}, toInt64(0))'

/** Narrows by the primary key what is read again. */
type Steps = { low: string; high: string }

export const seriesKey = 'experiment_id, metric, context'
const timeOfRow = `if(bitAnd(present, ${present.timestamp}) != 0, timestamp, received)`

/**
 * The series that names stand for, by metric or by summary name, with their extents; the contexts of a metric in their order.
 * Resource usage has no summary.
 */
export async function findSeries(
  clickhouse: ClickHouse,
  experiments: ({ id: bigint; startTimeMs: bigint } & PointForms)[],
  names: string[],
): Promise<RangeSeries[]> {
  const where = `WHERE experiment_id IN {ids:Array(UInt64)} AND metric IN (${possibleMetrics}) AND ${matchesNames}
    GROUP BY ${seriesKey}`
  const summaries = `SELECT ${seriesKey}, sum(rows) AS points, min(step_low) AS step_from, max(step_high) AS step_to,
      min(time_low) AS time_from, max(time_high) AS time_to, groupBitOr(present_any) AS any_has
    FROM ${clickhouse.database}.${summaryTable} ${where}`
  const system = `SELECT ${seriesKey}, count() AS points, min(step) AS step_from, max(step) AS step_to,
      min(${timeOfRow}) AS time_from, max(${timeOfRow}) AS time_to, groupBitOr(present) AS any_has
    FROM ${clickhouse.database}.${systemPointsTable.name} ${where}`
  const rows = await clickhouse.rows<Record<string, string>>(
    `${names.some((it) => it.includes('sys.')) ? `SELECT * FROM (${summaries} UNION ALL ${system})` : summaries} ORDER BY ${seriesKey}`,
    { ids: experiments.map((it) => it.id), names },
  )
  const experimentOf = new Map(experiments.map((it) => [it.id, it]))
  const integer = (text: string | undefined) => BigInt(text ?? 0)
  return rows.map((it) => ({
    experimentId: integer(it.experiment_id),
    startTimeMs: experimentOf.get(integer(it.experiment_id))?.startTimeMs ?? 0n,
    hasRows: experimentOf.get(integer(it.experiment_id))?.hasRows ?? true,
    hasChunks: experimentOf.get(integer(it.experiment_id))?.hasChunks ?? true,
    metric: String(it.metric),
    context: String(it.context),
    rows: Number(it.points),
    low: { step: integer(it.step_from), time: integer(it.time_from) },
    high: { step: integer(it.step_to), time: integer(it.time_to) },
    hasSteps: (Number(it.any_has) & present.step) !== 0,
  }))
}

/**
 * The points of the series within the bounds, with `x`, and those without a value of x (`has_x` is 0). `FINAL` keeps repeated
 * deliveries out of counts and means.
 */
export function selectRange(
  clickhouse: ClickHouse,
  series: RangeSeries[],
  range: Range,
  { steps, exceptChunks }: { steps?: Steps | undefined; exceptChunks?: string | undefined } = {},
): string {
  const { x } = range
  const { points, chunks } = toConditions(range, steps)
  const rows = selectStoredPoints(clickhouse, {
    withSystem: series.some((it) => it.metric.startsWith('sys.')),
    forms: formsOf(series),
    isFinal: true,
    columns: 'experiment_id, ',
    series: isOfSeries(series),
    points,
    chunks,
    exceptChunks,
  })
  const has = (bit: number) => `toUInt8(bitAnd(present, ${bit}) != 0)`
  const bounds = [
    range.from === undefined ? '' : `x >= {from:${typeOf(x)}}`,
    range.to === undefined ? '' : `x <= {to:${typeOf(x)}}`,
  ].filter((it) => it !== '')
  const within = bounds.length === 0 ? '' : `WHERE NOT has_x OR (${bounds.join(' AND ')})`
  if (typeof x === 'object') {
    return `SELECT rows.*, found.x_value AS x, found.is_found AS has_x FROM (${rows}) AS rows LEFT JOIN (
      ${selectXs(clickhouse, series, range)}) AS found
      ON rows.experiment_id = found.x_experiment AND rows.step = found.x_step AND ${has(present.step)} = found.is_found
      ${within}`
  }
  const [value, hasX] = {
    step: ['step', has(present.step)],
    epoch: ['epoch', has(present.epoch)],
    time: ['time', 'toUInt8(1)'],
    relative: [`time - ${startOf}`, 'toUInt8(1)'],
  }[x] as [string, string]
  return `SELECT *, ${value} AS x, ${hasX} AS has_x FROM (${rows}) ${within}`
}

const hashOf = (values: string) => `sipHash64(${values})`
const placeOfMany = `transform(${hashOf('experiment_id, toString(metric), toString(context)')},
  arrayMap((id, metric, context) -> ${hashOf('id, metric, context')}, {ids:Array(UInt64)}, {metrics:Array(String)},
    {contexts:Array(String)}), range(toUInt32(length({ids:Array(UInt64)}))), toUInt32(0))`

/** The index of a row's series. The rows are of these series only, so that their hashes are compared with each other's. */
export const placeOf = (series: RangeSeries[]) => (series.length === 1 ? 'toUInt32(0)' : placeOfMany)

export const typeOf = (x: RangeX) => (typeof x === 'object' ? 'Float64' : 'Int64')

/** The value of the other metric at each step: of several, the newest. Those that are not finite have no place on an axis. */
function selectXs(clickhouse: ClickHouse, series: RangeSeries[], { x, acceptedUntilMs }: Range): string {
  const hasContext = typeof x === 'object' && x.context !== undefined
  const rows = selectStoredPoints(clickhouse, {
    withSystem: typeof x === 'object' && x.metric.includes('sys.'),
    forms: formsOf(series),
    isFinal: true,
    columns: 'experiment_id, ',
    series: `experiment_id IN {ids:Array(UInt64)}
      AND (metric = {xMetric:String} OR concat(context, '_', metric) = {xMetric:String})
      ${hasContext ? 'AND context = {xContext:String}' : ''}`,
    points: `bitAnd(present, ${present.step}) != 0 ${acceptedUntilMs === undefined ? '' : 'AND received <= {until:Int64}'}`,
  })
  return `SELECT experiment_id AS x_experiment, step AS x_step, argMax(value, (time, request_hi, request_lo, place)) AS x_value,
      toUInt8(1) AS is_found
    FROM (${rows}) GROUP BY x_experiment, x_step HAVING isFinite(x_value)`
}

/** One series by constants, which the primary key and the filter take at a third of the cost of a set (measured). */
export function isOfSeries(series: RangeSeries[]): string {
  if (series.length === 1) {
    return `experiment_id = {ids:Array(UInt64)}[1] AND metric = {metrics:Array(String)}[1]
      AND context = {contexts:Array(String)}[1]`
  }
  return `experiment_id IN {ids:Array(UInt64)} AND metric IN {metrics:Array(String)}
    AND (experiment_id, metric, context) IN (
      SELECT arrayJoin(arrayZip({ids:Array(UInt64)}, {metrics:Array(String)}, {contexts:Array(String)})))`
}

/** The conditions on points, and on the chunks that may have them. A point without a step is stored with step 0. */
export function toConditions({ x, from, to, acceptedUntilMs }: Range, steps?: Steps) {
  const points: string[] = acceptedUntilMs === undefined ? [] : ['received <= {until:Int64}']
  const chunks: string[] = []
  if (x === 'step' && (from !== undefined || to !== undefined)) {
    const low = from === undefined ? 'true' : 'step >= {from:Int64}'
    const high = to === undefined ? 'true' : 'step <= {to:Int64}'
    points.push(`(${low} AND ${high} OR step = 0)`)
    chunks.push(
      `(${low.replace('step', 'step_high')} AND ${high.replace('step', 'step_low')} OR step_low <= 0 AND step_high >= 0)`,
    )
  }
  if ((x === 'time' || x === 'relative') && (from !== undefined || to !== undefined)) {
    const low = from === undefined ? 'true' : 'time >= {timeFrom:Int64}'
    const high = to === undefined ? 'true' : 'time <= {timeTo:Int64}'
    points.push(`${low} AND ${high}`.replaceAll('time ', `${timeOfRow} `))
    // Repetitions of a chunk differ in when they were received.
    const isTimed = `empty(presents) AND bitAnd(present_all, ${present.timestamp}) != 0`
    chunks.push(`(NOT (${isTimed}) OR ${low.replace('time', 'time_high')} AND ${high.replace('time', 'time_low')})`)
  }
  if (steps !== undefined) {
    points.push('step >= {stepLow:Int64} AND step <= {stepHigh:Int64}')
    chunks.push('step_high >= {stepLow:Int64} AND step_low <= {stepHigh:Int64}')
  }
  const all = (conditions: string[]) => (conditions.length === 0 ? 'true' : conditions.join(' AND '))
  return { points: all(points), chunks: all(chunks) }
}

export function rangeParams(series: RangeSeries[], range: Range, steps?: Steps) {
  const { x, from, to, acceptedUntilMs } = range
  const times = x === 'time' || x === 'relative' ? timesOf(series, range) : undefined
  return {
    ids: series.map((it) => it.experimentId),
    metrics: series.map((it) => it.metric),
    contexts: series.map((it) => it.context),
    ...(x === 'relative' && { starts: series.map((it) => it.startTimeMs) }),
    ...(from !== undefined && { from: String(from) }),
    ...(to !== undefined && { to: String(to) }),
    ...(times?.from !== undefined && { timeFrom: String(times.from) }),
    ...(times?.to !== undefined && { timeTo: String(times.to) }),
    ...(acceptedUntilMs !== undefined && { until: acceptedUntilMs }),
    ...(typeof x === 'object' && { xMetric: x.metric, ...(x.context !== undefined && { xContext: x.context }) }),
    ...(steps && { stepLow: steps.low, stepHigh: steps.high }),
  }
}
