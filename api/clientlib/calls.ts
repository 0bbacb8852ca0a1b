import { randomUUID } from 'node:crypto'
import { z } from 'zod'
import { toJsonAnswer, toJsonInteger } from '../../http/body/exact-json.ts'
import { experimentKey, object, optional, text } from '../../http/body/fields.ts'
import { clientTopic, type Route, route } from '../../http/route.ts'
import type { Database } from '../../store/postgres/database.ts'
import { finishCall, listPendingCalls } from '../../store/postgres/experiments/rpc.ts'
import type { Access } from '../access.ts'
import { anyJson, resultBytesMax } from '../experiments/rpc.ts'
import type { RateLimitedWrite } from '../rate-limited-write.ts'

/**
 * Remote calls of runs that log live: those of `experiment/rpc/send`, whose `arguments` must be an object, and the request to
 * stop, on which the run raises an exception.
 */

const call = z.object({
  callId: z.string(),
  userName: z.string(),
  functionName: z.string(),
  cometDefined: z.boolean(),
  arguments: z.array(z.object({ name: z.string(), value: anyJson })),
  createdAt: z.int(),
})

type Deps = { database: Database; access: Access; rateLimited: RateLimitedWrite }

export function createRunCallRoutes({ database, access, rateLimited }: Deps): Route[] {
  const common = { atRoot: true, permission: 'caller', topic: clientTopic } as const
  return [
    route({
      ...common,
      method: 'GET',
      path: '/clientlib/rpc/get-pending-rpcs',
      charge: 'none',
      summary: 'The calls that wait for the run, and the request to stop as one of them.',
      query: object({ experimentKey }),
      answer: z.object({ remoteProcedureCalls: z.array(call) }),
      shape: 'envelope',
      async handle({ query, caller }) {
        const experiment = await access.writableExperiment(caller, query.experimentKey)
        const { userName } = experiment
        const calls = (await listPendingCalls(database, experiment.id)).map((it) => ({
          callId: it.id,
          userName,
          functionName: it.method,
          cometDefined: false,
          arguments: toArguments(it.arguments),
          createdAt: toJsonInteger(it.createdAtMs),
        }))
        const none: z.input<typeof call>['arguments'] = []
        const stop = {
          callId: randomUUID(),
          userName,
          functionName: 'stop',
          cometDefined: true,
          arguments: none,
          createdAt: Date.now(),
        }
        return { remoteProcedureCalls: experiment.stopRequested ? [...calls, stop] : calls }
      },
    }),

    route({
      ...common,
      method: 'POST',
      path: '/clientlib/rpc/register-rpc',
      charge: 'call',
      summary: 'Says which function a run can be called by. Any name may be called, so nothing is kept.',
      body: object({ experimentKey, functionName: text(1_000, 1) }),
      answer: z.object({ msg: z.string() }),
      shape: 'envelope',
      async handle({ body, caller }) {
        await access.writableExperiment(caller, body.experimentKey)
        return { msg: 'Ok' }
      },
    }),

    route({
      ...common,
      method: 'POST',
      path: '/clientlib/rpc/save-rpc-result',
      charge: 'own',
      summary: 'Stores the result or the error of a call; the first one counts.',
      body: object({
        experimentKey,
        callId: text(100, 1),
        result: optional(text(resultBytesMax)),
        errorMessage: optional(text(100_000)),
      }),
      answer: z.object({ msg: z.string() }),
      shape: 'envelope',
      async handle({ body, caller }) {
        const experiment = await access.writableExperiment(caller, body.experimentKey)
        const error = body.errorMessage || null
        const end = { result: error === null ? JSON.stringify(body.result ?? '') : null, error, nowMs: Date.now() }
        await rateLimited('other', experiment, caller, () => finishCall(database, experiment.id, body.callId, end))
        return { msg: 'Saved' }
      },
    }),
  ]
}

function toArguments(json: string): { name: string; value: unknown }[] {
  const given = toJsonAnswer(json)
  if (typeof given !== 'object' || given === null || Array.isArray(given)) return []
  return Object.entries(given).map(([name, value]) => ({ name, value }))
}
