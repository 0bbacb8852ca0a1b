import { toJsonInteger } from '../../http/body/exact-json.ts'
import type { ClickHouse } from '../../store/clickhouse/connection.ts'
import {
  type ChangedMetric,
  type ChangedOutput,
  readChangedMetrics,
  readChangedOutput,
  readNewest,
} from '../../store/clickhouse/live/changes.ts'
import type { Experiment } from '../../store/postgres/experiments/experiments.ts'
import { toMetadata } from '../experiments/experiments.ts'
import { type LivePosition, toEventId } from './position.ts'
import { createEvents, createReaders } from './readers.ts'

/**
 * Tells readers what has changed in many experiments: per metric the newest point and how many are new, at most once a
 * second. What lies between two positions is read as a whole, up to the watermark, so there is neither a gap nor a
 * repetition. Readers at the same position share one query.
 *
 * The watermark is a second ago, or more. A page that shows the newest point wants to know at once, and reads it again anyway:
 * `stored` tells it of experiments with something newer, without a promise of all that was accepted before.
 */
type Settings = {
  clickhouse: ClickHouse
  /** The position until which everything accepted is stored; undefined while the queue is behind. */
  findPosition(): Promise<LivePosition | undefined>
  onError(error: unknown): void
  streamsMax?: number
  heartbeatMs?: number
  everyMs?: number | undefined
  /** Runs what is of no single request. */
  outside?: <T>(work: () => T) => T
  /** How often is looked for what was just stored. */
  lookEveryMs?: number
}

/** The experiments of a reader that were active since this time (ms), or all of a reader that named them (`isNamed`). */
type Scope = { isNamed: boolean; list(activeSinceMs: number): Promise<Experiment[]>; mayRead(): Promise<boolean> }

const everyMsDefault = 1_000
const lookEveryMsDefault = 400
/** Rows are stored out of order, those of a slow insert so much later. */
const lookBackMs = 10_000
/** The pause after a poll, in durations of the poll. */
const pausePerPoll = 3
/** An experiment is listed as active this long after its last row was accepted: heartbeats are written every few seconds. */
const activeForMs = 60_000
/** Ids are sent in the URL of the query, which may be one megabyte long. */
const idsAtOnce = 10_000

type Reader = {
  scope: Scope
  position: LivePosition | undefined
  shownStates: Map<bigint, { key: string; state: string }>
  /** The newest row of each experiment that it was told of, by acceptance (ms). */
  storedMs: Map<bigint, number>
  openedAtMs: number
  events: ReturnType<typeof createEvents>
}

export function createChangeStreams(settings: Settings) {
  const { clickhouse, findPosition, onError } = settings
  const { streamsMax, heartbeatMs, outside, everyMs = everyMsDefault } = settings
  const lookEveryMs = Math.min(settings.lookEveryMs ?? lookEveryMsDefault, everyMs)
  const readers = createReaders<Reader>({ streamsMax, heartbeatMs, beginsSilent: true, poll: look, outside })
  let toldAtMs = 0

  async function look(): Promise<number> {
    const beganAt = performance.now()
    await poll().catch(onError)
    return Math.max(lookEveryMs, (performance.now() - beganAt) * pausePerPoll)
  }

  async function poll() {
    const isDue = performance.now() - toldAtMs >= everyMs
    const until = isDue ? await findPosition() : undefined
    if (isDue) toldAtMs = performance.now()
    const ready = readers.ready()
    const nowMs = Date.now()
    const listed = await Promise.all(
      ready.map(async (reader) => {
        const sinceMs = Number(reader.position?.points.receivedMs ?? nowMs) - activeForMs
        return { reader, experiments: await reader.scope.list(sinceMs) }
      }),
    )
    for (const { reader, experiments } of listed) sendStates(reader, experiments, nowMs)
    const watched = [...new Set(listed.flatMap(({ experiments }) => experiments.map((it) => it.id)))]
    const newest = await readStored(watched, nowMs - lookBackMs)
    for (const { reader, experiments } of listed) sendStored(reader, experiments, newest)
    if (until === undefined) return
    for (const { reader } of listed) reader.position ??= until
    const behind = listed.filter(({ reader }) => isBefore(reader.position as LivePosition, until))
    const together = Map.groupBy(behind, ({ reader }) => toEventId(reader.position as LivePosition))
    for (const group of together.values()) {
      const after = group[0]?.reader.position as LivePosition
      const ids = [...new Set(group.flatMap(({ experiments }) => experiments.map((it) => it.id)))]
      const [metrics, output] = await readChanges(ids, after, until)
      for (const { reader, experiments } of group) {
        reader.position = until
        sendChanges(reader, experiments, metrics, output)
      }
    }
  }

  async function readStored(ids: bigint[], afterMs: number) {
    const newest = new Map<bigint, number>()
    for (let from = 0; from < ids.length; from += idsAtOnce) {
      for (const it of await readNewest(clickhouse, ids.slice(from, from + idsAtOnce), afterMs)) newest.set(...it)
    }
    return newest
  }

  async function readChanges(ids: bigint[], after: LivePosition, until: LivePosition) {
    const metrics: ChangedMetric[] = []
    const output: ChangedOutput[] = []
    for (let from = 0; from < ids.length; from += idsAtOnce) {
      const experimentIds = ids.slice(from, from + idsAtOnce)
      const [points, lines] = await Promise.all([
        readChangedMetrics(clickhouse, { experimentIds, after: after.points, before: until.points }),
        readChangedOutput(clickhouse, { experimentIds, after: after.lines, before: until.lines }),
      ])
      for (const it of points) metrics.push(it)
      for (const it of lines) output.push(it)
    }
    return [
      Map.groupBy(metrics, (it) => BigInt(it.id)),
      new Map(output.map((it) => [BigInt(it.id), Number(it.lines)])),
    ] as const
  }

  return {
    /**
     * Streams the changes of a scope after a position as Server-Sent Events; from now on without one. The stream ends when
     * `mayRead` returns false, with `leave`, and when the process stops.
     *
     * @throws HttpError `unavailable` when there are too many streams
     */
    open(scope: Scope, position: LivePosition | undefined) {
      const toReader = (): Reader => ({
        scope,
        position,
        shownStates: new Map(),
        storedMs: new Map(),
        openedAtMs: Date.now(),
        events: createEvents(),
      })
      return readers.open(toReader, scope.mayRead)
    },

    /** Ends all streams and rejects new ones. */
    close: readers.close,
  }
}

