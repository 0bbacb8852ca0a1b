import type { IncomingHttpHeaders } from 'node:http'
import { z } from 'zod'
import type { ExactJson } from '../http/body/exact-json.ts'
import { HttpError } from '../http/errors.ts'
import { type Caller, fastRoute, type Route, toEnvelope } from '../http/route.ts'
import type { NativeBlock } from '../store/clickhouse/blocks/native-block.ts'
import type { outputLinesTable, pointsTable, systemPointsTable } from '../store/clickhouse/points/tables.ts'
import type { Table } from '../store/clickhouse/table.ts'
import type { ExperimentType } from '../store/limits.ts'
import type { WritableExperiment } from '../store/postgres/experiments/experiments.ts'
import type { Heartbeats } from '../store/postgres/experiments/heartbeats.ts'
import type { QueueName } from '../store/queue/queues.ts'
import type { Counters } from '../throttle/counters.ts'
import type { Throttle } from '../throttle/throttle.ts'
import type { Committer } from './committer.ts'
import { createIdentities, type RequestId, toRequestId } from './identity.ts'
import { outputFields } from './output/output-line.ts'
import { type Batch, batchFields, countPoints, readBatch, readEnvelope } from './points/batch.ts'
import { metricFields, readMetric } from './points/metric.ts'
import { type Origin, pushLine, pushPoints } from './points/rows.ts'
import type { Dropped } from './points/series-limits.ts'
import {
  cpuFields,
  gpuFields,
  loadFields,
  type Reading,
  ramFields,
  type SystemBody,
  toCpuReading,
  toGpuReading,
  toLoadReading,
  toRamReading,
  toSystemPoints,
} from './points/system-metrics.ts'

/**
 * The writes of the stream. Each goes the same way: whose experiment is it, may it send that much now, is every part of
 * it right, into the open block, and an answer once the queue has the block.
 */
type Deps = {
  findExperiment(userId: string, key: string): WritableExperiment | Promise<WritableExperiment>
  throttle: Throttle
  /** Takes the points that are over a limit by count out of a request's. */
  limitSeries(experiment: WritableExperiment, batch: Pick<Batch, 'points' | 'places'>): Dropped | Promise<Dropped>
  committers: {
    metrics: Committer<typeof pointsTable>
    systemMetrics: Committer<typeof systemPointsTable>
    output: Committer<typeof outputLinesTable>
  }
  heartbeats: Heartbeats
  counters: Counters
  startMs: number
  onAccepted(type: StreamType, rows: number): void
}

/** The data types that go through a queue of the same name. */
type StreamType = ExperimentType & QueueName

const batchBytesMax = 16 * 1024 * 1024
const idempotencyKeyCharactersMax = 200

const saved = JSON.stringify({ msg: 'Saved', code: 200, data: null, sdk_error_code: 0 })
const savedAnswer = z.object({ msg: z.literal('Saved') })
const batchAnswer = z.object({
  msg: z.literal('Saved'),
  accepted: z.int().describe('points that will be read back'),
  rejected: z.array(z.object({ index: z.int(), msg: z.string() })).describe('points that were wrong, the first 1,000'),
  rejectedCount: z.int(),
  throttled: z.int().describe('points dropped because a limit by count was reached'),
})

const common = { method: 'POST', permission: 'caller', topic: 'Experiments: the stream', shape: 'envelope' } as const

/** Whose write it is, and how many rows it was charged for. */
type Write = { experiment: WritableExperiment; caller: Caller; identity: RequestId; admitted: number }

