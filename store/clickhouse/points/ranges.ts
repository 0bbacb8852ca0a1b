import { maxBigInt, minBigInt } from '../../../runtime/bigint.ts'
import type { ClickHouse } from '../connection.ts'
import { chunksTable, summedLeast } from './chunks.ts'
import {
  type Extent,
  expectPoints,
  isOfSeries,
  placeOf,
  type Range,
  type RangeSeries,
  type ReadRange,
  rangeParams,
  selectRange,
  seriesKey,
  startOf,
  toConditions,
  typeOf,
} from './range-rows.ts'
import { readShortRanges, shortRangesMax } from './short-ranges.ts'
import { present } from './tables.ts'

/**
 * Series over a range of x, for charts. Every point of the range is counted in the bucket that its x falls in, so no extreme
 * is ever missing; a range without more points than buckets is read point by point. ClickHouse writes the columns as JSON.
 */

/** Series with more points in the range than this are read by a query of their own. */
const largePoints = 200_000
/** More rows are read by several threads, where the primary key does not find those of the range. */
const unsortedRowsMax = 500_000
const queriesAtOnce = 2

/** The x of all series together; undefined when none has a value of x. */
export async function findExtent(
  clickhouse: ClickHouse,
  series: RangeSeries[],
  range: Range,
): Promise<Extent | undefined> {
  const { x } = range
  if (x === 'step' || x === 'time' || x === 'relative') {
    const axis = x === 'step' ? 'step' : 'time'
    const ends = series
      .filter((it) => x !== 'step' || it.hasSteps)
      .map((it) => ({ start: x === 'relative' ? it.startTimeMs : 0n, low: it.low[axis], high: it.high[axis] }))
    if (ends.length === 0) return undefined
    return {
      from: ends.map((it) => it.low - it.start).reduce(minBigInt),
      to: ends.map((it) => it.high - it.start).reduce(maxBigInt),
    }
  }
  const [row] = await clickhouse.rows<{ points: string; low: string; high: string }>(
    `SELECT count() AS points, toString(min(x)) AS low, toString(max(x)) AS high
     FROM (${selectRange(clickhouse, series, range)}) WHERE has_x`,
    rangeParams(series, range),
  )
  if (row === undefined || row.points === '0') return undefined
  const toBound = (text: string) => (x === 'epoch' ? BigInt(text) : Number(text))
  return { from: toBound(row.low), to: toBound(row.high) }
}

/** Reads the range of each series as at most `points` points or buckets of the extent. Series without any are left out. */
export async function readRanges(
  clickhouse: ClickHouse,
  series: RangeSeries[],
  range: Range,
  { extent, points }: { extent: Extent; points: number },
): Promise<ReadRange[]> {
  const expected = new Map(expectPoints(series, range).map((it, at) => [series[at] as RangeSeries, it]))
  const expect = (it: RangeSeries) => expected.get(it) as number
  const small = series.filter((it) => expect(it) <= largePoints)
  const large = series.filter((it) => expect(it) > largePoints)
  const parts = [...(small.length > 0 ? [small] : []), ...large.map((it) => [it])]
  const expectedOfSmall = sumOf(small.map(expect))
  const isShort =
    expectedOfSmall <= shortRangesMax(small) &&
    (range.x === 'step' || sumOf(small.map((it) => it.rows)) <= unsortedRowsMax)
  const found: ReadRange[] = []
  const waiting = parts.values()
  const readNext = async () => {
    for (const part of waiting) {
      const short =
        part === small && isShort
          ? await readShortRanges(clickhouse, part, range, { extent, points, expected: expectedOfSmall })
          : undefined
      found.push(...(short ?? (await countRanges(clickhouse, part, range, { extent, points }))))
    }
  }
  await Promise.all(Array.from({ length: queriesAtOnce }, readNext))
  return found
}

const sumOf = (numbers: number[]) => numbers.reduce((sum, it) => sum + it, 0)

/** The same by queries that count all points of the range in ClickHouse. */
export async function countRanges(
  clickhouse: ClickHouse,
  part: RangeSeries[],
  range: Range,
  { extent, points }: { extent: Extent; points: number },
): Promise<ReadRange[]> {
  const long = part.filter((it) => it.rows > points)
  const buckets = long.length === 0 ? [] : await readBuckets(clickhouse, long, range, { extent, points })
  const bucketed = buckets.filter((it) => it.total > points)
  const sparse = buckets.filter((it) => it.total <= points)
  const short = part.filter((it) => it.rows <= points)
  // What was counted is not many points, but finding them again may be: its steps narrow that.
  const again = sparse.length === 0 ? [] : await readPoints(clickhouse, seriesOf(sparse), range, stepsOf(sparse))
  const withoutX = new Map(sparse.map((it) => [it.series, it.withoutX]))
  return [
    ...bucketed,
    ...again.map((it) => ({ ...it, withoutX: withoutX.get(it.series) ?? 0 })),
    ...(short.length === 0 ? [] : await readPoints(clickhouse, short, range)),
  ]
}

