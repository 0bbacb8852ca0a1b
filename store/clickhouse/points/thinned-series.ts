import { Readable } from 'node:stream'
import { maxBigInt, minBigInt } from '../../../runtime/bigint.ts'
import { formsOf } from '../../point-forms.ts'
import type { ClickHouse } from '../connection.ts'
import { chunksTable } from './chunks.ts'
import {
  isOfSystem,
  jsonSettings,
  matchesSeries,
  pointObject,
  type SeriesName,
  selectPoints,
  seriesParams,
  streamLongSeries,
  timeOf,
} from './reads.ts'
import { readShortSeries } from './short-series.ts'
import { summaryTable } from './summaries/summary.ts'
import { pointsTable, present, storedValue, systemPointsTable } from './tables.ts'

/**
 * Downsamples a long series. Its extent comes from the summary, so its points are read only once, and only the columns that
 * are needed: a series whose points all have a timestamp does not need `received`.
 */

/** A metric in one context. A series name may match several. */
type Found = {
  metric: string
  context: string
  rows: number
  low: { step: bigint; time: bigint }
  high: { step: bigint; time: bigint }
  hasNan: boolean
  presentAll: number
  presentAny: number
}

/** Series with up to this many times `pointsMax` rows are counted exactly. */
const repetitionsAssumed = 4

/**
 * At most `pointsMax` points of a series as a JSON array. Divides its steps (or times, if it has no steps) into buckets of
 * equal width, and keeps the minimum, the maximum and the first NaN of each bucket. A short series is returned whole.
 */
export async function streamThinnedSeries(
  clickhouse: ClickHouse,
  series: SeriesName,
  pointsMax: number,
): Promise<Readable> {
  const short = await readShortSeries(clickhouse, series, pointsMax)
  if (short !== undefined) return Readable.from([short])
  const found = await findLongSeries(clickhouse, series, pointsMax)
  if (found === undefined) return await streamLongSeries(clickhouse, series)
  const low = least(found.map((it) => it.low.step))
  const hasSteps = low !== greatest(found.map((it) => it.high.step))
  const axis = hasSteps ? 'step' : 'time'
  const from = least(found.map((it) => it.low[axis]))
  const to = greatest(found.map((it) => it.high[axis]))
  const hasNan = found.some((it) => it.hasNan)
  const buckets = Math.max(1, Math.floor(pointsMax / ((hasNan ? 3 : 2) * found.length)))
  return await clickhouse.stream(
    `WITH (value, step, time, epoch, present) AS point, reinterpretAsUInt64(${axis} - {from:Int64}) AS distance
     SELECT ${pointObject} FROM (
       SELECT {metrics:Array(String)}[place] AS metric, {contexts:Array(String)}[place] AS context,
         kept.1 AS value, kept.2 AS step, kept.3 AS time, kept.4 AS epoch, kept.5 AS present
       FROM (SELECT place, arrayJoin(arrayDistinct(${hasNan ? extremesAndNan : extremes})) AS kept
         FROM (${selectRows(clickhouse, series, found, axis)})
         GROUP BY place, ${bucketOf(axis)})) AS p
     ORDER BY p.context, p.step, p.time LIMIT {pointsMax:UInt32} ${jsonSettings} FORMAT JSONEachRow`,
    {
      experiment: String(series.experimentId),
      metrics: found.map((it) => it.metric),
      contexts: found.map((it) => it.context),
      from: String(from),
      width: String(toWidth(to - from, BigInt(buckets))),
      lastBucket: buckets - 1,
      pointsMax,
    },
  )
}

const extremes = '[argMin(point, value), argMax(point, value)]'
const extremesAndNan = `arrayConcat(
  if(countIf(NOT isNaN(value)) > 0, [argMinIf(point, value, NOT isNaN(value)), argMaxIf(point, value, NOT isNaN(value))], []),
  if(countIf(isNaN(value)) > 0, [argMinIf(point, distance, isNaN(value))], []))`

const bucketOf = (at: string) =>
  `least(intDiv(reinterpretAsUInt64(${at} - {from:Int64}), {width:UInt64}), {lastBucket:UInt64})`

/** Of a chunk that lies in one bucket, its least and its greatest point are enough. */
const ofWhole = (list: string) => `if(is_whole, [${list}[least_at], ${list}[greatest_at]], arrayResize(${list}, count))`
const extremesOfWhole = `ARRAY JOIN ${ofWhole('value_bits')} AS bits, ${ofWhole('steps')} AS step, ${ofWhole('timestamps')} AS timestamp,
  ${ofWhole('epochs')} AS epoch, arrayResize(presents, if(is_whole, 2, count), present_all) AS present`

