import { z } from 'zod'
import { int64, object, optional, text } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { type Route, route } from '../../http/route.ts'
import type { ClickHouse } from '../../store/clickhouse/connection.ts'
import {
  countByVersion,
  countOverTime,
  findTimeRange,
  type VersionCounts,
} from '../../store/clickhouse/monitoring/events.ts'
import { type EventKind, eventKinds } from '../../store/clickhouse/monitoring/tables.ts'
import type { Database } from '../../store/postgres/database.ts'
import { listIngestionErrors } from '../../store/postgres/monitoring/ingestion-errors.ts'
import { findMonitoredModel, listModelCounters, listMonitoredModels } from '../../store/postgres/monitoring/models.ts'
import type { Access } from '../access.ts'
import { type MonitoredModels, modelQuery } from './monitored-model.ts'

type Deps = { database: Database; clickhouse: ClickHouse; access: Access; models: MonitoredModels }

const common = {
  method: 'GET',
  permission: 'caller',
  topic: 'Production monitoring',
  atRoot: true,
  shape: 'plain',
} as const

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

/** What has reported, how much, and what was wrong with it. */
export function createMonitoringModelRoutes({ database, clickhouse, access, models }: Deps): Route[] {
  return [
    route({
      ...common,
      path: '/mpm/v2/models',
      summary:
        'Lists the models of a workspace that have reported, and its data sets, by name: the events, labels and training ' +
        'events of each version, when the first and the last happened, and when the last was received.',
      query: object({
        workspaceName: text(1_000, 1),
        modelName: optional(text(1_000)).describe('only this one'),
        page: optional(text(1_000)).describe('the nextPage of an earlier answer'),
      }),
      answer: z.object({
        models: z.array(
          z.object({
            modelName: z.string(),
            versions: z.array(versionAnswer),
            counters: z
              .object({ accepted: z.int(), duplicates: z.int(), throttled: z.int() })
              .describe('what became of what was sent, in items: kept, there already, refused by a limit'),
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
            return {
              modelName: name,
              versions: toVersions(countsOf.get(String(id)) ?? []),
              counters: {
                accepted: Number(accepted),
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
      ...common,
      path: '/mpm/v2/events/count',
      summary:
        'Counts the events, labels and training events of a model over time and by version. Intervals begin at multiples ' +
        'of their width since the Unix epoch (UTC); those without any are left out.',
      query: object({
        ...modelQuery.shape,
        from: optional(int64).describe('from then on, ms since the Unix epoch; the first event when absent'),
        to: optional(int64).describe('before then; after the last event when absent'),
        interval: optional(int64).describe(
          'ms, at most 10,000 intervals; when absent an hour, or a day or a week where these would be too many',
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
            `interval: makes more than ${intervalsMax} intervals of the time asked for: send a longer one, or from and to`,
          )
        }
        const counted = await countOverTime(clickhouse, {
          modelId: model.id,
          version: query.modelVersion,
          fromMs,
          toMs,
          intervalMs,
        })
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
      ...common,
      path: '/mpm/v2/errors',
      summary:
        'Lists what was wrong with events of the last days that were not kept, the last first: by day, model and fault, with ' +
        'how often it came and the prediction id of one of them.',
      query: object({
        workspaceName: text(1_000, 1),
        modelName: optional(text(1_000)).describe('as it was sent: also one that has kept no event yet'),
      }),
      answer: z.object({
        errors: z.array(
          z.object({
            modelName: z.string().describe('empty where none was sent'),
            day: z.string().describe('UTC, as 2026-01-31'),
            call: z.string(),
            msg: z.string(),
            sample: z.string().describe('the prediction id of one of them, or where it stood'),
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

const hourMs = 3_600_000
const shownIntervals = 1_000

/** One that people think in, and few enough to look at. */
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

/** Labels tell nothing of when a version was in use; where there is nothing else, they have to do. */
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
