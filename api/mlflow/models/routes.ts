import { randomBytes } from 'node:crypto'
import { z } from 'zod'
import { flag, indexedText, integerBetween, list, object, optional, text } from '../../../http/body/fields.ts'
import { HttpError } from '../../../http/errors.ts'
import { type Route, route } from '../../../http/route.ts'
import type { Database } from '../../../store/postgres/database.ts'
import { insertExperiment } from '../../../store/postgres/experiments/experiments.ts'
import type { Heartbeats } from '../../../store/postgres/experiments/heartbeats.ts'
import type { RunStore } from '../../../store/postgres/experiments/values.ts'
import { listFolder } from '../../../store/postgres/mlflow/artifacts.ts'
import {
  deleteLoggedModel,
  deleteLoggedModelTag,
  insertLoggedModel,
  type LoggedModel,
  listLoggedModelMetrics,
  loggedModelStatuses,
  updateLoggedModel,
} from '../../../store/postgres/mlflow/logged-models.ts'
import { type MlflowRun, updateRunStatus } from '../../../store/postgres/mlflow/runs.ts'
import type { Access } from '../../access.ts'
import type { OrphanedObjects } from '../../assets/orphaned-objects.ts'
import { createReadableName } from '../../experiments/readable-name.ts'
import type { RateLimitedWrite } from '../../rate-limited-write.ts'
import { filesAnswer, toFiles, toFolder } from '../artifacts/files.ts'
import { checkPath } from '../artifacts/places.ts'
import type { ExperimentFinder, MlflowCall } from '../find.ts'
import { common, mlflow } from '../workspace.ts'
import { loggedModelAnswer, toLoggedModel, toModelUri } from './answers.ts'
import type { LoggedModelFinder } from './find.ts'
import { searchLoggedModels } from './search.ts'

const modelId = text(200, 1)
const params = object({ model_id: modelId })
const pairs = optional(list(object({ key: indexedText(1_000), value: text(1_000_000) }), 10_000))
const answer = z.object({ model: loggedModelAnswer })
const nothing = z.object({})
const modelsMax = 50_000
const modelsDefault = 100

