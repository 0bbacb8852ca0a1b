import { isDeepStrictEqual } from 'node:util'
import { z } from 'zod'
import { parseExactJson, toJsonAnswer, toJsonInteger } from '../../http/body/exact-json.ts'
import { experimentKey, object, optional, text } from '../../http/body/fields.ts'
import { anyKind, jsonText } from '../../http/body/json-field.ts'
import { HttpError } from '../../http/errors.ts'
import { type Route, route } from '../../http/route.ts'
import type { Database } from '../../store/postgres/database.ts'
import type { Heartbeats } from '../../store/postgres/experiments/heartbeats.ts'
import {
  type ExperimentCall,
  findCall,
  finishCall,
  insertCall,
  listPendingCalls,
} from '../../store/postgres/experiments/rpc.ts'
import type { Access } from '../access.ts'
import type { RateLimitedWrite } from '../rate-limited-write.ts'

/**
 * Remote procedure calls on an experiment. The sender gets an id. The experiment finds the call in each keep-alive answer
 * until it posts a result: calls are delivered at least once, and the id identifies repetitions. The first result counts.
 * Only callers that may write to the experiment can send calls and read arguments and results.
 */
const topic = 'Experiments: remote calls'

/** Keeps the answer of a keep-alive below two megabytes. */
const pendingMax = 50
const argumentsBytesMax = 32 * 1024
export const resultBytesMax = 256 * 1024
/** The number of finished calls that can still be read. */
const finishedKept = 1_000

const rpcId = text(100, 1)

export const anyJson = z.unknown().meta({ type: anyKind })

/** The pending calls in the answer of a keep-alive. */
export const pendingCallsAnswer = z
  .array(z.object({ rpcId: z.string(), method: z.string(), arguments: anyJson, createdAt: z.int() }))
  .describe('calls without a result, oldest first; each is sent again until its result is posted')

/** Reads the pending calls of an experiment. */
export async function readPendingCalls(database: Database, experimentId: bigint) {
  const calls = await listPendingCalls(database, experimentId)
  return calls.map((it) => ({
    rpcId: it.id,
    method: it.method,
    arguments: toJsonAnswer(it.arguments),
    createdAt: toJsonInteger(it.createdAtMs),
  }))
}

type Deps = { database: Database; access: Access; heartbeats: Heartbeats; rateLimited: RateLimitedWrite }

export function createCallRoutes({ database, access, heartbeats, rateLimited }: Deps): Route[] {
  const send = route({
    method: 'POST',
    path: '/write/experiment/rpc/send',
    charge: 'own',
    permission: 'caller',
    topic,
    summary:
      'Calls a method on an experiment. Each keep-alive answer carries the call until the experiment has posted the ' +
      `result. Up to ${pendingMax} calls may be pending.`,
    body: object({
      experimentKey,
      method: text(1_000, 1),
      arguments: jsonText(argumentsBytesMax).describe(`any JSON of up to ${argumentsBytesMax} bytes`),
    }),
    answer: z.object({ msg: z.string(), rpcId: z.string() }),
    shape: 'envelope',
    async handle({ body, caller }) {
      const experiment = await access.writableExperiment(caller, body.experimentKey)
      const call = { method: body.method, arguments: body.arguments ?? 'null', nowMs: Date.now() }
      const id = await rateLimited('other', experiment, caller, async () => {
        const made = await insertCall(database, experiment.id, call, { pendingMax, finishedKept })
        if (made === undefined) throw tooManyCalls()
        return made
      })
      return { msg: 'Saved', rpcId: id }
    },
  })

  const result = route({
    method: 'POST',
    path: '/write/experiment/rpc/result',
    charge: 'own',
    permission: 'caller',
    topic,
    summary:
      'Posts the result or the error of a call. Posting the same again changes nothing; a different one is rejected.',
    body: object({
      experimentKey,
      rpcId,
      result: jsonText(resultBytesMax).describe(`any JSON of up to ${resultBytesMax} bytes`),
      error: optional(text(100_000)),
    }),
    answer: z.object({ msg: z.string() }),
    shape: 'envelope',
    async handle({ body, caller }) {
      if (body.result !== undefined && body.error !== undefined) {
        throw new HttpError('badRequest', 'error: send result or error, not both')
      }
      const experiment = await access.writableExperiment(caller, body.experimentKey)
      const end = { result: body.result ?? null, error: body.error ?? null, nowMs: Date.now() }
      await rateLimited('other', experiment, caller, async () => {
        if (await finishCall(database, experiment.id, body.rpcId, end)) return
        const call = await findCall(database, experiment.id, body.rpcId)
        if (!call) throw unknownCall(body.rpcId)
        if (!isSameEnd(call, end)) throw finishedOtherwise(body.rpcId)
      })
      heartbeats.active(experiment.id, Date.now())
      return { msg: 'Saved' }
    },
  })

  const read = route({
    method: 'GET',
    path: '/experiment/rpc',
    permission: 'caller',
    topic,
    summary: `Reads a call and its result. The last ${finishedKept} finished calls can be read.`,
    query: object({ experimentKey, rpcId }),
    answer: z.object({
      rpcId: z.string(),
      method: z.string(),
      arguments: anyJson,
      state: z.enum(['pending', 'done', 'failed']),
      result: anyJson,
      error: z.string().nullable(),
      createdAt: z.int().describe('ms since the Unix epoch'),
      finishedAt: z.int().nullable(),
    }),
    shape: 'plain',
    async handle({ query, caller }) {
      const experiment = await access.writableExperiment(caller, query.experimentKey)
      const call = await findCall(database, experiment.id, query.rpcId)
      if (!call) throw unknownCall(query.rpcId)
      return toAnswer(call)
    },
  })

  return [send, result, read]
}

function toAnswer({ id, method, result, error, createdAtMs, finishedAtMs, ...call }: ExperimentCall) {
  const state: 'pending' | 'done' | 'failed' = finishedAtMs === null ? 'pending' : error === null ? 'done' : 'failed'
  return {
    rpcId: id,
    method,
    arguments: toJsonAnswer(call.arguments),
    state,
    result: result === null ? null : toJsonAnswer(result),
    error,
    createdAt: toJsonInteger(createdAtMs),
    finishedAt: finishedAtMs === null ? null : toJsonInteger(finishedAtMs),
  }
}

/** Compares results without regard to the order of names in objects. */
function isSameEnd(call: ExperimentCall, end: { result: string | null; error: string | null }): boolean {
  if (call.error !== end.error) return false
  if (call.result === null || end.result === null) return call.result === end.result
  return isDeepStrictEqual(parseExactJson(call.result), parseExactJson(end.result))
}

function unknownCall(id: string): HttpError {
  return new HttpError('callUnknown', `rpcId: the experiment has no call ${id.slice(0, 60)}.`)
}

function finishedOtherwise(id: string): HttpError {
  return new HttpError('callFinished', `rpcId: the call ${id} has another result already: see /experiment/rpc.`)
}

function tooManyCalls(): HttpError {
  return new HttpError(
    'callsFull',
    `The experiment has reached the limit of ${pendingMax} calls without a result: send more after it has finished some.`,
  )
}
