import type { ClickHouse } from '../connection.ts'
import { openSide } from './drift-sides.ts'
import {
  categoriesMax,
  type FeatureType,
  gatherCategories,
  hashOfCategory,
  isMissing,
  isNumber,
  literal,
  round,
  rounded,
  toFeatureType,
} from './features.ts'
import type { Profile } from './profile.ts'
import { readLasting, readOnce, type Source } from './read-once.ts'
import {
  countWindows,
  type EventScope,
  type FeatureNames,
  findGround,
  type Ground,
  placeOf,
  toCountedValues,
  type Windows,
  windowOf,
} from './scope.ts'

/**
 * How far the values of a feature in a window are from those of a reference. All of it is computed in ClickHouse, over counts
 * of values, or of categories, of both sides.
 *
 * Bins are made of the reference alone and are the same for every window: its deciles, with the outer ones open; or, when it
 * has few different numbers, each of them and the gaps between them. Missing values are a bin of their own, and so are those
 * of another type. They stay the same as long as the reference does; whoever adds to it moves them.
 */

/** Fewer different numbers than this are bins of their own. It is what evidently goes by, too. */
const ownBinsMax = 20
/** With more values than this on both sides, they are rounded before they are sorted. */
export const exactValuesMax = 250_000

export type Reference = { scope: EventScope; events: number }

/** Looks at some features of a reference. */
export async function findProfiles(
  clickhouse: ClickHouse,
  { scope, events }: Reference,
  { part, names }: FeatureNames,
): Promise<Profile[]> {
  const { voided } = await findGround(clickhouse, scope)
  const atOnce = Math.max(1, Math.min(50, Math.floor(20_000_000 / Math.max(1, events))))
  const profiles: Profile[] = []
  for (let at = 0; at < names.length; at += atOnce) {
    const some = names.slice(at, at + atOnce)
    const finite = `${isNumber} AND isFinite(number)`
    const read = voided === '' ? readLasting : readOnce
    const rows = await read<ProfileRow>(
      clickhouse,
      [toCountedValues(clickhouse, scope, { part, names: some }, { voided, rollups: [] })],
      ([values]) => `SELECT ${placeOf(some)} AS f, countIf(${isNumber}) AS numbers,
          countIf(NOT ${isMissing} AND NOT ${isNumber}) AS others,
          arraySort(groupUniqArrayIf(${ownBinsMax + 1})(number, ${finite})) AS different,
          quantilesExactIf(0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)(number, ${finite}) AS tenths,
          arrayDistinct(tenths) AS deciles, tenths[5] AS median, stddevPopStableIf(number, ${finite}) AS deviation,
          uniqIf(text, type = 4) AS categories FROM ${values} GROUP BY f`,
    )
    const found = new Map(rows.map((it) => [Number(it.f), it]))
    for (const [f, name] of some.entries()) {
      const row = found.get(f)
      const [numbers, others] = [Number(row?.numbers ?? 0), Number(row?.others ?? 0)]
      const different = row?.different ?? []
      const isDeciles = different.length > ownBinsMax
      profiles.push({
        ...{ part, name },
        type: toFeatureType({ numbers, categories: others }),
        values: numbers + others,
        isDeciles,
        edges: isDeciles ? (row?.deciles ?? []) : different,
        median: row?.median ?? 0,
        deviation: row?.deviation ?? 0,
        categories: Number(row?.categories ?? 0),
      })
    }
  }
  return profiles
}

type ProfileRow = {
  f: string
  numbers: string
  others: string
  different: number[]
  deciles: number[]
  median: number | null
  deviation: number | null
  categories: string
}

/** One feature in one window, beside the reference. What cannot be computed is null. */
export type Drift = {
  window: number
  /** Values of the feature's own type: finite numbers, or categories. */
  referenceValues: number
  values: number
  referenceMissing: number
  missing: number
  /** Values of another type than the reference has, and infinities. */
  otherTypes: number
  infinite: number
  psi: number | null
  jensenShannon: number | null
  kolmogorovSmirnov: number | null
  wasserstein: number | null
  /** Whether each value was compared, or what it was rounded to. */
  isExact: boolean
  bins: Bin[]
}

