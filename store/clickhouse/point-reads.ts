import type { Readable } from 'node:stream'
import type { ClickHouse } from './connection.ts'
import { pointsTable, present, summaryTable, systemPointsTable } from './tables.ts'

/**
 * Reads of points. ClickHouse writes the JSON itself, so that a long series streams through without being parsed here,
 * and 64-bit integers keep all their digits.
 *
 * `FINAL` collapses rows that were delivered more than once. Summaries and buckets hold only what a repetition cannot
 * change, so they read without it.
 */

/** A series as a caller names it. */
export type SeriesName = {
  experimentId: bigint
  /** The metric's own name (in all its contexts), or its summary name `<context>_<metric>`. */
  name: string
  /** Only this context. */
  context: string | undefined
}

const jsonSettings = `SETTINGS output_format_json_array_of_rows = 1, output_format_json_quote_64bit_integers = 0,
  output_format_json_escape_forward_slashes = 0`

/** The value as text that parses back to the same bits: the shortest decimal, or NaN, Infinity, -Infinity. */
export const asText = (value: string) =>
  `multiIf(isNaN(${value}), 'NaN', ${value} = inf, 'Infinity', ${value} = -inf, '-Infinity', toString(${value}))`

const has = (bit: number) => `bitAnd(present, ${bit}) != 0`
export const timeOf = `if(${has(present.timestamp)}, timestamp, received)`
export const whenPresent = (bit: number, value: string) => `if(${has(bit)}, ${value}, NULL)`

const pointObject = `metric AS metricName, ${asText('value')} AS metricValue, time AS timestamp,
  ${whenPresent(present.step, 'step')} AS step, ${whenPresent(present.epoch, 'epoch')} AS epoch,
  nullIf(context, '') AS runContext`

// By position of the columns, not by the names that the answer gives them.
const pointOrder = 'ORDER BY p.context, p.step, p.time, p.request_hi, p.request_lo, p.place'

/** Every stored point of a series as a JSON array, ordered by context, step and time. */
export function streamSeries(clickhouse: ClickHouse, series: SeriesName): Promise<Readable> {
  return clickhouse.stream(
    `SELECT ${pointObject} FROM (${selectPoints(clickhouse, series, { isFinal: true })}) AS p ${pointOrder}
     ${jsonSettings} FORMAT JSONEachRow`,
    seriesParams(series),
  )
}

/**
 * At most `pointsMax` points of a series as a JSON array: its steps (or times, when it has no steps) are cut into buckets
 * of one width, and each bucket's minimum, maximum and first NaN are kept. A series that is short enough comes whole.
 */
export async function streamThinnedSeries(
  clickhouse: ClickHouse,
  series: SeriesName,
  pointsMax: number,
): Promise<Readable> {
  const extent = await findExtent(clickhouse, series)
  if (extent.points <= pointsMax) return await streamSeries(clickhouse, series)
  const keptPerBucket = extent.nans > 0 ? 3 : 2
  const buckets = Math.max(1, Math.floor(pointsMax / (keptPerBucket * extent.contexts)))
  return await clickhouse.stream(
    `WITH reinterpretAsUInt64(${extent.axis} - {low:Int64}) AS distance,
       (metric, context, value, step, time, epoch, present, request_hi, request_lo, place) AS point
     SELECT ${pointObject} FROM (
       SELECT kept.1 AS metric, kept.2 AS context, kept.3 AS value, kept.4 AS step, kept.5 AS time, kept.6 AS epoch,
         kept.7 AS present, kept.8 AS request_hi, kept.9 AS request_lo, kept.10 AS place
       FROM (
         SELECT arrayJoin(arrayDistinct(arrayConcat(
           if(countIf(NOT isNaN(value)) > 0,
             [argMinIf(point, value, NOT isNaN(value)), argMaxIf(point, value, NOT isNaN(value))], []),
           if(countIf(isNaN(value)) > 0, [argMinIf(point, distance, isNaN(value))], [])))) AS kept
         FROM (${selectPoints(clickhouse, series, { isFinal: false })})
         GROUP BY metric, context, least(intDiv(distance, {width:UInt64}), {lastBucket:UInt64}))) AS p
     ${pointOrder} LIMIT {pointsMax:UInt32} ${jsonSettings} FORMAT JSONEachRow`,
    {
      ...seriesParams(series),
      low: extent.low,
      width: String(toWidth(BigInt(extent.high) - BigInt(extent.low), BigInt(buckets))),
      lastBucket: buckets - 1,
      pointsMax,
    },
  )
}

/**
 * The width of one of so many buckets over a distance. One bucket over all of int64 would need a 65th bit: it is made too
 * narrow by one, and the last bucket takes what is beyond.
 */
