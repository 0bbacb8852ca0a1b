import { z } from 'zod'
import { object, optional, text } from '../../http/body/fields.ts'
import { type Route, route } from '../../http/route.ts'
import { quantileLevels, readCategorical, readNumeric } from '../../store/clickhouse/monitoring/distributions.ts'
import { countEventsOfWindows } from '../../store/clickhouse/monitoring/event-counts.ts'
import { countFeatures, listFeatureNames } from '../../store/clickhouse/monitoring/features.ts'
import type { EventReader } from '../../store/clickhouse/monitoring/reader.ts'
import { countWindows, type EventScope, type FeatureName, kindOfPart } from '../../store/clickhouse/monitoring/scope.ts'
import { type EventKind, eventKinds } from '../../store/clickhouse/monitoring/tables.ts'
import { allParts, commonFields, count, expected, partField, typeAnswer, unknownFeature } from './fields.ts'
import { type MonitoredModels, modelQuery } from './monitored-model.ts'
import { type SegmentReaders, segmentFields } from './segments.ts'
import { boundsOf, findWindows, windowAnswer, windowFields } from './windows.ts'

type Deps = { segments: SegmentReaders; models: MonitoredModels }

const windowsMax = 1_000
const binsMax = 200
const topMax = 1_000
const kindNames = Object.keys(eventKinds).filter((it) => it !== 'LATE_LABELS') as Exclude<EventKind, 'LATE_LABELS'>[]
const kindField = optional(z.enum(kindNames, expected(kindNames))).describe(
  'events of production when absent; TRAINING_EVENTS for a reference data set',
)

const edgesField = optional(
  text(10_000).transform((value, context) => {
    const edges = value.split(',').map(Number)
    const isAscending = edges.every((it, at) => Number.isFinite(it) && (at === 0 || it > (edges[at - 1] as number)))
    if (isAscending && edges.length >= 2 && edges.length <= binsMax + 1) return edges
    context.addIssue({
      code: 'custom',
      message: `expected 2 to ${binsMax + 1} ascending numbers separated by commas`,
    })
    return z.NEVER
  }),
).describe('the bounds of the bins, ascending, separated by commas')

/** Lists features, and reads the distribution of their values over time. */
export function createMonitoringFeatureRoutes({ segments, models }: Deps): Route[] {
  return [
    route({
      ...commonFields,
      path: '/mpm/v2/features',
      summary:
        'Lists the features, predictions and labels of a model, each with its type, the number of values of each type, and ' +
        'the share of events without a value (null, NaN, or no such feature in the event).',
      query: object({
        ...modelQuery.shape,
        kind: kindField,
        from: windowFields.from,
        to: windowFields.to,
        ...segmentFields,
      }),
      answer: z.object({
        features: z.array(
          z.object({
            name: z.string(),
            part: z.enum(allParts),
            type: typeAnswer,
            values: z
              .object({ integer: z.int(), float: z.int(), boolean: z.int(), string: z.int() })
              .describe('number of values by type'),
            events: z.int().describe('for labels: events with labels'),
            missing: z.int().describe('events without a value'),
            missingShare: z.number().nullable(),
          }),
        ),
      }),
      async handle({ query, caller }) {
        const model = await models.find(caller, query)
        const eventReader = await segments.open(model, query)
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
        'Reads the distribution of a feature in windows of time. Numeric: a histogram over the same bins for all windows (a ' +
        'bin includes its lower bound, the last one both), minimum, maximum, mean, standard deviation of the population and ' +
        'quantiles (the least value that a share q does not exceed). With more than 250,000 events, each value is rounded ' +
        'to 10 significant bits of its distance from a value near the median. Categorical: counts of the most frequent ' +
        'categories and of all others together, and the number of distinct ones (exact up to 100).',
      query: object({
        ...modelQuery.shape,
        ...windowFields,
        ...segmentFields,
        kind: kindField,
        feature: text(1_000, 1),
        part: partField.describe('feature when absent'),
        bins: count(1, binsMax).describe('number of bins over all values; 20 when absent'),
        edges: edgesField,
        top: count(1, topMax).describe('number of categories; 20 when absent'),
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
            otherTypes: z.int().describe('numeric: values that are not numbers'),
            counts: z.array(z.int()).describe('for each bin or category'),
            rest: z
              .int()
              .describe('numbers in no bin (infinite, or beyond the given bounds); or values of all other categories'),
            min: z.number().nullable(),
            max: z.number().nullable(),
            mean: z.number().nullable(),
            std: z.number().nullable(),
            quantiles: z.record(z.string(), z.number()).describe('by share, such as 0.5 for the median'),
            distinct: z.int().nullable().describe('categorical: number of distinct ones'),
            isExact: z.boolean().describe('whether the quantiles (numeric) or distinct (categorical) are exact'),
          }),
        ),
      }),
      async handle({ query, caller }) {
        const model = await models.find(caller, query)
        const eventReader = await segments.open(model, query)
        const feature = { part: query.part ?? 'feature', name: query.feature }
        const kind = kindOfPart(feature.part, query.kind ?? 'EVENTS')
        const scope = { modelId: model.id, kind, version: query.modelVersion }
        const windows = await findWindows(eventReader, scope, query, windowsMax)
        const ofTime = { ...scope, from: windows?.from, to: windows?.to }
        const [found] = await countFeatures(eventReader, ofTime, [feature])
        if (!found || found.events === found.missing) await requireFeature(eventReader, scope, feature)
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
        const indexes = Array.from({ length: countWindows(windows) }, (_, at) => at)
        const named = { feature: feature.name, part: feature.part, type }
        if (type === 'numeric') {
          const read = await readNumeric(eventReader, distributed, query.edges ?? query.bins ?? 20)
          const bins = Math.max(0, read.edges.length - 1)
          return {
            ...named,
            edges: read.edges,
            categories: [],
            windows: indexes.map((at) => {
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
          ...named,
          edges: [],
          categories: read.categories,
          windows: indexes.map((at) => {
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

  async function requireFeature(eventReader: EventReader, scope: EventScope, { part, name }: FeatureName) {
    const names = await listFeatureNames(eventReader, scope, [part])
    if (names.some((it) => it.name === name)) return
    throw unknownFeature(
      { part, name },
      names.map((it) => it.name),
    )
  }
}

const toNumber = (value: number | bigint | undefined) => (value === undefined ? undefined : Number(value))
