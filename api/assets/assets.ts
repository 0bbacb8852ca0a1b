import { z } from 'zod'
import {
  checkFields,
  experimentKey,
  flag,
  indexedText,
  int64,
  list,
  object,
  optional,
  text,
} from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { type Caller, type Route, route } from '../../http/route.ts'
import type { ObjectStore } from '../../store/objects/object-store.ts'
import { findArtifactFile } from '../../store/postgres/artifacts/files.ts'
import {
  type Asset,
  addAssetTags,
  deleteAsset,
  findAsset,
  listAssets,
  removeAssetTag,
} from '../../store/postgres/assets/assets.ts'
import type { Database, Queries } from '../../store/postgres/database.ts'
import type { Heartbeats } from '../../store/postgres/experiments/heartbeats.ts'
import type { Access } from '../access.ts'
import type { ArtifactAccess } from '../artifacts/access.ts'
import type { RateLimitedWrite } from '../rate-limited-write.ts'
import { assetAnswer, toAssetAnswer } from './answer.ts'
import { sendAsset } from './download.ts'
import { toContentType, toFileName } from './names.ts'
import type { OrphanedObjects } from './orphaned-objects.ts'
import { type AssetLocation, type AssetWriter, type ReceivedFile, toFinalError } from './writer.ts'

export const assetTopic = 'Experiments: assets'

/** The default type. */
const plainType = 'asset'
const tagsMax = 1_000

export const assetFields = {
  type: indexedText(200).describe('image, model-element, curve, ..., or any other text'),
  fileName: indexedText(1_000),
  metadata: text(1_000_000).describe('kept byte for byte'),
  context: text(1_000),
  groupingName: indexedText(1_000).describe('with type model-element: the model of the file'),
  artifactVersionId: text(100),
  link: text(10_000, 1).describe('the address of a remote asset'),
}

const assetId = text(100, 1)
const tag = text(500, 1)

const assetType = optional(text(200)).describe('all, or absent: every type')
const toType = (type: string | undefined) => (type === 'all' || type === '' ? undefined : type)

/** Sent in the query or in the form; the query wins, but for `metadata`. */
const uploadFields = {
  fileName: optional(assetFields.fileName).describe('auto-generated-in-the-backend: the service makes a name'),
  extension: optional(text(100)).describe('png or .png'),
  type: optional(assetFields.type),
  context: optional(assetFields.context),
  step: optional(int64),
  epoch: optional(int64),
  metadata: optional(assetFields.metadata),
  tags: optional(text(100_000)).describe('a JSON list, or separated by commas'),
  overwrite: optional(flag).describe('true: replaces all assets of the same file name'),
  groupingName: optional(assetFields.groupingName),
  source: optional(text(1_000)),
  artifactVersionId: optional(assetFields.artifactVersionId),
  assetId: optional(assetId).describe('an id of your own; an asset that has it is replaced'),
  link: optional(assetFields.link),
  isRemote: optional(flag).describe('true: only the link is kept'),
}

type Deps = {
  database: Database
  reads: Queries
  objects: ObjectStore
  orphanedObjects: OrphanedObjects
  writer: AssetWriter
  access: Access
  artifacts: ArtifactAccess
  heartbeats: Heartbeats
  rateLimited: RateLimitedWrite
  appUrl: string
}

