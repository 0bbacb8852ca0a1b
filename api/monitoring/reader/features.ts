import { z } from 'zod'
import { flag, object, optional, text } from '../../../http/body/fields.ts'
import { HttpError } from '../../../http/errors.ts'
import { type Route, route } from '../../../http/route.ts'
import {
  type NumericWindow,
  quantileLevels,
  readCategorical,
  readNumeric,
} from '../../../store/clickhouse/monitoring/distributions.ts'
import type { Drift } from '../../../store/clickhouse/monitoring/drift/drift.ts'
import { countEvents } from '../../../store/clickhouse/monitoring/event-counts.ts'
import { countFeatures, listFeatureNames } from '../../../store/clickhouse/monitoring/features.ts'
import type { EventReader } from '../../../store/clickhouse/monitoring/reader.ts'
import { type FeatureName, kindOfPart } from '../../../store/clickhouse/monitoring/scope.ts'
import type { Sandbox } from '../../../store/clickhouse/monitoring/sql/sandbox.ts'
import { readDrift } from '../../../store/monitoring/drift-report.ts'
import { findReference } from '../../../store/monitoring/reference.ts'
import type { Database } from '../../../store/postgres/database.ts'
import { unknownReference } from '../drift.ts'
import { unknownFeature } from '../fields.ts'
import type { MonitoredModels } from '../monitored-model.ts'
import { findRange, points, readerRoute, readFields, seriesAnswer, sourceField, sources, toPoints } from './fields.ts'
import { openSegments } from './segments.ts'

type Deps = { database: Database; eventReader: EventReader; sandbox: Sandbox | undefined; models: MonitoredModels }

const pdfBins = 50
const categoriesMax = 1_000
const percentiles = [0, 0.1, 0.25, 0.5, 0.75, 0.9, 1] as const
const algorithms = ['EMD', 'PSI', 'KL', 'KS'] as const

const featureFields = { ...readFields, name: text(1_000, 1), source: sourceField }