function toWidth(distance: bigint, buckets: bigint): bigint {
  const width = distance / buckets + 1n
  return width > uint64Max ? uint64Max : width
}

const uint64Max = 2n ** 64n - 1n

type Extent = { points: number; nans: number; contexts: number; axis: 'step' | 'time'; low: string; high: string }

async function findExtent(clickhouse: ClickHouse, series: SeriesName): Promise<Extent> {
  const rows = await clickhouse.rows<Record<string, string>>(
    `SELECT count() AS points, countIf(isNaN(value)) AS nans, uniqExact(metric, context) AS contexts,
       toString(min(step)) AS stepLow, toString(max(step)) AS stepHigh,
       toString(min(time)) AS timeLow, toString(max(time)) AS timeHigh
     FROM (${selectPoints(clickhouse, series, { isFinal: false })})`,
    seriesParams(series),
  )
  const found = rows[0] as Record<string, string>
  const axis = found.stepLow === found.stepHigh ? 'time' : 'step'
  return {
    points: Number(found.points),
    nans: Number(found.nans),
    contexts: Number(found.contexts),
    axis,
    low: String(found[`${axis}Low`]),
    high: String(found[`${axis}High`]),
  }
}

function seriesParams({ experimentId, name, context }: SeriesName) {
  return {
    experiment: String(experimentId),
    name,
    ...(context !== undefined && { context }),
  }
}

/**
 * What the metric of a series may be called: the whole name, or what follows one of its underscores. Made in the query,
 * for a name of a thousand underscores would not fit into an address.
 */
const possibleMetrics = `SELECT {name:String} AS possible
  UNION ALL SELECT substring({name:String}, number + 2) FROM numbers(length({name:String}))
  WHERE substring({name:String}, number + 1, 1) = '_'`

/** The rows of a series. Resource usage is stored apart, and is read by the same call under its `sys.` names. */
function selectPoints(
  clickhouse: ClickHouse,
  { name, context }: SeriesName,
  { isFinal }: { isFinal: boolean },
): string {
  return selectStoredPoints(clickhouse, {
    withSystem: name.includes('sys.'),
    isFinal,
    condition: `experiment_id = {experiment:UInt64} AND metric IN (${possibleMetrics})
         AND (metric = {name:String} OR concat(context, '_', metric) = {name:String})
         ${context === undefined ? '' : 'AND context = {context:String}'}`,
  })
}

type StoredPoints = { withSystem: boolean; isFinal: boolean; condition: string; columns?: string }

/** The rows of all points that meet a condition, those of resource usage among them or not. */
export function selectStoredPoints(
  clickhouse: ClickHouse,
  { withSystem, isFinal, condition, columns = '' }: StoredPoints,
): string {
  const tables = withSystem ? [pointsTable, systemPointsTable] : [pointsTable]
  return tables
    .map(
      (table) => `SELECT ${columns}metric, context, value, step, ${timeOf} AS time, epoch, present, request_hi,
         request_lo, place
       FROM ${clickhouse.database}.${table.name} ${isFinal ? 'FINAL' : ''} WHERE ${condition}`,
    )
    .join(' UNION ALL ')
}

const summaryParts = ['minimum', 'maximum', 'current'] as const
const summarySuffix = { minimum: 'Min', maximum: 'Max', current: 'Current' }

/** One entry for each metric and context of an experiment as a JSON array; its cost does not grow with the points. */
export function streamSummary(clickhouse: ClickHouse, experimentId: bigint): Promise<Readable> {
  const merged = summaryParts.map((part) => {
    const state = part === 'minimum' ? 'argMinMerge' : 'argMaxMerge'
    return `${state}(${part}) AS ${part}_point`
  })
  const fields = summaryParts.flatMap((part) => {
    const suffix = summarySuffix[part]
    const point = `${part}_point`
    return [
      `${asText(`${point}.1`)} AS value${suffix}`,
      `${point}.3 AS timestamp${suffix}`,
      `nullIf(context, '') AS runContext${suffix}`,
      `if(bitAnd(${point}.4, ${present.step}) != 0, ${point}.2, NULL) AS step${suffix}`,
    ]
  })
  return clickhouse.stream(
    `SELECT if(context = '', metric, concat(context, '_', metric)) AS name, ${fields.join(', ')}, false AS editable
     FROM (SELECT metric, context, ${merged.join(', ')} FROM ${clickhouse.database}.${summaryTable}
       WHERE experiment_id = {experiment:UInt64} GROUP BY metric, context)
     ORDER BY name ${jsonSettings} FORMAT JSONEachRow`,
    { experiment: String(experimentId) },
  )
}
