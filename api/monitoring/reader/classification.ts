import { z } from 'zod'
import { object, optional, text } from '../../../http/body/fields.ts'
import { HttpError } from '../../../http/errors.ts'
import { type Route, route } from '../../../http/route.ts'
import {
  type CurveWindow,
  LabelsNotBinary,
  readBands,
  readCurve,
} from '../../../store/clickhouse/monitoring/classification.ts'
import { listFeatureNames } from '../../../store/clickhouse/monitoring/features.ts'
import type { EventReader } from '../../../store/clickhouse/monitoring/reader.ts'
import type { FeatureName } from '../../../store/clickhouse/monitoring/scope.ts'
import type { Sandbox } from '../../../store/clickhouse/monitoring/sql/sandbox.ts'
import { count, unknownFeature } from '../fields.ts'
import type { MonitoredModels } from '../monitored-model.ts'
import { findRange, readerRoute, readFields, seriesAnswer, toPoints } from './fields.ts'
import { openSegments } from './segments.ts'

type Deps = { eventReader: EventReader; sandbox: Sandbox | undefined; models: MonitoredModels }

const curves = {
  ROC_AUC: 'rocAuc',
  KS: 'kolmogorovSmirnov',
  GINI: 'gini',
} as const satisfies Record<string, keyof CurveWindow>
const curveTypes = Object.keys(curves) as (keyof typeof curves)[]
const bandsByDefault = 10

const scoredFields = {
  ...readFields,
  scoreName: text(1_000, 1).describe('a prediction: the score'),
  labelName: text(1_000, 1),
  positiveClassValue: optional(text(1_000, 1)).describe(
    'the label that a high score means; the label 1 or true when absent, and then all labels must be 0 and 1, or booleans',
  ),
}

const whatIsCompared =
  'All pairs of a prediction that is a finite number and its label, joined by predictionId; by the time of the prediction. '

const rate = z.number().nullable()

