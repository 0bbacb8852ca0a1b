import { categoriesMax, featureIndex, hashOf, isNumber, literal, quote, rounded } from '../expressions.ts'

/** The SQL that counts values into the cells of a rollup: equal values, or such that are rounded or hashed to the same. */

/** A feature with more different numbers than this in a rollup has them rounded. */
const numbersMax = 10_000

/** What the values of a feature in a range are like. */
export type FeatureStats = Record<
  'name' | 'all' | 'dead' | 'first' | 'last' | 'numbers' | 'categories' | 'texts',
  string
> & {
  sample: number[]
}

/** Counts the different values of features, and samples their numbers, in order. */
export const selectStats = (values: string) => `SELECT name, count() AS all, countIf(is_dead) AS dead,
    min(timestamp) AS first, max(timestamp) AS last,
    uniqIf(number, ${isNumber}) AS numbers, uniqIf(text, type = 4) AS categories,
    countIf(text != '') AS texts,
    arraySort(groupArraySampleIf(999, 1)(number, ${isNumber} AND isFinite(number))) AS sample FROM ${values} GROUP BY name`

/** How the values of a feature are counted. */
export type Grid = {
  name: string
  /** Numbers are rounded around it; undefined when each is counted. */
  center: number | undefined
  isHashed: boolean
  /** Whether a value has a text: a category, or the digits of a large integer. */
  hasTexts: boolean
}

/** Many different numbers are rounded; around the center of the rollup `before`, if that is still among them. */
export function toGrid({ name, sample, numbers, categories, texts }: FeatureStats, before: number | undefined): Grid {
  const at = (share: number) => sample[Math.floor(share * (sample.length - 1))] ?? 0
  const [low, middle, high] = [at(0.25), at(0.5), at(0.75)]
  const isNear = before !== undefined && Math.abs(before - middle) <= 8 * (high - low)
  const shape = { name, isHashed: Number(categories) > categoriesMax, hasTexts: texts !== '0' }
  if (Number(numbers) <= numbersMax) return { ...shape, center: undefined }
  return { ...shape, center: isNear ? before : toCenter(middle, high - low) }
}

/** A number near the middle that other ranges of the same events are likely to get as well, so that rollups can be added up. */
function toCenter(middle: number, spread: number): number {
  const step = 2 ** Math.ceil(Math.log2(2 * spread))
  const center = Math.round(middle / step) * step
  return Number.isFinite(center) ? center : middle
}

/** More versions than this are not named in a statement, whose length is limited: anybody may report as many as events. */
const versionsNamedMax = 100

/**
 * Counts the values of features by version. All have texts, or none: without texts a cell is known by a few bytes, and counting takes
 * half the time. Values of other versions than those given may be left out.
 */
export function selectCounts(values: string, grids: Grid[], versions: readonly string[]): string {
  const names = grids.map((it) => it.name)
  const f = featureIndex(names)
  const areNamed = versions.length <= versionsNamedMax
  const named = `[${versions.map(quote)}]`
  const v = areNamed ? `toUInt8(indexOf(${named}, toString(version)))` : 'version'
  const centers = `[${grids.map((it) => literal(it.center ?? 0))}]::Array(Float64)`
  const isRounded = `[${grids.map((it) => it.center !== undefined)}][f + 1]`
  const isHashed = `[${grids.map((it) => it.isHashed)}][f + 1]`
  const x = `if(${isRounded} AND ${isNumber} AND isFinite(number), ${rounded(`${centers}[f + 1]`)}, number)`
  const text = `multiIf(${isRounded} AND ${isNumber}, '', ${isHashed} AND type = 4, ${hashOf('toString(text)')}, toString(text))`
  const hasTexts = grids.some((it) => it.hasTexts)
  const cell = `f, v, type, x${hasTexts ? ', t' : ''}`
  // The exact bounds are kept of all rounded numbers together: those of each cell would take as much room as the values.
  const ofAlike = 'OVER (PARTITION BY f, v, type IN (1, 2) AND isFinite(x))'
  return `SELECT [${names.map(quote)}][f + 1] AS name, ${areNamed ? `${named}[v]` : 'v'} AS version, type, x AS number,
      ${hasTexts ? 't' : "''"} AS text, weight, toUInt8(${isRounded} AND type IN (1, 2) AND isFinite(x)) AS is_rounded,
      if(${isRounded}, ${centers}[f + 1], 0) AS center, toUInt8(${isHashed} AND type = 4) AS is_hashed,
      if(low = min(low) ${ofAlike}, low, x) AS least, if(high = max(high) ${ofAlike}, high, x) AS most
    FROM (
      SELECT ${cell}, count() AS weight, min(value) AS low, max(value) AS high
      FROM (
        SELECT f, ${v} AS v, type, number AS value, ${x} AS x${hasTexts ? `, ${text} AS t` : ''}
        FROM (SELECT *, ${f} AS f FROM ${values}) WHERE NOT is_dead${areNamed ? ' AND v != 0' : ''})
      GROUP BY ${cell})`
}