/** A model is a part of addresses and of filters. */
const modelName = indexedText(500).refine((it) => !/[/:.%"']/.test(it), `must not have any of / : . % " '`)

const status = z
  .union([z.enum(loggedModelStatuses), z.int().min(1).max(loggedModelStatuses.length)], {
    error: `must be one of ${loggedModelStatuses.join(', ')}`,
  })
  .transform((it) => (typeof it === 'number' ? (loggedModelStatuses[it - 1] as (typeof loggedModelStatuses)[0]) : it))
  .meta({ type: ['string', 'integer'] })

type Deps = {
  database: Database
  access: Access
  find: ExperimentFinder
  models: LoggedModelFinder
  orphanedObjects: OrphanedObjects
  heartbeats: Heartbeats
  rateLimited: RateLimitedWrite
  runStore: RunStore
}

/** Models that runs log, as newer clients keep them. Their files are a model of the experiment. */
export function createLoggedModelRoutes(deps: Deps): Route[] {
  const { database, access, find, models, orphanedObjects, heartbeats, rateLimited, runStore } = deps

  async function read(call: MlflowCall, id: string, orDeleted = false) {
    const model = await models.readable(call, id, { orDeleted })
    return { model: toLoggedModel(model, await listLoggedModelMetrics(database, [id])) }
  }

  /** A write to a model, charged as others of its run. */
  async function save(
    call: MlflowCall,
    id: string,
    write: (model: LoggedModel, nowMs: number) => Promise<void>,
    count = 1,
  ) {
    const { model, run } = await models.writable(call, id)
    const nowMs = Date.now()
    await rateLimited('other', run, call.caller, () => write(model, nowMs), Math.max(1, count))
    heartbeats.active(run.id, nowMs)
  }

  /** The run that made a model; one of its own for a model that no run made. */
  async function findSource(call: MlflowCall, experimentId: string, runId: string, name: string): Promise<MlflowRun> {
    const project = await find.writableExperiment(call, experimentId)
    if (project.isDeleted) {
      throw new HttpError('badRequest', 'experiment_id: the experiment is deleted; restore it first.')
    }
    if (runId !== '') {
      const run = await find.activeRun(call, runId)
      if (run.projectId === project.id) return run
      throw new HttpError('badRequest', `source_run_id: the run ${runId} is of the experiment ${run.projectId}.`)
    }
    await access.roomForExperiments({ projectId: project.id })
    const [key, nowMs] = [randomBytes(16).toString('hex'), Date.now()]
    await insertExperiment(database, { key, projectId: project.id, userId: call.caller.userId, name, nowMs })
    const made = await find.activeRun(call, key)
    await updateRunStatus(database, made.id, { status: 'FINISHED', endTimeMs: nowMs, nowMs })
    return made
  }

  const create = route({
    ...common,
    method: 'POST',
    path: `${mlflow}/logged-models`,
    charge: 'own',
    summary:
      'Creates a logged model of a run: a model of the experiment, whose files are uploaded to its address. A model that ' +
      'no run made gets an experiment of its own.',
    body: object({
      experiment_id: text(200, 1),
      name: optional(text(500)),
      model_type: optional(text(1_000)),
      source_run_id: optional(text(200)),
      params: pairs,
      tags: pairs,
    }),
    answer,
    async handle({ body, ...call }) {
      const checked = modelName.safeParse(body.name || createReadableName())
      if (!checked.success) throw new HttpError('badRequest', `name: ${checked.error.issues[0]?.message}`)
      const { params = [], tags = [], source_run_id: runId = '', model_type: modelType = null } = body
      const run = await findSource(call, body.experiment_id, runId, checked.data)
      const id = `m-${randomBytes(16).toString('hex')}`
      const nowMs = Date.now()
      const made = {
        id,
        experimentId: run.id,
        name: checked.data,
        modelType,
        isOfRun: runId !== '',
        params: toRecord(params),
        tags: toRecord(tags),
        nowMs,
      }
      await rateLimited('other', run, call.caller, () => insertLoggedModel(runStore, made))
      heartbeats.active(run.id, nowMs)
      return await read(call, id)
    },
  })

  const get = route({
    ...common,
    method: 'GET',
    path: `${mlflow}/logged-models/{model_id}`,
    summary: 'Reads a logged model with its parameters, tags and metrics.',
    params,
    query: object({ allow_deleted: optional(flag).describe('true: a deleted one too') }),
    answer,
    handle: ({ params, query, ...call }) => read(call, params.model_id, query.allow_deleted),
  })

  const finalize = route({
    ...common,
    method: 'PATCH',
    path: `${mlflow}/logged-models/{model_id}`,
    charge: 'own',
    summary: 'Sets the status of a logged model.',
    params,
    body: object({ model_id: optional(modelId), status }),
    answer,
    async handle({ params, body, ...call }) {
      await save(call, params.model_id, (model, nowMs) =>
        updateLoggedModel(runStore, model, { status: body.status }, nowMs),
      )
      return await read(call, params.model_id)
    },
  })

  const remove = route({
    ...common,
    method: 'DELETE',
    path: `${mlflow}/logged-models/{model_id}`,
    charge: 'own',
    summary: 'Deletes a logged model and its files. Registered versions of it keep theirs.',
    params,
    answer: nothing,
    async handle({ params, ...call }) {
      await save(call, params.model_id, (model, nowMs) => deleteLoggedModel(database, model, nowMs))
      await orphanedObjects.free()
      return {}
    },
  })

  const setTags = route({
    ...common,
    method: 'PATCH',
    path: `${mlflow}/logged-models/{model_id}/tags`,
    charge: 'own',
    summary: 'Sets tags of a logged model; others stay.',
    params,
    body: object({ model_id: optional(modelId), tags: pairs }),
    answer,
    async handle({ params, body: { tags = [] }, ...call }) {
      const write = (model: LoggedModel, nowMs: number) =>
        updateLoggedModel(runStore, model, { tags: toRecord(tags) }, nowMs)
      await save(call, params.model_id, write, tags.length)
      return await read(call, params.model_id)
    },
  })

  const deleteTag = route({
    ...common,
    method: 'DELETE',
    path: `${mlflow}/logged-models/{model_id}/tags/{tag_key*}`,
    charge: 'own',
    summary: 'Removes a tag of a logged model.',
    params: object({ model_id: modelId, tag_key: text(1_000, 1) }),
    answer: nothing,
    async handle({ params, ...call }) {
      await save(call, params.model_id, async (model, nowMs) => {
        if (await deleteLoggedModelTag(database, model.id, params.tag_key, nowMs)) return
        throw new HttpError('assetUnknown', `tag_key: the model has no tag ${params.tag_key.slice(0, 200)}.`)
      })
      return {}
    },
  })

  const logParams = route({
    ...common,
    method: 'POST',
    path: `${mlflow}/logged-models/{model_id}/params`,
    charge: 'own',
    summary: 'Adds parameters to a logged model.',
    params,
    body: object({ model_id: optional(modelId), params: pairs }),
    answer: nothing,
    async handle({ params, body, ...call }) {
      const given = body.params ?? []
      const write = (model: LoggedModel, nowMs: number) =>
        updateLoggedModel(runStore, model, { params: toRecord(given) }, nowMs)
      await save(call, params.model_id, write, given.length)
      return {}
    },
  })

  const search = route({
    ...common,
    method: 'POST',
    path: `${mlflow}/logged-models/search`,
    charge: 'none',
    summary:
      'Finds logged models of projects by a filter, the newest first unless ordered. What has no value comes last.',
    body: object({
      experiment_ids: list(text(200, 1), 1_000),
      filter: optional(text(10_000)),
      datasets: optional(list(object({ dataset_name: text(1_000, 1), dataset_digest: optional(text(200)) }), 100)),
      max_results: optional(integerBetween(1, modelsMax)),
      order_by: optional(
        list(
          object({
            field_name: text(2_000, 1),
            ascending: optional(flag),
            dataset_name: optional(text(1_000)),
            dataset_digest: optional(text(200)),
          }),
          10,
        ),
      ),
      page_token: optional(text(1_000)),
    }),
    answer: z.object({ models: z.array(loggedModelAnswer), next_page_token: z.string().optional() }),
    async handle({ body, ...call }) {
      const projectIds: string[] = []
      for (const id of new Set(body.experiment_ids)) projectIds.push((await find.experiment(call, id)).id)
      return await searchLoggedModels(database, projectIds, {
        filter: body.filter ?? '',
        datasets: body.datasets ?? [],
        order: body.order_by ?? [],
        token: body.page_token,
        size: body.max_results ?? modelsDefault,
      })
    },
  })

  const listed = route({
    ...common,
    method: 'GET',
    path: `${mlflow}/logged-models/{model_id}/artifacts/directories`,
    summary: 'Lists what is directly in a folder of the files of a logged model: all of it, in one page.',
    params,
    query: object({ artifact_directory_path: optional(text(4_000)), page_token: optional(text(1_000)) }),
    answer: z.object({ root_uri: z.string(), files: filesAnswer }),
    async handle({ params, query, ...call }) {
      const model = await models.readable(call, params.model_id)
      const path = checkPath(query.artifact_directory_path ?? '')
      const of = { experimentId: model.experimentId, modelName: model.groupingName }
      return { root_uri: toModelUri(model), files: toFiles(await listFolder(database, of, toFolder(path)), path) }
    },
  })

  return [create, get, finalize, remove, setTags, deleteTag, logParams, search, listed]
}

const toRecord = (pairs: { key: string; value: string }[]) => Object.fromEntries(pairs.map((it) => [it.key, it.value]))
