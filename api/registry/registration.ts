import { z } from 'zod'
import { experimentKey, flag, object, optional, text } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { type Caller, type Route, route } from '../../http/route.ts'
import { listModels } from '../../store/postgres/assets/assets.ts'
import { type Database, isUniqueViolation, type Queries } from '../../store/postgres/database.ts'
import { insertRegistryModel, type LockedModel } from '../../store/postgres/registry/models.ts'
import { firstStatus } from '../../store/postgres/registry/statuses.ts'
import {
  type ExperimentModelSource,
  findNextVersion,
  insertRegistryVersion,
  lockExperimentModel,
} from '../../store/postgres/registry/versions.ts'
import { parseSemver } from '../../store/registry/semver.ts'
import { type Access, refuseWithheld, toViewer } from '../access.ts'
import { type OpenChange, openChange, registryFields, registryTopic, toOpenChange } from './change.ts'
import { checkStatus } from './statuses.ts'

const versionFields = {
  experimentModelId: registryFields.id.describe('from /experiment/model'),
  registryModelName: registryFields.modelName,
  version: optional(text(99)).describe('a semantic version; absent: the next patch of the highest version, or 1.0.0'),
  comment: optional(registryFields.comment),
  stages: optional(registryFields.stages),
}
const modelFields = {
  description: optional(registryFields.description),
  isPublic: optional(flag).describe('true: the whole organization may read it'),
}
type Given = {
  [name in 'version' | 'comment' | 'status']?: string | undefined
} & { stages?: string[] | undefined }

const ids = z.object({ registryModelId: z.string(), registryModelItemId: z.string() })

type Deps = { database: Database; access: Access; appUrl: string }

/** Registers experiment models. The version keeps the files that the experiment model has at that moment. */
export function createRegistrationRoutes({ database, access, appUrl }: Deps): Route[] {
  type Model = Given & { registryModelName: string; description?: string | undefined; isPublic?: boolean | undefined }

  /** Registers a model with its first version. Fails with a unique violation when the workspace has one of this name. */
  async function registerFirst(caller: Caller, experimentModelId: string, given: Model) {
    const { registryModelName: name, description = '', isPublic = false } = given
    return await database.transaction(async (queries) => {
      const source = await findSource(queries, caller, experimentModelId)
      const { workspaceId, workspaceName } = source
      const made = { workspaceId, userId: caller.userId, name, description, isPublic, nowMs: Date.now() }
      const id = await insertRegistryModel(queries, made)
      const model: LockedModel = { id, workspaceId, workspaceName, name, description, isPublic, isWritable: true }
      const change = toOpenChange({ queries, caller, appUrl }, model)
      const after = { registryModelName: name, description, isPublic }
      await change.record({ action: 'MODEL_CREATED', before: {}, after })
      return { msg: 'Registered', ...(await addVersion(change, source, given)) }
    })
  }

  async function registerNext(caller: Caller, experimentModelId: string, given: Model) {
    const { registryModelName: modelName } = given
    try {
      return await database.transaction(async (queries) => {
        const source = await findSource(queries, caller, experimentModelId)
        const change = await openChange({ queries, caller, appUrl }, { workspaceName: source.workspaceName, modelName })
        return { msg: 'Registered', ...(await addVersion(change, source, given)) }
      })
    } catch (error) {
      if (!isUniqueViolation(error)) throw error
      throw new HttpError(
        'registryVersionExists',
        `version: the registry model "${modelName}" has a version ${given.version} already; choose another, or leave ` +
          'it out to get the next one.',
      )
    }
  }

  return [
    route({
      method: 'POST',
      path: '/write/registry-model',
      permission: 'caller',
      topic: registryTopic,
      summary: 'Registers a model of an experiment in the workspace of the experiment, with its first version.',
      body: object({ ...versionFields, ...modelFields }),
      answer: ids,
      shape: 'envelope',
      async handle({ body, caller }) {
        checkVersion(body.version)
        try {
          return await registerFirst(caller, body.experimentModelId, body)
        } catch (error) {
          if (!isUniqueViolation(error)) throw error
          throw new HttpError(
            'registryModelExists',
            `registryModelName: the workspace has a registry model "${body.registryModelName}" already; add a version ` +
              'with write/registry-model/item, or choose another name.',
          )
        }
      },
    }),

    route({
      method: 'POST',
      path: '/write/registry-model/item',
      permission: 'caller',
      topic: registryTopic,
      summary: 'Adds a model of an experiment as a new version of a registered model in the same workspace.',
      body: object(versionFields),
      answer: ids,
      shape: 'envelope',
      async handle({ body, caller }) {
        checkVersion(body.version)
        return await registerNext(caller, body.experimentModelId, body)
      },
    }),

    route({
      method: 'POST',
      path: '/write/registry-model/item/create',
      permission: 'caller',
      topic: registryTopic,
      summary:
        'Adds a model of an experiment, by its name, as a version of a registered model in the same workspace. The ' +
        'first version creates the registered model, with its description and visibility.',
      body: object({
        experimentKey,
        experimentModelName: text(1_000, 1),
        registryModelName: registryFields.modelName,
        registryModelDescription: optional(registryFields.description),
        publicModel: optional(flag).describe('true: the whole organization may read it'),
        version: versionFields.version,
        versionComment: optional(registryFields.comment),
        tags: optional(registryFields.stages).describe('the stages of the version'),
        status: optional(registryFields.status),
      }),
      answer: ids,
      shape: 'envelope',
      async handle({ body, caller }) {
        checkVersion(body.version)
        const { experimentModelName: name } = body
        const experiment = await access.writableExperiment(caller, body.experimentKey)
        const model = (await listModels(database, experiment.id)).find((it) => it.name === name)
        if (!model) {
          throw new HttpError('modelUnknown', `The experiment has no model "${name}": see /experiment/model.`)
        }
        const given = {
          registryModelName: body.registryModelName,
          description: body.registryModelDescription,
          isPublic: body.publicModel,
          version: body.version,
          comment: body.versionComment,
          stages: body.tags,
          status: body.status,
        }
        try {
          return await registerFirst(caller, model.id, given)
        } catch (error) {
          if (!isUniqueViolation(error)) throw error
          return await registerNext(caller, model.id, given)
        }
      },
    }),
  ]
}

