import type { IncomingHttpHeaders } from 'node:http'
import { z } from 'zod'
import { Refusal } from '../http/errors.ts'
import type { ExactJson } from '../http/exact-json.ts'
import { type Caller, type Route, route } from '../http/route.ts'
import type { SignsOfLife } from '../http/signs-of-life.ts'
import type { NativeBlock } from '../store/clickhouse/native-block.ts'
import type { outputLinesTable, pointsTable, systemPointsTable, Table } from '../store/clickhouse/tables.ts'
import { batchFields, countPoints, readBatch, readEnvelope } from './batch.ts'
import type { Committer } from './committer.ts'
import { createIdentities, type RequestId, toRequestId } from './identity.ts'
import { metricFields, readMetric } from './metric.ts'
import { outputFields } from './output-line.ts'
import type { Point } from './point.ts'
import { type Origin, pushLine, pushPoint } from './rows.ts'
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
} from './system-metrics.ts'
import type { DataType, Throttle } from './throttle.ts'

/**
 * The writes of the stream. Each goes the same way: whose experiment is it, may it send that much now, is every part of
 * it right, into the open block, and an answer once the queue has the block.
 */
type Deps = {
  findExperiment(userId: string, key: string): Promise<bigint>
  throttle: Throttle
  committers: {
    metrics: Committer<typeof pointsTable>
    systemMetrics: Committer<typeof systemPointsTable>
    output: Committer<typeof outputLinesTable>
  }
  signs: SignsOfLife
  startMs: number
  onAccepted(type: DataType, rows: number): void
}

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

export function createIngestRoutes(deps: Deps): Route[] {
  const identities = createIdentities(deps.startMs)
  const writePoints = createStream('metrics', deps.committers.metrics)
  const writeSystemPoints = createStream('systemMetrics', deps.committers.systemMetrics)
  const writeLines = createStream('output', deps.committers.output)

  /** What all writes of one type share: admit the rows, commit them, and note that the experiment is active. */
  function createStream<T extends Table>(type: DataType, committer: Committer<T>) {
    return {
      admit(caller: Caller, experimentId: bigint, rows: number) {
        deps.throttle.admit(type, experimentId, caller.keyId, rows)
      },
      async commit(
        experimentId: bigint,
        identity: RequestId,
        rows: number,
        append: (block: NativeBlock<T>, origin: Origin) => void,
      ) {
        if (rows === 0) return
        const origin = { experimentId, identity, receivedMs: Date.now() }
        await committer.commit(origin.receivedMs, (block) => append(block, origin))
        deps.signs.active(experimentId, origin.receivedMs)
        deps.onAccepted(type, rows)
      },
    }
  }

  function toIdentity(caller: Caller, call: string, headers: IncomingHttpHeaders): RequestId {
    const key = headers['idempotency-key']
    if (key === undefined) return identities.next()
    if (typeof key !== 'string' || key === '' || key.length > idempotencyKeyCharactersMax) {
      throw new Refusal('badRequest', `Idempotency-Key: must have 1 to ${idempotencyKeyCharactersMax} characters`)
    }
    return toRequestId(`${caller.userId} ${call}`, key)
  }

  const metric = route({
    ...common,
    path: '/write/experiment/metric',
    summary: 'Logs one point of a metric. Metrics are the only values kept as full time series.',
    body: metricFields,
    answer: savedAnswer,
    checksOwnBody: true,
    async handle({ body, caller, request }) {
      const identity = toIdentity(caller, 'metric', request.headers)
      const { experimentKey, point } = readMetric(body)
      const experimentId = await deps.findExperiment(caller.userId, experimentKey)
      writePoints.admit(caller, experimentId, 1)
      await writePoints.commit(experimentId, identity, 1, (block, origin) => pushPoint(block, origin, 0, point))
      return saved
    },
  })

  const metricsBatch = route({
    ...common,
    path: '/write/experiment/metrics/batch',
    summary: 'Logs many points, as rows or as columns. A point that is wrong is told and does not sink the others.',
    body: batchFields,
    answer: batchAnswer,
    checksOwnBody: true,
    bodyBytesMax: batchBytesMax,
    async handle({ body, caller, request }) {
      const identity = toIdentity(caller, 'batch', request.headers)
      const envelope = readEnvelope(body as unknown as ExactJson)
      const experimentId = await deps.findExperiment(caller.userId, envelope.experimentKey)
      writePoints.admit(caller, experimentId, countPoints(envelope))
      const { points, places, rejected, rejectedCount } = readBatch(envelope)
      await writePoints.commit(experimentId, identity, points.length, (block, origin) => {
        for (let at = 0; at < points.length; at++) {
          pushPoint(block, origin, places[at] as number, points[at] as Point)
        }
      })
      return { msg: 'Saved' as const, accepted: points.length, rejected, rejectedCount, throttled: 0 }
    },
  })

  function systemMetrics<Fields extends z.ZodType<SystemBody>>(
    name: string,
    summary: string,
    body: Fields,
    toReading: (body: z.output<Fields>) => Reading,
  ): Route {
    return route({
      ...common,
      path: `/write/experiment/${name}`,
      summary,
      body,
      answer: savedAnswer,
      async handle({ body, caller, request }) {
        const identity = toIdentity(caller, name, request.headers)
        const experimentId = await deps.findExperiment(caller.userId, body.experimentKey)
        const points = toSystemPoints(toReading(body), body)
        writeSystemPoints.admit(caller, experimentId, points.length)
        await writeSystemPoints.commit(experimentId, identity, points.length, (block, origin) => {
          points.forEach((point, place) => {
            pushPoint(block, origin, place, point)
          })
        })
        return saved
      },
    })
  }

  const output = route({
    ...common,
    path: '/write/experiment/output',
    summary: 'Logs lines of output. `stderr: true` means standard error; lines are read back in the order of `offset`.',
    body: outputFields,
    answer: savedAnswer,
    bodyBytesMax: batchBytesMax,
    async handle({ body, caller, request }) {
      const identity = toIdentity(caller, 'output', request.headers)
      const experimentId = await deps.findExperiment(caller.userId, body.experimentKey)
      const lines = body.outputLines
      writeLines.admit(caller, experimentId, lines.length)
      const context = body.context ?? body.runContext ?? ''
      await writeLines.commit(experimentId, identity, lines.length, (block, origin) => {
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