/** The bounds of a bin, `from` left out and `to` within, or both the same; null where it is open. */
type Bin = { from: number | null; to: number | null; reference: number; current: number }

export type Comparison = {
  reference: Reference
  current: EventScope
  windows: Windows
  /** Events of each window. */
  events: number[]
}

/** Compares some features, each in every window. */
export async function measureDrift(
  clickhouse: ClickHouse,
  comparison: Comparison,
  profiles: Profile[],
): Promise<Map<Profile, Drift[]>> {
  const { reference, current } = comparison
  const [refGround, ground] = await Promise.all([
    findGround(clickhouse, reference.scope),
    findGround(clickhouse, current),
  ])
  const atOnce = Math.max(1, Math.min(featuresMax, Math.floor(cellsMax / countCells(comparison))))
  const batches = (['numeric', 'categorical'] as const).flatMap((type) => {
    const ofType = profiles.filter((it) => it.type === type)
    return Array.from({ length: Math.ceil(ofType.length / atOnce) }, (_, nth) => ({
      type,
      some: ofType.slice(nth * atOnce, (nth + 1) * atOnce),
    }))
  })
  const found = new Map<Profile, Drift[]>(profiles.map((it) => [it, []]))
  await runInPairs(batches, async ({ type, some }) => {
    const rows = await compare(clickhouse, { ...comparison, refGround, ground }, some, type)
    for (const { f, ...row } of rows) {
      const profile = some[Number(f)] as Profile
      found.get(profile)?.push(toDrift(row, profile))
    }
  })
  return found
}

/** Runs something for each item, two at a time. */
async function runInPairs<Item>(items: Item[], run: (item: Item) => Promise<void>): Promise<void> {
  const left = items.values()
  const lane = async () => {
    for (const item of left) await run(item)
  }
  await Promise.all([lane(), lane()])
}

/** So many features are compared by one query, and so many values, or what they were rounded to. */
const featuresMax = 50
const cellsMax = 6_000_000
/** Many values that were rounded are about so many different ones. */
const roundedCells = 15_000

/** How many different values a feature may have, on both sides and in all windows. */
function countCells({ reference, events }: Comparison): number {
  const sides = events.flatMap((it) => [reference.events, it])
  const most = isExactly({ reference, events }) ? exactValuesMax : roundedCells
  return Math.max(
    1,
    sides.reduce((sum, it) => sum + Math.min(it, most), 0),
  )
}

/** Whether there are few enough values to compare each. */
const isExactly = ({ reference, events }: Pick<Comparison, 'reference' | 'events'>) =>
  events.reduce((sum, it) => sum + reference.events + it, 0) <= exactValuesMax

type DriftRow = {
  f: string
  w: number
  keys: number[]
  rb: string[]
  cb: string[]
  refMissing: string
  missing: string
  psi: number | null
  js: number | null
  ks: number | null
  wasserstein: number | null
  isExact: number
  rn: string
  cn: string
  infinite: string
  others: string
}

type Grounded = Comparison & { refGround: Ground; ground: Ground }

