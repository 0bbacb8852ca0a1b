import type { FeatureType } from './features.ts'
import type { FeatureName } from './scope.ts'

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
