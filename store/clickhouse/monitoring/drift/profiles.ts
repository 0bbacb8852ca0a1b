import { type FeatureType, featureIndex, isMissing, isNumber, toFeatureType } from '../expressions.ts'
import type { EventReader } from '../reader.ts'
import type { EventScope, FeatureName, FeatureNames } from '../scope.ts'
import { countedValues } from '../source.ts'

export type Reference = { scope: EventScope; events: number }

/** A feature of the reference: its bins are made of this. */
export type Profile = FeatureName & {
  type: FeatureType
  /** Values that are not missing. */
  values: number
  /** Whether the bins are its deciles, or else its different numbers and the gaps between them. */
  isDeciles: boolean
  /** Bounds of bins, ascending. */
  edges: number[]
  /** Of the finite numbers, as their standard deviation is. */
  median: number
  deviation: number
  categories: number
}

/** With fewer different numbers than this, each is a bin of its own. The limit of evidently. */
const ownBinsMax = 20
/** So many values are profiled by one query, and so many features. */
const valuesAtOnce = 20_000_000
const featuresAtOnce = 50

type Row = {
  f: string
  numbers: string
  others: string
  different: number[]
  deciles: number[]
  median: number | null
  deviation: number | null
  categories: string
}

/** Profiles features of a reference, from its raw values. */
export async function findProfiles(
  reader: EventReader,
  { scope, events }: Reference,
  { part, names }: FeatureNames,
): Promise<Profile[]> {
  const { hasTombstones } = await reader.findCatalog(scope)
  const read = hasTombstones ? reader.read : reader.readCached
  const atOnce = Math.max(1, Math.min(featuresAtOnce, Math.floor(valuesAtOnce / Math.max(1, events))))
  const finite = `${isNumber} AND isFinite(number)`
  const profiles: Profile[] = []
  for (let at = 0; at < names.length; at += atOnce) {
    const some = names.slice(at, at + atOnce)
    const rows = await read<Row>(
      [countedValues(scope, { part, names: some }, { hasTombstones, rollups: [] })],
      ([values]) => `SELECT ${featureIndex(some)} AS f, countIf(${isNumber}) AS numbers,
          countIf(NOT ${isMissing} AND NOT ${isNumber}) AS others,
          arraySort(groupUniqArrayIf(${ownBinsMax + 1})(number, ${finite})) AS different,
          quantilesExactIf(0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)(number, ${finite}) AS tenths,
          arrayDistinct(tenths) AS deciles, tenths[5] AS median, stddevPopStableIf(number, ${finite}) AS deviation,
          uniqIf(text, type = 4) AS categories FROM ${values} GROUP BY f`,
    )
    const found = new Map(rows.map((it) => [Number(it.f), it]))
    profiles.push(...some.map((name, f) => toProfile({ part, name }, found.get(f))))
  }
  return profiles
}

function toProfile(feature: FeatureName, row: Row | undefined): Profile {
  const [numbers, others] = [Number(row?.numbers ?? 0), Number(row?.others ?? 0)]
  const different = row?.different ?? []
  const isDeciles = different.length > ownBinsMax
  return {
    ...feature,
    type: toFeatureType({ numbers, categories: others }),
    values: numbers + others,
    isDeciles,
    edges: isDeciles ? (row?.deciles ?? []) : different,
    median: row?.median ?? 0,
    deviation: row?.deviation ?? 0,
    categories: Number(row?.categories ?? 0),
  }
}