export type ChangeStreams = ReturnType<typeof createChangeStreams>

/** The watermark may step back when the queue fills. */
const isBefore = (one: LivePosition, other: LivePosition) =>
  one.points.receivedMs < other.points.receivedMs && one.lines.receivedMs < other.lines.receivedMs

const send = (reader: Reader, event: string, data: unknown) =>
  reader.events.push(event, data, reader.position && toEventId(reader.position))

function sendStates(reader: Reader, experiments: Experiment[], nowMs: number) {
  for (const it of experiments) {
    const metadata = toMetadata(it, nowMs)
    // The end of a running experiment changes with every point.
    const { durationMillis: _duration, endTimeMillis: _end, ...lasting } = metadata
    const state = JSON.stringify([lasting, String(it.endTimeMs)])
    if (reader.shownStates.get(it.id)?.state === state) continue
    reader.shownStates.set(it.id, { key: it.key, state })
    send(reader, 'state', metadata)
  }
  // Those of a project are listed while they are active: to miss one there says nothing.
  if (!reader.scope.isNamed || reader.shownStates.size === experiments.length) return
  const there = new Set(experiments.map((it) => it.id))
  for (const [id, { key: experimentKey }] of reader.shownStates) {
    if (there.has(id)) continue
    reader.shownStates.delete(id)
    send(reader, 'deleted', { experimentKey })
  }
}

function sendStored(reader: Reader, experiments: Experiment[], newest: Map<bigint, number>) {
  const experimentKeys = experiments.flatMap(({ id, key }) => {
    const ms = newest.get(id)
    // What was accepted before it opened, the reader has read, unless it was stored meanwhile.
    if (ms === undefined || ms <= (reader.storedMs.get(id) ?? reader.openedAtMs - everyMsDefault)) return []
    reader.storedMs.set(id, ms)
    return [key]
  })
  if (experimentKeys.length > 0) send(reader, 'stored', { experimentKeys })
}

function sendChanges(
  reader: Reader,
  experiments: Experiment[],
  metricsOf: Map<bigint, ChangedMetric[]>,
  linesOf: Map<bigint, number>,
) {
  const metrics = experiments.flatMap(({ id, key }) =>
    (metricsOf.get(id) ?? []).map((it) => ({
      experimentKey: key,
      metricName: it.metric,
      context: it.context || null,
      lastStep: it.step === null ? null : toJsonInteger(BigInt(it.step)),
      lastValue: toValue(it.value),
      lastTime: toJsonInteger(BigInt(it.time)),
      count: Number(it.points),
    })),
  )
  const output = experiments.flatMap(({ id, key }) => {
    const lines = linesOf.get(id)
    return lines === undefined ? [] : [{ experimentKey: key, lines }]
  })
  if (metrics.length === 0 && output.length === 0) return
  send(reader, 'changes', { position: toEventId(reader.position as LivePosition), metrics, output })
}

/** A number, or the name of one that JSON has no form for. */
const toValue = (text: string) => (Number.isFinite(Number(text)) ? Number(text) : text)
