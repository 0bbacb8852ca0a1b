import { z } from 'zod'
import { experimentKey, list, object, optional, text } from '../../http/body/fields.ts'
import { type Caller, type Route, route } from '../../http/route.ts'
import type { ObjectStore } from '../../store/objects/object-store.ts'
import { addAssetTags, deleteAsset, listAssets, removeAssetTag } from '../../store/postgres/assets/assets.ts'
import type { Database, Queries } from '../../store/postgres/database.ts'
import type { Heartbeats } from '../../store/postgres/experiments/heartbeats.ts'
import type { Access } from '../access.ts'
import type { RateLimitedWrite } from '../rate-limited-write.ts'
import { assetAnswer, toAssetAnswer } from './answer.ts'
import { sendAsset } from './download.ts'
import { assetId, tag, tagsMax } from './fields.ts'
import { type AssetFinder, assetQuery, unknownAsset } from './find.ts'
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
  findAsset: AssetFinder
  heartbeats: Heartbeats
  rateLimited: RateLimitedWrite
  appUrl: string
}

export function createAssetRoutes(deps: Deps): Route[] {
  const { database, reads, objects, orphanedObjects, writer, access, findAsset, heartbeats, rateLimited, appUrl } = deps

  const sendFile = createUploads({ writer, access, heartbeats, rateLimited })

  const upload = route({
    method: 'POST',
    path: '/write/experiment/upload-asset',
    charge: 'own',
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

  const remove = route({
    method: 'GET',
    path: '/write/experiment/asset/delete',
    charge: 'own',
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
    charge: 'own',
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
    charge: 'own',
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
      ...assetQuery.shape,
      imageId: optional(assetId).describe('the same as assetId'),
    }),
    answer: z.file(),
    shape: 'bytes',
    async handle({ query, caller, request, reply }) {
      const asset = await findAsset(caller, { ...query, assetId: query.assetId ?? query.imageId })
      return await sendAsset({ request, reply }, objects, asset)
    },
  })

  return [upload, remove, addTags, removeTag, listAll, listByName, get]
}
