import {
  countCategories,
  exactValuesMax,
  isMissing,
  isNumber,
  literal,
  quote,
  rounded,
  windowIndex,
} from './expressions.ts'
import type { EventReader } from './reader.ts'
import { type EventScope, type FeatureName, inWindows, type Windows } from './scope.ts'
import { countedValues } from './source.ts'

/** The values of a feature in windows; `events` are those of all windows. */
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
  /** The standard deviation of the population. */
  std: number | null
  /** For each of `quantileLevels`. */
  quantiles: number[]
  /** One for each bin. */
  counts: number[]
  isExact: boolean
}

export const quantileLevels = [0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99] as const

/**
 * Reads the distribution of a numeric feature in each window: a histogram over the same bins for all windows, and
 * statistics. Bins are given by their bounds, or as a number of bins of equal width over all finite values. A bin includes
 * its lower bound, the last one both; values outside the bounds are in no bin.
 *
 * With more than `exactValuesMax` events, values are rounded. A rollup's values are already rounded, around its own center,
 * and are counted in the bin of the rounded value. A quantile never leaves the bounds of its window.
 */
export async function readNumeric(
  reader: EventReader,
  { scope, feature, windows, events }: Distributed,
  bins: number[] | number,
): Promise<{ edges: number[]; windows: NumericWindow[] }> {
  const catalog = await reader.findCatalog(scope)
  const isExact = events <= exactValuesMax
  const ofTime = inWindows(scope, windows)
  const only = { part: feature.part, names: [feature.name] }
  const isUsable = () => !isExact
  // Over all windows at once: then rollups that span several windows can be used.
  const [all] = await reader.read<{ least: number; most: number; mean: number; n: string }>(
    [countedValues(ofTime, only, catalog, { isUsable })],
    ([
      values,
    ]) => `SELECT min(least) AS least, max(most) AS most, sum(number * weight) / sum(weight) AS mean, count() AS n
      FROM ${values} WHERE ${isFiniteNumber}`,
  )
  const bounds = all && all.n !== '0' ? { ...all, least: toPlus(all.least), most: toPlus(all.most) } : undefined
  const edges = typeof bins === 'number' ? toEdges(bounds, bins) : bins
  const inBin = `if(${isFiniteNumber}, toInt16(${edges.length === 0 ? noBin : toBin(edges, bounds)}), if(${isNumber}, ${infiniteBin}, ${otherBin}))`
  const x = isExact ? 'number' : `if(is_rounded, number, ${rounded(literal(bounds?.mean ?? 0))})`
  const rows = await reader.read<Row>(
    [countedValues(ofTime, only, catalog, { windows, isUsable })],
    ([
      values,
    ]) => `SELECT w, infinite, others, n, min, max, mean, sqrt(arraySum((x, c) -> c * pow(x - mean, 2), xs, cs) / n) AS std, counted,
        arrayMap(it -> greatest(least(it, max), min), quantiles) AS quantiles
      FROM (
        SELECT w, sumIf(c, bin = ${infiniteBin}) AS infinite, sumIf(c, bin = ${otherBin}) AS others, sumIf(c, ${isOfFinite}) AS n,
          minIf(low, ${isOfFinite}) AS min, maxIf(high, ${isOfFinite}) AS max, sumIf(c * x, ${isOfFinite}) / n AS mean,
          groupArrayIf(x, ${isOfFinite}) AS xs, groupArrayIf(c, ${isOfFinite}) AS cs, sumMapIf([bin], [c], bin >= 0) AS counted,
          quantilesExactWeightedIf(${quantileLevels.join(', ')})(x, c, ${isOfFinite}) AS quantiles
        FROM (
          SELECT ${windowIndex(windows)} AS w, ${inBin} AS bin, if(bin > ${infiniteBin}, ${x}, 0) AS x, sum(weight) AS c,
            min(least) AS low, max(most) AS high
          FROM ${values} WHERE NOT ${isMissing} GROUP BY w, bin, x)
        GROUP BY w)
      ORDER BY w`,
  )
  return {
    edges,
    windows: rows.map((row) => {
      const hasFinite = row.n !== '0'
      const [places, counts] = row.counted
      return {
        window: Number(row.w),
        values: Number(row.n) + Number(row.infinite),
        infinite: Number(row.infinite),
        otherTypes: Number(row.others),
        min: hasFinite ? toPlus(Number(row.min)) : null,
        max: hasFinite ? toPlus(Number(row.max)) : null,
        mean: hasFinite ? row.mean : null,
        std: hasFinite ? row.std : null,
        quantiles: hasFinite ? row.quantiles.map(toPlus) : [],
        counts: edges.slice(1).map((_, bin) => Number(counts[places.indexOf(bin)] ?? 0)),
        isExact,
      }
    }),
  }
}