type Buckets = ReadRange & { stepLow: bigint; stepHigh: bigint }

const seriesOf = (ranges: ReadRange[]) => ranges.map((it) => it.series)

const stepsOf = (ranges: Buckets[]) => ({
  low: String(ranges.map((it) => it.stepLow).reduce(minBigInt)),
  high: String(ranges.map((it) => it.stepHigh).reduce(maxBigInt)),
})

/** What a bucket is made of, of points and of whole chunks. Of points with the same x, either may be the first or the last. */
const parts = {
  from: { ofPoints: 'min(x)', ofChunks: 'min(x_low)' },
  to: { ofPoints: 'max(x)', ofChunks: 'max(x_high)' },
  least: { ofPoints: 'minIf(value, isFinite(value))', ofChunks: 'min(least)' },
  greatest: { ofPoints: 'maxIf(value, isFinite(value))', ofChunks: 'max(greatest)' },
  first: { ofPoints: 'argMin(value, x)', ofChunks: 'argMin(first_value, x_low)' },
  last: { ofPoints: 'argMax(value, x)', ofChunks: 'argMax(last_value, x_high)' },
  total: { ofPoints: 'sumIf(value, isFinite(value))', ofChunks: 'sum(total)' },
  count: { ofPoints: 'count()', ofChunks: 'sum(toUInt64(count))' },
  nonFinite: { ofPoints: 'countIf(NOT isFinite(value))', ofChunks: 'toUInt64(0)' },
  step_low: { ofPoints: 'min(step)', ofChunks: 'min(step_low)' },
  step_high: { ofPoints: 'max(step)', ofChunks: 'max(step_high)' },
}

const hasNumber = 'p_count > p_nonFinite'
const bucketColumns = {
  x: 'min(p_from)',
  xTo: 'max(p_to)',
  min: `if(c_count = c_nonFinite, nan, minIf(p_least, ${hasNumber}))`,
  max: `if(c_count = c_nonFinite, nan, maxIf(p_greatest, ${hasNumber}))`,
  first: 'argMin(p_first, p_from)',
  last: 'argMax(p_last, p_to)',
  mean: `sum(p_total) / (c_count - c_nonFinite)`,
  count: 'sum(p_count)',
  nonFinite: 'sum(p_nonFinite)',
}

/** NaN and the infinities become null; 64-bit integers keep their digits. */
const jsonSettings = 'SETTINGS output_format_json_quote_64bit_integers = 0'

/** The bucket of points without a value of x. */
const noBucket = 2 ** 32 - 1

/** A series and its bucket are one number: grouping by their columns takes twice as long (measured). */
async function readBuckets(
  clickhouse: ClickHouse,
  series: RangeSeries[],
  range: Range,
  { extent, points }: { extent: Extent; points: number },
): Promise<Buckets[]> {
  const names = Object.keys(bucketColumns) as (keyof typeof bucketColumns)[]
  const inOrder = (it: string) =>
    toJson(it, `arraySort((value, at) -> at, groupArrayIf(c_${it}, has_bucket), groupArrayIf(slot, has_bucket))`, range)
  const rows = await clickhouse.rows<Record<string, string>>(
    `WITH toUInt32(slot) != ${noBucket} AS has_bucket
     SELECT toUInt32(bitShiftRight(slot, 32)) AS series, toString(sumIf(c_count, has_bucket)) AS total,
       toString(sumIf(c_count, NOT has_bucket)) AS without, toString(min(step_low)) AS low, toString(max(step_high)) AS high,
       ${names.map((it) => `${inOrder(it)} AS a_${it}`).join(', ')}
     FROM (SELECT slot, min(p_step_low) AS step_low, max(p_step_high) AS step_high,
         ${names.map((it) => `${bucketColumns[it]} AS c_${it}`).join(', ')}
       FROM (${selectParts(clickhouse, series, range, Math.max(...expectPoints(series, range)) / points)}) GROUP BY slot)
     GROUP BY series ${jsonSettings}`,
    { ...rangeParams(series, range), ...bucketParams(range, extent, points) },
  )
  return rows.map((row) => ({
    ...toRange(series, row, names, true),
    stepLow: BigInt(row.low ?? 0),
    stepHigh: BigInt(row.high ?? 0),
  }))
}

const slotOf = (series: RangeSeries[], bucket: string) =>
  `bitOr(bitShiftLeft(toUInt64(${placeOf(series)}), 32), ${bucket}) AS slot`

/**
 * Where a bucket has fewer points of a series, hardly any chunk that says its sum lies in one: to ask for them takes ClickHouse's
 * analysis half as long again (measured: 58 instead of 40 ms).
 */
const wholeLeast = summedLeast / 4

