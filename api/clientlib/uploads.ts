import { hash } from 'node:crypto'
import { z } from 'zod'
import { checkFields, experimentKey, int64, object, optional, text } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { clientTopic, type Route, route } from '../../http/route.ts'
import { findAsset } from '../../store/postgres/assets/assets.ts'
import type { Database } from '../../store/postgres/database.ts'
import type { Heartbeats } from '../../store/postgres/experiments/heartbeats.ts'
import type { Access } from '../access.ts'
import { assetFields, assetId } from '../assets/fields.ts'
import { toContentType } from '../assets/names.ts'
import { createUploads, uploadAnswer, uploadForm, uploadQuery } from '../assets/upload.ts'
import type { AssetWriter } from '../assets/writer.ts'
import { patchFields } from '../experiments/git-patch.ts'
import type { RateLimitedWrite } from '../rate-limited-write.ts'

/** Files as clients that log live send them: as other uploads, with other names of fields. */

const runQuery = { experimentId: experimentKey }
/** Parts of an asset that consists of several files, such as a cloud of points. */
const partType = 'asset-item'

type Deps = {
  database: Database
  writer: AssetWriter
  access: Access
  heartbeats: Heartbeats
  rateLimited: RateLimitedWrite
}

export function createRunUploadRoutes({ database, writer, access, heartbeats, rateLimited }: Deps): Route[] {
  const common = { atRoot: true, permission: 'caller', topic: clientTopic, shape: 'envelope' } as const
  const sendFile = createUploads({ writer, access, heartbeats, rateLimited })
  const { experimentKey: _key, ...uploadFields } = uploadQuery.shape

  const asset = route({
    ...common,
    method: 'POST',
    path: '/clientlib/asset/upload',
    charge: 'own',
    summary: 'Uploads an asset, or the link of a remote one. One with the `assetId` of an earlier one replaces it.',
    query: object({ ...uploadFields, ...runQuery }),
    upload: uploadForm,
    answer: uploadAnswer,
    handle: ({ caller, request, query }) =>
      sendFile({ caller, request }, { ...(request.query as object), experimentKey: query.experimentId }),
  })

  const image = route({
    ...common,
    method: 'POST',
    path: '/clientlib/visualizations/upload',
    charge: 'own',
    summary: 'Uploads an image or a figure.',
    query: object({
      ...uploadFields,
      ...runQuery,
      figName: optional(text(1_000)).describe('the file name'),
      figCounter: optional(int64).describe('names an image without a name'),
      imageId: optional(assetId).describe('the id of the asset'),
    }),
    upload: uploadForm,
    answer: uploadAnswer,
    handle({ caller, request, query }) {
      // Images are made of arrays as PNG; their names often say nothing.
      const extension = query.extension ?? /\.(\w+)$/.exec(query.figName ?? '')?.[1] ?? 'png'
      const fileName = query.figName || `figure_${query.figCounter ?? 0}.${extension.replace(/^\.*/, '')}`
      const named = { experimentKey: query.experimentId, type: 'image', fileName, extension }
      const asked = { ...(request.query as object), ...named }
      return sendFile({ caller, request }, query.imageId === undefined ? asked : { ...asked, assetId: query.imageId })
    },
  })

  const gitPatch = route({
    ...common,
    method: 'POST',
    path: '/clientlib/git-patch/upload',
    charge: 'own',
    summary: 'Uploads the git patch. It replaces an earlier one.',
    query: object(runQuery),
    upload: object({ file: z.file() }),
    answer: z.object({ msg: z.string(), assetId: z.string() }),
    handle: ({ query, caller, request }) =>
      writer.withUpload(request.raw, async (receive) => {
        const experiment = await access.writableExperiment(caller, query.experimentId)
        return await rateLimited('other', experiment, caller, async () => {
          const { file } = await receive()
          if (!file) throw new HttpError('badRequest', 'file: is missing; send it as this part of the form')
          const [id = ''] = await writer.keep(experiment, [{ fields: patchFields, location: file }])
          heartbeats.active(experiment.id, Date.now())
          return { msg: 'Saved', assetId: id }
        })
      }),
  })

  const create = route({
    ...common,
    method: 'POST',
    path: '/clientlib/asset',
    charge: 'own',
    summary:
      'Creates an asset of several files, which follow. The same name, type, step and metadata name the same asset: it is ' +
      'replaced.',
    body: object({
      experimentKey,
      userFileName: assetFields.fileName,
      assetType: assetFields.type,
      step: optional(int64),
      metadata: optional(assetFields.metadata),
    }),
    answer: z.object({ msg: z.string(), assetId: z.string() }),
    async handle({ body, caller }) {
      const experiment = await access.writableExperiment(caller, body.experimentKey)
      const { userFileName: fileName, assetType: type, step, metadata } = body
      const id = hash('sha256', JSON.stringify([fileName, type, String(step), metadata])).slice(0, 32)
      const fields = { id, fileName, type, step, metadata, contentType: toContentType({ type, fileName }) }
      await rateLimited('other', experiment, caller, () =>
        writer.withText('', (file) => writer.keep(experiment, [{ fields, location: file }])),
      )
      heartbeats.active(experiment.id, Date.now())
      return { msg: 'Saved', assetId: id }
    },
  })

  const partFields = object({ experimentKey, assetId: text(60, 1), userFileName: assetFields.fileName })

  /** Stores one file of an asset of several; the fields of the request are JSON in one part of the form. */
  const sendPart =
    (filePart: string, named: Partial<z.input<typeof partFields>>) =>
    ({ caller, request }: Parameters<typeof sendFile>[0]) =>
      writer.withUpload(
        request.raw,
        async (receive) => {
          const { fields, file } = await receive()
          const given = checkFields(partFields, { ...toObject(fields.requestParams), ...named })
          if (!file) throw new HttpError('badRequest', `${filePart}: is missing; send it as this part of the form`)
          const experiment = await access.writableExperiment(caller, given.experimentKey)
          const whole = await findAsset(database, experiment.id, given.assetId)
          if (!whole) throw new HttpError('assetUnknown', `The experiment has no asset ${given.assetId}.`)
          const fileName = `${whole.fileName}/${given.userFileName}`
          const metadata = JSON.stringify({ assetId: given.assetId })
          const made = {
            id: `${given.assetId}-${given.userFileName}`,
            type: partType,
            fileName,
            metadata,
            contentType: toContentType({ type: partType, fileName }),
            step: whole.step ?? undefined,
          }
          await rateLimited('other', experiment, caller, () =>
            writer.keep(experiment, [{ fields: checkPart(made), location: file }]),
          )
          heartbeats.active(experiment.id, Date.now())
          return { msg: 'Saved', assetId: made.id }
        },
        { filePart },
      )

  const part = route({
    ...common,
    method: 'POST',
    path: '/clientlib/asset/asset-item',
    charge: 'own',
    summary: 'Uploads a file of an asset of several. It is an asset too, named after the whole.',
    upload: object({ requestParams: text(100_000), assetItemContent: z.file() }),
    answer: z.object({ msg: z.string(), assetId: z.string() }),
    handle: sendPart('assetItemContent', {}),
  })

  const thumbnail = route({
    ...common,
    method: 'PUT',
    path: '/clientlib/asset/{assetId}/thumbnail',
    charge: 'own',
    summary: 'Uploads the picture of an asset of several files.',
    params: object({ assetId }),
    upload: object({ requestParams: text(100_000), thumbnail: z.file() }),
    answer: z.object({ msg: z.string(), assetId: z.string() }),
    handle: ({ params, ...call }) =>
      sendPart('thumbnail', { assetId: params.assetId, userFileName: 'thumbnail.png' })(call),
  })

  return [asset, image, gitPatch, create, part, thumbnail]
}

/** Names of parts become longer by the name of the whole. */
function checkPart<Part extends { id: string; fileName: string }>(part: Part): Part {
  checkFields(object({ id: assetId, fileName: assetFields.fileName }), part)
  return part
}

function toObject(json: string | undefined): Record<string, unknown> {
  try {
    const given: unknown = JSON.parse(json ?? '')
    if (typeof given === 'object' && given !== null) return given as Record<string, unknown>
  } catch {
    // Told below.
  }
  throw new HttpError('badRequest', 'requestParams: expected an object, as JSON')
}
