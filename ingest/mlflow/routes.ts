import type { z } from 'zod'
import { HttpError } from '../../http/errors.ts'
import { type Caller, fastRoute, type Route } from '../../http/route.ts'
import type { Database } from '../../store/postgres/database.ts'
import { createRunStore } from '../../store/postgres/experiments/values.ts'
import { logRunValues, ParameterChanged, upsertModelMetrics } from '../../store/postgres/mlflow/run-values.ts'
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
  const runStore = createRunStore(database)

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
    const counts = [
      { type: 'parameters', count: params.length },
      { type: 'other', count: tags.length },
    ] as const
    const charged: (typeof counts)[number][] = []
    try {
      for (const charge of counts.filter((it) => it.count > 0)) {
        await deps.throttle.admit(charge.type, experiment, caller, charge.count)
        charged.push(charge)
      }
      await logRunValues(runStore, experiment.id, { params, tags }, nowMs)
    } catch (error) {
      for (const charge of charged) deps.throttle.giveBack({ ...charge, experiment, keyId })
      throw error instanceof ParameterChanged ? toChanged(error) : error
    }
    for (const { type, count } of charged) deps.counters.accepted(type, experiment.id, count)
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
