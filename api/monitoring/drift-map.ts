import { z } from 'zod'
import { int64, object, optional, text } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { type Route, route } from '../../http/route.ts'
import { countEvents } from '../../store/clickhouse/monitoring/event-counts.ts'
import type { EventReader } from '../../store/clickhouse/monitoring/reader.ts'
import { countWindows, type EventScope, type Windows } from '../../store/clickhouse/monitoring/scope.ts'
import { type MapDrift, type MapProfile, type MapWindow, readDriftMap } from '../../store/monitoring/drift-map.ts'
import { readDrift } from '../../store/monitoring/drift-report.ts'
import {
  judge,
  judgeAll,
  measureNames,
  statuses,
  thresholdDefaults,
  type Verdict,
} from '../../store/monitoring/drift-verdict.ts'
import type { FoundReference } from '../../store/monitoring/reference.ts'
import type { Database } from '../../store/postgres/database.ts'
import { ofSegmentAnswer, openComparison } from './drift.ts'
import { allParts, commonFields, expected, typeAnswer } from './fields.ts'
import { type MonitoredModels, modelQuery } from './monitored-model.ts'
import { type SegmentReaders, segmentFields } from './segments.ts'
import { boundsOf, windowAnswer } from './windows.ts'

type Deps = { database: Database; segments: SegmentReaders; models: MonitoredModels }

const windowsMax = 366
const windowsDefault = 90
const intervalMsMin = 60_000
export const dayMs = 86_400_000

const measure = z.number().nullable()

/** The drift of all features over time, in few bytes. */
export function createMonitoringDriftMapRoutes({ database, segments, models }: Deps): Route[] {
  return [
    route({
      ...commonFields,
      path: '/mpm/v2/drift/map',
      summary:
        'The drift of each feature and prediction in each window of time, as /mpm/v2/drift measures it, in columns: every ' +
        'list of a feature has an entry for each window. Windows begin at multiples of their length since the Unix epoch ' +
        '(UTC). Windows whose events are all summed up are computed once; so are, ahead, the days of models with a ' +
        'reference. A segment is computed from its events each time.',
      query: object({
        ...modelQuery.shape,
        from: optional(int64).describe(
          `ms since the Unix epoch: the window of this time is the first; ${windowsDefault} windows before the end when absent`,
        ),
        to: optional(int64).describe('ms since the Unix epoch, excluded; after the last event when absent'),
        interval: optional(int64).describe('the length of a window in ms; a day when absent'),
        ...segmentFields,
        datasetName: optional(text(1_000, 1)).describe(
          'the reference; the last one uploaded for the model when absent',
        ),
        measure: optional(z.enum(measureNames, expected(measureNames))).describe(
          'the measure for all features; when absent each is judged as /mpm/v2/drift does',
        ),
      }),
      answer: z.object({
        reference: z.object({
          datasetName: z.string(),
          events: z.int(),
          lastReceivedAt: z.int(),
          ofSegment: ofSegmentAnswer,
        }),
        interval: z.int(),
        windows: z.array(
          z.object({
            ...windowAnswer,
            events: z.int(),
            drifted: z.boolean().nullable(),
            driftedFeatures: z.int(),
            judgedFeatures: z.int(),
          }),
        ),
        features: z.array(
          z.object({
            name: z.string(),
            part: z.enum(allParts),
            type: typeAnswer,
            drifted: z.array(z.boolean().nullable()).describe('null without a verdict'),
            value: z.array(measure).describe('of the measure that decided'),
            judgedBy: z.array(z.enum(measureNames).nullable()),
            status: z.array(z.enum(statuses).nullable()).describe('null where the feature is not known'),
            missingShare: z.array(measure).describe('null without an event'),
          }),
        ),
      }),
      shape: 'plain',
      async handle({ query, caller }) {
        const model = await models.find(caller, query)
        const { eventReader, reference, ofSegment } = await openComparison({ database, segments }, model, query)
        const current = { modelId: model.id, kind: 'EVENTS', version: query.modelVersion } as const
        const { datasetName, events, lastReceivedAt } = reference
        const intervalMs = Number(query.interval ?? dayMs)
        const answered = { reference: { datasetName, events, lastReceivedAt, ofSegment }, interval: intervalMs }
        const windows = await findMapWindows(eventReader, current, query)
        if (!windows) return { ...answered, windows: [], features: [] }
        const isWhole = ofSegment === null
        const map = await readMap({ database, eventReader }, { reference, current, windows }, isWhole)
        const rows = judgeMap(map, query.measure)
        return {
          ...answered,
          windows: map.map(({ events }, at) => {
            const verdicts = rows.flatMap((it) => it.verdicts[at] ?? [])
            const { driftedShare: _, ...all } = judgeAll(verdicts, thresholdDefaults)
            return { ...boundsOf(windows, at), events, ...all }
          }),
          features: rows.map(({ profile, verdicts, drifts }) => ({
            name: profile.name,
            part: profile.part,
            type: profile.type,
            drifted: verdicts.map((it) => it?.drifted ?? null),
            value: verdicts.map((it, at) => (it?.judgedBy ? (drifts[at]?.[it.judgedBy] ?? null) : null)),
            judgedBy: verdicts.map((it) => it?.judgedBy ?? null),
            status: verdicts.map((it) => it?.status ?? null),
            missingShare: map.map(({ events }, at) => {
              const it = drifts[at]
              return it === undefined || events === 0 ? null : Math.min(1, it.missing / events)
            }),
          })),
        }
      },
    }),
  ]
}

