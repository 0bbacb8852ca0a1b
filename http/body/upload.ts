import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { pipeline as connect, PassThrough, type Readable, Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGunzip } from 'node:zlib'
import { Busboy } from '@fastify/busboy'
import { HttpError } from '../errors.ts'
import { tooLarge } from './body.ts'

/** A file on its way in. Its content fails when the caller goes away, or sends what cannot be read. */
export type IncomingFile = {
  content: Readable
  /** As the caller's machine names it. */
  fileName: string | undefined
  /** As the caller calls it. */
  contentType: string | undefined
}

/** The other parts of a form: those before the file, and once it has `ended` all of them. */
export type IncomingForm = { fields: Record<string, string>; ended: Promise<void> }

type Settings<Kept> = {
  /**
   * Takes the file, at most once and all of it; it may not leave anything behind when the content fails.
   *
   * @param form what the file came with
   */
  keep(file: IncomingFile, form: IncomingForm): Promise<Kept>
  /** Takes back what was kept: what came after the file is refused. */
  discard(kept: Kept): Promise<void>
  fileBytesMax: number
}

type Upload<Kept> = {
  /** The other parts of a form, as text; the last of a name. */
  fields: Record<string, string>
  file: Kept | undefined
}

const filePart = 'file'
const fieldBytesMax = 1024 * 1024
const partsMax = 100

/**
 * Reads a body that is a file, as it arrives: a form with a part `file`, or, of any other content type, the file itself.
 * Other parts of a form are fields, also when they are sent as files. Either may come with `Content-Encoding: gzip`.
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
    throw toCompressionFault(error) ?? error
  } finally {
    // Or else a caller that is still sending would not come to read why it was refused, or to send the next request: a pipe
    // that ends by itself would stop what `resume` began.
    request.unpipe(body)
    body.destroy()
    request.resume()
  }
}

/** The body as it was before it was compressed. To give it up is not to give up the request, which has to be answered. */
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
  { keep, discard, fileBytesMax }: Settings<Kept>,
): Promise<Upload<Kept>> {
  const fields: Record<string, string> = {}
  let incoming: Readable | undefined
  let kept: Promise<Kept> | undefined
  const form = createForm(headers)
  const failed = Promise.withResolvers<never>()
  const ended = Promise.withResolvers<void>()
  ended.promise.catch(() => undefined)
  /** The first fault is the one that counts: those that follow are of its making. */
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
    // The form says so that it ends in the file's middle; a file that was destroyed was given up by who keeps it.
    incoming = content.once('error', (error) => content.destroyed || fail(toFormFault(error)))
    kept = keep({ content: limit(content, fileBytesMax), fileName, contentType }, { fields, ended: ended.promise })
    kept.catch(fail)
  })
  form.on('field', (name, value, _nameTruncated, valueTruncated) => {
    if (valueTruncated) fail(new HttpError('badRequest', `${name}: must have ${fieldBytesMax} bytes or fewer`))
    else fields[name] = value
  })
  form.on('partsLimit', () => fail(new HttpError('badRequest', `The form has more than ${partsMax} parts.`)))
  try {
    // A form of which the file is given up does not end by itself.
    await Promise.race([pipeline(body, form).catch((error) => fail(toFormFault(error))), failed.promise])
    ended.resolve()
    return { fields, file: await kept }
  } catch (error) {
    incoming?.destroy(error as Error)
    ended.reject(error)
    // First what there is of the file has to be gone.
    await kept?.then(discard, () => undefined)
    throw error
  }
}

function createForm(headers: IncomingHttpHeaders) {
  try {
    return new Busboy({
      headers: { ...headers, 'content-type': headers['content-type'] ?? '' },
      isPartAFile: (name) => name === filePart,
      limits: { fieldSize: fieldBytesMax, parts: partsMax, headerPairs: 100 },
    })
  } catch (error) {
    throw toFormFault(error as Error)
  }
}

/** The reader of forms gives its errors no codes; what comes through it from elsewhere stays as it is. */
function toFormFault(error: Error): Error {
  if (error instanceof HttpError || 'code' in error) return error
  return new HttpError('badRequest', `The form cannot be read: ${error.message}.`, { cause: error })
}

function toCompressionFault(error: unknown): HttpError | undefined {
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  if (!/^Z_/.test(code)) return undefined
  return new HttpError('badCompression', 'The body is marked as gzip but cannot be decompressed.', { cause: error })
}

/** Lets a content through that is not too large, and fails in its middle otherwise. */
function limit(content: Readable, bytesMax: number): Readable {
  let bytes = 0
  const limited = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length
      done(bytes > bytesMax ? tooLarge(bytesMax) : null, chunk)
    },
  })
  // Each ends with the other; whoever reads it hears of a fault.
  return connect(content, limited, () => undefined)
}
