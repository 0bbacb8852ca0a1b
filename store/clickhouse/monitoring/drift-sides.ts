import type { ClickHouse } from '../connection.ts'
import { categoriesMax, type FeatureType } from './features.ts'
import type { Profile } from './profile.ts'
import type { Source } from './read-once.ts'
import type { Rollup } from './rollups/rollup.ts'
import { findRolledFeatures, toFeatureKey } from './rollups/rollups.ts'
import { type EventScope, type FeatureName, type Ground, toCountedValues, type Windows } from './scope.ts'
import { eventKinds, valueParts } from './tables.ts'

type SideScope = {
  scope: EventScope
  ground: Ground
  profiles: Profile[]
  type: FeatureType
  isExact: boolean
  windows?: Windows
}

type Side = {
  /** Around which the numbers of a feature were rounded, in most of what was summed up. */
  centers: (number | undefined)[]
  /** Whether the categories of a feature are hashes. */
  areHashed: boolean[]
  /** What the features are read from, when their numbers are rounded around these centres. */
  toSources(centers: number[]): Source[]
}

/**
 * What features are read from: rollups as far as they hold them as they are compared: numbers that were rounded
 * take the place of such that would be, around one centre; hashes that of categories that would be hashed.
 */
export async function openSide(
  clickhouse: ClickHouse,
  { scope, ground, profiles, type, isExact, windows }: SideScope,
): Promise<Side> {
  const kind = { modelId: scope.modelId, kind: eventKinds[scope.kind] }
  const held = await findRolledFeatures(clickhouse, kind, ground.rollups)
  const find = (it: Rollup, { part, name }: FeatureName) => held.get(it)?.get(toFeatureKey(valueParts[part], name))
  const { version, from = -Infinity, to = Infinity } = scope
  // A rollup has hashes for having too many categories; as long as all of it is asked for, so has what is asked for.
  const areHashed = profiles.map(
    (profile) =>
      type === 'categorical' &&
      version === undefined &&
      ground.rollups.some((it) => find(it, profile)?.isHashed && it.first >= from && it.last < to),
  )
  const wide = ground.rollups.toSorted((a, b) => (a.high - a.low > b.high - b.low ? -1 : 1))
  const centers = profiles.map((profile) => {
    const widest =
      type === 'numeric' && !isExact ? wide.find((it) => find(it, profile)?.center !== undefined) : undefined
    return widest && find(widest, profile)?.center
  })
  return {
    centers,
    areHashed,
    toSources(centers) {
      const isWanted = (it: Rollup, f: number) => {
        const profile = profiles[f] as Profile
        const { center, isHashed } = find(it, profile) ?? {}
        if (type === 'numeric') return center === undefined || (!isExact && center === centers[f])
        return center === undefined && (!isHashed || areHashed[f] === true || profile.categories > categoriesMax)
      }
      // Features that are in the same rollups are read together.
      const alike = Map.groupBy(profiles.keys(), (f) =>
        ground.rollups.map((it) => (isWanted(it, f) ? '1' : '0')).join(''),
      )
      return [...alike.values()].map((places) => {
        const features = {
          part: (profiles[0] as Profile).part,
          names: places.map((f) => (profiles[f] as Profile).name),
        }
        const first = places[0] as number
        const options = { windows, isWanted: (it: Rollup) => isWanted(it, first) }
        return toCountedValues(clickhouse, scope, features, ground, options)
      })
    },
  }
}
