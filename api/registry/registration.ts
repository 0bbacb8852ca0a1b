import { experimentKey, flag, object, optional, text } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { type Caller, type Route, route } from '../../http/route.ts'
import { listModels } from '../../store/postgres/assets/assets.ts'
import { type Database, isUniqueViolation } from '../../store/postgres/database.ts'
import type { Access } from '../access.ts'
import { openChange, registryFields, registryTopic } from './change.ts'
import { addVersion, checkVersion, createModel, findSource, type NewVersionFields, registeredIds } from './register.ts'

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
type Deps = { database: Database; access: Access; appUrl: string }

/** Registers experiment models. The version keeps the files that the experiment model has at that moment. */
export function createRegistrationRoutes({ database, access, appUrl }: Deps): Route[] {
  type Model = NewVersionFields & {
    registryModelName: string
    description?: string | undefined
    isPublic?: boolean | undefined
  }

  /** Registers a model with its first version. Fails with a unique violation when the workspace has one of this name. */
  async function registerFirst(caller: Caller, experimentModelId: string, given: Model) {
    const { registryModelName: name, description = '', isPublic = false } = given
    return await database.transaction(async (queries) => {
      const source = await findSource(queries, caller, experimentModelId)
      const workspace = { id: source.workspaceId, name: source.workspaceName }
      const change = await createModel({ queries, caller, appUrl }, workspace, { name, description, isPublic })
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
      charge: 'call',
      permission: 'caller',
      topic: registryTopic,
      summary: 'Registers a model of an experiment in the workspace of the experiment, with its first version.',
      body: object({ ...versionFields, ...modelFields }),
      answer: registeredIds,
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
      charge: 'call',
      permission: 'caller',
      topic: registryTopic,
      summary: 'Adds a model of an experiment as a new version of a registered model in the same workspace.',
      body: object(versionFields),
      answer: registeredIds,
      shape: 'envelope',
      async handle({ body, caller }) {
        checkVersion(body.version)
        return await registerNext(caller, body.experimentModelId, body)
      },
    }),

    route({
      method: 'POST',
      path: '/write/registry-model/item/create',
      charge: 'call',
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
      answer: registeredIds,
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