async function compare(clickhouse: ClickHouse, comparison: Grounded, profiles: Profile[], type: FeatureType) {
  const { reference, current, windows, events, refGround, ground } = comparison
  const scope = { ...current, from: windows.from, to: windows.to }
  const all = events.reduce((sum, it) => sum + it, 0)
  const isExact = isExactly(comparison)
  const sides = await Promise.all([
    openSide(clickhouse, { scope: reference.scope, ground: refGround, profiles, type, isExact }),
    openSide(clickhouse, { scope, ground, profiles, type, isExact, windows }),
  ])
  const [ofReference, ofCurrent] = sides
  const centers = profiles.map((it, f) => ofCurrent.centers[f] ?? ofReference.centers[f] ?? it.median)
  const [refSources, curSources] = [ofReference.toSources(centers), ofCurrent.toSources(centers)]
  const place = placeOf(profiles.map((it) => it.name))
  const crowded =
    type === 'categorical' && all > categoriesMax ? await findCrowded(clickhouse, curSources, place) : new Set()
  const hashes = profiles.map(
    (it, f) => it.categories > categoriesMax || crowded.has(f) || sides.some((side) => side.areHashed[f]),
  )
  return await readOnce<DriftRow>(clickhouse, [...refSources, ...curSources], (tables) => {
    const rows = tables.map((table, at) => {
      const side = at < refSources.length ? 'toInt32(-1)' : windowOf(windows)
      return `SELECT ${place} AS f, ${side} AS side, type, number, text, weight, is_hashed FROM ${table}`
    })
    const all = `(${rows.join(' UNION ALL ')})`
    const cells = type === 'numeric' ? selectCells(all, profiles, { isExact, centers }) : selectCategories(all, hashes)
    const spread = `SELECT f, arrayJoin(if(side = -1, range(toInt32(${countWindows(windows)})), [side])) AS w, * EXCEPT (f, side, c),
        if(side = -1, c, 0) AS rc, if(side = -1, 0, c) AS cc FROM (${cells})`
    const counted = type === 'numeric' ? countNumbers(spread, isExact) : countCategories(spread, hashes)
    return selectMeasures(counted, comparison, profiles)
  })
}

/** The features whose current values have too many categories to count each. */
async function findCrowded(clickhouse: ClickHouse, sources: Source[], place: string): Promise<Set<number>> {
  const rows = await readOnce<{ f: number }>(clickhouse, sources, (tables) => {
    const all = tables.map((table) => `SELECT ${place} AS f, text FROM ${table}`).join(' UNION ALL ')
    return `SELECT f FROM (${all}) GROUP BY f HAVING uniq(text) > ${categoriesMax}`
  })
  return new Set(rows.map((it) => Number(it.f)))
}

const missingBin = -1
const otherBin = -2

/**
 * The values of both sides with their bins and how many there are of each, perhaps in more than one row. Where values are
 * rounded, bins are found for what they were rounded to: looking at the bounds for each of millions of values would take
 * twice as long as all the rest.
 */
function selectCells(
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
  // What was rounded stays as it is, but for what an earlier version rounded more finely.
  const x = `if(isFinite(number), ${rounded(centers.length === 1 ? literal(centers[0] as number) : `[${centers.map(literal)}][f + 1]`)}, number)`
  return `SELECT f, side, ${bin} AS bin, x, c
    FROM (SELECT f, side, state, x, sum(weight) AS c FROM (${values(x)}) GROUP BY f, side, state, x)`
}

/** The numbers of a row's feature. */
const ofFeature = (numbers: number[][]) =>
  numbers.length === 1
    ? `[${numbers[0]?.map(literal)}]::Array(Float64)`
    : `CAST([${numbers.map((its) => `[${its.map(literal)}]`)}] AS Array(Array(Float64)))[f + 1]`

function selectCategories(rows: string, hashes: boolean[]): string {
  const x = `if([${hashes}][f + 1] AND NOT is_hashed, ${hashOfCategory}, category)`
  return `SELECT f, side, ${x} AS x, sum(c) AS c FROM ${gatherCategories(rows, ['f', 'side'])} GROUP BY f, side, x`
}

/**
 * How far the distribution functions of both sides are apart, from one value to the next. Values are put in order bin by
 * bin; those of the reference count up, those of the window down.
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

function countCategories(cells: string, hashes: boolean[]): string {
  return `SELECT f, w, emptyArrayInt16() AS keys, groupArray(rc) AS rb, groupArray(cc) AS cb, 0 AS others, 0 AS infinite,
      arraySum(rb) AS rn, arraySum(cb) AS cn, NOT [${hashes}][f + 1] AS isExact, nan AS ks, nan AS distance
    FROM (SELECT f, w, x, sum(rc) AS rc, sum(cc) AS cc FROM (${cells}) GROUP BY f, w, x) GROUP BY f, w`
}

/**
 * The measures out of counts: PSI and Jensen-Shannon over the shares of bins, with the missing values as one more; what is
 * empty on both sides is none.
 */
