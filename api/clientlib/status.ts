import { z } from 'zod'
import { experimentKey, flag, object, optional, timestampMs } from '../../http/body/fields.ts'
import { clientTopic, type Route, route } from '../../http/route.ts'
import type { Database } from '../../store/postgres/database.ts'
import { updateOutcome, updateTimes } from '../../store/postgres/experiments/experiments.ts'
import type { Heartbeats } from '../../store/postgres/experiments/heartbeats.ts'
import { beatMs } from '../../store/postgres/experiments/heartbeats.ts'
import { listPendingCalls } from '../../store/postgres/experiments/rpc.ts'
import type { Access } from '../access.ts'
import { cpuIntervalMs, gpuIntervalMs } from '../experiments/experiments.ts'
import type { RateLimitedWrite } from '../rate-limited-write.ts'

/** What a client that logs live says of its run, apart from what it logs. */

/** How long it collects parameters before it sends them. */
const parameterIntervalMs = 5_000

const okAnswer = z.object({ msg: z.string() })

type Deps = { database: Database; access: Access; heartbeats: Heartbeats; rateLimited: RateLimitedWrite }

export function createRunStatusRoutes({ database, access, heartbeats, rateLimited }: Deps): Route[] {
  const common = { method: 'POST', atRoot: true, permission: 'caller', topic: clientTopic } as const
  return [
    route({
      ...common,
      method: 'GET',
      path: '/clientlib/health/ping',
      charge: 'none',
      summary:
        'Answers while this process takes requests. Without an answer a client keeps what it logs, and sends it later.',
      answer: okAnswer,
      shape: 'envelope',
      handle: () => ({ msg: 'Ok' }),
    }),

    route({
      ...common,
      path: '/clientlib/status-report/update',
      charge: 'own',
      summary:
        'The keep-alive of a run, and its end. The answer has the intervals, and whether there are calls to fetch.',
      body: object({ experimentKey, is_alive: flag, offline: optional(flag) }),
      answer: z.object({
        is_alive_beat_duration_millis: z.int(),
        gpu_monitor_interval_millis: z.int(),
        cpu_monitor_interval_millis: z.int(),
        parameter_update_interval_millis: z.int(),
        pending_rpcs: z.boolean(),
      }),
      shape: 'envelope',
      async handle({ body, caller }) {
        const experiment = await access.writableExperiment(caller, body.experimentKey)
        const nowMs = Date.now()
        await rateLimited('other', experiment, caller, async () => {
          if (body.is_alive) return heartbeats.alive(experiment.id, nowMs)
          const outcome = { isAlive: false, error: undefined, hasCrashed: undefined, nowMs }
          await updateOutcome(database, experiment.id, outcome)
        })
        const calls = experiment.stopRequested ? [] : await listPendingCalls(database, experiment.id)
        return {
          is_alive_beat_duration_millis: beatMs,
          gpu_monitor_interval_millis: gpuIntervalMs,
          cpu_monitor_interval_millis: cpuIntervalMs,
          parameter_update_interval_millis: parameterIntervalMs,
          pending_rpcs: experiment.stopRequested || calls.length > 0,
        }
      },
    }),

    route({
      ...common,
      path: '/clientlib/status-report/offline-metadata',
      charge: 'own',
      summary: 'Sets the times of a run whose archive was uploaded.',
      body: object({
        experimentKey,
        startTimestamp: optional(timestampMs),
        endTimestamp: optional(timestampMs),
      }),
      answer: okAnswer,
      shape: 'envelope',
      async handle({ body, caller }) {
        const experiment = await access.writableExperiment(caller, body.experimentKey)
        const times = { startTimeMs: body.startTimestamp, endTimeMs: body.endTimestamp }
        await rateLimited('other', experiment, caller, () => updateTimes(database, experiment.id, times))
        return { msg: 'Saved' }
      },
    }),

    route({
      ...common,
      path: '/clientlib/asset/3d-limits',
      charge: 'none',
      summary: 'The largest cloud of points.',
      body: object({ experimentKey: optional(experimentKey) }),
      answer: z.object({
        maxPoints: z.int(),
        maxPointsFileSizeInBytes: z.int(),
        maxBoxes: z.int(),
        maxBoxesFileSizeInBytes: z.int(),
      }),
      shape: 'plain',
      handle: () => ({
        maxPoints: 1_000_000,
        maxPointsFileSizeInBytes: 0,
        maxBoxes: 250_000,
        maxBoxesFileSizeInBytes: 0,
      }),
    }),
  ]
}
