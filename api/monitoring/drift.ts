import { z } from 'zod'
import { object, optional, text } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { type Route, route } from '../../http/route.ts'
import type { Drift } from '../../store/clickhouse/monitoring/drift/drift.ts'
import type { Profile } from '../../store/clickhouse/monitoring/drift/profiles.ts'
import { listFeatureNames } from '../../store/clickhouse/monitoring/features.ts'
import type { EventReader } from '../../store/clickhouse/monitoring/reader.ts'
import type { Filter } from '../../store/clickhouse/monitoring/segment-reader.ts'
import { readDrift } from '../../store/monitoring/drift-report.ts'
import {
  judge,
  judgeAll,
  measureNames,
  statuses,
  thresholdDefaults,
  type Verdict,
} from '../../store/monitoring/drift-verdict.ts'
import { type FoundReference, findReference } from '../../store/monitoring/reference.ts'
import type { Database } from '../../store/postgres/database.ts'
import { allParts, commonFields, partField, unknownFeature } from './fields.ts'
import { type MonitoredModels, modelQuery } from './monitored-model.ts'
import { type SegmentReaders, segmentFields } from './segments.ts'
import { boundsOf, findWindows, windowAnswer, windowFields } from './windows.ts'

type Deps = { database: Database; segments: SegmentReaders; models: MonitoredModels }

const windowsMax = 200

const threshold = optional(z.coerce.number('expected a number').min(0, 'must be 0 or more'))

export const ofSegmentAnswer = z
  .boolean()
  .nullable()
  .describe('false: it has no event in the segment, so all of it is compared; null without a segment')

const featureAnswer = z.object({
  name: z.string(),
  part: z.enum(allParts),
  type: z.enum(['numeric', 'categorical']).describe('the type in the reference'),
  status: z.enum(statuses),
  drifted: z.boolean().nullable().describe('null without a verdict'),
  judgedBy: z.enum(measureNames).nullable(),
  psi: z.number().nullable(),
  jensenShannon: z.number().nullable(),
  kullbackLeibler: z.number().nullable().describe('the sum of c ln(c / r)'),
  totalVariation: z.number().nullable().describe('half the sum of |r - c|'),
  kolmogorovSmirnov: z.number().nullable().describe('numeric: the statistic'),
  kolmogorovSmirnovPValue: z.number().nullable(),
  wasserstein: z.number().nullable().describe('numeric: the normed distance'),
  method: z.enum(['exact', 'rounded']).describe('whether values were compared as they are, or rounded or hashed'),
  values: z.object({ reference: z.int(), current: z.int() }),
  missing: z.object({ reference: z.int(), current: z.int() }),
  otherTypes: z.int().describe('numeric: values that are not numbers'),
  infinite: z.int(),
  bins: z
    .array(
      z.object({
        from: z.number().nullable(),
        to: z.number().nullable(),
        reference: z.int(),
        current: z.int(),
      }),
    )
    .describe('numeric, only with one feature: values above `from` and up to `to`; null is unbounded'),
})

/** Compares the events of production with those the model was trained on. */
export function createMonitoringDriftRoutes({ database, segments, models }: Deps): Route[] {
  return [
    route({
      ...commonFields,
      path: '/mpm/v2/drift',
      summary:
        'Compares the features and predictions of a model, in windows of time, with a reference data set of TRAINING_EVENTS. ' +
        'PSI = sum((r - c) ln(r / c)) and the Jensen-Shannon distance (natural logarithm) over shares of bins r and c; bins ' +
        'come from the reference alone: its deciles with open outer bins; with 20 different numbers or fewer, each number ' +
        'and each gap between them; or its categories. Missing values are a bin, and so are values of another type. ' +
        'For PSI and Kullback-Leibler an empty share is 0.0001, or a millionth of the least share if that is 0.0001 or less. Kolmogorov-Smirnov ' +
        '(greatest distance of the distribution functions, with its asymptotic p-value) and the Wasserstein distance divided ' +
        'by max(standard deviation of the reference, 0.001) are computed from the finite values, not from bins. With more ' +
        'than 250,000 values, each is rounded to 10 significant bits of its distance from a value near the median (method: ' +
        'rounded). A feature has drifted if its measure reaches its threshold: for numbers normed Wasserstein 0.1 (up to ' +
        '1,000 values on a side: p-value of Kolmogorov-Smirnov 0.05), for categories Jensen-Shannon 0.1. A model has ' +
        'drifted if half of its features have.',
      query: object({
        ...modelQuery.shape,
        ...windowFields,
        ...segmentFields,
        datasetName: optional(text(1_000, 1)).describe(
          'the reference; the last one uploaded for the model when absent',
        ),
        feature: optional(text(1_000, 1)).describe('only this feature; all features and predictions when absent'),
        part: partField.describe('the part of the feature; feature when absent'),
        measure: optional(z.enum(measureNames, `must be one of ${measureNames.join(', ')}`)).describe(
          'the measure for all features',
        ),
        psiThreshold: threshold.describe('0.2 when absent'),
        jensenShannonThreshold: threshold.describe('0.1 when absent'),
        wassersteinThreshold: threshold.describe('0.1 when absent'),
        pValueThreshold: threshold.describe('0.05 when absent; drift is at or below it'),
        driftShare: threshold.describe('0.5 when absent'),
      }),
      answer: z.object({
        reference: z.object({
          datasetName: z.string(),
          events: z.int().describe('bins change when events are added to the reference'),
          lastReceivedAt: z.int().describe('ms since the Unix epoch'),
          ofSegment: ofSegmentAnswer,
        }),
        windows: z.array(
          z.object({
            ...windowAnswer,
            events: z.int(),
            drifted: z.boolean().nullable(),
            driftedFeatures: z.int(),
            judgedFeatures: z.int(),
            driftedShare: z.number().nullable(),
            features: z.array(featureAnswer),
          }),
        ),
      }),
      async handle({ query, caller }) {
        const model = await models.find(caller, query)
        const { eventReader, reference, ofSegment } = await openComparison({ database, segments }, model, query)
        const current = { modelId: model.id, kind: 'EVENTS', version: query.modelVersion } as const
        const windows = await findWindows(eventReader, current, query, windowsMax)
        const feature = query.feature === undefined ? undefined : { part: query.part ?? 'feature', name: query.feature }
        const { datasetName, events, lastReceivedAt } = reference
        const answered = { datasetName, events, lastReceivedAt, ofSegment }
        if (!windows) return { reference: answered, windows: [] }
        const report = await readDrift(eventReader, { reference, current, windows, feature })
        const thresholds = {
          psi: query.psiThreshold ?? thresholdDefaults.psi,
          jensenShannon: query.jensenShannonThreshold ?? thresholdDefaults.jensenShannon,
          wasserstein: query.wassersteinThreshold ?? thresholdDefaults.wasserstein,
          kolmogorovSmirnovPValue: query.pValueThreshold ?? thresholdDefaults.kolmogorovSmirnovPValue,
          share: query.driftShare ?? thresholdDefaults.share,
        }
        if (feature && report.every((it) => it.features.every(isNowhere))) {
          const names = await listFeatureNames(eventReader, current, [feature.part])
          if (!names.some((it) => it.name === feature.name)) {
            throw unknownFeature(
              feature,
              names.map((it) => it.name),
            )
          }
        }
        return {
          reference: answered,
          windows: report.map(({ at, events, features }) => {
            const judged = features.map((it) => ({
              ...it,
              verdict: judge(it.drift, it.profile, { thresholds, measure: query.measure }),
            }))
            const all = judgeAll(
              judged.map((it) => it.verdict),
              thresholds,
            )
            return {
              ...boundsOf(windows, at),
              events,
              ...all,
              features: judged.map((it) => toAnswer(it, feature !== undefined)),
            }
          }),
        }
      },
    }),
  ]
}