function selectMeasures(counted: string, { reference, events }: Comparison, profiles: Profile[]): string {
  const norms = profiles.map((it) => literal(Math.max(it.deviation, deviationMin)))
  const least = (shares: string) => `arrayMin(arrayFilter(it -> it > 0, ${shares}))`
  const filled = (shares: string, least: string) =>
    `arrayMap(it -> if(it > 0, it, if(${least} <= 0.0001, ${least} / 1e6, 0.0001)), ${shares})`
  // Missing values are those of rows that say so and events without a row.
  const told = (bins: string) => `arrayMap((k, it) -> if(k = ${missingBin}, 0, toInt64(it)), ks0, ${bins})`
  const lost = (told: string, total: string) => `greatest(toInt64(${total}) - arraySum(${told}), 0)`
  return `SELECT f, w, keys, rb, cb, toString(refLost) AS refMissing, toString(lost) AS missing,
      if(rt = 0 OR ct = 0, nan, arraySum((a, b) -> (a - b) * log(a / b), pf, qf)) AS psi,
      if(rt = 0 OR ct = 0, nan, sqrt(greatest(arraySum((a, b) ->
        if(a > 0, a * log(2 * a / (a + b)), 0) + if(b > 0, b * log(2 * b / (a + b)), 0), p, q), 0) / 2)) AS js,
      if(rn = 0 OR cn = 0, nan, ks) AS ks, if(rn = 0 OR cn = 0, nan, distance / [${norms}][f + 1]) AS wasserstein,
      isExact, rn, cn, infinite, others
    FROM (${inSteps(counted, [
      'if(empty(keys), arrayResize([toInt16(0)], length(rb), toInt16(0)), keys) AS ks0',
      `${told('rb')} AS toldReference, ${told('cb')} AS toldCurrent`,
      `${lost('toldReference', String(reference.events))} AS refLost, ${lost('toldCurrent', `[${events}][w + 1]`)} AS lost`,
      'arrayPushBack(toldReference, refLost) AS r0, arrayPushBack(toldCurrent, lost) AS c0',
      'arrayFilter((a, b) -> a + b > 0, r0, c0) AS r, arrayFilter((b, a) -> a + b > 0, c0, r0) AS c',
      'arraySum(r) AS rt, arraySum(c) AS ct',
      'arrayMap(it -> it / rt, r) AS p, arrayMap(it -> it / ct, c) AS q',
      `${least('p')} AS pMin, ${least('q')} AS qMin`,
      `${filled('p', 'pMin')} AS pf, ${filled('q', 'qMin')} AS qf`,
    ])})
    ORDER BY f, w`
}

/** Adds columns to a query, those of one step after those that they are made of: a name is put in wherever it is used. */
const inSteps = (query: string, steps: string[]) =>
  steps.reduce((from, columns) => `SELECT *, ${columns} FROM (${from})`, query)

/** A reference that hardly deviates would make any distance large. As evidently has it. */
const deviationMin = 0.001

function toDrift(row: Omit<DriftRow, 'f'>, { edges, isDeciles }: Profile): Drift {
  const bins = row.keys.map((key, at) => ({
    ...toBounds(Number(key), edges, isDeciles),
    key: Number(key),
    reference: Number(row.rb[at]),
    current: Number(row.cb[at]),
  }))
  return {
    window: Number(row.w),
    referenceValues: Number(row.rn),
    values: Number(row.cn),
    referenceMissing: Number(row.refMissing),
    missing: Number(row.missing),
    otherTypes: Number(row.others),
    infinite: Number(row.infinite),
    psi: row.psi,
    jensenShannon: row.js,
    kolmogorovSmirnov: row.ks,
    wasserstein: row.wasserstein,
    isExact: Boolean(row.isExact),
    bins: bins.filter((it) => it.key >= 0).map(({ key: _, ...bin }) => bin),
  }
}

function toBounds(key: number, edges: number[], isDeciles: boolean) {
  if (isDeciles) return { from: edges[key - 1] ?? null, to: edges[key] ?? null }
  // Even ones are gaps between numbers, odd ones the numbers themselves.
  const at = (key - 1) / 2
  return { from: edges[Math.floor(at)] ?? null, to: edges[Math.ceil(at)] ?? null }
}
