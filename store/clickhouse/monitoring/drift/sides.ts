import { categoriesMax, type FeatureType } from '../expressions.ts'
import type { EventReader } from '../reader.ts'
import type { Catalog } from '../rollups/catalog.ts'
import type { Rollup } from '../rollups/rollup.ts'
import type { EventScope, Windows } from '../scope.ts'
import { countedValues, type Source } from '../source.ts'
import type { Profile } from './profiles.ts'

type SideScope = {
  scope: EventScope
  catalog: Catalog
  /** Features of one part and of this type. */
  profiles: Profile[]
  type: FeatureType
  /** Whether each number is compared, so that rounded ones are of no use. */
  isExact: boolean
  windows?: Windows
}

type Side = {
  /** The center that the widest rollup with rounded numbers has for each feature. */
  centers: (number | undefined)[]
  /** Whether rollups force the categories of a feature to be compared by hash. */
  areHashed: boolean[]
  /** What the features are read from if their numbers are rounded around these centers. */
  toSources(centers: number[]): Source[]
}

/**
 * One side of a comparison: the reference, or the windows. A rollup is used where it holds a feature in the form that is
 * compared: exact numbers, or rounded ones around the same center; categories, or hashes if categories are hashed anyway.
 */
export async function openSide(
  { rolledFeatures }: EventReader,
  { scope, catalog, profiles, type, isExact, windows }: SideScope,
): Promise<Side> {
  const { rollups } = catalog
  const find = await rolledFeatures(scope, rollups)
  const { version, from = -Infinity, to = Infinity } = scope
  // A rollup has hashes because it has too many categories. If all of it is asked for, so has the question.
  const areHashed = profiles.map(
    (profile) =>
      type === 'categorical' &&
      version === undefined &&
      rollups.some((it) => find(it, profile)?.isHashed && it.first >= from && it.last < to),
  )
  const wide = rollups.toSorted((a, b) => (a.high - a.low > b.high - b.low ? -1 : 1))
  const centers = profiles.map((profile) => {
    const widest =
      type === 'numeric' && !isExact ? wide.find((it) => find(it, profile)?.center !== undefined) : undefined
    return widest && find(widest, profile)?.center
  })
  return {
    centers,
    areHashed,
    toSources(centers) {
      const isUsable = (it: Rollup, f: number) => {
        const profile = profiles[f] as Profile
        const { center, isHashed } = find(it, profile) ?? {}
        if (type === 'numeric') return center === undefined || (!isExact && center === centers[f])
        return center === undefined && (!isHashed || areHashed[f] === true || profile.categories > categoriesMax)
      }
      // Features with the same usable rollups are read together.
      const alike = Map.groupBy(profiles.keys(), (f) => rollups.map((it) => (isUsable(it, f) ? '1' : '0')).join(''))
      return [...alike.values()].map((indexes) => {
        const some = indexes.map((f) => profiles[f] as Profile)
        const features = { part: (some[0] as Profile).part, names: some.map((it) => it.name) }
        const first = indexes[0] as number
        return countedValues(scope, features, catalog, { windows, isUsable: (it) => isUsable(it, first) })
      })
    },
  }
}