export function createAssetRoutes(deps: Deps): Route[] {
  const { database, reads, objects, orphanedObjects, writer, access, artifacts, heartbeats, rateLimited, appUrl } = deps

  const upload = route({
    method: 'POST',
    path: '/write/experiment/upload-asset',
    permission: 'caller',
    topic: assetTopic,
    summary:
      'Uploads a file, as the part `file` of a form or as the whole body with any other content type. Its other fields ' +
      'come in the query or in the form. An interrupted upload stores nothing.',
    query: object({
      ...uploadFields,
      metadata: z.unknown().optional().meta({ type: 'string', description: 'JSON; anything else is ignored' }),
      experimentKey: optional(experimentKey),
    }),
    upload: object({ file: z.file(), ...uploadFields, experimentKey: optional(experimentKey) }),
    answer: z.object({ msg: z.string(), assetId: z.string(), fileName: z.string() }),
    shape: 'envelope',
    handle: ({ query, caller, request }) =>
      writer.withUpload(request.raw, async (receive) => {
        // The query usually has the key: then a caller without permission is rejected before the upload is read.
        const named = query.experimentKey ?? (await receive()).fields.experimentKey
        const target = checkFields(object({ experimentKey }), { experimentKey: named })
        const experiment = await access.writableExperiment(caller, target.experimentKey)
        return await rateLimited('other', experiment, caller, async () => {
          const { fields, file } = await receive()
          const asked = request.query as Record<string, unknown>
          const sent = { ...fields, ...asked, metadata: fields.metadata ?? toJsonText(asked.metadata) }
          const given = checkFields(object(uploadFields), sent)
          const location = toLocation(given, file)
          if (file && location !== file) await writer.drop(file)
          const { overwrite, step, epoch, context, source, metadata, groupingName, artifactVersionId } = given
          const type = given.type || plainType
          const fileName = toFileName({ ...given, type, sentName: file?.fileName })
          const contentType = toContentType({ type, fileName, extension: given.extension, sent: file?.contentType })
          const rest = { overwrite, step, epoch, context, source, metadata, groupingName, artifactVersionId }
          const tags = parseTags(given.tags)
          const made = { id: given.assetId, type, fileName, contentType, tags, ...rest }
          const [id = ''] = await writer.keep(experiment, [{ fields: made, location }])
          heartbeats.active(experiment.id, Date.now())
          return { msg: 'Saved', assetId: id, fileName }
        })
      }),
  })

  async function findInExperiment(
    caller: Caller,
    query: { experimentKey?: string | undefined; assetId: string },
  ): Promise<Asset> {
    const named = checkFields(object({ experimentKey }), { experimentKey: query.experimentKey })
    const experiment = await access.experiment(caller, named.experimentKey)
    const asset = await findAsset(database, experiment.id, query.assetId)
    if (!asset) throw unknownAsset(query.assetId)
    return asset
  }

  async function findInArtifact(
    caller: Caller,
    { experimentKey, versionId, assetId }: { experimentKey?: string | undefined; versionId: string; assetId: string },
  ): Promise<Asset> {
    if (experimentKey !== undefined) await access.experiment(caller, experimentKey)
    const { version } = await artifacts.version(caller, { experimentKey, versionId })
    const file = await findArtifactFile(database, version.id, assetId)
    if (file) return file
    throw new HttpError('assetUnknown', `The artifact version has no file ${assetId}: see /artifacts/version/files.`)
  }

  const remove = route({
    method: 'GET',
    path: '/write/experiment/asset/delete',
    permission: 'caller',
    topic: assetTopic,
    summary: 'Deletes an asset and its bytes.',
    query: object({ experimentKey, assetId }),
    answer: z.object({ msg: z.string() }),
    shape: 'envelope',
    async handle({ query, caller }) {
      const experiment = await access.writableExperiment(caller, query.experimentKey)
      const wasThere = await rateLimited('other', experiment, caller, () =>
        deleteAsset(database, experiment.id, query.assetId).catch((error: unknown) => {
          throw toFinalError(error)
        }),
      )
      if (!wasThere) throw unknownAsset(query.assetId)
      await orphanedObjects.free()
      return { msg: 'Deleted' }
    },
  })

  const addTags = route({
    method: 'POST',
    path: '/write/experiment/asset/tag',
    permission: 'caller',
    topic: assetTopic,
    summary: 'Adds tags to an asset and keeps its other tags.',
    body: object({ experimentKey, assetId, tags: list(tag, tagsMax) }),
    answer: z.object({ msg: z.string() }),
    shape: 'envelope',
    async handle({ body, caller }) {
      const experiment = await access.writableExperiment(caller, body.experimentKey)
      const isThere = await rateLimited('other', experiment, caller, () =>
        addAssetTags(database, experiment.id, body.assetId, body.tags),
      )
      if (!isThere) throw unknownAsset(body.assetId)
      return { msg: 'Saved' }
    },
  })

  const removeTag = route({
    method: 'GET',
    path: '/write/experiment/asset/tag/delete',
    permission: 'caller',
    topic: assetTopic,
    summary: 'Removes a tag from an asset.',
    query: object({ experimentKey, assetId, tag }),
    answer: z.object({ msg: z.string() }),
    shape: 'envelope',
    async handle({ query, caller }) {
      const experiment = await access.writableExperiment(caller, query.experimentKey)
      const isThere = await rateLimited('other', experiment, caller, () =>
        removeAssetTag(database, experiment.id, query.assetId, query.tag),
      )
      if (!isThere) throw unknownAsset(query.assetId)
      return { msg: 'Deleted' }
    },
  })

  const listed = route({
    method: 'GET',
    path: '/experiment/asset/list',
    permission: 'reader',
    topic: assetTopic,
    summary: 'Lists the assets of an experiment, of one type or of all, oldest first.',
    query: object({ experimentKey, type: assetType }),
    answer: z.object({ assets: z.array(assetAnswer) }),
    shape: 'plain',
    async handle({ query, caller }) {
      const experiment = await access.experiment(caller, query.experimentKey)
      const assets = await listAssets(reads, experiment.id, { type: toType(query.type) })
      return { assets: assets.map((it) => toAssetAnswer(it, { experimentKey: experiment.key, appUrl })) }
    },
  })

  const listedByName = route({
    method: 'GET',
    path: '/experiment/asset/get-by-name',
    permission: 'reader',
    topic: assetTopic,
    summary: 'Lists the assets of an experiment that have a name, of one type or of all, oldest first.',
    query: object({ experimentKey, assetName: text(1_000, 1), type: assetType }),
    answer: z.object({ assets: z.array(assetAnswer) }),
    shape: 'plain',
    async handle({ query, caller }) {
      const experiment = await access.experiment(caller, query.experimentKey)
      const assets = await listAssets(reads, experiment.id, { type: toType(query.type), fileName: query.assetName })
      return { assets: assets.map((it) => toAssetAnswer(it, { experimentKey: experiment.key, appUrl })) }
    },
  })

  const get = route({
    method: 'GET',
    path: '/experiment/asset/get-asset',
    permission: 'reader',
    topic: assetTopic,
    summary:
      'Reads the bytes of an asset, or a range of them. The ETag is their SHA-256. With artifactVersionId it reads a file ' +
      'of that version, for whoever may read it.',
    query: object({
      experimentKey: optional(experimentKey).describe('not needed with artifactVersionId'),
      assetId,
      artifactVersionId: optional(assetFields.artifactVersionId),
    }),
    answer: z.file(),
    shape: 'bytes',
    async handle({ query, caller, request, reply }) {
      const { artifactVersionId: versionId } = query
      const asset =
        versionId === undefined
          ? await findInExperiment(caller, query)
          : await findInArtifact(caller, { ...query, versionId })
      return await sendAsset({ request, reply }, objects, asset)
    },
  })

  return [upload, remove, addTags, removeTag, listed, listedByName, get]
}

