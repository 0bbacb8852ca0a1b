import {
  categoriesMax,
  countCategories,
  featureIndex,
  hashOf,
  isMissing,
  isNumber,
  literal,
  round,
  rounded,
  windowIndex,
} from '../expressions.ts'
import { countWindows, type Windows } from '../scope.ts'
import type { Profile } from './profiles.ts'

/**
 * The SQL that compares features. Both sides are read as rows with `f` (the index of the feature) and `side` (the window;
 * -1 for the reference), counted into cells of equal values, and each cell of the reference is repeated for each window. Then
 * the cells of a feature and window are counted by bin, and their distances measured. Measures of the counts alone are computed here
 * (`measures.ts`): ClickHouse would take longer to analyze them than to read some thousand values.
 */

/** How values are compared: numbers as they are or rounded around centers, categories as they are or by hash. */
type Form = { type: 'numeric'; isExact: boolean; centers: number[] } | { type: 'categorical'; hashes: boolean[] }

type Compared = {
  /** Features of one part and one type. */
  profiles: Profile[]
  form: Form
  windows: Windows
}

/** The bins of each feature in each window, and the distances of its numbers. @param tables values of both sides */
export function selectDrift(
  tables: { reference: string[]; current: string[] },
  { profiles, form, windows }: Compared,
): string {
  const f = featureIndex(profiles.map((it) => it.name))
  const select = (side: string) => (table: string) =>
    `SELECT ${f} AS f, ${side} AS side, type, number, text, weight, is_hashed FROM ${table}`
  const sides = [...tables.reference.map(select('toInt32(-1)')), ...tables.current.map(select(windowIndex(windows)))]
  const rows = `(${sides.join(' UNION ALL ')})`
  const cells = form.type === 'numeric' ? selectNumbers(rows, profiles, form) : selectCategories(rows, form.hashes)
  const spread = `SELECT f, arrayJoin(if(side = -1, range(toInt32(${countWindows(windows)})), [side])) AS w, * EXCEPT (f, side, c),
      if(side = -1, c, 0) AS rc, if(side = -1, 0, c) AS cc FROM (${cells})`
  const counted = form.type === 'numeric' ? countNumbers(spread, form.isExact) : countByCategory(spread, form.hashes)
  return `${counted} ORDER BY f, w`
}

/** The indexes of the features whose values have too many categories to count each. */
export function selectCrowded(tables: string[], profiles: Profile[]): string {
  const f = featureIndex(profiles.map((it) => it.name))
  const all = tables.map((table) => `SELECT ${f} AS f, text FROM ${table}`).join(' UNION ALL ')
  return `SELECT f FROM (${all}) GROUP BY f HAVING uniq(text) > ${categoriesMax}`
}

export const missingBin = -1
const otherBin = -2

/**
 * The numbers of both sides with their bins and counts; a number may have several rows. Rounded numbers are put into bins
 * after rounding: comparing each of millions with the bounds would take twice as long as all the rest.
 */
function selectNumbers(
  rows: string,
  profiles: Profile[],
  { isExact, centers }: { isExact: boolean; centers: number[] },
): string {
  const state = `multiIf(${isMissing}, ${missingBin}, NOT ${isNumber}, ${otherBin}, 0)`
  const edges = profiles.map((it, f) =>
    isExact ? it.edges : it.edges.map((edge) => round(edge, centers[f] as number)),
  )
  // The number of edges that are below x, and for a number that is a bin of its own half a step more.
  const isReached = edges.map((its, f) => (profiles[f]?.isDeciles ? [] : its))
  const bin = `toInt16(if(state < 0, state, arrayCount(it -> x > it, ${ofFeature(edges)}) + arrayCount(it -> x >= it, ${ofFeature(isReached)})))`
  const values = (x: string) =>
    `SELECT f, side, toInt8(${state}) AS state, if(${isNumber}, ${x}, 0) AS x, weight FROM ${rows}`
  if (isExact) return `SELECT f, side, ${bin} AS bin, x, weight AS c FROM (${values('number')})`
  // A number that is rounded already stays the same; earlier versions rounded more finely.
  const x = `if(isFinite(number), ${rounded(centers.length === 1 ? literal(centers[0] as number) : `[${centers.map(literal)}][f + 1]`)}, number)`
  return `SELECT f, side, ${bin} AS bin, x, c
    FROM (SELECT f, side, state, x, sum(weight) AS c FROM (${values(x)}) GROUP BY f, side, state, x)`
}