/** 0 for -0, which is equal: which of them is the least, or the greatest, depends on the order of rows. */
const toPlus = (number: number) => number + 0

const isFiniteNumber = `${isNumber} AND isFinite(number)`

/** Outside the bounds, infinite, of another type. */
const [noBin, infiniteBin, otherBin] = [-1, -2, -3]
const isOfFinite = `bin > ${infiniteBin}`

type Row = { w: number; infinite: string; others: string; n: string; quantiles: number[] } & Record<
  'min' | 'max' | 'mean' | 'std',
  number | null
> & { counted: [bins: number[], counts: string[]] }

/** The minimum and maximum of all values. */
type Bounds = { least: number; most: number }

/** The bounds of bins of equal width. A single value is in the middle of one bin. */
function toEdges(bounds: Bounds | undefined, bins: number): number[] {
  if (!bounds) return []
  const { least: low, most: high } = bounds
  if (low === high) return [low - 0.5, high + 0.5]
  // `high - low` may overflow a float.
  const edges = Array.from({ length: bins + 1 }, (_, at) => low * (1 - at / bins) + high * (at / bins))
  edges[0] = low
  edges[bins] = high
  return edges.filter((it, at) => at === 0 || it > (edges[at - 1] as number))
}

/** The bin of a value. A value that rounding moved outside the bounds of all values is clamped. */
function toBin(edges: number[], all: Bounds | undefined): string {
  const value = all ? `greatest(least(least, ${literal(all.most)}), ${literal(all.least)})` : 'least'
  const last = edges.length - 1
  const bounds = edges.slice(1, last).map((it) => `(${value} >= ${literal(it)})`)
  return `if(${value} < ${literal(edges[0] as number)} OR ${value} > ${literal(edges[last] as number)}, ${noBin}, ${['0', ...bounds].join(' + ')})`
}

export type CategoricalWindow = {
  window: number
  values: number
  /** The count of each of the most frequent categories of all windows, in their order. */
  counts: number[]
  distinct: number
  isDistinctExact: boolean
}

/**
 * Reads the distribution of a categorical feature in each window: the counts of the most frequent categories of all windows.
 * The number of distinct ones is exact up to 100, and estimated beyond (an error of some 0.5%).
 */
export async function readCategorical(
  reader: EventReader,
  { scope, feature, windows }: Distributed,
  top: number,
): Promise<{ categories: string[]; windows: CategoricalWindow[] }> {
  const catalog = await reader.findCatalog(scope)
  const find = await reader.rolledFeatures(scope, catalog.rollups)
  const source = countedValues(inWindows(scope, windows), { part: feature.part, names: [feature.name] }, catalog, {
    windows,
    isUsable(it) {
      const its = find(it, feature)
      return its?.center === undefined && !its?.isHashed
    },
  })
  const most = await reader.read<{ category: string }>(
    [source],
    ([values = '']) => `SELECT category FROM ${countCategories(values, [])}
      GROUP BY category ORDER BY sum(c) DESC, category LIMIT ${top}`,
  )
  const categories = most.map((it) => it.category)
  const shown = categories.map(quote).join(', ')
  const place = categories.length === 0 ? '0' : `transform(category, [${shown}], range(1, ${categories.length + 1}), 0)`
  type Row = { w: number; n: string; counted: [places: number[], counts: string[]]; few: string; many: string }
  const rows = await reader.read<Row>(
    [source],
    ([values = '']) => `SELECT w, sum(c) AS n, sumMap([toUInt16(${place})], [c]) AS counted,
        uniqUpTo(100)(category) AS few, uniqCombined64(17)(category) AS many
      FROM ${countCategories(`(SELECT ${windowIndex(windows)} AS w, * FROM ${values})`, ['w'])} GROUP BY w ORDER BY w`,
  )
  return {
    categories,
    windows: rows.map((row) => {
      const isFew = Number(row.few) <= 100
      return {
        window: Number(row.w),
        values: Number(row.n),
        counts: categories.map((_, at) => Number(row.counted[1][row.counted[0].indexOf(at + 1)] ?? 0)),
        distinct: isFew ? Number(row.few) : Number(row.many),
        isDistinctExact: isFew,
      }
    }),
  }
}