/** The rows of the found series, each with the index of its series (`place`). Repeated rows do not change the result. */
function selectRows(clickhouse: ClickHouse, series: SeriesName, found: Found[], axis: 'step' | 'time'): string {
  const all = found.reduce((bits, it) => bits & it.presentAll, 0xff)
  const any = found.reduce((bits, it) => bits | it.presentAny, 0)
  const time = all & present.timestamp ? 'timestamp' : any & present.timestamp ? timeOf : 'received'
  const epoch = any & present.epoch ? 'epoch' : 'toInt64(0)'
  const bits = all === any ? `toUInt8(${all})` : 'present'
  const [place, condition] =
    found.length === 1
      ? ['toUInt32(1)', 'metric = {metrics:Array(String)}[1] AND context = {contexts:Array(String)}[1]']
      : [
          'toUInt32(indexOf(arrayZip({metrics:Array(String)}, {contexts:Array(String)}), (metric, context)))',
          'metric IN {metrics:Array(String)} AND place > 0',
        ]
  const fields = `step, ${time} AS time, ${epoch} AS epoch, ${bits} AS present`
  const where = `experiment_id = {experiment:UInt64} AND ${condition}`
  const { database } = clickhouse
  const ofRows = (table: string) =>
    `SELECT ${place} AS place, ${storedValue} AS value, ${fields} FROM ${database}.${table} WHERE ${where}`
  const { hasRows, hasChunks } = formsOf([series])
  return [
    ...(hasRows ? [ofRows(pointsTable.name)] : []),
    ...(hasChunks
      ? [
          `SELECT series AS place, reinterpretAsFloat64(bits) AS value, ${fields} FROM (
             SELECT *, ${place} AS series, is_plain AND ${bucketOf(`${axis}_low`)} = ${bucketOf(`${axis}_high`)} AS is_whole
             FROM ${database}.${chunksTable.name} WHERE ${where}) ${extremesOfWhole}`,
        ]
      : []),
    ...(isOfSystem(series) ? [ofRows(systemPointsTable.name)] : []),
  ].join(' UNION ALL ')
}

/**
 * The extent of a long series; undefined for a short one. The summary counts repeated rows and may lack the newest ones, so
 * a series that may be short is counted exactly.
 */
async function findLongSeries(clickhouse: ClickHouse, series: SeriesName, pointsMax: number) {
  const found = await findSeries(clickhouse, series, isOfSystem(series) ? 'points' : 'summary')
  const rows = found.reduce((sum, it) => sum + it.rows, 0)
  if (rows > pointsMax * repetitionsAssumed) return found
  const [counted] = await clickhouse.rows<{ points: string }>(
    `SELECT count() AS points FROM (${selectPoints(clickhouse, series, { isFinal: true })})`,
    seriesParams(series),
  )
  const points = Number(counted?.points)
  if (points <= pointsMax) return undefined
  return points <= rows ? found : await findSeries(clickhouse, series, 'points')
}

/**
 * The metrics and contexts of a series with their extent, from the summary or counted from the points. Resource usage has
 * no summary.
 */
async function findSeries(clickhouse: ClickHouse, series: SeriesName, source: 'summary' | 'points'): Promise<Found[]> {
  const from =
    source === 'points'
      ? `SELECT metric, context, count() AS points, min(step) AS step_from, max(step) AS step_to,
         min(time) AS time_from, max(time) AS time_to, max(isNaN(value)) AS nan,
         groupBitAnd(present) AS all_have, groupBitOr(present) AS any_has
       FROM (${selectPoints(clickhouse, series, { isFinal: false })})`
      : `SELECT metric, context, sum(rows) AS points, min(step_low) AS step_from, max(step_high) AS step_to,
         min(time_low) AS time_from, max(time_high) AS time_to, max(has_nan) AS nan,
         groupBitAnd(present_all) AS all_have, groupBitOr(present_any) AS any_has
       FROM ${clickhouse.database}.${summaryTable} WHERE ${matchesSeries(series)}`
  const rows = await clickhouse.rows<Record<string, string>>(
    `${from} GROUP BY metric, context ORDER BY metric, context`,
    seriesParams(series),
  )
  return rows.map((it) => ({
    metric: String(it.metric),
    context: String(it.context),
    rows: Number(it.points),
    low: { step: BigInt(it.step_from ?? 0), time: BigInt(it.time_from ?? 0) },
    high: { step: BigInt(it.step_to ?? 0), time: BigInt(it.time_to ?? 0) },
    hasNan: Number(it.nan) > 0,
    presentAll: Number(it.all_have),
    presentAny: Number(it.any_has),
  }))
}

const least = (values: bigint[]) => values.reduce(minBigInt)
const greatest = (values: bigint[]) => values.reduce(maxBigInt)

/**
 * The bucket width that divides a distance into a number of buckets. One bucket over all of int64 would need a 65-bit
 * width: it is one too narrow, and the last bucket takes the rest.
 */
function toWidth(distance: bigint, buckets: bigint): bigint {
  const width = distance / buckets + 1n
  return width > uint64Max ? uint64Max : width
}

const uint64Max = 2n ** 64n - 1n
