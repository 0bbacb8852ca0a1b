import type { z } from 'zod'
import { HttpError } from '../../http/errors.ts'
import { type Caller, fastRoute, type Route } from '../../http/route.ts'
import type { Database } from '../../store/postgres/database.ts'
import {
  insertParameters,
  ParameterChanged,
  upsertModelMetrics,
  upsertRunTags,
} from '../../store/postgres/mlflow/run-values.ts'
import type { WriteDeps } from '../write.ts'
import { logBatch, logMetric } from './descriptions.ts'
import { type MlflowBatch, type MlflowPoints, readLogBatch, readLogMetric } from './points.ts'

type Call<Body> = { body: Body; caller: Caller; headers: Record<string, unknown> }

type Deps = Pick<WriteDeps, 'findExperiment' | 'throttle' | 'heartbeats' | 'counters'> & {
  database: Database
  /** Stores points as every write does: it resolves once the queue has them. */
  writePoints(call: Call<MlflowPoints>): Promise<string>
}

const done = '{}'

/** The writes of clients of MLflow that hold metrics. */
export function createMlflowWriteRoutes({ database, writePoints, ...deps }: Deps): Route[] {
  async function write(call: Call<MlflowPoints>) {
    await writePoints(call)
    const { ofModels, experimentKey } = call.body
    if (ofModels.length === 0) return
    const { id } = await deps.findExperiment(call.caller, experimentKey)
    await upsertModelMetrics(database, id, ofModels)
  }

  /** Postgres has them before the points are stored: a parameter with another value refuses the whole request. */
  async function writeValues({ body, caller }: Call<MlflowBatch>) {
    const { params, tags } = body
    const experiment = await deps.findExperiment(caller, body.experimentKey)
    const { keyId } = caller
    const nowMs = Date.now()
    const kinds = [
      ['parameters', params.length, () => insertParameters(database, experiment.id, params, nowMs)],
      ['other', tags.length, () => upsertRunTags(database, experiment.id, tags, nowMs)],
    ] as const
    for (const [type, count, store] of kinds) {
      if (count === 0) continue
      await deps.throttle.admit(type, experiment, caller, count)
      try {
        await store()
      } catch (error) {
        deps.throttle.giveBack({ type, experiment, keyId, count })
        throw error instanceof ParameterChanged ? toChanged(error) : error
      }
      deps.counters.accepted(type, experiment.id, count)
    }
    deps.heartbeats.active(experiment.id, nowMs)
  }

  return [
    fastRoute({
      ...logMetric,
      async handle({ body, ...call }) {
        await write({ ...call, body: readLogMetric(body as z.output<typeof logMetric.body>) })
        return done
      },
    }),

    fastRoute({
      ...logBatch,
      async handle({ body, ...call }) {
        const batch = readLogBatch(body)
        const hasValues = batch.params.length + batch.tags.length > 0
        // An empty batch too must be of a run that the caller may write to.
        if (hasValues || batch.rows.points.length === 0) await writeValues({ ...call, body: batch })
        if (batch.rows.points.length > 0) await write({ ...call, body: batch })
        return done
      },
    }),
  ]
}

function toChanged({ parameter, stored }: ParameterChanged): HttpError {
  return new HttpError(
    'badRequest',
    `params: ${parameter} is ${stored.slice(0, 200)} already. A parameter keeps its first value; log another one under another key.`,
  )
}
