import { z } from 'zod'
import { int64, object, optional, text } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { type Route, route } from '../../http/route.ts'
import type { ClickHouse } from '../../store/clickhouse/connection.ts'
import { countEventsOverTime } from '../../store/clickhouse/monitoring/event-counts.ts'
import { countByVersion, findTimeRange, type VersionCounts } from '../../store/clickhouse/monitoring/events.ts'
import { type EventKind, eventKinds } from '../../store/clickhouse/monitoring/tables.ts'
import type { Database } from '../../store/postgres/database.ts'
import { listIngestionErrors } from '../../store/postgres/monitoring/ingestion-errors.ts'
import { findMonitoredModel, listModelCounters, listMonitoredModels } from '../../store/postgres/monitoring/models.ts'
import type { Access } from '../access.ts'
import { commonFields } from './fields.ts'
import { type MonitoredModels, modelQuery } from './monitored-model.ts'
import { type SegmentReaders, segmentFields } from './segments.ts'

type Deps = {
  database: Database
  clickhouse: ClickHouse
  access: Access
  models: MonitoredModels
  segments: SegmentReaders
}

const modelsPerPage = 500
const errorsMax = 1_000
const intervalsMax = 10_000

const ms = z.int().describe('ms since the Unix epoch')
const kindCounts = { events: z.int(), labels: z.int(), trainingEvents: z.int() }

const versionAnswer = z.object({
  modelVersion: z.string().describe('empty for events without a version'),
  ...kindCounts,
  firstTimestamp: ms.nullable().describe('of its events; ms since the Unix epoch'),
  lastTimestamp: ms.nullable(),
  lastReceivedAt: ms.nullable().describe('when the last one was received; ms since the Unix epoch'),
})

/** Lists models, and counts their events and the errors in them. */
export function createMonitoringModelRoutes({ database, clickhouse, access, models, segments }: Deps): Route[] {
  return [
    route({
      ...commonFields,
      path: '/mpm/v2/models',
      summary:
        'Lists the monitored models and data sets of a workspace by name. For each version: the number of events, labels ' +
        'and training events, the timestamps of the first and last event, and when the last one was received.',
      query: object({
        workspaceName: text(1_000, 1),
        modelName: optional(text(1_000)).describe('only this model'),
        page: optional(text(1_000)).describe('the nextPage of the previous answer'),
      }),
      answer: z.object({
        models: z.array(
          z.object({
            modelName: z.string(),
            versions: z.array(versionAnswer),
            counters: z
              .object({ accepted: z.int(), duplicates: z.int(), throttled: z.int() })
              .describe('items: accepted, duplicates of known events, and rejected by a rate limit'),
          }),
        ),
        nextPage: z.string().nullable(),
      }),
      async handle({ query, caller }) {
        const workspace = await access.workspace(caller, query.workspaceName)
        const one =
          query.modelName === undefined ? undefined : await findMonitoredModel(database, workspace.id, query.modelName)
        const listed =
          query.modelName !== undefined
            ? [one].filter((it) => it !== undefined)
            : await listMonitoredModels(database, {
                workspaceId: workspace.id,
                afterName: query.page ?? '',
                limit: modelsPerPage,
              })
        const ids = listed.map((it) => it.id)
        const [counts, counters] = await Promise.all([
          countByVersion(clickhouse, ids),
          listModelCounters(database, ids),
        ])
        const countsOf = Map.groupBy(counts, (it) => it.modelId)
        const countersOf = new Map(counters.map((it) => [it.modelId, it]))
        return {
          models: listed.map(({ id, name }) => {
            const { accepted = 0n, duplicates = 0n, throttled = 0n } = countersOf.get(id) ?? {}
            const stored = countsOf.get(String(id)) ?? []
            return {
              modelName: name,
              versions: toVersions(stored),
              counters: {
                // The counter is written a moment after the answer, and not at all by a process that was killed. Labels may have
                // come with their event, as one item.
                accepted: Math.max(Number(accepted), sum(stored.map((it) => (it.kind === lateLabels ? 0 : it.events)))),
                duplicates: Number(duplicates),
                throttled: Number(throttled),
              },
            }
          }),
          nextPage: listed.length === modelsPerPage ? (listed.at(-1)?.name ?? null) : null,
        }
      },
    }),

    route({
      ...commonFields,
      path: '/mpm/v2/events/count',
      summary:
        'Counts the events, labels and training events of a model over time and by version. Intervals begin at multiples ' +
        'of their width since the Unix epoch (UTC); intervals without events are left out.',
      query: object({
        ...modelQuery.shape,
        ...segmentFields,
        from: optional(int64).describe('start, ms since the Unix epoch, included; the first event when absent'),
        to: optional(int64).describe('end, ms since the Unix epoch, excluded; after the last event when absent'),
        interval: optional(int64).describe(
          'ms, at most 10,000 intervals; when absent: an hour, a day or a week, the shortest with at most 1,000 intervals',
        ),
      }),
      answer: z.object({
        interval: z.int().describe('ms'),
        counts: z.array(z.object({ timestamp: ms, modelVersion: z.string(), ...kindCounts })),
      }),
      async handle({ query, caller }) {
        const model = await models.find(caller, query)
        if (query.interval !== undefined && query.interval < 1_000) {
          throw new HttpError('badRequest', 'interval: must be 1000 ms or more')
        }
        const extent = await findTimeRange(clickhouse, model.id)
        if (!extent) return { interval: Number(query.interval ?? hourMs), counts: [] }
        const fromMs = Math.max(Number(query.from ?? extent.firstMs), extent.firstMs)
        const toMs = Math.min(Number(query.to ?? extent.lastMs + 1), extent.lastMs + 1)
        const intervalMs = Number(query.interval ?? toInterval(toMs - fromMs))
        if ((toMs - fromMs) / intervalMs > intervalsMax) {
          throw new HttpError(
            'badRequest',
            `interval: makes more than ${intervalsMax} intervals: send a longer interval, or from and to`,
          )
        }
        if (fromMs >= toMs) return { interval: intervalMs, counts: [] }
        const eventReader = await segments.open(model, query)
        const ofTime = { modelId: model.id, version: query.modelVersion, from: fromMs, to: toMs }
        const counted = await countEventsOverTime(eventReader, ofTime, intervalMs)
        const groups = Map.groupBy(counted, (it) => JSON.stringify([it.startMs, it.version]))
        return {
          interval: intervalMs,
          counts: [...groups.values()].map((group) => ({
            timestamp: group[0]?.startMs as number,
            modelVersion: group[0]?.version as string,
            ...toKindCounts(group),
          })),
        }
      },
    }),

    route({
      ...commonFields,
      path: '/mpm/v2/errors',
      summary:
        'Lists the errors of events that were rejected in the last days, newest first. They are grouped by day, model and ' +
        'error, with the number of events and the prediction id of one of them.',
      query: object({
        workspaceName: text(1_000, 1),
        modelName: optional(text(1_000)).describe('as it was sent; the model need not have an accepted event'),
      }),
      answer: z.object({
        errors: z.array(
          z.object({
            modelName: z.string().describe('empty if none was sent'),
            day: z.string().describe('UTC, as 2026-01-31'),
            call: z.string(),
            msg: z.string(),
            sample: z.string().describe('the prediction id of one of them, or its row'),
            count: z.int(),
            firstAt: ms,
            lastAt: ms,
          }),
        ),
      }),
      async handle({ query, caller }) {
        const workspace = await access.workspace(caller, query.workspaceName)
        const errors = await listIngestionErrors(database, {
          workspaceId: workspace.id,
          modelName: query.modelName,
          limit: errorsMax,
        })
        return {
          errors: errors.map(({ fault, count, firstAtMs, lastAtMs, ...error }) => ({
            ...error,
            msg: fault,
            count: Number(count),
            firstAt: Number(firstAtMs),
            lastAt: Number(lastAtMs),
          })),
        }
      },
    }),
  ]
}

