import { z } from 'zod'
import { indexedText, integerBetween, list, object, optional, text } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { type Route, route } from '../../http/route.ts'
import { type Database, isUniqueViolation } from '../../store/postgres/database.ts'
import {
  deleteProjectTag,
  listDatasetsOfProjects,
  listMlflowExperiments,
  type MlflowExperiment,
  updateArtifactLocation,
  upsertProjectTags,
} from '../../store/postgres/mlflow/experiments.ts'
import { deleteProject, restoreProject } from '../../store/postgres/projects/deletion.ts'
import { insertProject, updateProject } from '../../store/postgres/projects/projects.ts'
import { type Access, toViewer, unknownProject } from '../access.ts'
import { projectName } from '../projects/projects.ts'
import { experimentAnswer, toExperiment } from './answers.ts'
import { parseFilter, readTokenPage, sortBy } from './filter.ts'
import type { ExperimentFinder, MlflowCall } from './find.ts'
import { common, findWorkspaceOf, mlflow } from './workspace.ts'

const id = text(200, 1)
const pairs = optional(list(object({ key: indexedText(1_000), value: text(1_000_000) }), 1_000))
const nothing = z.object({})
const searchMax = 50_000
const searchDefault = 1_000
const datasetsMax = 1_000

export const viewType = optional(
  z.enum(['ACTIVE_ONLY', 'DELETED_ONLY', 'ALL'], 'must be ACTIVE_ONLY, DELETED_ONLY or ALL'),
)

/** Fields of a list in a query, where one alone is no list. */
export const texts = optional(
  z.preprocess((given) => (typeof given === 'string' ? [given] : given), list(text(10_000), 100)),
)

type Deps = { database: Database; access: Access; find: ExperimentFinder }

