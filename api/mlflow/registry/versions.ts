import { z } from 'zod'
import { flag, indexedText, integerBetween, list, object, optional, text } from '../../../http/body/fields.ts'
import { HttpError } from '../../../http/errors.ts'
import { type Route, route } from '../../../http/route.ts'
import type { Database } from '../../../store/postgres/database.ts'
import {
  findMlflowVersion,
  findNextMajor,
  listMlflowVersions,
  type MlflowVersion,
  updateOrigin,
} from '../../../store/postgres/mlflow/registry.ts'
import { listRegistryModels } from '../../../store/postgres/registry/models.ts'
import { findRegistryVersionById, listRegistryVersions } from '../../../store/postgres/registry/versions.ts'
import { type Access, toViewer } from '../../access.ts'
import type { OrphanedObjects } from '../../assets/orphaned-objects.ts'
import { changeVersion, type OpenChange, openChange, registryFields, updateVersion } from '../../registry/change.ts'
import { deleteMetadata, setMetadata } from '../../registry/metadata.ts'
import { addVersion } from '../../registry/register.ts'
import { deleteVersion } from '../../registry/versions.ts'
import { texts } from '../experiments.ts'
import { parseFilter, readTokenPage, sortBy } from '../filter.ts'
import type { MlflowCall } from '../find.ts'
import { common, findWorkspaceOf, mlflow } from '../workspace.ts'
import { readTag, toLatest, toVersion, toVersionTags, toVersionUri, versionAnswer } from './answers.ts'
import type { RegistryFinder } from './find.ts'
import type { VersionSources } from './sources.ts'
import { parseStage, toCurrentStage, toStages } from './stages.ts'

const path = `${mlflow}/model-versions`
const named = { name: text(1_000, 1), version: text(99, 1) }
const tagKey = indexedText(1_000)
const answer = z.object({ model_version: versionAnswer })
const nothing = z.object({})
const pageMax = 200_000
const pageDefault = 10_000

type Deps = {
  database: Database
  access: Access
  registry: RegistryFinder
  sources: VersionSources
  orphanedObjects: OrphanedObjects
  appUrl: string
}