/** Chunks that lie in one bucket are counted there as they are; the points of all others one by one. */
function selectParts(clickhouse: ClickHouse, series: RangeSeries[], range: Range, pointsOfBucket: number): string {
  const names = Object.keys(parts) as (keyof typeof parts)[]
  const mayBeWhole = series.some((it) => it.hasChunks) && pointsOfBucket >= wholeLeast
  const whole = mayBeWhole ? describeWhole(range) : undefined
  const ofPoints = `SELECT ${slotOf(series, `if(has_x, ${bucketOf(range, 'x')}, ${noBucket})`)},
      ${names.map((it) => `${parts[it].ofPoints} AS p_${it}`).join(', ')}
    FROM (${selectRange(clickhouse, series, range, { exceptChunks: whole?.condition })}) GROUP BY slot`
  if (whole === undefined) return ofPoints
  const { points } = toConditions({ ...range, from: undefined, to: undefined })
  // The condition comes after FINAL: it may be true of a chunk that was cut, and not of the whole one.
  return `${ofPoints} UNION ALL
    SELECT ${slotOf(series, bucketOf(range, 'x_low'))}, ${names.map((it) => `${parts[it].ofChunks} AS p_${it}`).join(', ')}
    FROM (SELECT *, ${whole.low} AS x_low, ${whole.high} AS x_high
      FROM ${clickhouse.database}.${chunksTable.name} FINAL WHERE ${isOfSeries(series)} AND ${points} AND ${whole.condition})
    GROUP BY slot`
}

/** The chunks that lie in one bucket and within the bounds, and their ends; undefined where only their points have an x. */
function describeWhole(range: Range): { condition: string; low: string; high: string } | undefined {
  const { x, from, to } = range
  if (x === 'epoch' || typeof x === 'object') return undefined
  const end = (side: 'low' | 'high') =>
    x === 'step' ? `step_${side}` : x === 'time' ? `time_${side}` : `time_${side} - ${startOf}`
  const [low, high] = [end('low'), end('high')]
  const conditions = [
    'is_summed',
    ...(x === 'step' ? [`bitAnd(present_all, ${present.step}) != 0`] : []),
    ...(from === undefined ? [] : [`${low} >= {from:Int64}`]),
    ...(to === undefined ? [] : [`${high} <= {to:Int64}`]),
    `${bucketOf(range, `(${low})`)} = ${bucketOf(range, `(${high})`)}`,
  ]
  return { condition: conditions.join(' AND '), low, high }
}

async function readPoints(
  clickhouse: ClickHouse,
  series: RangeSeries[],
  range: Range,
  steps?: { low: string; high: string },
): Promise<ReadRange[]> {
  const rows = await clickhouse.rows<Record<string, string>>(
    `SELECT ${placeOf(series)} AS series, toString(length(points)) AS total, toString(missing) AS without,
       ${toJson('x', 'arrayMap(point -> point.1, points)', range)} AS a_x,
       ${toJson('last', 'arrayMap(point -> point.7, points)', range)} AS a_last
     FROM (SELECT ${seriesKey}, countIf(NOT has_x) AS missing,
         arraySort(groupArrayIf((x, time, step, request_hi, request_lo, place, value), has_x)) AS points
       FROM (${selectRange(clickhouse, series, range, { steps })}) GROUP BY ${seriesKey}) ${jsonSettings}`,
    rangeParams(series, range, steps),
  )
  return rows.map((row) => toRange(series, row, ['x', 'last'], false))
}

/** Relative times are answered in seconds. */
const toJson = (name: string, column: string, { x }: Range) =>
  `toJSONString(${x === 'relative' && (name === 'x' || name === 'xTo') ? `arrayMap(it -> it / 1000, ${column})` : column})`

function toRange(series: RangeSeries[], row: Record<string, string>, names: string[], isBucketed: boolean): ReadRange {
  return {
    series: series[Number(row.series)] as RangeSeries,
    isBucketed,
    total: Number(row.total),
    withoutX: Number(row.without),
    columns: Object.fromEntries(names.map((it) => [it, row[`a_${it}`] as string])),
  }
}

/** What comes before or after the extent, such as a point that was stored meanwhile, is in the first or the last bucket. */
function bucketOf({ x }: Range, at: string): string {
  const low = `{extentFrom:${typeOf(x)}}`
  const last = '{lastBucket:UInt32}'
  if (typeof x !== 'object') {
    return `toUInt32(if(${at} < ${low}, 0, least(intDiv(reinterpretAsUInt64(${at} - ${low}), {width:UInt64}), ${last})))`
  }
  return `toUInt32(greatest(0, least(floor((${at} - ${low}) / {width:Float64}), ${last})))`
}

function bucketParams({ x }: Range, { from, to }: Extent, points: number) {
  const width =
    typeof x === 'object'
      ? Math.max((Number(to) - Number(from)) / points, Number.MIN_VALUE)
      : minBigInt((BigInt(to) - BigInt(from)) / BigInt(points) + 1n, 2n ** 64n - 1n)
  return { extentFrom: String(from), lastBucket: points - 1, width: String(width) }
}
