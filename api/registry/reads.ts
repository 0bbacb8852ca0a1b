import { z } from 'zod'
import { object, optional, text } from '../../http/body/fields.ts'
import { type Caller, type Route, route } from '../../http/route.ts'
import type { ObjectStore } from '../../store/objects/object-store.ts'
import type { Database, Queries } from '../../store/postgres/database.ts'
import { findRegistryNotes, listRegistryModels, type RegistryModel } from '../../store/postgres/registry/models.ts'
import {
  findRegistryVersion,
  listLatestVersions,
  listRegistryFiles,
  listRegistryVersions,
  type RegistryFile,
  type RegistryVersion,
  type VersionChoice,
} from '../../store/postgres/registry/versions.ts'
import { type Access, toViewer } from '../access.ts'
import { workspaceName } from '../accounts/workspaces.ts'
import { sendAsset, sendZip } from '../assets/download.ts'
import {
  detailsAnswer,
  instructionsAnswer,
  overviewAnswer,
  toDetails,
  toFileAnswers,
  toOverview,
  toVersionAnswer,
  versionAnswer,
} from './answers.ts'
import { registryFields, registryTopic } from './change.ts'
import { findModel, findVersionFile, modelQuery, unknownChoice } from './find.ts'

const versionNumber = text(99, 1).regex(/^(0|[1-9]\d*)$/, 'expected an integer of 0 or more')

const itemQuery = object({
  ...modelQuery.shape,
  version: optional(text(99, 1)),
  stage: optional(registryFields.stage).describe('selects the highest version with this stage'),
})

type Deps = { database: Database; reads: Queries; objects: ObjectStore; access: Access; appUrl: string }

/** Reads the registry. The newest version is the highest, whenever it was created. */
export function createRegistryReadRoutes({ database, reads, objects, access, appUrl }: Deps): Route[] {
  async function listModels(caller: Caller, workspace: string): Promise<RegistryModel[]> {
    const models = await listRegistryModels(reads, toViewer(caller), workspace)
    // A workspace without visible models must get the same answer as an absent one.
    if (models.length === 0) await access.workspace(caller, workspace)
    return models
  }

  type Found = { model: RegistryModel; version: RegistryVersion; files: RegistryFile[] }

  async function findVersion(caller: Caller, query: z.output<typeof modelQuery> & VersionChoice): Promise<Found> {
    const { workspaceName: _, modelName, ...choice } = query
    const model = await findModel(database, caller, query)
    const version = await findRegistryVersion(database, model.id, choice)
    if (version) return { model, version, files: await listRegistryFiles(reads, [version.id]) }
    throw unknownChoice(modelName, choice)
  }

  return [
    route({
      method: 'GET',
      path: '/registry-model',
      permission: 'caller',
      topic: registryTopic,
      summary: 'Lists the registered models of a workspace by name. Callers who are not members see the public ones.',
      query: object({ workspaceName }),
      answer: z.object({ registryModels: z.array(overviewAnswer) }),
      shape: 'plain',
      async handle({ query, caller }) {
        const models = await listModels(caller, query.workspaceName)
        const ids = models.map((it) => it.id)
        const latest = new Map((await listLatestVersions(reads, ids)).map((it) => [it.modelId, it]))
        return { registryModels: models.map((it) => toOverview(it, latest.get(it.id))) }
      },
    }),

    route({
      method: 'GET',
      path: '/registry-model/count',
      permission: 'caller',
      topic: registryTopic,
      summary: 'Counts the registered models of a workspace.',
      query: object({ workspaceName }),
      answer: z.object({ registryModelCount: z.int() }),
      shape: 'plain',
      async handle({ query, caller }) {
        return { registryModelCount: (await listModels(caller, query.workspaceName)).length }
      },
    }),

    route({
      method: 'GET',
      path: '/registry-model/details',
      permission: 'caller',
      topic: registryTopic,
      summary: 'Reads a registered model with all its versions and their files.',
      query: modelQuery,
      answer: detailsAnswer,
      shape: 'plain',
      async handle({ query, caller }) {
        const model = await findModel(database, caller, query)
        const versions = await listRegistryVersions(reads, model.id)
        const ids = versions.map((it) => it.id)
        return toDetails(model, versions, await listRegistryFiles(reads, ids), appUrl)
      },
    }),

    route({
      method: 'GET',
      path: '/registry-model/notes',
      permission: 'caller',
      topic: registryTopic,
      summary: 'Reads the notes of a registered model.',
      query: modelQuery,
      answer: z.object({ notes: z.string() }),
      shape: 'plain',
      async handle({ query, caller }) {
        return { notes: await findRegistryNotes(database, (await findModel(database, caller, query)).id) }
      },
    }),

    route({
      method: 'GET',
      path: '/registry-model/latest_version',
      permission: 'caller',
      topic: registryTopic,
      summary: 'Reads the highest version of a registered model that matches the query.',
      query: object({
        ...modelQuery.shape,
        versionMajor: optional(versionNumber),
        versionMinor: optional(versionNumber),
        stage: optional(registryFields.stage),
      }),
      answer: versionAnswer,
      shape: 'plain',
      async handle({ query, caller }) {
        const { model, version, files } = await findVersion(caller, query)
        return toVersionAnswer(model, version, files, appUrl)
      },
    }),

    route({
      method: 'GET',
      path: '/registry-model/item/download',
      permission: 'caller',
      topic: registryTopic,
      summary:
        'Reads the files of a version as a zip, without remote files. Without version and stage: the highest version.',
      query: itemQuery,
      answer: z.file(),
      shape: 'bytes',
      async handle({ query, caller, reply }) {
        const { version, files } = await findVersion(caller, query)
        return sendZip(reply, objects, `${query.modelName}_${version.version}`, files)
      },
    }),

    route({
      method: 'GET',
      path: '/registry-model/item/download-instructions',
      permission: 'caller',
      topic: registryTopic,
      summary:
        'Lists where to read each file of a version, remote files too. Without version and stage: the highest version.',
      query: itemQuery,
      answer: z.object({ versions: z.array(instructionsAnswer) }),
      shape: 'plain',
      async handle({ query, caller }) {
        const { version, files } = await findVersion(caller, query)
        return { versions: [{ version: version.version, assets: toFileAnswers(version, files, appUrl) }] }
      },
    }),

    route({
      method: 'GET',
      path: '/registry-model/item/get-asset',
      permission: 'caller',
      topic: registryTopic,
      summary: 'Reads the bytes of one file of a version, or a range of them. The ETag is their SHA-256.',
      query: object({ modelItemId: registryFields.id, assetId: registryFields.id }),
      answer: z.file(),
      shape: 'bytes',
      async handle({ query, caller, request, reply }) {
        const file = await findVersionFile(database, caller, query.modelItemId, query.assetId)
        return await sendAsset({ request, reply }, objects, file)
      },
    }),
  ]
}
