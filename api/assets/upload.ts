import type { FastifyRequest } from 'fastify'
import { z } from 'zod'
import { checkFields, experimentKey, flag, int64, list, object, optional, text } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import type { Caller } from '../../http/route.ts'
import type { Heartbeats } from '../../store/postgres/experiments/heartbeats.ts'
import type { Access } from '../access.ts'
import type { RateLimitedWrite } from '../rate-limited-write.ts'
import { assetFields, assetId, tag, tagsMax } from './fields.ts'
import { toContentType, toFileName } from './names.ts'
import type { AssetLocation, AssetWriter, ReceivedFile } from './writer.ts'

/** The default type. */
const plainType = 'asset'

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

export const uploadQuery = object({
  ...uploadFields,
  metadata: z.unknown().optional().meta({ type: 'string', description: 'JSON; anything else is ignored' }),
  experimentKey: optional(experimentKey),
})

export const uploadForm = object({ file: z.file(), ...uploadFields, experimentKey: optional(experimentKey) })

export const uploadAnswer = z.object({ msg: z.string(), assetId: z.string(), fileName: z.string() })

type Deps = { writer: AssetWriter; access: Access; heartbeats: Heartbeats; rateLimited: RateLimitedWrite }

/** Stores the file that a request uploads. `asked` are the fields of its query, by the names of `uploadQuery`. */
export function createUploads({ writer, access, heartbeats, rateLimited }: Deps) {
  return ({ caller, request }: { caller: Caller; request: FastifyRequest }, asked: Record<string, unknown>) =>
    writer.withUpload(request.raw, async (receive) => {
      // The query usually has the key: then a caller without permission is rejected before the upload is read.
      const named = asked.experimentKey ?? (await receive()).fields.experimentKey
      const target = checkFields(object({ experimentKey }), { experimentKey: named })
      const experiment = await access.writableExperiment(caller, target.experimentKey)
      return await rateLimited('other', experiment, caller, async () => {
        const { fields, file } = await receive()
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
    })
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