type ReferenceQuery = {
  modelName: string
  modelVersion?: string | undefined
  datasetName?: string | undefined
  segment?: string | undefined
  filters?: Filter[] | undefined
}

type Compared = {
  eventReader: EventReader
  reference: FoundReference
  /** Whether the reference is of the segment, too; null without a segment. */
  ofSegment: boolean | null
}

/**
 * What a read compares with: the events of its segment in the reference, or all of the reference if it has none of them.
 *
 * @throws HttpError `referenceUnknown`, `segmentUnknown`
 */
export async function openComparison(
  { database, segments }: { database: Database; segments: SegmentReaders },
  model: { workspace: { id: string }; name: string },
  query: ReferenceQuery,
): Promise<Compared> {
  const { modelName, modelVersion, datasetName } = query
  const wanted = { workspaceId: model.workspace.id, modelName, modelVersion, datasetName }
  const whole = await findReference({ queries: database, reader: segments.all }, wanted)
  if (!whole) throw unknownReference(query)
  const eventReader = await segments.open(model, query)
  if (eventReader === segments.all) return { eventReader, reference: whole, ofSegment: null }
  const reference = await findReference({ queries: database, reader: eventReader }, wanted)
  if (reference) return { eventReader, reference, ofSegment: true }
  return { eventReader: await segments.open(model, query, whole.scope.modelId), reference: whole, ofSegment: false }
}

export function unknownReference({ modelName, datasetName, segment }: ReferenceQuery): HttpError {
  const upload = 'POST /mpm/v2/dataset/events/csv'
  if (segment !== undefined) {
    return new HttpError(
      'referenceUnknown',
      `segment: no event of a reference of the model is in the segment "${segment}".`,
    )
  }
  return new HttpError(
    'referenceUnknown',
    datasetName === undefined
      ? `The model "${modelName.slice(0, 200)}" has no reference data set: upload one with ${upload}, or name one with datasetName.`
      : `datasetName: the workspace has no data set "${datasetName.slice(0, 200)}" of TRAINING_EVENTS: upload it with ${upload}.`,
  )
}

const isNowhere = ({ profile, drift }: { profile: Profile; drift: Drift }) =>
  profile.values + drift.values + drift.otherTypes + drift.infinite === 0

type Judged = { profile: Profile; drift: Drift; verdict: Verdict }

function toAnswer({ profile, drift, verdict }: Judged, withBins: boolean): z.input<typeof featureAnswer> {
  return {
    name: profile.name,
    part: profile.part,
    type: profile.type,
    status: verdict.status,
    drifted: verdict.drifted,
    judgedBy: verdict.judgedBy,
    psi: drift.psi,
    jensenShannon: drift.jensenShannon,
    kullbackLeibler: drift.kullbackLeibler,
    totalVariation: drift.totalVariation,
    kolmogorovSmirnov: drift.kolmogorovSmirnov,
    kolmogorovSmirnovPValue: verdict.pValue,
    wasserstein: drift.wasserstein,
    method: drift.isExact ? 'exact' : 'rounded',
    values: { reference: drift.referenceValues, current: drift.values },
    missing: { reference: drift.referenceMissing, current: drift.missing },
    otherTypes: drift.otherTypes,
    infinite: drift.infinite,
    bins: withBins ? drift.bins : [],
  }
}
