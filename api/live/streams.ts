import { toJsonInteger } from '../../http/body/exact-json.ts'
import type { ClickHouse } from '../../store/clickhouse/connection.ts'
import {
  type ArrivedLine,
  type ArrivedPoint,
  readArrivedLines,
  readArrivedPoints,
  toPosition,
} from '../../store/clickhouse/live/arrivals.ts'
import type { Database } from '../../store/postgres/database.ts'
import { type Experiment, listExperimentsById } from '../../store/postgres/experiments/experiments.ts'
import type { QueueName } from '../../store/queue/queues.ts'
import { toMetadata } from '../experiments/experiments.ts'
import { createWatermark } from '../experiments/watermark.ts'
import { type LivePosition, toEnd, toEventId } from './position.ts'
import { createEvents, createReaders } from './readers.ts'

/**
 * Streams updates of experiments to subscribers. One poll of the stores a second serves all readers. A reader with unsent
 * events is skipped, so that events do not pile up.
 *
 * Rows reach ClickHouse out of order. So a poll reads only up to the watermark (`watermark.ts`): before it the order of
 * acceptance is final, and a position in that order says what a reader has seen. A reader gets every row once, even if it
 * reconnects to another process. Rows that are stored later than the watermark expects are sent only if they follow the
 * reader's position; other reads have all of them.
 */
type Settings = {
  database: Database
  clickhouse: ClickHouse
  /** When the oldest block of a queue was added; see `Producer`. */
  oldestAddedMs(name: QueueName): Promise<number | undefined>
  onError(error: unknown): void
  streamsMax?: number
  heartbeatMs?: number
  everyMs?: number | undefined
  /** Runs what is of no single request. */
  outside?: <T>(work: () => T) => T
}

const everyMsDefault = 1_000
/** The pause after a poll, in durations of the poll (a quarter of a second for ten million points, measured). */
const pausePerPoll = 3
/** The pause while a reader has more to read. */
const moreEveryMs = 100
/** An experiment without activity for this long is polled this rarely: a poll reads all of it. */
const idleAfterMs = 15_000
/** The limits of one poll over all readers. */
const rowsMax = 20_000
const lineBytesMax = 8 * 1024 ** 2
/** Requests with an `Idempotency-Key` may be repeated: this many of their rows are remembered for each reader. */
const repeatableMax = 20_000

const repeatableBit = 2n ** 63n

type Reader = {
  experimentId: bigint
  position: LivePosition
  shownState: string
  repeatable: Set<string>
  events: ReturnType<typeof createEvents>
  polledAtMs: number
}

export function createLiveStreams(settings: Settings) {
  const { database, clickhouse, oldestAddedMs, onError } = settings
  const { streamsMax, heartbeatMs, outside, everyMs = everyMsDefault } = settings
  const watermark = createWatermark(oldestAddedMs)
  /** How many lines the last look read, if it left some for their length. */
  let lastRead: number | undefined
  const readers = createReaders<Reader>({ streamsMax, heartbeatMs, poll: look, outside })

  async function look(): Promise<number> {
    const beganAt = performance.now()
    const hasMore = await poll().catch((error: unknown) => {
      onError(error)
      return false
    })
    return Math.max((performance.now() - beganAt) * pausePerPoll, hasMore ? moreEveryMs : everyMs)
  }

  /** Sends the updates of all readers. @returns true when a reader has more to read */
  async function poll(): Promise<boolean> {
    const ready = readers.ready()
    if (ready.length === 0) return false
    const untilMs = { points: await watermark.find('metrics'), lines: await watermark.find('output') }
    const nowMs = Date.now()
    const found = await listExperimentsById(database, [...new Set(ready.map((it) => it.experimentId))])
    const experiments = new Map(found.map((it) => [it.id, it]))
    for (const it of ready) sendState(it, experiments.get(it.experimentId), nowMs)
    const busy = ready.filter((it) => isDue(it, experiments.get(it.experimentId), nowMs))
    const each = Math.ceil(rowsMax / Math.max(1, busy.length))
    const watch = (kind: keyof LivePosition) =>
      busy.map(({ experimentId, position }) => ({ experimentId, after: position[kind] }))
    const ofLines = { untilMs: untilMs.lines ?? 0, rowsMax: each, bytesMax: lineBytesMax, lastRead }
    const [points, { lines, cut }] = await Promise.all([
      readArrivedPoints(clickhouse, watch('points'), { untilMs: untilMs.points ?? 0, rowsMax: each }),
      readArrivedLines(clickhouse, watch('lines'), ofLines),
    ])
    lastRead = cut.size > 0 ? lines.length : undefined
    const [pointsOf, linesOf] = [Map.groupBy(points, (it) => it.watch), Map.groupBy(lines, (it) => it.watch)]
    let hasMore = false
    busy.forEach((it, at) => {
      const [newPoints, newLines] = [pointsOf.get(at) ?? [], linesOf.get(at) ?? []]
      sendPoints(it, newPoints)
      sendLines(it, newLines)
      const isPart = newPoints.length === each || newLines.length === each || cut.has(at)
      it.polledAtMs = isPart ? 0 : nowMs
      hasMore ||= isPart
    })
    return hasMore
  }

  return {
    /**
     * Streams the updates of an experiment after a position as Server-Sent Events, beginning with its state. The stream ends
     * when the experiment is deleted, when `mayRead` returns false, with `leave`, and when the process stops.
     *
     * @throws HttpError `unavailable` when there are too many streams
     */
    open(experiment: Experiment, position: LivePosition, mayRead: () => Promise<boolean>) {
      return readers.open(() => {
        const reader: Reader = {
          experimentId: experiment.id,
          position,
          shownState: '',
          repeatable: new Set(),
          events: createEvents(),
          polledAtMs: 0,
        }
        sendState(reader, experiment, Date.now())
        return reader
      }, mayRead)
    },

    /** The position until which every accepted row is stored; undefined while a queue is long. */
    async findPosition(): Promise<LivePosition | undefined> {
      const [points, usage, lines] = await Promise.all([
        watermark.find('metrics'),
        watermark.find('systemMetrics'),
        watermark.find('output'),
      ])
      if (points === undefined || usage === undefined || lines === undefined) return undefined
      return toEnd(Math.min(points, usage), lines)
    },

    /** Ends all streams and rejects new ones. */
    close: readers.close,
  }
}

