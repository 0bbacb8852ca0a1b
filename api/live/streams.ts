import { setTimeout as sleep } from 'node:timers/promises'
import { toJsonInteger } from '../../http/body/exact-json.ts'
import { unavailable } from '../../http/errors.ts'
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
import { type LivePosition, toEventId } from './position.ts'

/**
 * What is new of experiments, for readers who stay. All of them are served by one look at the stores a second, whatever
 * their number; a reader who has not taken what there was is left out of it, so that nothing piles up.
 *
 * Rows reach ClickHouse out of order. So a look goes only as far as all is stored (`final-times.ts`): up to there the
 * order of acceptance is final, and a position in it tells all that a reader has seen. It gets every row once, also over
 * a reconnection to another process. What is stored later than was to be expected is shown as far as it was accepted
 * after what the reader has seen; the reads have all of it.
 */
type Settings = {
  database: Database
  clickhouse: ClickHouse
  /** Blocks that wait or are at work. */
  queueDepth(name: QueueName): Promise<number>
  onError(error: unknown): void
  streamsMax?: number
  /** How often a reader hears that the stream is there, and has its right to it looked up again. */
  heartbeatMs?: number
  everyMs?: number | undefined
}

const streamsMaxDefault = 100
const heartbeatMsDefault = 15_000
const everyMsDefault = 1_000
/** However long a look takes (of ten million points a quarter of a second, measured), it is a small part of the time. */
const restPerLook = 3
/** While somebody has more to read than was looked up. */
const soonMs = 100
/** An experiment that has done nothing for this long is looked at this seldom: that reads through all of it. */
const quietAfterMs = 15_000
/** Of one look, over all readers. */
const rowsMax = 20_000
/** Requests with an `Idempotency-Key` may come again later: so many rows of them are remembered for each reader. */
const repeatableMax = 20_000

const repeatableBit = 2n ** 63n

type Reader = {
  experimentId: bigint
  position: LivePosition
  shownState: string
  repeatable: Set<string>
  /** Events that it has not taken yet. */
  waiting: string[]
  lookedAtMs: number
  hasEnded: boolean
  wake(): void
}

