import { randomBytes } from 'node:crypto'
import { z } from 'zod'
import { indexedText, int64, list, object, optional, text } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { type Route, route } from '../../http/route.ts'
import { lockAssets } from '../../store/postgres/assets/assets.ts'
import type { Database } from '../../store/postgres/database.ts'
import { insertExperiment, updateCondition } from '../../store/postgres/experiments/experiments.ts'
import type { Heartbeats } from '../../store/postgres/experiments/heartbeats.ts'
import type { RunStore } from '../../store/postgres/experiments/values.ts'
import { deleteValue, findValue } from '../../store/postgres/experiments/values.ts'
import { ensureModelOfPath } from '../../store/postgres/mlflow/artifacts.ts'
import { logRunValues, ParameterChanged } from '../../store/postgres/mlflow/run-values.ts'
import {
  type RunDataset,
  runStatuses,
  updateRunStatus,
  upsertRunInputs,
  upsertRunModels,
} from '../../store/postgres/mlflow/runs.ts'
import { toOtherName } from '../../store/postgres/mlflow/tag-names.ts'
import type { Access } from '../access.ts'
import { createReadableName } from '../experiments/readable-name.ts'
import type { RateLimitedWrite } from '../rate-limited-write.ts'
import { runAnswer, runInfoAnswer, toRunInfo } from './answers.ts'
import type { ExperimentFinder, MlflowCall } from './find.ts'
import type { RunReader } from './read-runs.ts'
import { common, mlflow } from './workspace.ts'

const runId = text(200, 1)
const runFields = { run_id: optional(text(200)), run_uuid: optional(text(200)) }
const valueName = indexedText(1_000)
const value = text(1_000_000)
const pairs = optional(list(object({ key: valueName, value }), 10_000))
const nothing = z.object({})

/** Where older clients keep which models a run has logged: a tag with a list. */
const modelHistory = 'mlflow.log-model.history'

const datasetFields = object({
  name: indexedText(1_000),
  digest: indexedText(200),
  source_type: text(1_000),
  source: text(1_000_000),
  schema: optional(text(1_000_000)),
  profile: optional(text(1_000_000)),
})

type Deps = {
  database: Database
  access: Access
  find: ExperimentFinder
  reader: RunReader
  heartbeats: Heartbeats
  rateLimited: RateLimitedWrite
  runStore: RunStore
}

