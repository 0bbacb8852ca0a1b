import { z } from 'zod'
import { object, optional, text } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { type Route, route } from '../../http/route.ts'
import { quantileLevels, readCategorical, readNumeric } from '../../store/clickhouse/monitoring/distributions.ts'
import { countEventsOfWindows } from '../../store/clickhouse/monitoring/event-counts.ts'
import { countFeatures, listFeatureNames } from '../../store/clickhouse/monitoring/features.ts'
import type { EventReader } from '../../store/clickhouse/monitoring/reader.ts'
import { countWindows, type EventScope, type FeatureName, kindOfPart } from '../../store/clickhouse/monitoring/scope.ts'
import { type EventKind, eventKinds, type ValuePart, valueParts } from '../../store/clickhouse/monitoring/tables.ts'
import { type MonitoredModels, modelQuery } from './monitored-model.ts'
import { boundsOf, findWindows, windowAnswer, windowFields } from './windows.ts'

type Deps = { eventReader: EventReader; models: MonitoredModels }

const windowsMax = 1_000
const binsMax = 200
const topMax = 1_000
export const allParts = Object.keys(valueParts) as ValuePart[]

const expected = (values: readonly string[]) => ({ error: `must be one of ${values.join(', ')}` })

export const partField = optional(z.enum(allParts, expected(allParts)))
const kindNames = Object.keys(eventKinds).filter((it) => it !== 'LATE_LABELS') as Exclude<EventKind, 'LATE_LABELS'>[]
const kindField = optional(z.enum(kindNames, expected(kindNames))).describe(
  'events of production when absent; TRAINING_EVENTS are those of a reference data set',
)

/** A whole number of the query. */
export const count = (least: number, most: number) =>
  optional(
    z.coerce
      .number('expected an integer')
      .int('expected an integer')
      .min(least, `must be ${least} or more`)
      .max(most, `must be ${most} or fewer`),
  )

const edgesField = optional(
  text(10_000).transform((value, context) => {
    const edges = value.split(',').map(Number)
    const isAscending = edges.every((it, at) => Number.isFinite(it) && (at === 0 || it > (edges[at - 1] as number)))
    if (isAscending && edges.length >= 2 && edges.length <= binsMax + 1) return edges
    context.addIssue({
      code: 'custom',
      message: `expected 2 to ${binsMax + 1} ascending numbers with commas between them`,
    })
    return z.NEVER
  }),
).describe('the bounds of the bins, ascending, with commas between them')

export const commonFields = {
  method: 'GET',
  permission: 'caller',
  topic: 'Production monitoring',
  atRoot: true,
  shape: 'plain',
} as const

const typeAnswer = z.enum(['numeric', 'categorical']).describe('numeric when most values are numbers')