export function createLiveStreams(settings: Settings) {
  const { database, clickhouse, queueDepth, onError } = settings
  const { streamsMax = streamsMaxDefault, heartbeatMs = heartbeatMsDefault, everyMs = everyMsDefault } = settings
  const readers = new Set<Reader>()
  const closing = new AbortController()
  const watermark = createWatermark(queueDepth)
  let looking: Promise<void> | undefined

  /** Looks as long as there is a reader. */
  async function keepLooking() {
    while (readers.size > 0) {
      const beganAt = performance.now()
      const hasMore = await look().catch((error: unknown) => {
        watermark.storeWasAway(['metrics', 'output'])
        onError(error)
        return false
      })
      const restMs = (performance.now() - beganAt) * restPerLook
      await sleep(Math.max(restMs, hasMore ? soonMs : everyMs), undefined, { signal: closing.signal }).catch(
        () => undefined,
      )
    }
  }

  async function look(): Promise<boolean> {
    const taken = [...readers].filter((it) => it.waiting.length === 0)
    if (taken.length === 0) return false
    const untilMs = { points: await watermark.find('metrics'), lines: await watermark.find('output') }
    const nowMs = Date.now()
    const found = await listExperimentsById(database, [...new Set(taken.map((it) => it.experimentId))])
    const experiments = new Map(found.map((it) => [it.id, it]))
    for (const it of taken) tellState(it, experiments.get(it.experimentId), nowMs)
    const busy = taken.filter((it) => isDue(it, experiments.get(it.experimentId), nowMs))
    const each = Math.ceil(rowsMax / Math.max(1, busy.length))
    const watch = (kind: keyof LivePosition) =>
      busy.map(({ experimentId, position }) => ({ experimentId, after: position[kind] }))
    const [points, lines] = await Promise.all([
      readArrivedPoints(clickhouse, watch('points'), { untilMs: untilMs.points ?? 0, rowsMax: each }),
      readArrivedLines(clickhouse, watch('lines'), { untilMs: untilMs.lines ?? 0, rowsMax: each }),
    ])
    const [pointsOf, linesOf] = [
      Map.groupBy(points, (it) => Number(it.watch)),
      Map.groupBy(lines, (it) => Number(it.watch)),
    ]
    let hasMore = false
    busy.forEach((it, at) => {
      const [newPoints, newLines] = [pointsOf.get(at) ?? [], linesOf.get(at) ?? []]
      tellPoints(it, newPoints)
      tellLines(it, newLines)
      const isPart = newPoints.length === each || newLines.length === each
      it.lookedAtMs = isPart ? 0 : nowMs
      hasMore ||= isPart
    })
    return hasMore
  }

  return {
    /**
     * What is new of an experiment from a position on, as Server-Sent Events, beginning with its state. It ends when the
     * experiment is gone, when `mayStill` says no, with `leave`, and when the process stops.
     *
     * @throws HttpError `unavailable` when there are too many streams
     */
    open(experiment: Experiment, position: LivePosition, mayStill: () => Promise<boolean>) {
      if (closing.signal.aborted) throw unavailable('This process is stopping.')
      if (readers.size >= streamsMax) throw unavailable('This process has too many streams open.', undefined, 10)
      let wake: () => void = () => undefined
      const reader: Reader = {
        experimentId: experiment.id,
        position,
        shownState: '',
        repeatable: new Set(),
        waiting: [],
        lookedAtMs: 0,
        hasEnded: false,
        wake: () => wake(),
      }
      tellState(reader, experiment, Date.now())
      readers.add(reader)
      looking ??= keepLooking().finally(() => {
        looking = undefined
      })
      async function* events() {
        try {
          for (let checkedAtMs = Date.now(); !reader.hasEnded; ) {
            if (reader.waiting.length > 0) yield reader.waiting.splice(0).join('')
            else {
              const { promise, resolve } = Promise.withResolvers<'event' | 'silence'>()
              wake = () => resolve('event')
              const timer = setTimeout(resolve, heartbeatMs, 'silence')
              const heard = await promise
              clearTimeout(timer)
              if (heard === 'silence') yield ':\n\n'
            }
            if (Date.now() - checkedAtMs < heartbeatMs) continue
            if (!(await mayStill())) break
            checkedAtMs = Date.now()
          }
        } finally {
          end(reader)
        }
      }
      return { events: events(), leave: () => end(reader) }
    },

    /** Ends all streams, and opens none any more. */
    async close() {
      closing.abort()
      for (const it of [...readers]) end(it)
      await looking
    },
  }

  function end(reader: Reader) {
    reader.hasEnded = true
    readers.delete(reader)
    reader.wake()
  }
}

export type LiveStreams = ReturnType<typeof createLiveStreams>

/** Quiet experiments are looked at now and then only: what they did last may have been stored late. */
function isDue(reader: Reader, experiment: Experiment | undefined, nowMs: number): boolean {
  if (!experiment) return false
  const isQuiet = nowMs - Number(experiment.activeAtMs) > quietAfterMs
  return !isQuiet || nowMs - reader.lookedAtMs > quietAfterMs
}

function tell(reader: Reader, event: string, data: unknown) {
  reader.waiting.push(`id: ${toEventId(reader.position)}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`)
  reader.wake()
}

function tellState(reader: Reader, experiment: Experiment | undefined, nowMs: number) {
  if (!experiment) {
    // Deleted: whoever comes again is told so.
    reader.hasEnded = true
    return reader.wake()
  }
  const metadata = toMetadata(experiment, nowMs)
  // While it runs, its end goes with every point.
  const { durationMillis: _duration, endTimeMillis: _end, ...lasting } = metadata
  const state = JSON.stringify([lasting, String(experiment.endTimeMs)])
  if (state === reader.shownState) return
  reader.shownState = state
  tell(reader, 'state', metadata)
}

function tellPoints(reader: Reader, rows: ArrivedPoint[]) {
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
  if (metrics.length > 0) tell(reader, 'metrics', { metrics })
}

function tellLines(reader: Reader, rows: ArrivedLine[]) {
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
  if (outputLines.length > 0) tell(reader, 'output', { outputLines })
}

/** False for a row of a request that was sent again under its `Idempotency-Key`. */
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
