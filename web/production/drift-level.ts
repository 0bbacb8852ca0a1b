import type { MapFeature, MapWindow } from '../api/monitoring.ts'

/** How much a feature has drifted: 0 is steady, 3 the most; null without a verdict. */
export type Level = 0 | 1 | 2 | 3 | null

/** The values from which the measures call it drift; as the service judges. */
const thresholds: Record<string, number> = { psi: 0.2, jensenShannon: 0.1, kolmogorovSmirnov: 0.1, wasserstein: 0.1 }

export function toLevel(feature: MapFeature, at: number): Level {
  const drifted = feature.drifted[at]
  if (drifted === null || drifted === undefined) return null
  if (!drifted) return 0
  const value = feature.value[at]
  const threshold = thresholds[feature.judgedBy[at] ?? '']
  // Values of another type, or none at all.
  if (value === null || value === undefined || threshold === undefined) return 3
  return value >= 4 * threshold ? 3 : value >= 2 * threshold ? 2 : 1
}

/** The level of a whole window: half of the features make it a drift of the model. */
export function toWindowLevel({ drifted, driftedFeatures, judgedFeatures }: MapWindow): Level {
  if (drifted === null) return null
  const share = driftedFeatures / Math.max(1, judgedFeatures)
  if (drifted) return share >= 0.75 ? 3 : 2
  return share >= 0.25 ? 1 : 0
}

export const levelWords: Record<string, string> = {
  '0': 'steady',
  '1': 'drifted',
  '2': 'drifted far',
  '3': 'drifted very far',
  null: 'no verdict',
}

/** Those that drifted most often in the last third of the time come first. */
export function sortByDrift(features: MapFeature[]): MapFeature[] {
  const weight = ({ drifted }: MapFeature) => {
    const late = drifted.slice(-Math.ceil(drifted.length / 3))
    return late.filter(Boolean).length * 1_000 + drifted.filter(Boolean).length
  }
  return features.toSorted((a, b) => weight(b) - weight(a) || (a.name < b.name ? -1 : 1))
}
