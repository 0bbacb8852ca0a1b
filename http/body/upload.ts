import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { pipeline as connect, PassThrough, type Readable, Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGunzip } from 'node:zlib'
import { Busboy } from '@fastify/busboy'
import { HttpError } from '../errors.ts'
import { tooLarge } from './body.ts'

/** A file that is arriving. Its content fails when the caller disconnects or sends something unreadable. */
export type IncomingFile = {
  content: Readable
  /** The name that the caller gave it. */
  fileName: string | undefined
  /** The content type that the caller gave it. */
  contentType: string | undefined
}

/** The other parts of a form: those before the file, and once it has `ended` all of them. */
export type IncomingForm = { fields: Record<string, string>; ended: Promise<void> }

type Settings<Kept> = {
  /**
   * Stores the file. It is called at most once, must read all of the content, and must leave nothing behind when that fails.
   *
   * @param form the other parts of the form
   */
  keep(file: IncomingFile, form: IncomingForm): Promise<Kept>
  /** Removes the stored file again, after an error in the rest of the form. */
  discard(kept: Kept): Promise<void>
  fileBytesMax: number
  /** The name of the part of a form that is the file; `file` when absent. */
  filePart?: string | undefined
}

type Upload<Kept> = {
  /** The other parts of a form, as text; the last one of each name. */
  fields: Record<string, string>
  file: Kept | undefined
}

const filePartDefault = 'file'
const fieldBytesMax = 1024 * 1024
const partsMax = 100

/**
 * Reads an uploaded file as it arrives: the part `file` of a form, or the whole body for any other content type.
 * Other parts of a form are fields, even when they are sent as files. Either may come with `Content-Encoding: gzip`.
 *
 * @throws HttpError `badRequest`, `badCompression`, `unsupportedType`, `tooLarge`; and whatever `keep` throws
 */
export async function readUpload<Kept>(request: IncomingMessage, settings: Settings<Kept>): Promise<Upload<Kept>> {
  const { headers } = request
  const body = openBody(request)
  try {
    if (/^multipart\/form-data\b/i.test(headers['content-type'] ?? '')) return await readForm(body, headers, settings)
    const file = {
      content: limit(body, settings.fileBytesMax),
      fileName: undefined,
      contentType: headers['content-type'],
    }
    return { fields: {}, file: await settings.keep(file, { fields: {}, ended: Promise.resolve() }) }
  } catch (error) {
    throw toCompressionError(error) ?? error
  } finally {
    // Or else a caller that is still sending would never read its error or send its next request. `unpipe` comes first,
    // because a pipe that ends would pause the request again after `resume`.
    request.unpipe(body)
    body.destroy()
    request.resume()
  }
}

/** The decompressed body. Destroying it leaves the request open, which still needs its answer. */
function openBody(request: IncomingMessage): Transform {
  const body = createDecoder(request.headers['content-encoding']?.toLowerCase())
  const cutOff = () => body.destroy(new HttpError('badRequest', 'The upload was cut off: nothing of it was kept.'))
  request.once('error', cutOff)
  request.once('close', () => request.complete || cutOff())
  return request.pipe(body)
}

function createDecoder(encoding: string | undefined): Transform {
  if (encoding === undefined || encoding === 'identity') return new PassThrough()
  if (encoding === 'gzip' || encoding === 'x-gzip') return createGunzip()
  throw new HttpError('unsupportedType', `Content-Encoding "${encoding}" is not understood: send gzip, or no encoding.`)
}

async function readForm<Kept>(
  body: Readable,
  headers: IncomingHttpHeaders,
  { keep, discard, fileBytesMax, filePart = filePartDefault }: Settings<Kept>,
): Promise<Upload<Kept>> {
  const fields: Record<string, string> = {}
  let incoming: Readable | undefined
  let kept: Promise<Kept> | undefined
  const form = createForm(headers, filePart)
  const failed = Promise.withResolvers<never>()
  const ended = Promise.withResolvers<void>()
  ended.promise.catch(() => undefined)
  /** Only the first error counts: it causes those that follow. */
  const fail = (error: Error) => {
    failed.reject(error)
    body.destroy(error)
    form.destroy()
  }
  form.on('file', (_name, content, fileName, _encoding, contentType) => {
    if (kept) {
      content.resume()
      return fail(new HttpError('badRequest', 'file: the form has more than one; send one file in one request'))
    }
    // The form ended in the middle of the file. A file that is destroyed was closed by `keep`, whose own error counts.
    incoming = content.once('error', (error) => content.destroyed || fail(toFormError(error)))
    kept = keep({ content: limit(content, fileBytesMax), fileName, contentType }, { fields, ended: ended.promise })
    kept.catch(fail)
  })
  form.on('field', (name, value, _nameTruncated, valueTruncated) => {
    if (valueTruncated) fail(new HttpError('badRequest', `${name}: must have ${fieldBytesMax} bytes or fewer`))
    else fields[name] = value
  })
  form.on('partsLimit', () => fail(new HttpError('badRequest', `The form has more than ${partsMax} parts.`)))
  try {
    // A form does not end by itself once `keep` stops reading its file.
    await Promise.race([pipeline(body, form).catch((error) => fail(toFormError(error))), failed.promise])
    ended.resolve()
    return { fields, file: await kept }
  } catch (error) {
    incoming?.destroy(error as Error)
    ended.reject(error)
    // The stored part of the file is removed before the error is answered.
    await kept?.then(discard, () => undefined)
    throw error
  }
}

function createForm(headers: IncomingHttpHeaders, filePart: string) {
  try {
    return new Busboy({
      headers: { ...headers, 'content-type': headers['content-type'] ?? '' },
      isPartAFile: (name) => name === filePart,
      limits: { fieldSize: fieldBytesMax, parts: partsMax, headerPairs: 100 },
    })
  } catch (error) {
    throw toFormError(error as Error)
  }
}

/** Errors of the form parser have no code; those that have one come from elsewhere and stay unchanged. */
function toFormError(error: Error): Error {
  if (error instanceof HttpError || 'code' in error) return error
  return new HttpError('badRequest', `The form cannot be read: ${error.message}.`, { cause: error })
}

function toCompressionError(error: unknown): HttpError | undefined {
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  if (!/^Z_/.test(code)) return undefined
  return new HttpError('badCompression', 'The body is marked as gzip but cannot be decompressed.', { cause: error })
}

/** Passes a content through, and fails once it is over the limit. */
function limit(content: Readable, bytesMax: number): Readable {
  let bytes = 0
  const limited = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length
      done(bytes > bytesMax ? tooLarge(bytesMax) : null, chunk)
    },
  })
  // Each stream ends with the other; its reader gets the error.
  return connect(content, limited, () => undefined)
}