export function createIngestRoutes(deps: Deps): Route[] {
  const identities = createIdentities(deps.startMs)
  const writePoints = createStream('metrics', deps.committers.metrics)
  const writeSystemPoints = createStream('systemMetrics', deps.committers.systemMetrics)
  const writeLines = createStream('output', deps.committers.output)

  /** What all writes of one type share: admit the rows, commit them, and note that the experiment is active. */
  function createStream<T extends Table>(type: StreamType, committer: Committer<T>) {
    return {
      admit(experiment: WritableExperiment, caller: Caller, rows: number) {
        return deps.throttle.admit(type, experiment, caller, rows)
      },
      /** Commits the rows that are left of those admitted. */
      commit(
        { experiment, caller, identity, admitted }: Write,
        rows: number,
        append: (block: NativeBlock<T>, origin: Origin) => void,
      ): Promise<void> | undefined {
        if (rows === 0) return undefined
        const experimentId = experiment.id
        const origin = { experimentId, identity, receivedMs: Date.now() }
        const note = () => {
          deps.heartbeats.active(experimentId, origin.receivedMs)
          deps.counters.accepted(type, experimentId, rows)
          deps.onAccepted(type, rows)
        }
        const giveBack = (error: unknown) => {
          deps.throttle.giveBack({ type, experimentId, keyId: caller.keyId, count: admitted })
          throw error
        }
        return committer.commit(origin.receivedMs, (block) => append(block, origin)).then(note, giveBack)
      },
    }
  }

  /** Counts what was dropped, for the answer and for whoever looks at the experiment. */
  function noteDropped({ id }: WritableExperiment, { overNames, overPoints }: Dropped): number {
    if (overNames > 0) deps.counters.throttled('metrics', id, overNames, 'metric points: too many metric names')
    if (overPoints > 0) deps.counters.throttled('metrics', id, overPoints, 'metric points: too many of one metric')
    return overNames + overPoints
  }

  function toIdentity(caller: Caller, call: string, headers: IncomingHttpHeaders): RequestId {
    const key = headers['idempotency-key']
    if (key === undefined) return identities.next()
    if (typeof key !== 'string' || key === '' || key.length > idempotencyKeyCharactersMax) {
      throw new HttpError('badRequest', `Idempotency-Key: must have 1 to ${idempotencyKeyCharactersMax} characters`)
    }
    return toRequestId(`${caller.userId} ${call}`, key)
  }

  const metric = fastRoute({
    ...common,
    path: '/write/experiment/metric',
    summary: 'Logs one point of a metric. Metrics are the only values kept as full time series.',
    body: metricFields,
    answer: savedAnswer,
    checksOwnBody: true,
    async handle({ body, caller, headers }) {
      const identity = toIdentity(caller, 'metric', headers)
      const { experimentKey, point } = readMetric(body)
      // Each await would cost a turn, and mostly everything is known.
      const found = deps.findExperiment(caller.userId, experimentKey)
      const experiment = found instanceof Promise ? await found : found
      const admitted = writePoints.admit(experiment, caller, 1)
      if (admitted) await admitted
      const batch = { points: [point], places: [0] }
      const dropped = deps.limitSeries(experiment, batch)
      noteDropped(experiment, dropped instanceof Promise ? await dropped : dropped)
      const write = { experiment, caller, identity, admitted: 1 }
      await writePoints.commit(write, batch.points.length, (block, origin) =>
        pushPoints(block, origin, batch.points, batch.places),
      )
      return saved
    },
  })

  const metricsBatch = fastRoute({
    ...common,
    path: '/write/experiment/metrics/batch',
    summary: 'Logs many points, as rows or as columns. A point that is wrong is told and does not sink the others.',
    body: batchFields,
    answer: batchAnswer,
    checksOwnBody: true,
    bodyBytesMax: batchBytesMax,
    async handle({ body, caller, headers }) {
      const identity = toIdentity(caller, 'batch', headers)
      const envelope = readEnvelope(body as unknown as ExactJson)
      const experiment = await deps.findExperiment(caller.userId, envelope.experimentKey)
      const admitted = countPoints(envelope)
      await writePoints.admit(experiment, caller, admitted)
      const { points, places, rejected, rejectedCount } = readBatch(envelope)
      const throttled = noteDropped(experiment, await deps.limitSeries(experiment, { points, places }))
      await writePoints.commit({ experiment, caller, identity, admitted }, points.length, (block, origin) => {
        pushPoints(block, origin, points, places)
      })
      const answer: z.input<typeof batchAnswer> = {
        msg: 'Saved',
        accepted: points.length,
        rejected,
        rejectedCount,
        throttled,
      }
      return JSON.stringify(toEnvelope(answer))
    },
  })

  function systemMetrics<Fields extends z.ZodType<SystemBody>>(
    name: string,
    summary: string,
    body: Fields,
    toReading: (body: z.output<Fields>) => Reading,
  ): Route {
    return fastRoute({
      ...common,
      path: `/write/experiment/${name}`,
      summary,
      body,
      answer: savedAnswer,
      async handle({ body, caller, headers }) {
        const identity = toIdentity(caller, name, headers)
        const experiment = await deps.findExperiment(caller.userId, body.experimentKey)
        const points = toSystemPoints(toReading(body), body)
        const admitted = points.length
        await writeSystemPoints.admit(experiment, caller, admitted)
        await writeSystemPoints.commit({ experiment, caller, identity, admitted }, admitted, (block, origin) => {
          pushPoints(block, origin, points, [...points.keys()])
        })
        return saved
      },
    })
  }

  const output = fastRoute({
    ...common,
    path: '/write/experiment/output',
    summary: 'Logs lines of output. `stderr: true` means standard error; lines are read back in the order of `offset`.',
    body: outputFields,
    answer: savedAnswer,
    bodyBytesMax: batchBytesMax,
    async handle({ body, caller, headers }) {
      const identity = toIdentity(caller, 'output', headers)
      const experiment = await deps.findExperiment(caller.userId, body.experimentKey)
      const lines = body.outputLines
      const admitted = lines.length
      await writeLines.admit(experiment, caller, admitted)
      const context = body.context ?? body.runContext ?? ''
      await writeLines.commit({ experiment, caller, identity, admitted }, admitted, (block, origin) => {
        lines.forEach((line, place) => {
          pushLine(block, origin, place, context, line)
        })
      })
      return saved
    },
  })

  return [
    metric,
    metricsBatch,
    systemMetrics('gpu-metrics', 'Logs memory and utilization of GPUs.', gpuFields, toGpuReading),
    systemMetrics('ram-metrics', 'Logs the use of memory, in bytes.', ramFields, toRamReading),
    systemMetrics('cpu-metrics', 'Logs the utilization of each CPU, in percent.', cpuFields, toCpuReading),
    systemMetrics('load-metrics', 'Logs the load average.', loadFields, toLoadReading),
    output,
  ]
}
