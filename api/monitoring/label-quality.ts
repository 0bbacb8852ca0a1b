import { z } from 'zod'
import { object, optional, text } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { type Route, route } from '../../http/route.ts'
import { delayLevels, readDelays } from '../../store/clickhouse/monitoring/label-delay.ts'
import { countWindows } from '../../store/clickhouse/monitoring/scope.ts'
import { findJudgement, readQuality, tasks } from '../../store/monitoring/judgement.ts'
import { commonFields, count } from './fields.ts'
import { type MonitoredModels, modelQuery } from './monitored-model.ts'
import { type SegmentReaders, segmentFields } from './segments.ts'
import { boundsOf, findWindows, windowAnswer, windowFields } from './windows.ts'

type Deps = { segments: SegmentReaders; models: MonitoredModels }

const windowsMax = 1_000
const metric = z.number().nullable()

/** Compares predictions with their labels. */
export function createMonitoringQualityRoutes({ segments, models }: Deps): Route[] {
  return [
    route({
      ...commonFields,
      path: '/mpm/v2/labels/quality',
      summary:
        'Compares predictions with their labels, joined by predictionId, in windows of the time of the prediction. ' +
        'Classification (labels are mostly strings or booleans): accuracy, and precision, recall and F1 as unweighted means ' +
        'over all classes that are predicted or actual (scikit-learn: average="macro", zero_division=0), with the counts of ' +
        'each class. Regression (numbers): mean absolute error, root mean squared error, and bias, the mean of prediction ' +
        'minus label. If integer labels are classes, send task=classification.',
      query: object({
        ...modelQuery.shape,
        ...windowFields,
        ...segmentFields,
        label: optional(text(1_000, 1)).describe('when absent the one named "value", or the only one'),
        prediction: optional(text(1_000, 1)).describe(
          'when absent: the prediction with the name of the label, the one named "value", or the only one',
        ),
        task: optional(z.enum(tasks, `must be one of ${tasks.join(', ')}`)).describe(
          'chosen by the type of the label when absent',
        ),
        top: count(1, 1_000).describe('number of classes in the answer; 50 when absent'),
      }),
      answer: z.object({
        label: z.string().nullable().describe('null while the model has no labels or no predictions'),
        prediction: z.string().nullable(),
        task: z.enum(tasks).nullable(),
        windows: z.array(
          z.object({
            ...windowAnswer,
            predictions: z.int(),
            labelled: z.int(),
            unlabelledShare: metric.describe('null without a prediction'),
            accuracy: metric,
            precision: metric,
            recall: metric,
            f1: metric,
            classCount: z.int(),
            classes: z.array(z.object({ name: z.string(), correct: z.int(), predicted: z.int(), actual: z.int() })),
            meanAbsoluteError: metric,
            rootMeanSquaredError: metric,
            bias: metric,
          }),
        ),
      }),
      async handle({ query, caller }) {
        const model = await models.find(caller, query)
        const eventReader = await segments.open(model, query)
        const scope = { modelId: model.id, kind: 'EVENTS', version: query.modelVersion } as const
        const judgement = await findJudgement(eventReader, scope, query)
        if (judgement && 'error' in judgement) {
          throw new HttpError(judgement.isUnknown ? 'featureUnknown' : 'badRequest', judgement.error)
        }
        const windows = await findWindows(eventReader, scope, query, windowsMax)
        if (!judgement || !windows) return { label: null, prediction: null, task: null, windows: [] }
        const read = await readQuality(eventReader, { scope, windows, judgement, top: query.top ?? 50 })
        return {
          ...judgement,
          windows: Array.from({ length: countWindows(windows) }, (_, at) => {
            const it = read.find(({ window }) => window === at)
            const { predictions = 0, labelled = 0 } = it ?? {}
            return {
              ...boundsOf(windows, at),
              predictions,
              labelled,
              unlabelledShare: predictions === 0 ? null : 1 - labelled / predictions,
              accuracy: it?.accuracy ?? null,
              precision: it?.precision ?? null,
              recall: it?.recall ?? null,
              f1: it?.f1 ?? null,
              classCount: it?.classCount ?? 0,
              classes: it?.classes ?? [],
              meanAbsoluteError: it?.meanAbsoluteError ?? null,
              rootMeanSquaredError: it?.rootMeanSquaredError ?? null,
              bias: it?.bias ?? null,
            }
          }),
        }
      },
    }),

    route({
      ...commonFields,
      path: '/mpm/v2/labels/delay',
      summary:
        'How many predictions have a label, and how long after the prediction it came, in windows of the time of the ' +
        'prediction. A delay is the time of the label less the time of the prediction, in ms: 0 for labels that came with ' +
        'it. The quantiles are exact: the least delay that a share q does not exceed.',
      query: object({ ...modelQuery.shape, ...windowFields, ...segmentFields }),
      answer: z.object({
        windows: z.array(
          z.object({
            ...windowAnswer,
            predictions: z.int(),
            labelled: z.int(),
            coverage: metric.describe('the share that has a label; null without a prediction'),
            delays: z
              .record(z.string(), z.int())
              .describe('by share, such as 0.5 for the median; empty without a label'),
            longest: z.int().nullable(),
          }),
        ),
      }),
      async handle({ query, caller }) {
        const model = await models.find(caller, query)
        const eventReader = await segments.open(model, query)
        const scope = { modelId: model.id, kind: 'EVENTS', version: query.modelVersion } as const
        const windows = await findWindows(eventReader, scope, query, windowsMax)
        if (!windows) return { windows: [] }
        const read = await readDelays(eventReader, { scope, windows })
        return {
          windows: read.map(({ predictions, labelled, quantiles, longest }, at) => ({
            ...boundsOf(windows, at),
            predictions,
            labelled,
            coverage: predictions === 0 ? null : labelled / predictions,
            delays: Object.fromEntries(quantiles.map((it, q) => [delayLevels[q], it])),
            longest,
          })),
        }
      },
    }),
  ]
}
