import type { ClickHouse } from '../connection.ts'
import { type RangePoints, readAscending, readUnordered } from './range-points.ts'
import type { Extent, Range, RangeSeries, ReadRange } from './range-rows.ts'

/**
 * Counts ranges with few points into buckets here: ClickHouse takes longer to analyze the query that does so than to read some ten
 * thousand of them, and to take a hundred thousand out of chunks takes it twice as long as all of this.
 */

/** Of all series together. More of them would keep this process, which others wait for, busy for more than some ten milliseconds. */
const chunkedMax = 200_000
/** Of rows, more are counted by ClickHouse in the same time; of points at the same x, more would take long to put in order. */
const unchunkedMax = 20_000
/** The first and the last chunk of a series have points beyond the range, and where points are denser there are more than expected. */
const moreThanExpected = 4

/** How many points the series may have together to be counted here. */
export const shortRangesMax = (series: RangeSeries[]) => (series.some((it) => it.hasChunks) ? chunkedMax : unchunkedMax)

/**
 * The ranges of the series, as `readRanges` has them; undefined if they have too many points or an integer that is not safe in
 * JavaScript, or if x is another metric.
 *
 * @param expected how many points they probably have in the range, all together
 */
export async function readShortRanges(
  clickhouse: ClickHouse,
  series: RangeSeries[],
  range: Range,
  { extent, points, expected }: { extent: Extent; points: number; expected: number },
): Promise<ReadRange[] | undefined> {
  const { x, from = 0, to = 0 } = range
  if (typeof x === 'object' || ![from, to, extent.from, extent.to].every((it) => Number.isSafeInteger(Number(it)))) {
    return undefined
  }
  const found =
    (await readAscending(clickhouse, series, range, moreThanExpected * shortRangesMax(series))) ??
    (expected <= unchunkedMax
      ? await readUnordered(clickhouse, series, range, moreThanExpected * unchunkedMax)
      : undefined)
  return found?.map((it) => {
    const { series, xs, values, count: total, withoutX } = it
    const isBucketed = total > points
    const columns = isBucketed
      ? toBuckets(it, extent, points)
      : { x: Array.from(xs).slice(0, total), last: Array.from(values).slice(0, total) }
    return { series, withoutX, isBucketed, total, columns: toJson(columns, range) }
  })
}

type Columns = Record<string, number[]>

function toBuckets({ xs, values, count: total }: RangePoints, { from, to }: Extent, bucketsMax: number): Columns {
  const low = Number(from)
  const width = Math.floor((Number(to) - low) / bucketsMax) + 1
  const bucketOf = (x: number) => (x < low ? 0 : Math.min(Math.floor((x - low) / width), bucketsMax - 1))
  const made = {
    x: [] as number[],
    xTo: [] as number[],
    min: [] as number[],
    max: [] as number[],
    first: [] as number[],
    last: [] as number[],
    mean: [] as number[],
    count: [] as number[],
    nonFinite: [] as number[],
  }
  for (let at = 0; at < total; ) {
    const start = at
    const bucket = bucketOf(xs[start] as number)
    let [min, max, sum, nonFinite] = [Infinity, -Infinity, 0, 0]
    for (; at < total && bucketOf(xs[at] as number) === bucket; at++) {
      const value = values[at] as number
      if (Number.isFinite(value)) {
        if (value < min) min = value
        if (value > max) max = value
        sum += value
      } else nonFinite++
    }
    const count = at - start
    made.x.push(xs[start] as number)
    made.xTo.push(xs[at - 1] as number)
    made.min.push(min)
    made.max.push(max)
    made.first.push(values[start] as number)
    made.last.push(values[at - 1] as number)
    made.mean.push(sum / (count - nonFinite))
    made.count.push(count)
    made.nonFinite.push(nonFinite)
  }
  return made
}

/** Relative times are answered in seconds, and null is what is not finite. */
function toJson(columns: Columns, { x }: Range): Record<string, string> {
  const isRelative = (name: string) => x === 'relative' && (name === 'x' || name === 'xTo')
  const toText = (name: string, values: number[]) => {
    const scaled = isRelative(name) ? values.map((it) => it / 1_000) : values
    if (!scaled.some((it) => Object.is(it, -0))) return JSON.stringify(scaled)
    return `[${scaled.map((it) => (Object.is(it, -0) ? '-0' : JSON.stringify(it))).join()}]`
  }
  return Object.fromEntries(Object.entries(columns).map(([name, values]) => [name, toText(name, values)]))
}
