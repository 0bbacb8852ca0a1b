import { categoriesMax } from '../expressions.ts'

/**
 * How the values of a feature are counted in a rollup: each number or rounded, each category or hashed. Decided by a look at all of
 * them.
 */

/** A feature with more different numbers than this in a rollup has them rounded. */
const numbersMax = 10_000

/** What the values of a feature in a range are like. */
export type FeatureStats = Record<'name' | 'all' | 'dead' | 'first' | 'last', string> & {
  has_texts: number
  has_floats: number
  /** A hundredth of its finite numbers, 999 at most. */
  sample: number[]
  /** The least and the greatest finite number by version; of all together if versions are not named. */
  versions: string[]
  lows: number[]
  highs: number[]
}

const sampleEvery = 100
const sampleMax = 999
const sampled = (arrays: string) => `groupArraySampleArray(${sampleMax}, 1)(${arrays})`
/** Every hundredth of the finite numbers, from one that differs by claim; at least one. */
const everyHundredth = `arrayFilter((it, at) -> at % ${sampleEvery} =
  (1 + cityHash64(claim, name) % least(${sampleEvery}, greatest(length(finite), 1))) % ${sampleEvery}, finite, arrayEnumerate(finite))`

/**
 * Looks at the values of features, which are folded (`value-chunks.ts`): so their numbers are not copied.
 *
 * @param isDead whether the event `(claim, place)` is tombstoned; undefined if none is
 */
export function selectStats(folded: string, { isDead, areNamed }: { isDead: string | undefined; areNamed: boolean }) {
  return `SELECT name, sum(n) AS all, sum(voided) AS dead, min(first_time) AS first, max(last_time) AS last,
      max(any_text) AS has_texts, max(any_float) AS has_floats, ${sampled('some')} AS sample,
      groupArray(version) AS versions, groupArray(low) AS lows, groupArray(high) AS highs
    FROM (
      SELECT name, ${areNamed ? 'version' : "'' AS version"}, sum(count) AS n, sum(void) AS voided,
        min(time_low) AS first_time, max(time_high) AS last_time,
        max(notEmpty(texts) AND arrayExists(it -> it != '', texts)) AS any_text, max(has(types, 2)) AS any_float,
        minIf(arrayMin(finite), notEmpty(finite)) AS low, maxIf(arrayMax(finite), notEmpty(finite)) AS high,
        ${sampled(everyHundredth)} AS some
      FROM (
        SELECT *, ${finiteNumbers(isDead)} AS finite, ${isDead ? `arrayCount((claim, place) -> ${isDead}, claims, places)` : '0'} AS void
        FROM ${folded})
      GROUP BY name, version)
    GROUP BY name`
}

const finiteNumbers = (isDead: string | undefined) =>
  isDead
    ? `arrayFilter((it, type, claim, place) -> type IN (1, 2) AND isFinite(it) AND NOT ${isDead}, numbers, types, claims, places)`
    : 'arrayFilter((it, type) -> type IN (1, 2) AND isFinite(it), numbers, types)'

/** How many different numbers and categories features have, about. */
export type Different = Record<'name' | 'numbers' | 'categories', string>

export const selectDifferent = (folded: string) => `SELECT name, uniqArray(${finiteNumbers(undefined)}) AS numbers,
    uniqArray(arrayFilter((it, type) -> type = 4, arrayResize(texts, count), types)) AS categories FROM ${folded} GROUP BY name`

/** Whether a feature may have more different numbers, or categories, than are counted one by one: then they are counted first. */
export function isUndecided(stats: FeatureStats): boolean {
  return (stats.has_texts === 1 && Number(stats.all) > categoriesMax) || decideRounded(stats) === undefined
}

/** Whether there are surely more, or surely fewer; undefined if neither is sure. */
function decideRounded({ all, has_floats, sample, lows, highs }: FeatureStats): boolean | undefined {
  const areFew = has_floats === 0 && Math.max(...highs) - Math.min(...lows) < numbersMax
  if (Number(all) <= numbersMax || areFew) return false
  // Of 10,000 different numbers, so many would have some 50 twice.
  return sample.length >= 900 && new Set(sample).size > sample.length * 0.985 ? true : undefined
}

/** How the values of a feature are counted. */
export type Grid = {
  name: string
  /** Numbers are rounded around it; undefined when each is counted. */
  center: number | undefined
  isHashed: boolean
  /** Whether a value has a text: a category, or the digits of a large integer. */
  hasTexts: boolean
  /** The least and the greatest finite number by version. */
  bounds: Map<string, [least: number, most: number]>
}

/** Many different numbers are rounded; around the center of the rollup `before`, if that is still among them. */
export function toGrid(stats: FeatureStats, different: Different | undefined, before: number | undefined): Grid {
  const { name, versions, lows, highs } = stats
  const bounds = new Map(versions.map((it, at): [string, [number, number]] => [it, [lows[at] ?? 0, highs[at] ?? 0]]))
  const isHashed = Number(different?.categories ?? 0) > categoriesMax
  const shape = { name, isHashed, hasTexts: stats.has_texts === 1, bounds }
  if (!(decideRounded(stats) ?? Number(different?.numbers ?? 0) > numbersMax)) return { ...shape, center: undefined }
  const sample = stats.sample.toSorted((a, b) => a - b)
  const at = (share: number) => sample[Math.floor(share * (sample.length - 1))] ?? 0
  const [low, middle, high] = [at(0.25), at(0.5), at(0.75)]
  const isNear = before !== undefined && Math.abs(before - middle) <= 8 * (high - low)
  return { ...shape, center: isNear ? before : toCenter(middle, high - low) }
}

/** A number near the middle that other ranges of the same events are likely to get as well, so that rollups can be added up. */
function toCenter(middle: number, spread: number): number {
  const step = 2 ** Math.ceil(Math.log2(2 * spread))
  const center = Math.round(middle / step) * step
  return Number.isFinite(center) ? center : middle
}