const lateLabels = eventKinds.LATE_LABELS
const sum = (numbers: number[]) => numbers.reduce((total, it) => total + it, 0)

const hourMs = 3_600_000
const shownIntervals = 1_000

/** An hour, a day or a week: the shortest that makes few enough intervals to draw. */
function toInterval(durationMs: number): number {
  const [longest, ...shorter] = [7 * 24 * hourMs, 24 * hourMs, hourMs] as [number, ...number[]]
  return shorter.toReversed().find((it) => durationMs / it <= shownIntervals) ?? longest
}

const kindFields = { EVENTS: 'events', LATE_LABELS: 'labels', TRAINING_EVENTS: 'trainingEvents' } as const
const fieldOfKind = new Map(
  (Object.keys(eventKinds) as EventKind[]).map((kind) => [eventKinds[kind] as number, kindFields[kind]]),
)

function toKindCounts(group: { kind: number; events: number }[]) {
  const counts = { events: 0, labels: 0, trainingEvents: 0 }
  for (const { kind, events } of group) {
    const field = fieldOfKind.get(kind)
    if (field) counts[field] += events
  }
  return counts
}

/** The timestamps are those of events: labels do not say when a version was in use. They are used if there is nothing else. */
function toVersions(counts: VersionCounts[]) {
  return [...Map.groupBy(counts, (it) => it.version)].map(([modelVersion, all]) => {
    const events = all.filter((it) => it.kind !== eventKinds.LATE_LABELS)
    const timed = events.length > 0 ? events : all
    return {
      modelVersion,
      ...toKindCounts(all),
      firstTimestamp: Math.min(...timed.map((it) => it.firstMs)),
      lastTimestamp: Math.max(...timed.map((it) => it.lastMs)),
      lastReceivedAt: Math.max(...all.map((it) => it.lastReceivedMs)),
    }
  })
}