export type LiveStreams = ReturnType<typeof createLiveStreams>

/** Idle experiments are polled rarely, not never: their last rows may be stored late. */
function isDue(reader: Reader, experiment: Experiment | undefined, nowMs: number): boolean {
  if (!experiment) return false
  const isIdle = nowMs - Number(experiment.activeAtMs) > idleAfterMs
  return !isIdle || nowMs - reader.polledAtMs > idleAfterMs
}

const send = (reader: Reader, event: string, data: unknown) =>
  reader.events.push(event, data, toEventId(reader.position))

function sendState(reader: Reader, experiment: Experiment | undefined, nowMs: number) {
  if (!experiment) {
    // Deleted: a reader that reconnects gets the error.
    return reader.events.end()
  }
  const metadata = toMetadata(experiment, nowMs)
  // The end of a running experiment changes with every point.
  const { durationMillis: _duration, endTimeMillis: _end, ...lasting } = metadata
  const state = JSON.stringify([lasting, String(experiment.endTimeMs)])
  if (state === reader.shownState) return
  reader.shownState = state
  send(reader, 'state', metadata)
}

function sendPoints(reader: Reader, rows: ArrivedPoint[]) {
  const last = rows.at(-1)
  if (!last) return
  reader.position = { ...reader.position, points: toPosition(last) }
  const metrics = rows
    .filter((it) => isNew(reader, 'point', it, [it.metric, it.context, it.step, it.epoch, it.value]))
    .map((it) => ({
      metricName: it.metric,
      metricValue: it.value,
      timestamp: toInteger(it.time),
      step: toInteger(it.step),
      epoch: toInteger(it.epoch),
      runContext: it.context || null,
    }))
  if (metrics.length > 0) send(reader, 'metrics', { metrics })
}

function sendLines(reader: Reader, rows: ArrivedLine[]) {
  const last = rows.at(-1)
  if (!last) return
  reader.position = { ...reader.position, lines: toPosition(last) }
  const outputLines = rows
    .filter((it) => isNew(reader, 'line', it, [it.line, it.context, it.offset]))
    .map((it) => ({
      output: it.line,
      stderr: it.stderr === 1,
      timestamp: toInteger(it.time),
      offset: toInteger(it.offset),
      runContext: it.context || null,
    }))
  if (outputLines.length > 0) send(reader, 'output', { outputLines })
}

/** False for a row that was sent before, by a repeated request with an `Idempotency-Key`. */
function isNew(reader: Reader, kind: string, row: ArrivedPoint | ArrivedLine, content: (string | null)[]): boolean {
  if (BigInt(row.request_hi) < repeatableBit) return true
  const identity = JSON.stringify([kind, row.request_hi, row.request_lo, row.place, ...content])
  const { repeatable } = reader
  if (repeatable.has(identity)) return false
  repeatable.add(identity)
  if (repeatable.size > repeatableMax) repeatable.delete(repeatable.values().next().value as string)
  return true
}

const toInteger = (digits: string | null) => (digits === null ? null : toJsonInteger(BigInt(digits)))
