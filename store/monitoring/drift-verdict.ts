import type { Drift } from '../clickhouse/monitoring/drift/drift.ts'
import type { Profile } from '../clickhouse/monitoring/drift/profiles.ts'
import { toPValue } from './kolmogorov.ts'

/** The values of measures at which a feature has drifted. */
export type Thresholds = {
  psi: number
  jensenShannon: number
  wasserstein: number
  kolmogorovSmirnovPValue: number
  /** The share of drifted features at which the model has drifted. */
  share: number
}

/** The defaults of evidently; for PSI the usual ones: 0.1 is a moderate change, 0.2 a large one. */
export const thresholdDefaults: Thresholds = {
  psi: 0.2,
  jensenShannon: 0.1,
  wasserstein: 0.1,
  kolmogorovSmirnovPValue: 0.05,
  share: 0.5,
}

/** With fewer values than this on one side, there is no verdict. */
const valuesMin = 30
/** Up to so many values a numeric feature is judged by its p-value. The limit of evidently. */
const smallSampleMax = 1_000

export const measureNames = ['psi', 'jensenShannon', 'kolmogorovSmirnov', 'wasserstein'] as const
export type MeasureName = (typeof measureNames)[number]

export const statuses = [
  'compared',
  'too few values',
  'no values in the window',
  'not in the reference',
  'type changed',
] as const

export type Verdict = {
  status: (typeof statuses)[number]
  /** Null without a verdict. */
  drifted: boolean | null
  /** The measure that decided. */
  judgedBy: MeasureName | null
  pValue: number | null
}

/**
 * Decides whether a feature has drifted. A numeric one is judged by the p-value of Kolmogorov-Smirnov up to 1,000 values on
 * either side, by the normed Wasserstein distance beyond; a categorical one by the Jensen-Shannon distance; or all by
 * `measure`. A feature has also drifted if its values changed type, or if no event of the window has one.
 */
export function judge(
  drift: Omit<Drift, 'window' | 'bins'>,
  profile: Pick<Profile, 'type' | 'values'>,
  { thresholds, measure }: { thresholds: Thresholds; measure: MeasureName | undefined },
): Verdict {
  const { values, referenceValues, kolmogorovSmirnov: distance } = drift
  const pValue = distance === null ? null : toPValue(distance, referenceValues, values)
  const nothing = { drifted: null, judgedBy: null, pValue }
  const present = values + drift.otherTypes + drift.infinite
  if (profile.values === 0) return { status: 'not in the reference', ...nothing }
  if (profile.type === 'numeric' && drift.otherTypes > present / 2 && drift.otherTypes >= valuesMin) {
    return { status: 'type changed', drifted: true, judgedBy: null, pValue }
  }
  if (present === 0) {
    const isLost = drift.missing >= valuesMin && referenceValues >= valuesMin
    return { status: 'no values in the window', drifted: isLost ? true : null, judgedBy: null, pValue }
  }
  if (values < valuesMin || referenceValues < valuesMin) return { status: 'too few values', ...nothing }
  const isSmall = Math.min(values, referenceValues) <= smallSampleMax
  const chosen = measure ?? defaultMeasure(profile, isSmall)
  if (profile.type === 'categorical' && (chosen === 'kolmogorovSmirnov' || chosen === 'wasserstein')) {
    return { status: 'compared', ...nothing }
  }
  const value = drift[chosen]
  if (value === null) return { status: 'compared', ...nothing }
  const drifted =
    chosen === 'kolmogorovSmirnov'
      ? (pValue as number) <= thresholds.kolmogorovSmirnovPValue
      : value >= thresholds[chosen]
  return { status: 'compared', drifted, judgedBy: chosen, pValue }
}

function defaultMeasure({ type }: Pick<Profile, 'type'>, isSmall: boolean): MeasureName {
  if (type === 'categorical') return 'jensenShannon'
  return isSmall ? 'kolmogorovSmirnov' : 'wasserstein'
}

/** The share of drifted features among those with a verdict; null if there is none. */
export function judgeAll(verdicts: Verdict[], { share }: Thresholds) {
  const judged = verdicts.filter((it) => it.drifted !== null)
  const driftedFeatures = judged.filter((it) => it.drifted).length
  const driftedShare = judged.length === 0 ? null : driftedFeatures / judged.length
  return {
    judgedFeatures: judged.length,
    driftedFeatures,
    driftedShare,
    drifted: driftedShare === null ? null : driftedShare >= share,
  }
}