/** Experiments of MLflow: our projects. */
export function createMlflowExperimentRoutes({ database, access, find }: Deps): Route[] {
  const toAnswer = async (call: MlflowCall, it: MlflowExperiment) => ({
    experiment: toExperiment(it, await find.isOwn(call, it)),
  })

  const create = route({
    ...common,
    method: 'POST',
    path: `${mlflow}/experiments/create`,
    charge: 'call',
    summary: 'Creates a project. The name `workspace/project` creates it in another workspace of the caller.',
    body: object({ name: text(1_200, 1), artifact_location: optional(text(2_000)), tags: pairs }),
    answer: z.object({ experiment_id: z.string() }),
    async handle({ body, ...call }) {
      const place = await find.place(call, body.name)
      const named = projectName.safeParse(place.name)
      if (!named.success) throw new HttpError('badRequest', `name: ${named.error.issues[0]?.message}`)
      await access.writableWorkspace(call.caller, place.workspaceName)
      try {
        return await database.transaction(async (queries) => {
          const made = await insertProject(queries, {
            workspaceId: place.workspaceId,
            userId: call.caller.userId,
            name: place.name,
            description: '',
            isPublic: false,
          })
          if (body.artifact_location) await updateArtifactLocation(queries, made.id, body.artifact_location)
          await upsertProjectTags(queries, made.id, body.tags ?? [])
          return { experiment_id: made.id }
        })
      } catch (error) {
        if (!isUniqueViolation(error)) throw error
        throw taken(body.name)
      }
    },
  })

  const search = {
    ...common,
    path: `${mlflow}/experiments/search`,
    charge: 'none' as const,
    summary: 'Lists the projects of a workspace that match a filter.',
    answer: z.object({ experiments: z.array(experimentAnswer), next_page_token: z.string().optional() }),
  }
  const searchFields = object({
    max_results: optional(integerBetween(1, searchMax)),
    page_token: optional(text(1_000)),
    filter: optional(text(10_000)),
    order_by: texts,
    view_type: viewType,
  })

  async function findAll(asked: z.output<typeof searchFields>, call: MlflowCall) {
    const { filter = '', view_type: view = 'ACTIVE_ONLY', order_by: order = [] } = asked
    const matches = parseFilter(filter)
    const workspace = await findWorkspaceOf(access, call)
    const all = await listMlflowExperiments(database, toViewer(call.caller), workspace.id)
    const toReader = (it: MlflowExperiment) => (source: string, name: string) =>
      source === 'tag' ? it.tags[name] : fieldsOf(it)[name]
    const found = all
      .filter((it) => view === 'ALL' || it.isDeleted === (view === 'DELETED_ONLY'))
      .filter((it) => matches(toReader(it)))
    const sorted = sortBy(found, order.length > 0 ? order : ['creation_time DESC', 'experiment_id'], toReader)
    const { page, next } = readTokenPage(sorted, asked.page_token, asked.max_results ?? searchDefault)
    return { experiments: page.map((it) => toExperiment(it, true)), ...(next && { next_page_token: next }) }
  }

  const get = route({
    ...common,
    method: 'GET',
    path: `${mlflow}/experiments/get`,
    summary:
      'Reads a project, deleted or not. The id 0 is the project `Default`, which is created when it is asked for.',
    query: object({ experiment_id: id }),
    answer: z.object({ experiment: experimentAnswer }),
    async handle({ query, ...call }) {
      return await toAnswer(call, await find.experiment(call, query.experiment_id))
    },
  })

  const getByName = route({
    ...common,
    method: 'GET',
    path: `${mlflow}/experiments/get-by-name`,
    summary: 'Reads a project by its name, or by `workspace/project`.',
    query: object({ experiment_name: text(1_200, 1) }),
    answer: z.object({ experiment: experimentAnswer }),
    async handle({ query, ...call }) {
      const place = await find.place(call, query.experiment_name)
      const found = await find.experimentByName(call, place)
      if (!found) throw unknownProject()
      return { experiment: toExperiment(found, place.isOwn) }
    },
  })

  const remove = route({
    ...common,
    method: 'POST',
    path: `${mlflow}/experiments/delete`,
    charge: 'call',
    summary: 'Deletes a project with its runs; for a while both can be restored.',
    body: object({ experiment_id: id }),
    answer: nothing,
    async handle({ body, ...call }) {
      const { id: projectId, isDeleted } = await find.writableExperiment(call, body.experiment_id)
      if (isDeleted) throw unknownProject()
      await deleteProject(database, { projectId, userId: call.caller.userId, deleteExperiments: true })
      return {}
    },
  })

  const restore = route({
    ...common,
    method: 'POST',
    path: `${mlflow}/experiments/restore`,
    charge: 'call',
    summary: 'Undoes the deletion of a project and of the runs that were deleted with it.',
    body: object({ experiment_id: id }),
    answer: nothing,
    async handle({ body, ...call }) {
      const found = await find.writableExperiment(call, body.experiment_id)
      try {
        if (!(await restoreProject(database, found.id))) throw unknownProject()
      } catch (error) {
        if (!isUniqueViolation(error)) throw error
        throw taken(found.name)
      }
      return {}
    },
  })

  const update = route({
    ...common,
    method: 'POST',
    path: `${mlflow}/experiments/update`,
    charge: 'call',
    summary: 'Renames a project.',
    body: object({ experiment_id: id, new_name: optional(text(1_200, 1)) }),
    answer: nothing,
    async handle({ body, ...call }) {
      const found = await find.writableExperiment(call, body.experiment_id)
      if (found.isDeleted)
        throw new HttpError('badRequest', 'experiment_id: the experiment is deleted; restore it first.')
      if (body.new_name === undefined) return {}
      // Of another workspace it has that one's name before its own.
      const own = body.new_name.replace(new RegExp(`^${RegExp.escape(found.workspaceName)}/`), '')
      const name = projectName.safeParse(own)
      if (!name.success) throw new HttpError('badRequest', `new_name: ${name.error.issues[0]?.message}`)
      try {
        await updateProject(database, found.id, { name: own, description: undefined, isPublic: undefined })
      } catch (error) {
        if (!isUniqueViolation(error)) throw error
        throw taken(own)
      }
      return {}
    },
  })

  const setTag = route({
    ...common,
    method: 'POST',
    path: `${mlflow}/experiments/set-experiment-tag`,
    charge: 'call',
    summary: 'Sets a tag of a project.',
    body: object({ experiment_id: id, key: indexedText(1_000), value: text(1_000_000) }),
    answer: nothing,
    async handle({ body, ...call }) {
      const found = await find.writableExperiment(call, body.experiment_id)
      await upsertProjectTags(database, found.id, [body])
      return {}
    },
  })

  const deleteTag = route({
    ...common,
    method: 'POST',
    path: `${mlflow}/experiments/delete-experiment-tag`,
    charge: 'call',
    summary: 'Removes a tag of a project.',
    body: object({ experiment_id: id, key: indexedText(1_000) }),
    answer: nothing,
    async handle({ body, ...call }) {
      const found = await find.writableExperiment(call, body.experiment_id)
      if (!(await deleteProjectTag(database, found.id, body.key))) {
        throw new HttpError('assetUnknown', `key: the experiment has no tag ${body.key.slice(0, 200)}.`)
      }
      return {}
    },
  })

  const datasets = route({
    ...common,
    method: 'POST',
    path: `${mlflow}/experiments/search-datasets`,
    charge: 'none' as const,
    summary: 'Lists the datasets that the runs of projects read: the first 1,000.',
    body: object({ experiment_ids: list(id, 1_000) }),
    answer: z.object({
      dataset_summaries: z.array(
        z.object({ experiment_id: z.string(), name: z.string(), digest: z.string(), context: z.string().optional() }),
      ),
    }),
    async handle({ body, ...call }) {
      const ids = []
      for (const it of body.experiment_ids) ids.push((await find.experiment(call, it)).id)
      const found = await listDatasetsOfProjects(database, ids, datasetsMax)
      return {
        dataset_summaries: found.map(({ projectId, name, digest, context }) => ({
          experiment_id: projectId,
          name,
          digest,
          ...(context !== null && { context }),
        })),
      }
    },
  })

  return [
    create,
    route({ ...search, method: 'POST', body: searchFields, handle: ({ body, ...call }) => findAll(body, call) }),
    route({ ...search, method: 'GET', query: searchFields, handle: ({ query, ...call }) => findAll(query, call) }),
    get,
    getByName,
    remove,
    restore,
    update,
    setTag,
    deleteTag,
    datasets,
  ]
}

const taken = (name: string) =>
  new HttpError('projectExists', `name: there is an experiment "${name.slice(0, 200)}" already; choose another name.`)

const fieldsOf = (it: MlflowExperiment): Record<string, string | number> => ({
  name: it.name,
  experiment_id: it.id,
  creation_time: it.createdAtMs,
  last_update_time: it.updatedAtMs,
})
