import { z } from 'zod'
import { indexedText, integerBetween, list, object, optional, text } from '../../../http/body/fields.ts'
import { HttpError } from '../../../http/errors.ts'
import { type Route, route } from '../../../http/route.ts'
import { type Database, isUniqueViolation } from '../../../store/postgres/database.ts'
import {
  deleteAlias,
  deleteModelTag,
  findAlias,
  findMlflowVersion,
  listModelTags,
  upsertAlias,
  upsertModelTags,
} from '../../../store/postgres/mlflow/registry.ts'
import { listRegistryModels } from '../../../store/postgres/registry/models.ts'
import { findRegistryVersion } from '../../../store/postgres/registry/versions.ts'
import { type Access, toViewer } from '../../access.ts'
import type { OrphanedObjects } from '../../assets/orphaned-objects.ts'
import { type OpenChange, openChange, registryFields } from '../../registry/change.ts'
import { unknownChoice } from '../../registry/find.ts'
import { deleteModel, updateModel } from '../../registry/models.ts'
import { createModel } from '../../registry/register.ts'
import { texts } from '../experiments.ts'
import { parseFilter, readTokenPage, sortBy } from '../filter.ts'
import type { MlflowCall } from '../find.ts'
import { common, findWorkspaceOf, mlflow } from '../workspace.ts'
import { modelAnswer, ofPrompts, readTag, toSemver, toVersion, versionAnswer } from './answers.ts'
import type { RegistryFinder } from './find.ts'

const path = `${mlflow}/registered-models`
const name = text(1_000, 1)
const tagKey = indexedText(1_000)
const answer = z.object({ registered_model: modelAnswer })
const nothing = z.object({})
const pageMax = 1_000
const pageDefault = 100

/** A model is a part of addresses. */
const newName = registryFields.modelName.refine((it) => !/[/:]/.test(it), 'must not have / or :')

const alias = indexedText(255)
  .refine((it) => /^[\w-]+$/.test(it), 'must have only letters, digits, _ and -')
  .refine((it) => it !== 'latest' && !/^v\d+$/i.test(it), 'must not be latest, nor v and a number')

type Deps = {
  database: Database
  access: Access
  registry: RegistryFinder
  orphanedObjects: OrphanedObjects
  appUrl: string
}

