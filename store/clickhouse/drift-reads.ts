import type { ClickHouse } from './connection.ts'
import {
  countWindows,
  type EventScope,
  type FeatureName,
  findGround,
  type Ground,
  toCountedValues,
  type Windows,
  windowOf,
} from './event-scope.ts'
import {
  categoriesMax,
  type FeatureType,
  gatherCategories,
  hashOfCategory,
  isMissing,
  isNumber,
  literal,
  rounded,
  toFeatureType,
} from './feature-reads.ts'
import { eventKinds, valueParts } from './monitoring-tables.ts'
import { readLasting, readOnce, type Source } from './read-once.ts'
import { findRolledFeatures, type Rollup, toFeatureKey } from './rollups.ts'

/**
 * How far the values of a feature in a window are from those of a reference. All of it is computed in ClickHouse, over counts
 * of values, or of categories, of both sides.
 *
 * Bins are made of the reference alone and are the same for every window: its deciles, with the outer ones open; or, when it
 * has few different numbers, each of them and the gaps between them. Missing values are a bin of their own, and so are those
 * of another type. They stay the same as long as the reference does; whoever adds to it moves them.
 */

/** A feature of the reference: what its bins are made of. */
export type Profile = FeatureName & {
  type: FeatureType
  /** Values that are not missing. */
  values: number
  isDeciles: boolean
  /** Bounds of bins, ascending. */
  edges: number[]
  /** Half of the finite values are below, and what they deviate by. */
  median: number
  deviation: number
  categories: number
}

/** Fewer different numbers than this are bins of their own. It is what evidently goes by, too. */
const ownBinsMax = 20
/** With more values than this on both sides, they are rounded before they are sorted. */
export const exactValuesMax = 250_000

export type Reference = { scope: EventScope; events: number }

