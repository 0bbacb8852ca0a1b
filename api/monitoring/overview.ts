import { z } from 'zod'
import { flag, object, optional, text } from '../../http/body/fields.ts'
import { type Route, route } from '../../http/route.ts'
import { countEvents, countEventsOfWindows } from '../../store/clickhouse/monitoring/event-counts.ts'
import type { EventReader } from '../../store/clickhouse/monitoring/reader.ts'
import { judgeAll, thresholdDefaults } from '../../store/monitoring/drift-verdict.ts'
import { findReference } from '../../store/monitoring/reference.ts'
import type { Database } from '../../store/postgres/database.ts'
import { alertMeasures, type FiringNow, listFiringNow } from '../../store/postgres/monitoring/alerts.ts'
import { findMonitoredModel, listMonitoredModels, type MonitoredModel } from '../../store/postgres/monitoring/models.ts'
import { listRegisteredNames } from '../../store/postgres/registry/models.ts'
import type { Access } from '../access.ts'
import { dayMs, judgeMap, readMap } from './drift-map.ts'
import { commonFields } from './fields.ts'

type Deps = { database: Database; eventReader: EventReader; access: Access }

const modelsPerPage = 50
const volumeDays = 30
const modelsAtOnce = 4

const ms = z.int().describe('ms since the Unix epoch')

const modelAnswer = z.object({
  modelName: z.string(),
  isDataset: z.boolean().describe('true for a reference: it has training events and no others'),
  events: z.int(),
  labels: z.int(),
  trainingEvents: z.int(),
  lastEventAt: ms.nullable().describe('the latest time of an event; ms since the Unix epoch'),
  lastReceivedAt: ms.nullable(),
  volume: z.array(z.int()).describe(`the events of each of the last ${volumeDays} days of UTC, today's last`),
  registered: z.boolean().describe('the registry has a model of this name'),
  datasetName: z.string().nullable().describe('the reference that it is compared with'),
  verdict: z
    .object({
      from: ms,
      to: ms,
      drifted: z.boolean().nullable().describe('null without a verdict'),
      driftedFeatures: z.int(),
      judgedFeatures: z.int(),
    })
    .nullable()
    .describe('of the last day of UTC with events; null without a reference, or when it is not asked for'),
  rules: z.int().describe('number of its alert rules'),
  firing: z
    .array(
      z.object({
        alertId: z.string(),
        name: z.string(),
        measure: z.enum(alertMeasures),
        windowFrom: ms,
        windowTo: ms,
      }),
    )
    .describe('the rules that fired for the last window they were evaluated for'),
})

/** What is up with each model. */
export function createMonitoringOverviewRoutes({ database, eventReader, access }: Deps): Route[] {
  async function describe(
    workspaceId: string,
    { id: modelId, name: modelName }: MonitoredModel,
    { today, withVerdict }: { today: number; withVerdict: boolean },
  ) {
    const scope = { modelId, kind: 'EVENTS' } as const
    const month = { from: today - (volumeDays - 1) * dayMs, to: today + dayMs, intervalMs: dayMs }
    const [events, labels, training, volume, reference] = await Promise.all([
      countEvents(eventReader, scope),
      countEvents(eventReader, { modelId, kind: 'LATE_LABELS' }),
      countEvents(eventReader, { modelId, kind: 'TRAINING_EVENTS' }),
      countEventsOfWindows(eventReader, scope, month),
      findReference(
        { queries: database, reader: eventReader },
        { workspaceId, modelName, modelVersion: undefined, datasetName: undefined },
      ),
    ])
    const isThere = events.events > 0
    async function judgeLastDay() {
      if (!withVerdict || !reference || !isThere) return null
      const from = Math.floor(events.lastAt / dayMs) * dayMs
      const windows = { from, to: from + dayMs, intervalMs: dayMs }
      const map = await readMap({ database, eventReader }, { reference, current: scope, windows }, true)
      const verdicts = judgeMap(map, undefined).flatMap((it) => it.verdicts[0] ?? [])
      const { driftedShare: _, ...all } = judgeAll(verdicts, thresholdDefaults)
      return { from, to: windows.to, ...all }
    }
    return {
      modelName,
      isDataset: !isThere && training.events > 0,
      events: events.events,
      labels: labels.events,
      trainingEvents: training.events,
      lastEventAt: isThere ? events.lastAt : null,
      lastReceivedAt: isThere ? events.lastReceivedAt : null,
      volume,
      datasetName: reference?.datasetName ?? null,
      verdict: await judgeLastDay(),
    }
  }

  return [
    route({
      ...commonFields,
      path: '/mpm/v2/overview',
      summary:
        'The monitored models of a workspace by name, each with its last event, its volume, the verdict on its last day, and ' +
        'the alert rules that fire now.',
      query: object({
        workspaceName: text(1_000, 1),
        modelName: optional(text(1_000)).describe('only this model'),
        verdict: optional(flag).describe('false: without the verdict, which costs most; true when absent'),
        page: optional(text(1_000)).describe('the nextPage of the previous answer'),
      }),
      answer: z.object({ models: z.array(modelAnswer), nextPage: z.string().nullable() }),
      shape: 'plain',
      async handle({ query, caller }) {
        const { id: workspaceId } = await access.workspace(caller, query.workspaceName)
        const one =
          query.modelName === undefined ? undefined : await findMonitoredModel(database, workspaceId, query.modelName)
        const page = { workspaceId, afterName: query.page ?? '', limit: modelsPerPage }
        const listed =
          query.modelName === undefined ? await listMonitoredModels(database, page) : one === undefined ? [] : [one]
        const names = listed.map((it) => it.name)
        const [rules, registered] = await Promise.all([
          listFiringNow(database, { workspaceId, modelNames: names }),
          listRegisteredNames(database, { workspaceId, names }),
        ])
        const rulesOf = new Map(rules.map((it) => [it.modelName, it]))
        const asked = { today: Math.floor(Date.now() / dayMs) * dayMs, withVerdict: query.verdict ?? true }
        const described = await mapSome(listed, modelsAtOnce, (it) => describe(workspaceId, it, asked))
        return {
          models: described.map((it) => {
            const its = rulesOf.get(it.modelName)
            return {
              ...it,
              registered: registered.has(it.modelName),
              rules: its?.rules ?? 0,
              firing: (its?.firing ?? []).map(toFiring),
            }
          }),
          nextPage: query.modelName === undefined && listed.length === modelsPerPage ? (names.at(-1) ?? null) : null,
        }
      },
    }),
  ]
}

const toFiring = ({ windowFromMs, windowToMs, ...it }: FiringNow) => ({
  ...it,
  windowFrom: windowFromMs,
  windowTo: windowToMs,
})

/** The results for all items in their order, so many at a time. */
async function mapSome<Item, Result>(
  items: Item[],
  atOnce: number,
  toResult: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = []
  const left = items.entries()
  const lane = async () => {
    for (const [at, item] of left) results[at] = await toResult(item)
  }
  await Promise.all(Array.from({ length: atOnce }, lane))
  return results
}
