import type { Readable } from 'node:stream'
import { create as toDisposition } from 'content-disposition'
import type { FastifyReply, FastifyRequest } from 'fastify'
import parseRange from 'range-parser'
import { HttpError } from '../../http/errors.ts'
import type { ByteRange, ObjectStore } from '../../store/objects/object-store.ts'
import type { Asset } from '../../store/postgres/assets/assets.ts'
import { createZip } from './zip.ts'

/**
 * An uploaded file may be a page with a script, which must never run on our origin. So browsers must save files instead of
 * showing them, must not guess their type, and must sandbox them if they show them anyway.
 */
const harmless = {
  'x-content-type-options': 'nosniff',
  'content-security-policy': "sandbox; default-src 'none'",
}

type SentAsset = Pick<Asset, 'fileName' | 'contentType' | 'size' | 'objectKey' | 'sha256' | 'link'>

type Call = { request: FastifyRequest; reply: FastifyReply }

/**
 * Sends the bytes of an asset, or one range of them. A request for several ranges gets all bytes.
 *
 * @throws HttpError `badRequest` for a remote asset, `rangeUnsatisfiable`
 */
export async function sendAsset(
  { request, reply }: Call,
  objects: ObjectStore,
  asset: SentAsset,
): Promise<Readable | string> {
  if (asset.objectKey === null) {
    throw new HttpError('badRequest', `assetId: the asset is remote; its bytes are at ${asset.link}`)
  }
  const size = Number(asset.size)
  const tag = `"${asset.sha256}"`
  // An asset can be replaced under the same id, so caches must revalidate; the ETag makes that cheap.
  reply.headers({ etag: tag, 'accept-ranges': 'bytes', 'cache-control': 'private, no-cache' })
  if (isKnown(request.headers['if-none-match'], tag)) {
    reply.code(304)
    return ''
  }
  const range = toRange(request, tag, size)
  reply.headers({ ...harmless, ...describeFile(asset.fileName, asset.contentType) })
  reply.header('content-length', range ? range.end - range.start + 1 : size)
  if (range) reply.code(206).header('content-range', `bytes ${range.start}-${range.end}/${size}`)
  return await objects.get(asset.objectKey, range)
}

/** Sends assets as one zip, without remote ones. */
export function sendZip(reply: FastifyReply, objects: ObjectStore, name: string, assets: Asset[]): Readable {
  reply.headers(describeFile(`${name.replaceAll('/', '_')}.zip`, 'application/zip'))
  return createZip(
    assets.flatMap(({ objectKey, fileName, size, createdAtMs }) =>
      objectKey === null
        ? []
        : { name: fileName, bytes: Number(size), atMs: Number(createdAtMs), open: () => objects.get(objectKey) },
    ),
  )
}

/** The headers of a download. */
function describeFile(fileName: string, contentType: string) {
  return { 'content-type': contentType, 'content-disposition': toDisposition(fileName.split('/').at(-1)) }
}

/** True when the caller has these bytes already. */
function isKnown(header: string | undefined, tag: string): boolean {
  const tags = header?.split(',').map((it) => it.trim().replace(/^W\//, ''))
  return tags !== undefined && (tags.includes(tag) || tags.includes('*'))
}

/** Undefined when all bytes must be sent. */
function toRange({ headers }: FastifyRequest, tag: string, size: number): ByteRange | undefined {
  if (headers.range === undefined) return undefined
  // The bytes may have changed since the caller read the first part.
  const since = headers['if-range']
  if (since !== undefined && since !== tag) return undefined
  const ranges = parseRange(size, toShortSuffix(headers.range, size))
  if (ranges === -1) {
    throw new HttpError('rangeUnsatisfiable', `The asset has ${size} bytes: ask for a range within them.`, {
      headers: { 'content-range': `bytes */${size}` },
    })
  }
  const [range, ...more] = ranges === -2 || ranges.type !== 'bytes' ? [] : ranges
  return more.length === 0 ? range : undefined
}

/** The last bytes of a file that has fewer are the whole file; the parser takes them for a range beyond its end. */
function toShortSuffix(range: string, size: number): string {
  const [, suffix] = /^bytes=-(\d+)$/.exec(range.trim()) ?? []
  return size > 0 && Number(suffix) > size ? 'bytes=0-' : range
}