/** Looks at some features of a reference. */
export async function findProfiles(
  clickhouse: ClickHouse,
  { scope, events }: Reference,
  names: FeatureName[],
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
      some.map((it) => toCountedValues(clickhouse, scope, it, { voided, rollups: [] })),
      (tables) =>
        tables
          .map(
            (
              table,
              f,
            ) => `SELECT ${f} AS f, countIf(${isNumber}) AS numbers, countIf(NOT ${isMissing} AND NOT ${isNumber}) AS others,
              arraySort(groupUniqArrayIf(${ownBinsMax + 1})(number, ${finite})) AS different,
              quantilesExactIf(0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)(number, ${finite}) AS tenths,
              arrayDistinct(tenths) AS deciles, tenths[5] AS median, stddevPopStableIf(number, ${finite}) AS deviation,
              uniqIf(text, type = 4) AS categories FROM ${table}`,
          )
          .join(' UNION ALL '),
    )
    for (const row of rows.toSorted((a, b) => Number(a.f) - Number(b.f))) {
      const [numbers, others] = [Number(row.numbers), Number(row.others)]
      const isDeciles = row.different.length > ownBinsMax
      profiles.push({
        ...(some[Number(row.f)] as FeatureName),
        type: toFeatureType({ numbers, categories: others }),
        values: numbers + others,
        isDeciles,
        edges: isDeciles ? row.deciles : row.different,
        median: row.median ?? 0,
        deviation: row.deviation ?? 0,
        categories: Number(row.categories),
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
  const found = new Map<Profile, Drift[]>(profiles.map((it) => [it, []]))
  for (const type of ['numeric', 'categorical'] as const) {
    const ofType = profiles.filter((it) => it.type === type)
    const atOnce = Math.max(1, Math.min(25, Math.floor(cellsMax / countCells(comparison))))
    // Some steps of a query are done by one thread.
    const each = Math.max(1, Math.min(atOnce, Math.ceil(ofType.length / 2)))
    const batches = Array.from({ length: Math.ceil(ofType.length / each) }, (_, nth) =>
      ofType.slice(nth * each, (nth + 1) * each),
    )
    await runInPairs(batches, async (some) => {
      const rows = await compare(clickhouse, comparison, some, type)
      for (const { f, ...row } of rows) {
        const profile = some[Number(f)] as Profile
        found.get(profile)?.push(toDrift(row, profile))
      }
    })
  }
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

/** So many values, or what they were rounded to, are compared by one query. */
const cellsMax = 6_000_000
/** Many values that were rounded are about so many different ones. */
const roundedCells = 30_000

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

async function compare(clickhouse: ClickHouse, comparison: Comparison, profiles: Profile[], type: FeatureType) {
  const { reference, current, windows, events } = comparison
  const scope = { ...current, from: windows.from, to: windows.to }
  const [refGround, ground] = await Promise.all([
    findGround(clickhouse, reference.scope),
    findGround(clickhouse, current),
  ])
  const all = events.reduce((sum, it) => sum + it, 0)
  const isExact = isExactly(comparison)
  const sides = await Promise.all([
    toRolledSide(clickhouse, { scope: reference.scope, ground: refGround, profiles, type, isExact }),
    toRolledSide(clickhouse, { scope, ground, profiles, type, isExact, windows }),
  ])
  const centers = profiles.map((it, f) => sides[1][f]?.center ?? sides[0][f]?.center ?? it.median)
  const [refSources, curSources] = sides.map((side) => side.map((it, f) => it.toSource(centers[f] as number)))
  const sources = profiles.flatMap((_, f) => [refSources?.[f] as Source, curSources?.[f] as Source])
  const crowded =
    type === 'categorical' && all > categoriesMax ? await findCrowded(clickhouse, curSources as Source[]) : []
  const hashes = profiles.map(
    (it, f) => it.categories > categoriesMax || crowded[f] === true || sides.some((side) => side[f]?.isHashed),
  )
  return await readOnce<DriftRow>(clickhouse, sources, (tables) => {
    const cells = profiles.flatMap((profile, f) => {
      const select = (table = '', side = '') =>
        type === 'numeric'
          ? `SELECT ${f} AS f, * FROM (${selectCells(profile, { isExact, center: centers[f] as number, side, table })})`
          : `SELECT ${f} AS f, by AS side, ${toCategory(hashes[f] === true)} AS x, sum(c) AS c
             FROM ${gatherCategories(table, side)} GROUP BY side, x`
      return [select(tables[2 * f], 'toInt32(-1)'), select(tables[2 * f + 1], windowOf(windows))]
    })
    const spread = `SELECT f, arrayJoin(if(side = -1, range(toInt32(${countWindows(windows)})), [side])) AS w, * EXCEPT (f, side, c),
        if(side = -1, c, 0) AS rc, if(side = -1, 0, c) AS cc FROM (${cells.join(' UNION ALL ')})`
    const counted = type === 'numeric' ? countNumbers(spread, isExact) : countCategories(spread, hashes)
    return selectMeasures(counted, comparison, profiles)
  })
}

/** Whether the current values of features have too many categories to count each. */
async function findCrowded(clickhouse: ClickHouse, sources: Source[]): Promise<boolean[]> {
  const rows = await readOnce<{ f: string; categories: string }>(clickhouse, sources, (tables) =>
    tables.map((table, f) => `SELECT ${f} AS f, uniq(text) AS categories FROM ${table}`).join(' UNION ALL '),
  )
  const crowded = sources.map(() => false)
  for (const { f, categories } of rows) crowded[Number(f)] = Number(categories) > categoriesMax
  return crowded
}

type RolledSide = {
  scope: EventScope
  ground: Ground
  profiles: Profile[]
  type: FeatureType
  isExact: boolean
  windows?: Windows
}

/**
 * For each feature what it is read from, by rollups as far as they hold it as it is compared: numbers that were rounded
 * take the place of such that would be, around one centre; hashes that of categories that would be hashed.
 */
async function toRolledSide(
  clickhouse: ClickHouse,
  { scope, ground, profiles, type, isExact, windows }: RolledSide,
): Promise<{ center: number | undefined; isHashed: boolean; toSource(center: number): Source }[]> {
  const kind = { modelId: scope.modelId, kind: eventKinds[scope.kind] }
  const held = await findRolledFeatures(clickhouse, kind, ground.rollups)
  return profiles.map((profile) => {
    const feature = (it: Rollup) => held.get(it)?.get(toFeatureKey(valueParts[profile.part], profile.name))
    // The widest rollup has most of the values.
    const widest = ground.rollups
      .filter((it) => feature(it)?.center !== undefined)
      .reduce<Rollup | undefined>(
        (most, it) => (most && most.high - most.low >= it.high - it.low ? most : it),
        undefined,
      )
    const { version, from = -Infinity, to = Infinity } = scope
    // A rollup has hashes for having too many categories; as long as all of it is asked for, so has what is asked for.
    const isHashed =
      type === 'categorical' &&
      version === undefined &&
      ground.rollups.some((it) => feature(it)?.isHashed && it.first >= from && it.last < to)
    return {
      center: type === 'numeric' && !isExact && widest ? feature(widest)?.center : undefined,
      isHashed,
      toSource: (center) =>
        toCountedValues(clickhouse, scope, profile, ground, {
          windows,
          isWanted(it) {
            const { center: its, isHashed: hasHashes } = feature(it) ?? {}
            if (type === 'numeric') return its === undefined || (!isExact && its === center)
            return its === undefined && (!hasHashes || isHashed || profile.categories > categoriesMax)
          },
        }),
    }
  })
}

const missingBin = -1
const otherBin = -2

/**
 * The values of one side with their bins and how many there are of each, perhaps in more than one row. Where values are
 * rounded, bins are found for what they were rounded to: looking at the bounds for each of millions of values would take
 * twice as long as all the rest.
 */
function selectCells(
  profile: Profile,
  { isExact, center, side, table }: { isExact: boolean; center: number; side: string; table: string },
): string {
  const state = `multiIf(${isMissing}, ${missingBin}, NOT ${isNumber}, ${otherBin}, 0)`
  const bound = (it: number) => (isExact ? literal(it) : roundedLiteral(it, center))
  const bin = `if(state < 0, toInt16(state), ${toBin(profile, bound)}) AS bin`
  const values = (x: string) =>
    `SELECT ${side} AS side, toInt8(${state}) AS state, if(${isNumber}, ${x}, 0) AS x, weight FROM ${table}`
  if (isExact) return `SELECT side, ${bin}, x, weight AS c FROM (${values('number')})`
  // What was rounded stays as it is, but for what an earlier version rounded more finely.
  const x = `if(isFinite(number), ${rounded(center)}, number)`
  return `SELECT side, ${bin}, x, c FROM (SELECT side, state, x, sum(weight) AS c FROM (${values(x)}) GROUP BY side, state, x)`
}

/** The number of edges that are below x, and for a number that is a bin of its own half a step more. */
function toBin({ edges, isDeciles }: Profile, bound: (edge: number) => string): string {
  const above = edges.map((it) => (isDeciles ? `(x > ${bound(it)})` : `(x >= ${bound(it)}) + (x > ${bound(it)})`))
  return `toInt16(${['0', ...above].join(' + ')})`
}

/** An edge as a value that is equal to it is rounded. */
const roundedLiteral = (edge: number, center: number) => rounded(center).replaceAll('number', literal(edge))

const toCategory = (isHashed: boolean) => (isHashed ? `if(is_hashed, category, ${hashOfCategory})` : 'category')

/**
 * How far the distribution functions of both sides are apart, from one value to the next. Values are put in order bin by
 * bin; those of the reference count up, those of the window down.
 */
function countNumbers(cells: string, isExact: boolean): string {
  const finite = 'bin >= 0 AND isFinite(x)'
  return `SELECT f, w, keys, rb, cb, others, infinite, rn, cn, isExact,
      arrayMax((d, gap) -> if(gap > 0, d, 0), ahead, gaps) / rn / cn AS ks,
      arraySum((d, gap) -> d * gap, ahead, gaps) / rn / cn AS distance
    FROM (
      SELECT f, w, keys, rb, cb, others, infinite, rn, cn, ${isExact} AS isExact,
        arrayPopFront(arrayDifference(arrayFlatten(binned.4))) AS gaps,
        arrayMap(d -> abs(d), arrayPopBack(arrayCumSum(s -> s * if(s > 0, toFloat64(cn), toFloat64(rn)), arrayFlatten(binned.5)))) AS ahead
      FROM (
        SELECT f, w, arraySort(groupArray((bin, rs, cs, xs, ss))) AS binned, binned.1 AS keys, binned.2 AS rb, binned.3 AS cb,
          sumIf(cs, bin = ${otherBin}) AS others, sum(infinite) AS infinite, sum(rf) AS rn, sum(cf) AS cn
        FROM (
          SELECT f, w, bin, sum(rc) AS rs, sum(cc) AS cs, sumIf(rc, ${finite}) AS rf, sumIf(cc, ${finite}) AS cf,
            sumIf(cc, bin >= 0 AND isInfinite(x)) AS infinite, groupArrayIf(x, ${finite}) AS unsorted,
            arraySort(unsorted) AS xs,
            arraySort((s, x) -> x, groupArrayIf(toInt64(rc) - toInt64(cc), ${finite}), unsorted) AS ss
          FROM (${cells}) GROUP BY f, w, bin)
        GROUP BY f, w))`
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
  const isPositive = 'it -> it > 0'
  const fill = (shares: string) => `arrayMin(arrayFilter(${isPositive}, ${shares}))`
  const filled = (shares: string, zero: string) => `arrayMap(it -> if(it > 0, it, ${zero}), ${shares})`
  // Missing values are those of rows that say so (bin ${missingBin}) and events without a row.
  const lost = (bins: string, total: string) =>
    `greatest(toInt64(${total}) - toInt64(arraySum(arrayMap((k, it) -> if(k = ${missingBin}, 0, it), ks0, ${bins}))), 0)`
  return `SELECT f, w, keys, rb, cb, toString(refLost) AS refMissing, toString(lost) AS missing,
      if(rt = 0 OR ct = 0, nan, arraySum((a, b) -> (a - b) * log(a / b), pf, qf)) AS psi,
      if(rt = 0 OR ct = 0, nan, sqrt(greatest(arraySum((a, b) ->
        if(a > 0, a * log(2 * a / (a + b)), 0) + if(b > 0, b * log(2 * b / (a + b)), 0), p, q), 0) / 2)) AS js,
      if(rn = 0 OR cn = 0, nan, ks) AS ks, if(rn = 0 OR cn = 0, nan, distance / [${norms}][f + 1]) AS wasserstein,
      isExact, rn, cn, infinite, others
    FROM (
      SELECT *, if(empty(keys), arrayResize([toInt16(0)], length(rb), toInt16(0)), keys) AS ks0,
        ${lost('rb', String(reference.events))} AS refLost, ${lost('cb', `[${events}][w + 1]`)} AS lost,
        arrayPushBack(arrayMap((k, it) -> if(k = ${missingBin}, 0, toInt64(it)), ks0, rb), refLost) AS r0,
        arrayPushBack(arrayMap((k, it) -> if(k = ${missingBin}, 0, toInt64(it)), ks0, cb), lost) AS c0,
        arrayFilter((a, b) -> a + b > 0, r0, c0) AS r, arrayFilter((b, a) -> a + b > 0, c0, r0) AS c,
        arraySum(r) AS rt, arraySum(c) AS ct,
        arrayMap(it -> it / rt, r) AS p, arrayMap(it -> it / ct, c) AS q,
        ${fill('p')} AS pMin, ${fill('q')} AS qMin,
        ${filled('p', 'if(pMin <= 0.0001, pMin / 1e6, 0.0001)')} AS pf,
        ${filled('q', 'if(qMin <= 0.0001, qMin / 1e6, 0.0001)')} AS qf
      FROM (${counted}))
    ORDER BY f, w`
}

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