/** How well the score of a model separates two classes. */
export function createReaderClassificationRoutes({ eventReader, sandbox, models }: Deps): Route[] {
  async function requireNames(modelId: bigint, names: FeatureName[]) {
    const known = await listFeatureNames(eventReader, { modelId, kind: 'EVENTS' }, ['prediction', 'label'])
    for (const name of names) {
      const ofPart = known.filter((it) => it.part === name.part).map((it) => it.name)
      const field = name.part === 'label' ? 'labelName' : 'scoreName'
      if (!ofPart.includes(name.name)) throw unknownFeature(name, ofPart, field)
    }
  }

  async function open(modelId: bigint, body: z.output<typeof scoredBody>, windowsMax?: number) {
    await requireNames(modelId, [
      { part: 'prediction', name: body.scoreName },
      { part: 'label', name: body.labelName },
    ])
    const range = await findRange(eventReader, modelId, body, windowsMax)
    const segments = await openSegments({ eventReader, sandbox }, { modelId, predicates: body.predicates })
    const judged = { scope: range.scope, prediction: body.scoreName, label: body.labelName }
    return { range, segments, scored: { ...judged, positive: body.positiveClassValue } }
  }

  return [
    route({
      ...readerRoute,
      path: '/api/mpm/v2/model/classification-curve',
      summary:
        `${whatIsCompared}In each hour or day: ROC_AUC, the probability that a positive has a higher score than a negative, equal ` +
        'scores counting half; KS, the greatest distance of the distribution functions of the scores of both classes; GINI, ' +
        '2 ROC_AUC - 1. Null unless there are both classes.',
      body: object({
        ...scoredFields,
        curveType: optional(z.enum(curveTypes, `must be one of ${curveTypes.join(', ')}`)).describe(
          'ROC_AUC when absent',
        ),
      }),
      answer: seriesAnswer,
      async handle({ body, caller }) {
        const model = await models.findById(caller, body.modelId)
        const { range, segments, scored } = await open(model.id, body)
        const measure = curves[body.curveType ?? 'ROC_AUC']
        return {
          data: await Array.fromAsync(segments, async ({ predicateKey, reader }) => {
            const read = await nameLabels(readCurve(reader, { ...scored, windows: range.windows }))
            const found = new Map(read.map((it) => [it.window, it[measure]]))
            return { predicateKey, data: toPoints(range, (at) => found.get(at)) }
          }),
        }
      },
    }),

    route({
      ...readerRoute,
      path: '/api/mpm/v2/model/gains-table',
      summary:
        `${whatIsCompared}From \`from\` to \`to\` they are divided into bands of about equal size, the highest scores first. Equal ` +
        'scores are never divided: all are in the band that the first of them falls into, so a band may be larger than ' +
        'others, or missing. responseRate is positives / count; cumulative numbers are of this band and all before; ' +
        'cumulativeGain is the share of all positives; lift is responseRate / overallRate; cumulativeLift the same of all ' +
        'bands up to this; cumulativeSeparation is the share of all positives less the share of all negatives.',
      body: object({ ...scoredFields, bandCount: count(2, 1_000).describe(`${bandsByDefault} when absent`) }),
      answer: z.object({
        tables: z.array(
          z.object({
            predicateKey: z.string(),
            total: z.int(),
            totalPositives: z.int(),
            overallRate: rate,
            rows: z.array(
              z.object({
                band: z.int().describe('from 1, the highest scores'),
                scoreFrom: z.number(),
                scoreTo: z.number().describe('included, as scoreFrom is'),
                count: z.int(),
                positives: z.int(),
                responseRate: z.number(),
                cumulativeCount: z.int(),
                cumulativePositives: z.int(),
                cumulativePopulationShare: z.number(),
                cumulativeGain: rate,
                lift: rate,
                cumulativeLift: rate,
                cumulativeSeparation: rate,
              }),
            ),
          }),
        ),
      }),
      async handle({ body, caller }) {
        const model = await models.findById(caller, body.modelId)
        const { range, segments, scored } = await open(model.id, body, Number.POSITIVE_INFINITY)
        const { from = 0, to = 0 } = range.scope
        const windows = { from, to, intervalMs: to - from }
        return {
          tables: await Array.fromAsync(segments, async ({ predicateKey, reader }) => {
            const bands = await nameLabels(readBands(reader, { ...scored, windows }, body.bandCount ?? bandsByDefault))
            return { predicateKey, ...toTable(bands) }
          }),
        }
      },
    }),
  ]
}

const scoredBody = object(scoredFields)

async function nameLabels<T>(work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    if (!(error instanceof LabelsNotBinary)) throw error
    throw new HttpError('badRequest', `positiveClassValue: is missing, and ${error.message}`, { cause: error })
  }
}

const share = (part: number, whole: number) => (whole === 0 ? null : part / whole)

function toTable(bands: Awaited<ReturnType<typeof readBands>>) {
  const total = bands.reduce((sum, it) => sum + it.count, 0)
  const totalPositives = bands.reduce((sum, it) => sum + it.positives, 0)
  const overallRate = share(totalPositives, total)
  const toLift = (responseRate: number) => share(responseRate, overallRate ?? 0)
  let [cumulativeCount, cumulativePositives] = [0, 0]
  const rows = bands.map(({ band, scoreFrom, scoreTo, count, positives }) => {
    cumulativeCount += count
    cumulativePositives += positives
    const gain = share(cumulativePositives, totalPositives)
    const negatives = share(cumulativeCount - cumulativePositives, total - totalPositives)
    return {
      band: band + 1,
      ...{ scoreFrom, scoreTo, count, positives },
      responseRate: positives / count,
      ...{ cumulativeCount, cumulativePositives },
      cumulativePopulationShare: cumulativeCount / total,
      cumulativeGain: gain,
      lift: toLift(positives / count),
      cumulativeLift: toLift(cumulativePositives / cumulativeCount),
      cumulativeSeparation: gain === null || negatives === null ? null : gain - negatives,
    }
  })
  return { total, totalPositives, overallRate, rows }
}