/** Reads the drift and the distribution of a feature, prediction or label. */
export function createReaderFeatureRoutes({ database, eventReader, sandbox, models }: Deps): Route[] {
  /** The type of a column, from its values of all time. @throws HttpError `featureUnknown` */
  async function findType(modelId: bigint, feature: FeatureName) {
    const whole = { modelId, kind: 'EVENTS' } as const
    const [counted] = await countFeatures(eventReader, whole, [feature])
    if (counted && counted.events > counted.missing) return counted.type
    const names = await listFeatureNames(eventReader, whole, [feature.part])
    if (!names.some((it) => it.name === feature.name)) {
      const others = names.map((it) => it.name)
      throw unknownFeature(feature, others, 'name')
    }
    return counted?.type ?? 'numeric'
  }

  const toFeature = ({ name, source }: { name: string; source?: keyof typeof sources | undefined }): FeatureName => ({
    part: sources[source ?? 'model_input_features'],
    name,
  })

  return [
    route({
      ...readerRoute,
      path: '/api/mpm/v2/features/drift',
      summary:
        'The distance of a feature, prediction or label from the reference in each hour or day, as GET /mpm/v2/drift measures ' +
        'it. EMD: for numbers the Wasserstein distance divided by the standard deviation of the reference, for categories ' +
        'the total variation distance. PSI. KL: Kullback-Leibler. KS: the statistic of Kolmogorov-Smirnov, null for ' +
        'categories. Null without values.',
      body: object({
        ...featureFields,
        algorithmType: optional(z.enum(algorithms, `must be one of ${algorithms.join(', ')}`)).describe(
          'EMD when absent',
        ),
      }),
      answer: seriesAnswer,
      async handle({ body, caller }) {
        const model = await models.findById(caller, body.modelId)
        const feature = toFeature(body)
        const wanted = { workspaceId: model.workspace.id, modelName: model.name, modelVersion: body.version }
        const reference = await findReference(
          { queries: database, reader: eventReader },
          { ...wanted, datasetName: undefined },
        )
        if (!reference) throw unknownReference({ modelName: model.name })
        await findType(model.id, feature)
        const range = await findRange(eventReader, model.id, body)
        const others = [reference.scope.modelId]
        const segments = await openSegments(
          { eventReader, sandbox },
          { modelId: model.id, predicates: body.predicates, others },
        )
        const algorithm = body.algorithmType ?? 'EMD'
        return {
          data: await Array.fromAsync(segments, async ({ predicateKey, reader }) => {
            const { scope, windows } = range
            const report = await readDrift(reader, { reference, current: scope, windows, feature })
            const drifts = new Map(report.map(({ at, features }) => [at, features[0]?.drift]))
            return { predicateKey, data: toPoints(range, (at) => toDistance(drifts.get(at), algorithm)) }
          }),
        }
      },
    }),

    route({
      ...readerRoute,
      path: '/api/mpm/v2/features/distribution',
      summary:
        'The distribution of a column in each hour or day, as GET /mpm/v2/distribution reads it. Numeric: p0 (the minimum), ' +
        `p10, p25, p50, p75, p90 and p100 (the maximum). Categorical: the count of each category, up to ${categoriesMax}, or ` +
        'with `normalize` its share of all values.',
      body: object({ ...featureFields, normalize: optional(flag) }),
      answer: z.object({
        data: z.array(
          z.object({ predicateKey: z.string(), chartData: z.array(z.object({ value: z.string(), points })) }),
        ),
      }),
      async handle({ body, caller }) {
        const model = await models.findById(caller, body.modelId)
        const feature = toFeature(body)
        const type = await findType(model.id, feature)
        const range = await findRange(eventReader, model.id, body)
        const { windows } = range
        const scope = { ...range.scope, kind: kindOfPart(feature.part, 'EVENTS') }
        const segments = await openSegments(
          { eventReader, sandbox },
          { modelId: model.id, predicates: body.predicates },
        )
        return {
          data: await Array.fromAsync(segments, async ({ predicateKey, reader }) => {
            if (type === 'categorical') {
              const read = await readCategorical(reader, { scope, feature, windows, events: 0 }, categoriesMax)
              const found = new Map(read.windows.map((it) => [it.window, it]))
              const toY = (at: number, category: number) => {
                const { counts = [], values = 0 } = found.get(at) ?? {}
                const count = counts[category] ?? 0
                if (!body.normalize) return count
                return values === 0 ? null : count / values
              }
              const chartData = read.categories.map((value, nth) => ({
                value,
                points: toPoints(range, (at) => toY(at, nth)),
              }))
              return { predicateKey, chartData }
            }
            const { events } = await countEvents(reader, scope)
            const read = await readNumeric(reader, { scope, feature, windows, events }, 1)
            const found = new Map(read.windows.map((it) => [it.window, it]))
            const chartData = percentiles.map((share) => ({
              value: `p${share * 100}`,
              points: toPoints(range, (at) => toPercentile(found.get(at), share)),
            }))
            return { predicateKey, chartData }
          }),
        }
      },
    }),

    route({
      ...readerRoute,
      path: '/api/mpm/v2/features/numerical-distribution-pdf',
      summary:
        `The probability density of the finite values of a numeric column from \`from\` to \`to\`: a histogram of ${pdfBins} bins of ` +
        'equal width from the least value to the greatest (of all predictions, so that conditions have the same bins). x is ' +
        'the middle of a bin; y is its share of the values, divided by its width.',
      body: object(featureFields),
      answer: z.object({
        data: z.array(
          z.object({
            predicateKey: z.string(),
            pdfDistributionGraphs: z.object({
              wholeTimeRangeDistribution: z.object({
                graphPoints: z.array(z.object({ x: z.number(), y: z.number().nullable() })),
              }),
            }),
          }),
        ),
      }),
      async handle({ body, caller }) {
        const model = await models.findById(caller, body.modelId)
        const feature = toFeature(body)
        if ((await findType(model.id, feature)) !== 'numeric') {
          throw new HttpError('badRequest', 'name: is categorical, and only a numeric column has a density')
        }
        const range = await findRange(eventReader, model.id, body, Number.POSITIVE_INFINITY)
        const scope = { ...range.scope, kind: kindOfPart(feature.part, 'EVENTS') }
        const windows = { from: scope.from as number, to: scope.to as number, intervalMs: Number.MAX_SAFE_INTEGER }
        const read = async (reader: EventReader, bins: number[] | number) => {
          const { events } = await countEvents(reader, scope)
          return await readNumeric(reader, { scope, feature, windows, events }, bins)
        }
        const whole = await read(eventReader, pdfBins)
        const segments = await openSegments(
          { eventReader, sandbox },
          { modelId: model.id, predicates: body.predicates },
        )
        return {
          data: await Array.fromAsync(segments, async ({ predicateKey, reader, condition }) => {
            const { edges, windows: found } = condition === undefined ? whole : await read(reader, whole.edges)
            const graphPoints = toDensity(edges, found[0])
            return { predicateKey, pdfDistributionGraphs: { wholeTimeRangeDistribution: { graphPoints } } }
          }),
        }
      },
    }),
  ]
}

function toDistance(drift: Drift | undefined, algorithm: (typeof algorithms)[number]): number | null | undefined {
  if (drift === undefined || drift.values === 0) return null
  switch (algorithm) {
    case 'PSI':
      return drift.psi
    case 'KL':
      return drift.kullbackLeibler
    case 'KS':
      return drift.kolmogorovSmirnov
    case 'EMD':
      // Numbers have bins with bounds; categories have no Wasserstein distance.
      return drift.wasserstein ?? drift.totalVariation
  }
}

function toPercentile(
  window: NumericWindow | undefined,
  share: (typeof percentiles)[number],
): number | null | undefined {
  if (share === 0) return window?.min
  if (share === 1) return window?.max
  return window?.quantiles[quantileLevels.indexOf(share)]
}

function toDensity(edges: number[], window: NumericWindow | undefined) {
  const counts = window?.counts ?? []
  const all = counts.reduce((sum, it) => sum + it, 0)
  return edges.slice(1).map((high, at) => {
    const low = edges[at] as number
    return { x: low / 2 + high / 2, y: all === 0 ? null : (counts[at] ?? 0) / all / (high - low) }
  })
}