function checkVersion(version: string | undefined) {
  if (version === undefined || parseSemver(version)) return
  throw new HttpError('registryVersionBad', `version: must be a semantic version such as 1.0.0, not "${version}"`)
}

async function findSource(queries: Queries, caller: Caller, id: string): Promise<ExperimentModelSource> {
  const source = await lockExperimentModel(queries, toViewer(caller), id)
  if (!source?.isWritable) await refuseWithheld(queries, caller, 'experimentModelId', id)
  if (!source) {
    throw new HttpError(
      'experimentModelUnknown',
      `experimentModelId: there is no model ${id} of an experiment that this key may use; see /experiment/model.`,
    )
  }
  if (source.isWritable) return source
  throw new HttpError('experimentReadOnly', 'This key may read the experiment, but not write to it.')
}

async function addVersion(
  { queries, model, caller, nowMs, record }: OpenChange,
  source: ExperimentModelSource,
  given: Given,
): Promise<z.output<typeof ids>> {
  const version = given.version ?? (await findNextVersion(queries, model.id))
  // The next version of the longest one is too long.
  checkVersion(version)
  const { comment = '', stages = [], status = firstStatus } = given
  await checkStatus(queries, model, status)
  const { userId } = caller
  const made = await insertRegistryVersion(queries, {
    modelId: model.id,
    userId,
    version,
    comment,
    stages,
    status,
    source,
    nowMs,
  })
  if (made.files === 0n) {
    throw new HttpError('experimentModelEmpty', `experimentModelId: the model "${source.name}" has no files any more.`)
  }
  await record({
    action: 'MODEL_VERSION_CREATED',
    version: { id: made.id, version, stages, experimentModelId: source.id, experimentKey: source.experimentKey },
    stagesBefore: [],
    before: {},
    after: { version, comment, stages, status },
  })
  return { registryModelId: model.id, registryModelItemId: made.id }
}