/** Versions of registered models, as clients of MLflow number them: N is our N.0.0. */
export function createModelVersionRoutes({
  database,
  access,
  registry,
  sources,
  orphanedObjects,
  appUrl,
}: Deps): Route[] {
  async function change(
    call: MlflowCall,
    { name, version }: { name: string; version: string },
    work: (open: OpenChange, version: MlflowVersion) => Promise<void>,
  ): Promise<MlflowVersion> {
    const found = await registry.version(call, name, version)
    await changeVersion({ database, caller: call.caller, appUrl }, found.id, (open, locked) =>
      work(open, { ...found, ...locked }),
    )
    return found
  }

  async function read(id: string) {
    return { model_version: toVersion((await findMlflowVersion(database, id)) as MlflowVersion) }
  }

  const create = route({
    ...common,
    method: 'POST',
    path: `${path}/create`,
    charge: 'call',
    summary:
      'Adds a version to a registered model: the files that a logged model, a folder of a run or another version has at ' +
      'that moment.',
    body: object({
      name: named.name,
      source: text(10_000, 1),
      run_id: optional(text(200)),
      run_link: optional(text(10_000)),
      model_id: optional(text(200)),
      description: optional(registryFields.comment),
      tags: optional(list(object({ key: tagKey, value: text(100_000) }), 1_000)),
    }),
    answer,
    async handle({ body, ...call }) {
      const { caller } = call
      const { name: workspaceName } = await findWorkspaceOf(access, call)
      const found = await sources.find(call, body.source, body.model_id ?? '')
      const made = await database.transaction(async (queries) => {
        const { source, workspaceName: place = workspaceName } = await sources.lock(queries, call, found)
        if (place !== workspaceName) {
          throw new HttpError(
            'badRequest',
            `source: the run is of the workspace ${place}; register its models there: MLFLOW_WORKSPACE=${place}.`,
          )
        }
        const reference = { workspaceName, modelName: body.name }
        const open = await openChange({ queries, caller, appUrl }, reference, 'registryModelUnknown')
        const version = await findNextMajor(queries, open.model.id)
        const { registryModelItemId: id } = await addVersion(open, source, { version, comment: body.description })
        await updateOrigin(queries, id, {
          source: body.source,
          sourceRun: body.run_id || null,
          runLink: body.run_link || null,
          loggedModelId: found.of === 'loggedModel' ? found.modelId : body.model_id || null,
        })
        const tags = (body.tags ?? []).map(({ key, value }) => ({ key, value: JSON.stringify(value) }))
        const added = await findRegistryVersionById(queries, id)
        if (tags.length > 0 && added) await setMetadata(open, added, tags)
        return id
      })
      return await read(made)
    },
  })

  const update = route({
    ...common,
    method: 'PATCH',
    path: `${path}/update`,
    charge: 'call',
    summary: 'Changes the description of a version: its comment.',
    body: object({ ...named, description: optional(registryFields.comment) }),
    answer,
    async handle({ body: { description: comment, ...body }, ...call }) {
      const { id } = await change(call, body, async (open, version) => {
        if (comment === undefined || comment === version.comment) return
        await updateVersion(open, version, 'MODEL_VERSION_UPDATED', { comment })
      })
      return await read(id)
    },
  })

  const remove = route({
    ...common,
    method: 'DELETE',
    path: `${path}/delete`,
    charge: 'call',
    summary: 'Deletes a version. Its number is not given again.',
    body: object(named),
    answer: nothing,
    async handle({ body, ...call }) {
      await change(call, body, deleteVersion)
      // Not awaited: there may be a hundred thousand files.
      void orphanedObjects.free()
      return {}
    },
  })

  const get = route({
    ...common,
    method: 'GET',
    path: `${path}/get`,
    summary: 'Reads a version.',
    query: object(named),
    answer,
    async handle({ query, ...call }) {
      return { model_version: toVersion(await registry.version(call, query.name, query.version)) }
    },
  })

  const getUri = route({
    ...common,
    method: 'GET',
    path: `${path}/get-download-uri`,
    summary: 'Tells where the files of a version are read.',
    query: object(named),
    answer: z.object({ artifact_uri: z.string() }),
    async handle({ query, ...call }) {
      return { artifact_uri: toVersionUri((await registry.version(call, query.name, query.version)).id) }
    },
  })

  const search = route({
    ...common,
    method: 'GET',
    path: `${path}/search`,
    summary:
      'Finds versions of the registered models of a workspace by a filter, the last changed first unless ordered.',
    query: object({
      filter: optional(text(10_000)),
      max_results: optional(integerBetween(1, pageMax)),
      order_by: texts,
      page_token: optional(text(1_000)),
    }),
    answer: z.object({ model_versions: z.array(versionAnswer), next_page_token: z.string().optional() }),
    async handle({ query, ...call }) {
      const matches = parseFilter(query.filter ?? '')
      const workspace = await findWorkspaceOf(access, call)
      const models = await listRegistryModels(database, toViewer(call.caller), workspace.name)
      const ids = models.map((it) => it.id)
      const found = (await listMlflowVersions(database, ids)).filter((it) => matches(toReader(it)))
      const order = query.order_by?.length ? query.order_by : ['last_updated_timestamp DESC']
      const sorted = sortBy(found, [...order, 'name', 'version_number DESC'], toReader)
      const { page, next } = readTokenPage(sorted, query.page_token, query.max_results ?? pageDefault)
      return { model_versions: page.map(toVersion), ...(next !== undefined && { next_page_token: next }) }
    },
  })

  const transition = route({
    ...common,
    method: 'POST',
    path: `${path}/transition-stage`,
    charge: 'call',
    summary: 'Moves a version to a stage: None, Staging, Production or Archived. Stages of other names stay.',
    body: object({ ...named, stage: text(200, 1), archive_existing_versions: optional(flag) }),
    answer,
    async handle({ body, ...call }) {
      const stage = parseStage(body.stage)
      if (body.archive_existing_versions && !['Staging', 'Production'].includes(stage)) {
        throw new HttpError('badRequest', 'archive_existing_versions: goes with the stages Staging and Production only')
      }
      const { id } = await change(call, body, async (open, version) => {
        const move = async (it: Parameters<typeof updateVersion>[1], to: string) => {
          if (toCurrentStage(it.stages) === to) return
          await updateVersion(open, it, 'MODEL_VERSION_STAGES_CHANGED', { stages: toStages(it.stages, to) })
        }
        await move(version, stage)
        if (!body.archive_existing_versions) return
        for (const other of await listRegistryVersions(open.queries, version.modelId)) {
          if (other.id !== version.id && toCurrentStage(other.stages) === stage) await move(other, 'Archived')
        }
      })
      return await read(id)
    },
  })

  const setTag = route({
    ...common,
    method: 'POST',
    path: `${path}/set-tag`,
    charge: 'call',
    summary: 'Sets a tag of a version: metadata.',
    body: object({ ...named, key: tagKey, value: text(100_000) }),
    answer: nothing,
    async handle({ body: { key, value, ...body }, ...call }) {
      await change(call, body, (open, version) => setMetadata(open, version, [{ key, value: JSON.stringify(value) }]))
      return {}
    },
  })

  const deleteTag = route({
    ...common,
    method: 'DELETE',
    path: `${path}/delete-tag`,
    charge: 'call',
    summary: 'Removes a tag of a version; it need not have it.',
    body: object({ ...named, key: tagKey }),
    answer: nothing,
    async handle({ body: { key, ...body }, ...call }) {
      await change(call, body, async (open, version) => void (await deleteMetadata(open, version, key)))
      return {}
    },
  })

  const latest = {
    ...common,
    path: `${mlflow}/registered-models/get-latest-versions`,
    charge: 'none' as const,
    summary: 'Reads the newest version of each stage, or of some. Versions that are no numbers are left out.',
    answer: z.object({ model_versions: z.array(versionAnswer) }),
  }

  async function findLatest(call: MlflowCall, name: string, stages: string[] | undefined) {
    const model = await registry.model(call, name)
    const wanted = stages?.length ? [...new Set(stages.map(parseStage))] : undefined
    return { model_versions: toLatest(await listMlflowVersions(database, [model.id]), wanted).map(toVersion) }
  }

  return [
    create,
    update,
    remove,
    get,
    getUri,
    search,
    transition,
    setTag,
    deleteTag,
    route({
      ...latest,
      method: 'POST',
      body: object({ name: named.name, stages: optional(list(text(200), 100)) }),
      handle: ({ body, ...call }) => findLatest(call, body.name, body.stages),
    }),
    route({
      ...latest,
      method: 'GET',
      query: object({ name: named.name, stages: texts }),
      handle: ({ query, ...call }) => findLatest(call, query.name, query.stages),
    }),
  ]
}

function toReader(it: MlflowVersion) {
  const version = toVersion(it)
  const tags = toVersionTags(it)
  const number = Number(version.version)
  const known: Record<string, string | number | undefined> = {
    name: version.name,
    run_id: version.run_id,
    model_id: version.model_id,
    source_path: version.source,
    source: version.source,
    user_id: version.user_id,
    version_number: Number.isNaN(number) ? undefined : number,
    version: version.version,
    current_stage: version.current_stage,
    creation_timestamp: version.creation_timestamp,
    last_updated_timestamp: version.last_updated_timestamp,
  }
  return (source: string, name: string) => (source === 'tag' ? readTag(tags[name], name) : known[name])
}