/** Registered models of MLflow: those of our registry. */
export function createRegisteredModelRoutes({ database, access, registry, orphanedObjects, appUrl }: Deps): Route[] {
  const read = async (call: MlflowCall, modelName: string) => {
    const [registered_model] = await registry.describe([await registry.model(call, modelName)])
    return { registered_model: registered_model as NonNullable<typeof registered_model> }
  }

  async function toReference(call: MlflowCall, modelName: string) {
    return { workspaceName: (await findWorkspaceOf(access, call)).name, modelName }
  }

  async function change(call: MlflowCall, modelName: string, work: (open: OpenChange) => Promise<void>) {
    const { caller } = call
    const reference = await toReference(call, modelName)
    await database.transaction(async (queries) => {
      await work(await openChange({ queries, caller, appUrl }, reference, 'registryModelUnknown'))
    })
    return {}
  }

  const create = route({
    ...common,
    method: 'POST',
    path: `${path}/create`,
    charge: 'call',
    summary: 'Creates a registered model without versions in the workspace of the call.',
    body: object({
      name: newName,
      description: optional(registryFields.description),
      tags: optional(list(object({ key: tagKey, value: text(1_000_000) }), 1_000)),
    }),
    answer,
    async handle({ body, ...call }) {
      const { caller } = call
      const { description = '', tags = [] } = body
      if (tags.some((it) => it.key === ofPrompts)) {
        throw new HttpError('notSupported', 'Prompts are not kept: only models with files are registered.')
      }
      const { name: workspaceName } = await findWorkspaceOf(access, call)
      const workspace = await access.writableWorkspace(caller, workspaceName)
      try {
        await database.transaction(async (queries) => {
          const fields = { name: body.name, description, isPublic: false }
          const { model } = await createModel({ queries, caller, appUrl }, workspace, fields)
          await upsertModelTags(queries, model.id, tags)
        })
      } catch (error) {
        if (!isUniqueViolation(error)) throw error
        throw new HttpError('registryModelExists', `name: there is a registered model "${body.name}" already.`)
      }
      return await read(call, body.name)
    },
  })

  const rename = route({
    ...common,
    method: 'POST',
    path: `${path}/rename`,
    charge: 'call',
    summary: 'Renames a registered model.',
    body: object({ name, new_name: newName }),
    answer,
    async handle({ body, ...call }) {
      const reference = await toReference(call, body.name)
      await updateModel({ database, caller: call.caller, appUrl }, reference, { registryModelName: body.new_name })
      return await read(call, body.new_name)
    },
  })

  const update = route({
    ...common,
    method: 'PATCH',
    path: `${path}/update`,
    charge: 'call',
    summary: 'Changes the description of a registered model.',
    body: object({ name, description: optional(registryFields.description) }),
    answer,
    async handle({ body, ...call }) {
      const { description } = body
      const reference = await toReference(call, body.name)
      await updateModel({ database, caller: call.caller, appUrl }, reference, { description })
      return await read(call, body.name)
    },
  })

  const remove = route({
    ...common,
    method: 'DELETE',
    path: `${path}/delete`,
    charge: 'call',
    summary: 'Deletes a registered model and all its versions. The experiments keep their files.',
    body: object({ name }),
    answer: nothing,
    async handle({ body, ...call }) {
      await deleteModel({ database, caller: call.caller, appUrl }, await toReference(call, body.name))
      // Not awaited: there may be a hundred thousand files.
      void orphanedObjects.free()
      return {}
    },
  })

  const get = route({
    ...common,
    method: 'GET',
    path: `${path}/get`,
    summary: 'Reads a registered model with the newest version of each stage.',
    query: object({ name }),
    answer,
    handle: ({ query, ...call }) => read(call, query.name),
  })

  const search = route({
    ...common,
    method: 'GET',
    path: `${path}/search`,
    summary: 'Finds registered models of a workspace by a filter, by name unless ordered.',
    query: object({
      filter: optional(text(10_000)),
      max_results: optional(integerBetween(1, pageMax)),
      order_by: texts,
      page_token: optional(text(1_000)),
    }),
    answer: z.object({ registered_models: z.array(modelAnswer), next_page_token: z.string().optional() }),
    async handle({ query, ...call }) {
      const matches = parseFilter(query.filter ?? '')
      const workspace = await findWorkspaceOf(access, call)
      const all = await listRegistryModels(database, toViewer(call.caller), workspace.name)
      const tags = Map.groupBy(
        await listModelTags(
          database,
          all.map((it) => it.id),
        ),
        (it) => it.modelId,
      )
      const toReader = (it: (typeof all)[0]) => (source: string, field: string) => {
        if (source === 'tag') return readTag(tags.get(it.id)?.find((tag) => tag.key === field)?.value, field)
        const updated = Number(it.updatedAtMs)
        const known: Record<string, string | number> = {
          name: it.name,
          timestamp: updated,
          last_updated_timestamp: updated,
          creation_timestamp: Number(it.createdAtMs),
        }
        return known[field]
      }
      const found = all.filter((it) => matches(toReader(it)))
      const sorted = sortBy(found, [...(query.order_by ?? []), 'name'], toReader)
      const { page, next } = readTokenPage(sorted, query.page_token, query.max_results ?? pageDefault)
      return { registered_models: await registry.describe(page), ...(next !== undefined && { next_page_token: next }) }
    },
  })

  const setTag = route({
    ...common,
    method: 'POST',
    path: `${path}/set-tag`,
    charge: 'call',
    summary: 'Sets a tag of a registered model.',
    body: object({ name, key: tagKey, value: text(1_000_000) }),
    answer: nothing,
    handle: ({ body: { key, value, ...body }, ...call }) =>
      change(call, body.name, async ({ queries, model, record }) => {
        await upsertModelTags(queries, model.id, [{ key, value }])
        await record({ action: 'MODEL_TAGS_CHANGED', before: {}, after: { [key]: value } })
      }),
  })

  const deleteTag = route({
    ...common,
    method: 'DELETE',
    path: `${path}/delete-tag`,
    charge: 'call',
    summary: 'Removes a tag of a registered model; it need not have it.',
    body: object({ name, key: tagKey }),
    answer: nothing,
    handle: ({ body: { key, ...body }, ...call }) =>
      change(call, body.name, async ({ queries, model, record }) => {
        if (!(await deleteModelTag(queries, model.id, key))) return
        await record({ action: 'MODEL_TAGS_CHANGED', before: { [key]: null }, after: {} })
      }),
  })

  const setAlias = route({
    ...common,
    method: 'POST',
    path: `${path}/alias`,
    charge: 'call',
    summary: 'Lets an alias name a version; it names no other any more.',
    body: object({ name, alias, version: text(99, 1) }),
    answer: nothing,
    handle: ({ body, ...call }) =>
      change(call, body.name, async ({ queries, model, record }) => {
        const version = await findRegistryVersion(queries, model.id, { version: toSemver(body.version) })
        if (!version) throw unknownChoice(body.name, { version: body.version })
        const before = await upsertAlias(queries, { modelId: model.id, alias: body.alias, versionId: version.id })
        await record({
          action: 'MODEL_ALIASES_CHANGED',
          version,
          before: before === undefined ? {} : { [body.alias]: before },
          after: { [body.alias]: version.version },
        })
      }),
  })

  const removeAlias = route({
    ...common,
    method: 'DELETE',
    path: `${path}/alias`,
    charge: 'call',
    summary: 'Removes an alias of a registered model; it need not have it.',
    body: object({ name, alias: indexedText(255) }),
    answer: nothing,
    handle: ({ body, ...call }) =>
      change(call, body.name, async ({ queries, model, record }) => {
        const found = await findAlias(queries, model.id, body.alias)
        const version = found && (await findMlflowVersion(queries, found.versionId))
        if (!version) return
        await deleteAlias(queries, model.id, body.alias)
        const before = { [body.alias]: version.version }
        await record({ action: 'MODEL_ALIASES_CHANGED', version, before, after: {} })
      }),
  })

  const getByAlias = route({
    ...common,
    method: 'GET',
    path: `${path}/alias`,
    summary: 'Reads the version that an alias names.',
    query: object({ name, alias: indexedText(255) }),
    answer: z.object({ model_version: versionAnswer }),
    async handle({ query, ...call }) {
      const model = await registry.model(call, query.name)
      const found = await findAlias(database, model.id, query.alias)
      const version = found && (await findMlflowVersion(database, found.versionId))
      if (version) return { model_version: toVersion(version) }
      throw new HttpError(
        'registryVersionUnknown',
        `alias: the registered model "${query.name}" has no alias "${query.alias}".`,
      )
    },
  })

  return [create, rename, update, remove, get, search, setTag, deleteTag, setAlias, removeAlias, getByAlias]
}
