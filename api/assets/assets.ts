import { z } from 'zod'
import { checkFields, experimentKey, list, object, optional, text } from '../../http/body/fields.ts'
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
import { findVersionFile } from '../registry/find.ts'
import { assetAnswer, toAssetAnswer, versionPrefix } from './answer.ts'
import { sendAsset } from './download.ts'
import { assetFields, assetId, tag, tagsMax } from './fields.ts'
import type { OrphanedObjects } from './orphaned-objects.ts'
import { createUploads, uploadAnswer, uploadForm, uploadQuery } from './upload.ts'
import { type AssetWriter, toFinalError } from './writer.ts'

export const assetTopic = 'Experiments: assets'

const assetType = optional(text(200)).describe('all, or absent: every type')

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

  const sendFile = createUploads({ writer, access, heartbeats, rateLimited })

  const upload = route({
    method: 'POST',
    path: '/write/experiment/upload-asset',
    permission: 'caller',
    topic: assetTopic,
    summary:
      'Uploads a file, as the part `file` of a form or as the whole body with any other content type. Its other fields ' +
      'come in the query or in the form. An interrupted upload stores nothing.',
    query: uploadQuery,
    upload: uploadForm,
    answer: uploadAnswer,
    shape: 'envelope',
    handle: ({ caller, request }) => sendFile({ caller, request }, request.query as Record<string, unknown>),
  })

  async function findInExperiment(
    caller: Caller,
    query: { experimentKey?: string | undefined; assetId: string },
  ): Promise<Asset> {
    const named = checkFields(object({ experimentKey }), { experimentKey: query.experimentKey })
    if (named.experimentKey.startsWith(versionPrefix)) {
      const versionId = named.experimentKey.slice(versionPrefix.length)
      return await findVersionFile(database, caller, versionId, query.assetId)
    }
    const experiment = await access.experiment(caller, named.experimentKey)
    const asset = await findAsset(database, experiment.id, query.assetId)
    if (!asset) throw unknownAsset(query.assetId)
    return asset
  }

  async function findInArtifact(
    caller: Caller,
    { experimentKey, versionId, assetId }: { experimentKey?: string | undefined; versionId: string; assetId: string },
  ): Promise<Asset> {
    // Some clients send an empty key where they have none.
    const named = experimentKey || undefined
    if (named !== undefined) await access.experiment(caller, named)
    const { version } = await artifacts.version(caller, { experimentKey: named, versionId })
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

  type Listed = { experimentKey: string; type?: string | undefined; fileName?: string }

  async function listed(caller: Caller, { experimentKey: key, type, fileName }: Listed) {
    const experiment = await access.experiment(caller, key)
    const assets = await listAssets(reads, experiment.id, {
      type: type === 'all' || type === '' ? undefined : type,
      ...(fileName !== undefined && { fileName }),
    })
    return { assets: assets.map((it) => toAssetAnswer(it, { experimentKey: experiment.key, appUrl })) }
  }

  const listAll = route({
    method: 'GET',
    path: '/experiment/asset/list',
    permission: 'reader',
    topic: assetTopic,
    summary: 'Lists the assets of an experiment, of one type or of all, oldest first.',
    query: object({ experimentKey, type: assetType }),
    answer: z.object({ assets: z.array(assetAnswer) }),
    shape: 'plain',
    handle: ({ query, caller }) => listed(caller, query),
  })

  const listByName = route({
    method: 'GET',
    path: '/experiment/asset/get-by-name',
    permission: 'reader',
    topic: assetTopic,
    summary: 'Lists the assets of an experiment that have a name, of one type or of all, oldest first.',
    query: object({ experimentKey, assetName: text(1_000, 1), type: assetType }),
    answer: z.object({ assets: z.array(assetAnswer) }),
    shape: 'plain',
    handle: ({ query: { assetName: fileName, ...query }, caller }) => listed(caller, { ...query, fileName }),
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
      experimentKey: optional(text(200)).describe(
        'not needed with artifactVersionId; in links to files of registered versions: version: and their id',
      ),
      assetId: optional(assetId),
      imageId: optional(assetId).describe('the same as assetId'),
      artifactVersionId: optional(assetFields.artifactVersionId),
    }),
    answer: z.file(),
    shape: 'bytes',
    async handle({ query: asked, caller, request, reply }) {
      const { artifactVersionId: versionId } = asked
      const query = { ...asked, ...checkFields(object({ assetId }), { assetId: asked.assetId ?? asked.imageId }) }
      const asset =
        versionId === undefined
          ? await findInExperiment(caller, query)
          : await findInArtifact(caller, { ...query, versionId })
      return await sendAsset({ request, reply }, objects, asset)
    },
  })

  return [upload, remove, addTags, removeTag, listAll, listByName, get]
}

function unknownAsset(id: string): HttpError {
  return new HttpError('assetUnknown', `The experiment has no asset ${id}: see /experiment/asset/list.`)
}
