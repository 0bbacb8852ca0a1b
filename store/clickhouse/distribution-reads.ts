import type { ClickHouse } from './connection.ts'
import { exactValuesMax } from './drift-reads.ts'
import {
  countWindows,
  type EventScope,
  type FeatureName,
  findVoided,
  quote,
  toValues,
  type Windows,
  windowOf,
} from './event-scope.ts'
import { categoryOf, isMissing, isNumber, literal, rounded } from './feature-reads.ts'
import { readOnce } from './read-once.ts'

/** Which values: a feature, in windows of the events of a scope. */
export type Distributed = { scope: EventScope; feature: FeatureName; windows: Windows; events: number }

export type NumericWindow = {
  window: number
  /** Numbers, infinities among them. */
  values: number
  infinite: number
  /** Values of another type. */
  otherTypes: number
  min: number | null
  max: number | null
  mean: number | null
  /** Of the population: the square root of the mean squared distance from the mean. */
  std: number | null
  /** For each of `quantileLevels`. */
  quantiles: number[]
  /** One for each bin. */
  counts: number[]
  isExact: boolean
}

export const quantileLevels = [0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99] as const

/**
 * The distribution of a numeric feature in each window: a histogram over bins that are the same for all of them, and what
 * sums it up. Bins are given by their bounds, or so many of one width are laid over all finite values. A bin has its lower
 * bound, and the last one both; what is beyond the bounds is in no bin.
 */
export async function readNumeric(
  clickhouse: ClickHouse,
  { scope, feature, windows, events }: Distributed,
  bins: number[] | number,
): Promise<{ edges: number[]; windows: NumericWindow[] }> {
  const source = toValues(
    { ...scope, from: windows.from, to: windows.to },
    feature,
    await findVoided(clickhouse, scope),
  )
  const finite = `${isNumber} AND isFinite(number)`
  type Extent = { low: number | null; high: number | null; mean: number | null }
  const [extent] = await readOnce<Extent>(
    clickhouse,
    [source],
    ([values]) => `SELECT if(count() = 0, NULL, min(number)) AS low, if(count() = 0, NULL, max(number)) AS high,
      if(count() = 0, NULL, avg(number)) AS mean FROM ${values} WHERE ${finite}`,
  )
  const edges = typeof bins === 'number' ? toEdges(extent, bins) : bins
  const isExact = events <= exactValuesMax
  const center = extent?.mean ?? 0
  const levels = quantileLevels.join(', ')
  const bin = edges.length === 0 ? '-1' : toBin(edges)
  type Row = {
    w: number
    n: string
    infinite: string
    others: string
    least: number | null
    most: number | null
    mean: number | null
    deviation: number | null
    quantiles: number[]
    counted: [keys: number[], counts: string[]]
  }
  const rows = await readOnce<Row>(
    clickhouse,
    [source],
    ([values]) => `SELECT w, sumIf(c, bin > -3) AS n, sumIf(c, bin = -2) AS infinite, sumIf(c, bin = -3) AS others,
        minIf(least, bin > -2) AS least, maxIf(most, bin > -2) AS most,
        ${literal(center)} + sumIf(s, bin > -2) / sumIf(c, bin > -2) AS mean,
        sqrt(greatest(sumIf(q, bin > -2) / sumIf(c, bin > -2) - pow(sumIf(s, bin > -2) / sumIf(c, bin > -2), 2), 0)) AS deviation,
        quantilesExactWeightedIf(${levels})(x, c, bin > -2) AS quantiles,
        sumMapIf([bin], [c], bin >= 0) AS counted
      FROM (
        SELECT ${windowOf(windows)} AS w,
          toInt16(multiIf(NOT ${isNumber}, -3, NOT isFinite(number), -2, ${bin})) AS bin,
          if(${finite}, ${isExact ? 'number' : rounded(center)}, 0) AS x,
          count() AS c, min(number) AS least, max(number) AS most,
          sum(number - ${literal(center)}) AS s, sum(pow(number - ${literal(center)}, 2)) AS q
        FROM ${values} WHERE NOT ${isMissing} GROUP BY w, bin, x)
      GROUP BY w ORDER BY w`,
  )
  return {
    edges,
    windows: rows.map((row) => {
      const values = Number(row.n)
      const counts = Array<number>(Math.max(0, edges.length - 1)).fill(0)
      const [keys, found] = row.counted
      keys.forEach((key, at) => {
        counts[Number(key)] = Number(found[at])
      })
      const hasFinite = values > Number(row.infinite)
      return {
        window: Number(row.w),
        values,
        infinite: Number(row.infinite),
        otherTypes: Number(row.others),
        min: hasFinite ? row.least : null,
        max: hasFinite ? row.most : null,
        mean: row.mean,
        std: row.deviation,
        quantiles: hasFinite ? row.quantiles : [],
        counts,
        isExact,
      }
    }),
  }
}

