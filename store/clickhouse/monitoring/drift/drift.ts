import { categoriesMax, exactValuesMax, type FeatureType } from '../expressions.ts'
import type { EventReader } from '../reader.ts'
import type { Catalog } from '../rollups/catalog.ts'
import { type EventScope, inWindows, type Windows } from '../scope.ts'
import type { Source } from '../source.ts'
import { type BinCount, type Measures, toMeasures } from './measures.ts'
import type { Profile, Reference } from './profiles.ts'
import { openSide } from './sides.ts'
import { missingBin, selectCrowded, selectDrift } from './sql.ts'

/**
 * Measures how far the values of features in windows are from those of a reference, over counts of equal values or categories of both
 * sides. ClickHouse counts them by bin and compares numbers; what follows from the counts of bins is computed here.
 *
 * Bins are made of the reference alone and are the same for every window: its deciles, with the outer ones open; or, if it
 * has few different numbers, each of them and each gap between them. Missing values are a bin, and so are values of another
 * type. Bins change only when the reference changes.
 */

/** One feature in one window, compared with the reference. A measure that cannot be computed is null. */
export type Drift = Measures & {
  window: number
  /** Values of the feature's own type: finite numbers, or categories. */
  referenceValues: number
  values: number
  referenceMissing: number
  missing: number
  /** Values of another type than the reference has, and infinities. */
  otherTypes: number
  infinite: number
  kolmogorovSmirnov: number | null
  wasserstein: number | null
  /** Whether values were compared as they are, or rounded or hashed. */
  isExact: boolean
  bins: Bin[]
}

/** The values of a bin are above `from` and up to `to`, or equal to both; null where it is open. */
type Bin = { from: number | null; to: number | null; reference: number; current: number }

export type Comparison = {
  reference: Reference
  current: EventScope
  windows: Windows
  /** Events of each window. */
  events: number[]
}

/** Compares features of one part, each in every window. */
export async function measureDrift(
  reader: EventReader,
  comparison: Comparison,
  profiles: Profile[],
): Promise<Map<Profile, Drift[]>> {
  const { reference, current } = comparison
  const [ofReference, ofCurrent] = await Promise.all([reader.findCatalog(reference.scope), reader.findCatalog(current)])
  const catalogs = { reference: ofReference, current: ofCurrent }
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
    const rows = await compare(reader, { ...comparison, catalogs }, some, type)
    for (const row of rows) {
      const profile = some[Number(row.f)] as Profile
      found.get(profile)?.push(toDrift(row, profile, comparison))
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

/** One query compares so many features at most, and so many cells: different values, rounded or not. */
const featuresMax = 50
const cellsMax = 6_000_000
/** Rounding leaves about so many different values of many. */
const roundedCells = 15_000

/** How many cells a feature may have, on both sides and in all windows. */
function countCells({ reference, events }: Comparison): number {
  const most = isExactly({ reference, events }) ? exactValuesMax : roundedCells
  return Math.max(1, sum(events.map((it) => Math.min(reference.events, most) + Math.min(it, most))))
}

/** Whether there are few enough values to compare each. */
const isExactly = ({ reference, events }: Pick<Comparison, 'reference' | 'events'>) =>
  sum(events.map((it) => reference.events + it)) <= exactValuesMax

type DriftRow = {
  f: string
  w: number
  keys: number[]
  rb: string[]
  cb: string[]
  ks: number | null
  distance: number | null
  isExact: number
  rn: string
  cn: string
  infinite: string
  others: string
}

type Compared = Comparison & { catalogs: { reference: Catalog; current: Catalog } }

async function compare(reader: EventReader, comparison: Compared, profiles: Profile[], type: FeatureType) {
  const { reference, current, windows, events, catalogs } = comparison
  const scope = inWindows(current, windows)
  const isExact = isExactly(comparison)
  const sides = await Promise.all([
    openSide(reader, { scope: reference.scope, catalog: catalogs.reference, profiles, type, isExact }),
    openSide(reader, { scope, catalog: catalogs.current, profiles, type, isExact, windows }),
  ])
  const [ofReference, ofCurrent] = sides
  const centers = profiles.map((it, f) => ofCurrent.centers[f] ?? ofReference.centers[f] ?? it.median)
  const [refSources, curSources] = [ofReference.toSources(centers), ofCurrent.toSources(centers)]
  const mayCrowd = type === 'categorical' && sum(events) > categoriesMax
  const crowded = mayCrowd ? await findCrowded(reader, curSources, profiles) : new Set()
  const hashes = profiles.map(
    (it, f) => it.categories > categoriesMax || crowded.has(f) || sides.some((side) => side.areHashed[f]),
  )
  return await reader.read<DriftRow>([...refSources, ...curSources], (tables) => {
    const bySide = { reference: tables.slice(0, refSources.length), current: tables.slice(refSources.length) }
    const form = type === 'numeric' ? { type, isExact, centers } : { type, hashes }
    return selectDrift(bySide, { profiles, form, windows })
  })
}

async function findCrowded(reader: EventReader, sources: Source[], profiles: Profile[]): Promise<Set<number>> {
  const rows = await reader.read<{ f: number }>(sources, (tables) => selectCrowded(tables, profiles))
  return new Set(rows.map((it) => Number(it.f)))
}

const sum = (numbers: number[]) => numbers.reduce((total, it) => total + it, 0)

function toDrift(row: DriftRow, { edges, isDeciles, deviation }: Profile, { reference, events }: Comparison): Drift {
  const window = Number(row.w)
  const [referenceValues, values] = [Number(row.rn), Number(row.cn)]
  const counts = row.rb.map((it, at) => ({
    // Categories have no keys.
    key: Number(row.keys[at] ?? 0),
    reference: Number(it),
    current: Number(row.cb[at]),
  }))
  const present = counts.map(({ key, ...it }) => (key === missingBin ? { reference: 0, current: 0 } : it))
  // Missing are explicit nulls and NaN, and events without a row: all events less the values of other bins.
  const missing = {
    reference: Math.max(0, reference.events - sum(present.map((it) => it.reference))),
    current: Math.max(0, (events[window] ?? 0) - sum(present.map((it) => it.current))),
  }
  const areOnBothSides = referenceValues > 0 && values > 0
  return {
    window,
    referenceValues,
    values,
    referenceMissing: missing.reference,
    missing: missing.current,
    otherTypes: Number(row.others),
    infinite: Number(row.infinite),
    ...toMeasures([...present, missing]),
    kolmogorovSmirnov: areOnBothSides ? row.ks : null,
    wasserstein: areOnBothSides && row.distance !== null ? row.distance / Math.max(deviation, deviationMin) : null,
    isExact: Boolean(row.isExact),
    bins: row.keys.flatMap((key, at) => {
      if (Number(key) < 0) return []
      const { reference, current } = counts[at] as BinCount
      return [{ ...toBounds(Number(key), edges, isDeciles), reference, current }]
    }),
  }
}

/** A reference that hardly deviates would make any distance large. The limit of evidently. */
const deviationMin = 0.001

function toBounds(key: number, edges: number[], isDeciles: boolean) {
  if (isDeciles) return { from: edges[key - 1] ?? null, to: edges[key] ?? null }
  // Even keys are gaps between numbers, odd ones the numbers themselves.
  const at = (key - 1) / 2
  return { from: edges[Math.floor(at)] ?? null, to: edges[Math.ceil(at)] ?? null }
}