/** What features are like: which there are, and how their values are distributed over time. */
export function createMonitoringFeatureRoutes({ eventReader, models }: Deps): Route[] {
  return [
    route({
      ...commonFields,
      path: '/mpm/v2/features',
      summary:
        'Lists the features, predictions and labels of a model with their types, how many values they have of each, and ' +
        'which share of the events has none: those that say so (null, NaN) and those that do not have the feature at all.',
      query: object({ ...modelQuery.shape, kind: kindField, from: windowFields.from, to: windowFields.to }),
      answer: z.object({
        features: z.array(
          z.object({
            name: z.string(),
            part: z.enum(allParts),
            type: typeAnswer,
            values: z
              .object({ integer: z.int(), float: z.int(), boolean: z.int(), string: z.int() })
              .describe('how many, by type'),
            events: z.int().describe('for labels: sets of labels'),
            missing: z.int().describe('events without a value'),
            missingShare: z.number().nullable(),
          }),
        ),
      }),
      async handle({ query, caller }) {
        const model = await models.find(caller, query)
        const scope = {
          modelId: model.id,
          kind: query.kind ?? 'EVENTS',
          version: query.modelVersion,
          from: toNumber(query.from),
          to: toNumber(query.to),
        } as const
        const counted = await countFeatures(eventReader, scope, await listFeatureNames(eventReader, scope, allParts))
        return {
          features: counted
            .filter((it) => it.events > 0)
            .map(({ integers, floats, booleans, strings, ...it }) => ({
              ...it,
              values: { integer: integers, float: floats, boolean: booleans, string: strings },
              missingShare: it.events === 0 ? null : it.missing / it.events,
            })),
        }
      },
    }),

    route({
      ...commonFields,
      path: '/mpm/v2/distribution',
      summary:
        'Reads how the values of a feature are distributed, in windows of time. Numeric: a histogram over bins that are the ' +
        'same in all windows (a bin has its lower bound, the last one both), least, greatest, mean, standard deviation of ' +
        'the population and quantiles (the least value that a share q does not exceed; of more than 250,000 events ' +
        'they are rounded to 10 bits of their distance from one in their midst first). Categorical: how often the most frequent ' +
        'categories are there, the rest as one, and how many different ones (exact up to 100).',
      query: object({
        ...modelQuery.shape,
        ...windowFields,
        kind: kindField,
        feature: text(1_000, 1),
        part: partField.describe('feature when absent'),
        bins: count(1, binsMax).describe('how many bins are laid over all values; 20 when absent'),
        edges: edgesField,
        top: count(1, topMax).describe('how many categories; 20 when absent'),
      }),
      answer: z.object({
        feature: z.string(),
        part: z.enum(allParts),
        type: typeAnswer,
        edges: z.array(z.number()).describe('numeric: the bounds of the bins'),
        categories: z.array(z.string()).describe('categorical: the most frequent ones of all windows'),
        windows: z.array(
          z.object({
            ...windowAnswer,
            events: z.int(),
            values: z.int(),
            missing: z.int(),
            missingShare: z.number().nullable().describe('null without an event'),
            otherTypes: z.int().describe('numeric: values that are no numbers'),
            counts: z.array(z.int()).describe('of each bin, or of each category'),
            rest: z.int().describe('numbers in no bin (infinite, or beyond the given bounds), or all other categories'),
            min: z.number().nullable(),
            max: z.number().nullable(),
            mean: z.number().nullable(),
            std: z.number().nullable(),
            quantiles: z.record(z.string(), z.number()).describe('by the share of values below'),
            distinct: z.int().nullable().describe('categorical: how many different ones'),
            isExact: z.boolean().describe('numeric: the quantiles; categorical: distinct'),
          }),
        ),
      }),
      async handle({ query, caller }) {
        const model = await models.find(caller, query)
        const feature = { part: query.part ?? 'feature', name: query.feature }
        const kind = kindOfPart(feature.part, query.kind ?? 'EVENTS')
        const scope = { modelId: model.id, kind, version: query.modelVersion }
        const windows = await findWindows(eventReader, scope, query, windowsMax)
        const ofTime = { ...scope, from: windows?.from, to: windows?.to }
        const [found] = await countFeatures(eventReader, ofTime, [feature])
        if (!found || found.events === found.missing) await requireFeature(scope, feature)
        const type = found?.type ?? 'numeric'
        if (!windows) return { feature: feature.name, part: feature.part, type, edges: [], categories: [], windows: [] }
        const events = await countEventsOfWindows(eventReader, scope, windows)
        const all = events.reduce((sum, it) => sum + it, 0)
        const distributed = { scope, feature, windows, events: all }
        const empty = { otherTypes: 0, min: null, max: null, mean: null, std: null, quantiles: {}, distinct: null }
        const toWindow = (at: number, values: number) => {
          const ofWindow = Math.max(events[at] as number, values)
          const missing = ofWindow - values
          const missingShare = ofWindow === 0 ? null : missing / ofWindow
          return { ...boundsOf(windows, at), events: ofWindow, values, missing, missingShare }
        }
        const places = Array.from({ length: countWindows(windows) }, (_, at) => at)
        const place = { feature: feature.name, part: feature.part, type }
        if (type === 'numeric') {
          const read = await readNumeric(eventReader, distributed, query.edges ?? query.bins ?? 20)
          const bins = Math.max(0, read.edges.length - 1)
          return {
            ...place,
            edges: read.edges,
            categories: [],
            windows: places.map((at) => {
              const it = read.windows.find(({ window }) => window === at)
              const counts = it?.counts ?? Array<number>(bins).fill(0)
              const values = it?.values ?? 0
              return {
                ...toWindow(at, values + (it?.otherTypes ?? 0)),
                ...empty,
                ...(it && { otherTypes: it.otherTypes, min: it.min, max: it.max, mean: it.mean, std: it.std }),
                counts,
                rest: values - counts.reduce((sum, count) => sum + count, 0),
                quantiles: Object.fromEntries((it?.quantiles ?? []).map((value, q) => [quantileLevels[q], value])),
                isExact: it?.isExact ?? true,
              }
            }),
          }
        }
        const read = await readCategorical(eventReader, distributed, query.top ?? 20)
        return {
          ...place,
          edges: [],
          categories: read.categories,
          windows: places.map((at) => {
            const it = read.windows.find(({ window }) => window === at)
            const counts = it?.counts ?? Array<number>(read.categories.length).fill(0)
            const values = it?.values ?? 0
            return {
              ...toWindow(at, values),
              ...empty,
              counts,
              rest: values - counts.reduce((sum, count) => sum + count, 0),
              distinct: it?.distinct ?? 0,
              isExact: it?.isDistinctExact ?? true,
            }
          }),
        }
      },
    }),
  ]

  async function requireFeature(scope: EventScope, { part, name }: FeatureName) {
    const names = await listFeatureNames(eventReader, scope, [part])
    if (names.some((it) => it.name === name)) return
    throw unknownFeature(
      { part, name },
      names.map((it) => it.name),
    )
  }
}

const toNumber = (value: number | bigint | undefined) => (value === undefined ? undefined : Number(value))

export function unknownFeature({ part, name }: FeatureName, known: string[]): HttpError {
  const some = known
    .slice(0, 10)
    .map((it) => it.slice(0, 100))
    .join(', ')
  const hint = known.length === 0 ? `it has no ${part} at all` : `it has ${some}${known.length > 10 ? ', ..' : ''}`
  return new HttpError('featureUnknown', `feature: the model has no ${part} "${name.slice(0, 200)}": ${hint}.`)
}