/** Bounds of bins of one width; one value alone is in the middle of its bin. */
function toEdges(extent: { low: number | null; high: number | null } | undefined, bins: number): number[] {
  if (extent?.low == null || extent.high == null) return []
  if (extent.low === extent.high) return [extent.low - 0.5, extent.high + 0.5]
  const { low, high } = extent
  // Not by their difference, which may be beyond the range of a float.
  const edges = Array.from({ length: bins + 1 }, (_, at) => low * (1 - at / bins) + high * (at / bins))
  edges[0] = low
  edges[bins] = high
  return edges.filter((it, at) => at === 0 || it > (edges[at - 1] as number))
}

/** The number of the bin of a value, or -1. */
function toBin(edges: number[]): string {
  const last = edges.length - 1
  const bounds = edges.slice(1, last).map((it) => `(number >= ${literal(it)})`)
  return `if(number < ${literal(edges[0] as number)} OR number > ${literal(edges[last] as number)}, -1, ${['0', ...bounds].join(' + ')})`
}

export type CategoricalWindow = {
  window: number
  values: number
  /** How often the most frequent categories of all windows are there, in their order. */
  counts: number[]
  distinct: number
  isDistinctExact: boolean
}

/**
 * The distribution of a categorical feature in each window: how often each of the most frequent categories of all windows
 * is there. The number of different ones is exact up to 100, and estimated beyond (an error of some 0.5%).
 */
export async function readCategorical(
  clickhouse: ClickHouse,
  { scope, feature, windows }: Distributed,
  top: number,
): Promise<{ categories: string[]; windows: CategoricalWindow[] }> {
  const source = toValues(
    { ...scope, from: windows.from, to: windows.to },
    feature,
    await findVoided(clickhouse, scope),
  )
  const most = await readOnce<{ category: string }>(
    clickhouse,
    [source],
    ([values]) => `SELECT ${categoryOf} AS category FROM ${values} WHERE NOT ${isMissing}
      GROUP BY category ORDER BY count() DESC, category LIMIT ${top}`,
  )
  const categories = most.map((it) => it.category)
  const shown = categories.map(quote).join(', ')
  type Row = { w: number; n: string; counts: string[]; few: string; many: string }
  const rows = await readOnce<Row>(
    clickhouse,
    [source],
    ([values]) => `SELECT ${windowOf(windows)} AS w, count() AS n,
        ${categories.length === 0 ? "''" : `arrayPopFront(sumForEach(arrayMap(it -> toUInt64(it = place), range(${categories.length + 1}))))`} AS counts,
        uniqUpTo(100)(category) AS few, uniqCombined64(17)(category) AS many
      FROM (SELECT timestamp, ${categoryOf} AS category,
        ${categories.length === 0 ? '0' : `transform(category, [${shown}], range(1, ${categories.length + 1}), 0)`} AS place
        FROM ${values} WHERE NOT ${isMissing})
      GROUP BY w ORDER BY w`,
  )
  return {
    categories,
    windows: rows.map((row) => {
      const isFew = Number(row.few) <= 100
      return {
        window: Number(row.w),
        values: Number(row.n),
        counts: row.counts.map(Number),
        distinct: isFew ? Number(row.few) : Number(row.many),
        isDistinctExact: isFew,
      }
    }),
  }
}
