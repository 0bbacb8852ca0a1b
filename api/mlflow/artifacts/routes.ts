import { z } from 'zod'
import { integerBetween, list, object, optional, text } from '../../../http/body/fields.ts'
import { HttpError } from '../../../http/errors.ts'
import { type Route, route } from '../../../http/route.ts'
import type { ObjectStore } from '../../../store/objects/object-store.ts'
import { deleteAsset } from '../../../store/postgres/assets/assets.ts'
import type { Database } from '../../../store/postgres/database.ts'
import type { Heartbeats } from '../../../store/postgres/experiments/heartbeats.ts'
import { findFile, listFilesBelow, listFolder } from '../../../store/postgres/mlflow/artifacts.ts'
import { sendAsset } from '../../assets/download.ts'
import { toContentType } from '../../assets/names.ts'
import type { OrphanedObjects } from '../../assets/orphaned-objects.ts'
import { type AssetWriter, toFinalError } from '../../assets/writer.ts'
import type { RateLimitedWrite } from '../../rate-limited-write.ts'
import { toArtifactUri } from '../answers.ts'
import type { ExperimentFinder } from '../find.ts'
import { common, mlflow } from '../workspace.ts'
import { filesAnswer, toFiles, toFolder } from './files.ts'
import { type ArtifactPlaces, checkPath } from './places.ts'

const proxy = '/api/2.0/mlflow-artifacts'
const longPath = text(4_000)
const params = object({ path: longPath })
const nothing = z.object({})

type Deps = {
  database: Database
  objects: ObjectStore
  orphanedObjects: OrphanedObjects
  writer: AssetWriter
  find: ExperimentFinder
  places: ArtifactPlaces
  heartbeats: Heartbeats
  rateLimited: RateLimitedWrite
}

/** Artifacts of MLflow: assets, whose names are their paths. */
export function createMlflowArtifactRoutes(deps: Deps): Route[] {
  const { database, objects, orphanedObjects, writer, find, places, heartbeats, rateLimited } = deps

  const download = route({
    ...common,
    method: 'GET',
    path: `${proxy}/artifacts/{path*}`,
    summary: 'Reads the bytes of an artifact, or a range of them. The ETag is their SHA-256.',
    params,
    answer: z.file(),
    shape: 'bytes',
    async handle({ params, request, reply, ...call }) {
      const { of, path } = await places.readable(call, params.path)
      const file = await findFile(database, of, path)
      if (!file) throw unknownFile(path)
      return await sendAsset({ request, reply }, objects, file)
    },
  })

  const upload = route({
    ...common,
    method: 'PUT',
    path: `${proxy}/artifacts/{path*}`,
    charge: 'own',
    summary:
      'Uploads a file as the whole body: an asset of the experiment. A file of the same path is replaced. An interrupted ' +
      'upload stores nothing.',
    params,
    upload: object({ file: z.file() }),
    answer: nothing,
    handle: ({ params, request, ...call }) =>
      writer.withUpload(request.raw, async (receive) => {
        const { run, fields } = await places.toKeep(call, params.path)
        await rateLimited('other', run, call.caller, async () => {
          const { file } = await receive()
          if (!file) throw new HttpError('badRequest', 'file: is missing; send it as the whole body')
          const contentType = toContentType({ ...fields, sent: file.contentType })
          await writer.keep(run, [{ fields: { ...fields, contentType }, location: file }])
        })
        heartbeats.active(run.id, Date.now())
        return {}
      }),
  })

  const remove = route({
    ...common,
    method: 'DELETE',
    path: `${proxy}/artifacts/{path*}`,
    charge: 'own',
    summary: 'Deletes a file, or a folder with all that is below it.',
    params,
    answer: nothing,
    async handle({ params, ...call }) {
      const { run, of, path } = await places.changeable(call, params.path)
      const ids = await listFilesBelow(database, of, path)
      await rateLimited('other', run, call.caller, async () => {
        for (const id of ids) {
          await deleteAsset(database, run.id, id).catch((error: unknown) => {
            throw toFinalError(error)
          })
        }
      })
      await orphanedObjects.free()
      return {}
    },
  })

  const listed = route({
    ...common,
    method: 'GET',
    path: `${proxy}/artifacts`,
    summary: 'Lists what is directly in a folder of artifacts; nothing for a path that is a file or is not there.',
    query: object({ path: optional(longPath) }),
    answer: z.object({ files: filesAnswer }),
    async handle({ query, ...call }) {
      const { of, path } = await places.readable(call, query.path ?? '')
      return { files: toFiles(await listFolder(database, of, toFolder(path))) }
    },
  })

  const listedOfRun = route({
    ...common,
    method: 'GET',
    path: `${mlflow}/artifacts/list`,
    summary: 'Lists what is directly in a folder of the artifacts of a run: all of it, in one page.',
    query: object({
      run_id: optional(text(200)),
      run_uuid: optional(text(200)),
      path: optional(longPath),
      page_token: optional(text(1_000)),
    }),
    answer: z.object({ root_uri: z.string(), files: filesAnswer }),
    async handle({ query, ...call }) {
      const run = await find.run(call, query.run_id || query.run_uuid)
      const path = checkPath(query.path ?? '')
      const files = await listFolder(database, { experimentId: run.id }, toFolder(path))
      return { root_uri: toArtifactUri(run), files: toFiles(files, path) }
    },
  })

  /** Clients that were told to use these go on without them when the message begins like this. */
  function unsupported(path: string, what: 'Multipart upload' | 'Presigned download', method: 'GET' | 'POST'): Route {
    return route({
      ...common,
      method,
      path: `${proxy}/${path}/{path*}`,
      charge: 'none',
      summary: 'Always answers 501: files come and go through the service. Clients then send or read the whole file.',
      params,
      ...(method === 'POST' && { body: multipartFields }),
      answer: nothing,
      handle() {
        const message = `${what} is not supported for the current artifact repository`
        throw new HttpError('notSupported', `${message}: send or read the whole file.`)
      },
    })
  }

  return [
    download,
    upload,
    remove,
    listed,
    listedOfRun,
    unsupported('mpu/create', 'Multipart upload', 'POST'),
    unsupported('mpu/complete', 'Multipart upload', 'POST'),
    unsupported('mpu/abort', 'Multipart upload', 'POST'),
    unsupported('presigned', 'Presigned download', 'GET'),
  ]
}

const multipartFields = object({
  path: optional(longPath),
  num_parts: optional(integerBetween(1, 100_000)),
  upload_id: optional(text(1_000)),
  parts: optional(list(object({ part_number: optional(integerBetween(1, 100_000)) }), 100_000)),
})

function unknownFile(path: string): HttpError {
  return new HttpError('assetUnknown', `There is no artifact ${path.slice(0, 200)}: list the folder that it is in.`)
}