type WindowQuery = { from?: number | bigint; to?: number | bigint; interval?: number | bigint }

/**
 * The windows of a map, all of full length; undefined when there are no events.
 *
 * @throws HttpError that names the field
 */
async function findMapWindows(
  reader: EventReader,
  scope: EventScope,
  { from, to, interval }: WindowQuery,
): Promise<Windows | undefined> {
  const intervalMs = Number(interval ?? dayMs)
  if (!(intervalMs >= intervalMsMin)) throw new HttpError('badRequest', `interval: must be ${intervalMsMin} ms or more`)
  const extent = from === undefined || to === undefined ? await countEvents(reader, scope) : undefined
  if (extent?.events === 0) return undefined
  const end = Math.ceil(Number(to ?? (extent?.lastAt ?? 0) + 1) / intervalMs) * intervalMs
  const earliest = end - windowsDefault * intervalMs
  const start = Number(from ?? Math.max(earliest, extent?.firstAt ?? earliest))
  const windows = { from: Math.floor(start / intervalMs) * intervalMs, to: end, intervalMs }
  if (windows.from >= end) throw new HttpError('badRequest', 'to: must be later than from')
  if (countWindows(windows) > windowsMax) {
    throw new HttpError('badRequest', `interval: makes more than ${windowsMax} windows: send a longer one, or from`)
  }
  return windows
}

type Readers = { database: Database; eventReader: EventReader }
type MapQuery = { reference: FoundReference; current: EventScope; windows: Windows }

/** `isWhole`: the reader reads all events of the model, not a segment, so what is stored may stand for them. */
export const readMap = ({ database, eventReader }: Readers, query: MapQuery, isWhole: boolean): Promise<MapWindow[]> =>
  isWhole
    ? readDriftMap({ queries: database, reader: eventReader }, query)
    : readDrift(eventReader, { ...query, feature: undefined })

type JudgedRow = {
  profile: MapProfile
  /** For each window; undefined where the feature is not known. */
  verdicts: (Verdict | undefined)[]
  drifts: (MapDrift | undefined)[]
}

/** The verdicts of a map, feature by feature, in the order of their names. */
export function judgeMap(map: MapWindow[], measure: (typeof measureNames)[number] | undefined): JudgedRow[] {
  const rows = new Map<string, JudgedRow>()
  for (const [at, { features }] of map.entries()) {
    for (const { profile, drift } of features) {
      const key = `${profile.part} ${profile.name}`
      const row = rows.get(key) ?? {
        profile,
        verdicts: Array<undefined>(map.length).fill(undefined),
        drifts: Array<undefined>(map.length).fill(undefined),
      }
      rows.set(key, row)
      row.verdicts[at] = judge(drift, profile, { thresholds: thresholdDefaults, measure })
      row.drifts[at] = drift
    }
  }
  const order = ({ profile: { part, name } }: JudgedRow) => `${allParts.indexOf(part)} ${name}`
  return [...rows.values()].toSorted((a, b) => (order(a) < order(b) ? -1 : 1))
}