function unknownAsset(id: string): HttpError {
  return new HttpError('assetUnknown', `The experiment has no asset ${id}: see /experiment/asset/list.`)
}

/** A remote asset is stored as its link only. */
function toLocation(given: { isRemote?: boolean; link?: string }, file: ReceivedFile | undefined): AssetLocation {
  const isRemote = given.isRemote ?? (given.link !== undefined && file === undefined)
  if (isRemote && given.link !== undefined) return { link: given.link }
  if (isRemote) throw new HttpError('badRequest', 'link: is missing; it says where a remote asset is')
  if (file === undefined) throw new HttpError('badRequest', 'file: is missing; send it as this part of the form')
  return file
}

/** The metadata in a query. Clients that send it in the form put its names here, as a list: they are no JSON, and ignored. */
function toJsonText(given: unknown): string | undefined {
  if (typeof given !== 'string') return undefined
  try {
    JSON.parse(given)
    return given
  } catch {
    return undefined
  }
}

function parseTags(given: string | undefined): string[] {
  const texts = given?.trimStart().startsWith('[') ? parseList(given) : (given?.split(',') ?? [])
  const named = texts.map((it) => (typeof it === 'string' ? it.trim() : it)).filter((it) => it !== '')
  const { tags } = checkFields(object({ tags: list(tag, tagsMax) }), { tags: named })
  return [...new Set(tags)]
}

function parseList(given: string): unknown[] {
  try {
    const parsed: unknown = JSON.parse(given)
    if (Array.isArray(parsed)) return parsed
  } catch {
    // Told below.
  }
  throw new HttpError('badRequest', 'tags: expected a JSON list, or names separated by commas')
}