/** Runs of MLflow: our experiments. */
export function createMlflowRunRoutes({
  database,
  access,
  find,
  reader,
  heartbeats,
  rateLimited,
  runStore,
}: Deps): Route[] {
  /** A write to a run that is charged as so many parameters or others. */
  async function save(
    type: 'parameters' | 'other',
    call: MlflowCall,
    key: string | undefined,
    write: (id: bigint, nowMs: number) => Promise<void>,
    count = 1,
  ) {
    const run = await find.activeRun(call, key)
    const nowMs = Date.now()
    await rateLimited(type, run, call.caller, () => write(run.id, nowMs), count)
    heartbeats.active(run.id, nowMs)
    return {}
  }

  const create = route({
    ...common,
    method: 'POST',
    path: `${mlflow}/runs/create`,
    charge: 'call',
    summary:
      'Creates an experiment in a project. It counts as running until its end is reported, or nothing comes for a day.',
    body: object({
      experiment_id: optional(text(200)),
      user_id: optional(text(1_000)),
      run_name: optional(text(1_000)),
      start_time: optional(int64),
      tags: pairs,
    }),
    answer: z.object({ run: runAnswer }),
    async handle({ body, ...call }) {
      const { caller } = call
      const project = await find.writableExperiment(call, body.experiment_id || '0')
      if (project.isDeleted)
        throw new HttpError('badRequest', 'experiment_id: the experiment is deleted; restore it first.')
      const nowMs = Date.now()
      const { tags = [] } = body
      const named = tags.find((it) => toOtherName(it.key) === 'Name')?.value
      const key = randomBytes(16).toString('hex')
      const name = body.run_name || named || createReadableName()
      await access.roomForExperiments({ projectId: project.id })
      await insertExperiment(database, {
        key,
        projectId: project.id,
        userId: caller.userId,
        name,
        nowMs: Number(body.start_time ?? nowMs),
      })
      const made = await find.activeRun(call, key)
      await updateRunStatus(database, made.id, { status: 'RUNNING', endTimeMs: undefined, nowMs })
      const others = tags.filter((it) => toOtherName(it.key) !== 'Name')
      const write = () => logRunValues(runStore, made.id, { tags: others }, nowMs)
      if (others.length > 0) await rateLimited('other', made, caller, write, others.length)
      const [run] = (await reader.readPage([made.id])).runs
      return { run: run as NonNullable<typeof run> }
    },
  })

  const update = route({
    ...common,
    method: 'POST',
    path: `${mlflow}/runs/update`,
    charge: 'own',
    summary: 'Reports the status of a run, its end, or renames it.',
    body: object({
      ...runFields,
      status: optional(z.enum(runStatuses, `must be one of ${runStatuses.join(', ')}`)),
      end_time: optional(int64),
      run_name: optional(text(1_000)),
    }),
    answer: z.object({ run_info: runInfoAnswer }),
    async handle({ body, ...call }) {
      const run = await find.activeRun(call, body.run_id || body.run_uuid)
      const nowMs = Date.now()
      await rateLimited('other', run, call.caller, async () => {
        const { status, end_time: endTimeMs } = body
        if (status !== undefined) await updateRunStatus(database, run.id, { status, endTimeMs, nowMs })
        if (body.run_name) {
          await logRunValues(runStore, run.id, { tags: [{ key: 'mlflow.runName', value: body.run_name }] }, nowMs)
        }
      })
      return { run_info: toRunInfo(await find.run(call, run.key), nowMs) }
    },
  })

  const get = route({
    ...common,
    method: 'GET',
    path: `${mlflow}/runs/get`,
    summary: 'Reads a run, deleted or not, with the newest point of each metric.',
    query: object(runFields),
    answer: z.object({ run: runAnswer }),
    async handle({ query, ...call }) {
      const run = await reader.readOne(await find.run(call, query.run_id || query.run_uuid))
      return { run: run as NonNullable<typeof run> }
    },
  })

  function change(name: 'delete' | 'restore', summary: string): Route {
    return route({
      ...common,
      method: 'POST',
      path: `${mlflow}/runs/${name}`,
      charge: 'call',
      summary,
      body: object({ run_id: runId }),
      answer: nothing,
      async handle({ body, ...call }) {
        const run = await find.writableRun(call, body.run_id)
        // Only what changes: restoring would bring back an archived run too.
        if (run.isDeleted !== (name === 'delete')) {
          await updateCondition(database, call.caller.viewerId, run.key, name === 'delete' ? 'deleted' : 'restored')
        }
        return {}
      },
    })
  }

  const logParameter = route({
    ...common,
    method: 'POST',
    path: `${mlflow}/runs/log-parameter`,
    charge: 'own',
    summary: 'Logs a parameter. It keeps its first value: another one is refused.',
    body: object({ ...runFields, key: valueName, value }),
    answer: nothing,
    handle: ({ body, ...call }) =>
      save('parameters', call, body.run_id || body.run_uuid, async (id, nowMs) => {
        try {
          await logRunValues(runStore, id, { params: [body] }, nowMs)
        } catch (error) {
          if (!(error instanceof ParameterChanged)) throw error
          throw new HttpError(
            'badRequest',
            `value: ${body.key} is ${error.stored.slice(0, 200)} already. A parameter keeps its first value; log another one ` +
              'under another key.',
          )
        }
      }),
  })

  const setTag = route({
    ...common,
    method: 'POST',
    path: `${mlflow}/runs/set-tag`,
    charge: 'own',
    summary: 'Sets a tag of a run: an other. `mlflow.runName` renames the run.',
    body: object({ ...runFields, key: valueName, value }),
    answer: nothing,
    handle: ({ body, ...call }) =>
      save('other', call, body.run_id || body.run_uuid, (id, nowMs) =>
        logRunValues(runStore, id, { tags: [body] }, nowMs),
      ),
  })

  const deleteTag = route({
    ...common,
    method: 'POST',
    path: `${mlflow}/runs/delete-tag`,
    charge: 'own',
    summary: 'Removes a tag of a run.',
    body: object({ run_id: runId, key: valueName }),
    answer: nothing,
    handle: ({ body, ...call }) =>
      save('other', call, body.run_id, async (id) => {
        if (await deleteValue(database, id, 'other', toOtherName(body.key))) return
        throw new HttpError('assetUnknown', `key: the run has no tag ${body.key.slice(0, 200)}.`)
      }),
  })

  const logModel = route({
    ...common,
    method: 'POST',
    path: `${mlflow}/runs/log-model`,
    charge: 'own',
    summary:
      'Adds a model that the run has logged to the list in the tag `mlflow.log-model.history`. Its files become a model of the ' +
      'experiment.',
    body: object({ run_id: runId, model_json: value }),
    answer: nothing,
    handle: ({ body, ...call }) =>
      save('other', call, body.run_id, async (id, nowMs) => {
        const model = parseJson(body.model_json)
        const known = await findValue(database, id, 'other', modelHistory)
        const models = known === undefined ? [] : parseJson(known)
        const listed = JSON.stringify([...(Array.isArray(models) ? models : []), model])
        await logRunValues(runStore, id, { tags: [{ key: modelHistory, value: listed }] }, nowMs)
        const { artifact_path: path } = toRecord(model)
        if (typeof path !== 'string' || path === '') return
        await database.transaction(async (queries) => {
          await lockAssets(queries, id)
          await ensureModelOfPath(queries, id, path)
        })
      }),
  })

  const logInputs = route({
    ...common,
    method: 'POST',
    path: `${mlflow}/runs/log-inputs`,
    charge: 'own',
    summary: 'Logs the datasets and models that a run read.',
    body: object({
      run_id: runId,
      datasets: optional(list(object({ dataset: datasetFields, tags: pairs }), 1_000)),
      models: optional(list(object({ model_id: indexedText(200) }), 1_000)),
    }),
    answer: nothing,
    handle: ({ body: { run_id, datasets = [], models = [] }, ...call }) =>
      save(
        'other',
        call,
        run_id,
        (id) => {
          const read = models.map((it) => ({ modelId: it.model_id, isOutput: false, step: 0 }))
          return upsertRunInputs(runStore, id, datasets.map(toDataset), read)
        },
        Math.max(1, datasets.length + models.length),
      ),
  })

  const logOutputs = route({
    ...common,
    method: 'POST',
    path: `${mlflow}/runs/outputs`,
    charge: 'own',
    summary: 'Logs the models that a run made.',
    body: object({
      run_id: runId,
      models: optional(list(object({ model_id: indexedText(200), step: optional(int64) }), 1_000)),
    }),
    answer: nothing,
    handle: ({ body: { run_id, models = [] }, ...call }) =>
      save(
        'other',
        call,
        run_id,
        (id) => {
          const made = models.map((it) => ({ modelId: it.model_id, isOutput: true, step: it.step ?? 0 }))
          return database.transaction((queries) => upsertRunModels(queries, id, made))
        },
        Math.max(1, models.length),
      ),
  })

  return [
    create,
    update,
    get,
    change('delete', 'Deletes a run; for a while it can be restored.'),
    change('restore', 'Undoes the deletion of a run.'),
    logParameter,
    setTag,
    deleteTag,
    logModel,
    logInputs,
    logOutputs,
  ]
}

function toDataset({
  dataset,
  tags = [],
}: {
  dataset: z.output<typeof datasetFields>
  tags?: { key: string; value: string }[] | undefined
}): RunDataset {
  const { name, digest, source, source_type: sourceType, schema = null, profile = null } = dataset
  return {
    name,
    digest,
    source,
    sourceType,
    schema,
    profile,
    tags: Object.fromEntries(tags.map((it) => [it.key, it.value])),
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new HttpError('badRequest', 'model_json: expected JSON')
  }
}

const toRecord = (value: unknown) =>
  (typeof value === 'object' && value !== null ? value : {}) as Record<string, unknown>