/** The array that belongs to a row's feature. */
const ofFeature = (numbers: number[][]) =>
  numbers.length === 1
    ? `[${numbers[0]?.map(literal)}]::Array(Float64)`
    : `CAST([${numbers.map((its) => `[${its.map(literal)}]`)}] AS Array(Array(Float64)))[f + 1]`

function selectCategories(rows: string, hashes: boolean[]): string {
  const x = `if([${hashes}][f + 1] AND NOT is_hashed, ${hashOf('category')}, category)`
  return `SELECT f, side, ${x} AS x, sum(c) AS c FROM ${countCategories(rows, ['f', 'side'])} GROUP BY f, side, x`
}

/**
 * Counts by bin, and the distance of the two distribution functions from one number to the next: the greatest one, and the
 * area between them. Numbers are sorted bin by bin; the reference counts up, the window down.
 */
function countNumbers(cells: string, isExact: boolean): string {
  const finite = 'bin >= 0 AND isFinite(x)'
  const ofBins = `SELECT f, w, bin, sum(rc) AS rs, sum(cc) AS cs, sumIf(rc, ${finite}) AS rf, sumIf(cc, ${finite}) AS cf,
      sumIf(cc, bin >= 0 AND isInfinite(x)) AS infinite, groupArrayIf(x, ${finite}) AS xs,
      groupArrayIf(toInt64(rc) - toInt64(cc), ${finite}) AS ss
    FROM (${cells}) GROUP BY f, w, bin`
  const ofWindows = `SELECT f, w, arraySort(groupArray((bin, rs, cs, arraySort(xs), arraySort((s, x) -> x, ss, xs)))) AS binned,
      sumIf(cs, bin = ${otherBin}) AS others, sum(infinite) AS infinite, sum(rf) AS rn, sum(cf) AS cn
    FROM (${ofBins}) GROUP BY f, w`
  const ordered = inSteps(ofWindows, [
    'binned.1 AS keys, binned.2 AS rb, binned.3 AS cb, arrayFlatten(binned.4) AS xs, arrayFlatten(binned.5) AS ss',
    'arrayPopFront(arrayDifference(xs)) AS gaps, arrayPopBack(arrayCumSum(s -> s * if(s > 0, toFloat64(cn), toFloat64(rn)), ss)) AS ahead',
  ])
  return `SELECT f, w, keys, rb, cb, others, infinite, rn, cn, ${isExact} AS isExact,
      arrayMax((d, gap) -> if(gap > 0, abs(d), 0), ahead, gaps) / rn / cn AS ks,
      arraySum((d, gap) -> abs(d) * gap, ahead, gaps) / rn / cn AS distance
    FROM (${ordered})`
}

function countByCategory(cells: string, hashes: boolean[]): string {
  return `SELECT f, w, emptyArrayInt16() AS keys, groupArray(rc) AS rb, groupArray(cc) AS cb, 0 AS others, 0 AS infinite,
      arraySum(rb) AS rn, arraySum(cb) AS cn, NOT [${hashes}][f + 1] AS isExact, nan AS ks, nan AS distance
    FROM (SELECT f, w, x, sum(rc) AS rc, sum(cc) AS cc FROM (${cells}) GROUP BY f, w, x) GROUP BY f, w`
}

/** Adds columns step by step, each in a subquery: ClickHouse would repeat the expression of an alias wherever it is used. */
const inSteps = (query: string, steps: string[]) =>
  steps.reduce((from, columns) => `SELECT *, ${columns} FROM (${from})`, query)
