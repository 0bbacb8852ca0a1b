import type { ClickHouse } from './connection.ts'
import { exactValuesMax } from './drift-reads.ts'
import {
  countWindows,
  type EventScope,
  type FeatureName,
  findGround,
  quote,
  toCountedValues,
  type Windows,
  windowOf,
} from './event-scope.ts'
import { gatherCategories, isMissing, isNumber, literal, rounded } from './feature-reads.ts'
import { eventKinds, valueParts } from './monitoring-tables.ts'
import { readOnce, type Source } from './read-once.ts'
import { findRolledFeatures, toFeatureKey } from './rollups.ts'

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
  distributed: Distributed,
  bins: number[] | number,
): Promise<{ edges: number[]; windows: NumericWindow[] }> {
  const { scope, feature, windows, events } = distributed
  const ground = await findGround(clickhouse, scope)
  const isExact = events <= exactValuesMax
  const source = toCountedValues(clickhouse, { ...scope, from: windows.from, to: windows.to }, feature, ground, {
    windows,
    isWanted: () => !isExact,
  })
  const inWindow = windowOf(windows)
  const sums = await readOnce<Sum>(
    clickhouse,
    [source],
    ([values]) => `SELECT ${inWindow} AS w, sumIf(weight, ${isNumber}) AS n,
        sumIf(weight, ${isNumber} AND isInfinite(number)) AS infinite, sumIf(weight, NOT ${isNumber}) AS others,
        minIf(least, ${isFinite}) AS min, maxIf(most, ${isFinite}) AS max,
        sumIf(number * weight, ${isFinite}) / sumIf(weight, ${isFinite}) AS mean
      FROM ${values} WHERE NOT ${isMissing} GROUP BY w ORDER BY w`,
  )
  const finiteSums = sums.filter(hasFinite)
  const edges = typeof bins === 'number' ? toEdges(finiteSums, bins) : bins
  const shapes = await readShapes(clickhouse, { source, inWindow, isExact, edges, sums: finiteSums })
  return {
    edges,
    windows: sums.map((sum) => {
      const shape = shapes.get(sum.w)
      return {
        window: Number(sum.w),
        values: Number(sum.n),
        infinite: Number(sum.infinite),
        otherTypes: Number(sum.others),
        min: shape ? sum.min : null,
        max: shape ? sum.max : null,
        mean: shape ? sum.mean : null,
        std: shape?.std ?? null,
        quantiles: shape?.quantiles ?? [],
        counts: edges.slice(1).map((_, bin) => shape?.counts.get(bin) ?? 0),
        isExact,
      }
    }),
  }
}

const isFinite = `${isNumber} AND isFinite(number)`

type Sum = { w: number; n: string; infinite: string; others: string } & Record<'min' | 'max' | 'mean', number | null>

type Shape = { std: number; quantiles: number[]; counts: Map<number, number> }

/**
 * How the finite values of each window lie: of the values themselves, or rounded; those of rollups were, around a centre of
 * theirs, and lie in the bin of the least of those that became one. No value is moved beyond the bounds of its window.
 */
async function readShapes(
  clickhouse: ClickHouse,
  {
    source,
    inWindow,
    isExact,
    edges,
    sums,
  }: { source: Source; inWindow: string; isExact: boolean; edges: number[]; sums: Sum[] },
): Promise<Map<number, Shape>> {
  if (sums.length === 0) return new Map()
  const x = isExact ? 'number' : `if(is_rounded, number, ${rounded(sums[0]?.mean ?? 0)})`
  const ofWindow = (name: 'min' | 'max' | 'mean') =>
    `transform(w, [${sums.map((it) => it.w)}]::Array(Int32), [${sums.map((it) => literal(it[name] as number))}], toFloat64(0))`
  const rows = await readOnce<{
    w: number
    std: number
    quantiles: number[]
    counted: [bins: number[], counts: string[]]
  }>(
    clickhouse,
    [source],
    ([
      values,
    ]) => `SELECT w, sqrt(sum(c * pow(x - ${ofWindow('mean')}, 2)) / sum(c)) AS std, sumMap([bin], [c]) AS counted,
        quantilesExactWeighted(${quantileLevels.join(', ')})(greatest(least(x, ${ofWindow('max')}), ${ofWindow('min')}), c) AS quantiles
      FROM (
        SELECT ${inWindow} AS w, toInt16(${edges.length === 0 ? '-1' : toBin(edges)}) AS bin, ${x} AS x, sum(weight) AS c
        FROM ${values} WHERE ${isFinite} GROUP BY w, bin, x)
      GROUP BY w`,
  )
  return new Map(
    rows.map(({ w, std, quantiles, counted: [bins, counts] }) => [
      w,
      { std, quantiles, counts: new Map(bins.map((bin, at) => [bin, Number(counts[at])])) },
    ]),
  )
}

const hasFinite = ({ n, infinite }: Sum) => Number(n) > Number(infinite)

/** Bounds of bins of one width; one value alone is in the middle of its bin. */
function toEdges(sums: Sum[], bins: number): number[] {
  if (sums.length === 0) return []
  const low = Math.min(...sums.map((it) => it.min as number))
  const high = Math.max(...sums.map((it) => it.max as number))
  if (low === high) return [low - 0.5, high + 0.5]
  // Not by their difference, which may be beyond the range of a float.
  const edges = Array.from({ length: bins + 1 }, (_, at) => low * (1 - at / bins) + high * (at / bins))
  edges[0] = low
  edges[bins] = high
  return edges.filter((it, at) => at === 0 || it > (edges[at - 1] as number))
}

/** The number of the bin of the least of the values of a row, or -1. */
function toBin(edges: number[]): string {
  const last = edges.length - 1
  const bounds = edges.slice(1, last).map((it) => `(least >= ${literal(it)})`)
  return `if(least < ${literal(edges[0] as number)} OR least > ${literal(edges[last] as number)}, -1, ${['0', ...bounds].join(' + ')})`
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
  const ground = await findGround(clickhouse, scope)
  const kind = { modelId: scope.modelId, kind: eventKinds[scope.kind] }
  const held = await findRolledFeatures(clickhouse, kind, ground.rollups)
  const ofTime = { ...scope, from: windows.from, to: windows.to }
  const source = toCountedValues(clickhouse, ofTime, feature, ground, {
    windows,
    isWanted(it) {
      const its = held.get(it)?.get(toFeatureKey(valueParts[feature.part], feature.name))
      return its?.center === undefined && !its?.isHashed
    },
  })
  const most = await readOnce<{ category: string }>(
    clickhouse,
    [source],
    ([values = '']) => `SELECT category FROM ${gatherCategories(values, '0')}
      GROUP BY category ORDER BY sum(c) DESC, category LIMIT ${top}`,
  )
  const categories = most.map((it) => it.category)
  const shown = categories.map(quote).join(', ')
  const place = categories.length === 0 ? '0' : `transform(category, [${shown}], range(1, ${categories.length + 1}), 0)`
  type Row = { w: number; n: string; counted: [places: number[], counts: string[]]; few: string; many: string }
  const rows = await readOnce<Row>(
    clickhouse,
    [source],
    ([values = '']) => `SELECT by AS w, sum(c) AS n, sumMap([toUInt16(${place})], [c]) AS counted,
        uniqUpTo(100)(category) AS few, uniqCombined64(17)(category) AS many
      FROM ${gatherCategories(values, windowOf(windows))} GROUP BY w ORDER BY w`,
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
