import { isUtf8 } from 'node:buffer'
import { promisify } from 'node:util'
import zlib from 'node:zlib'
import { Refusal } from './errors.ts'
import { type ExactJson, parseExactJson } from './exact-json.ts'

/** The limit for a body where its route sets no other. */
export const bodyBytesMaxDefault = 4 * 1024 * 1024

const gunzip = promisify(zlib.gunzip)

/**
 * Reads a JSON request body, plain or gzip. Only a compressed one is answered with a promise: most are plain, and
 * waiting costs them a turn of the event loop.
 *
 * @param bytesMax the limit for the body as decompressed
 * @throws Refusal `tooLarge`, `unsupportedType`, `badCompression`, `badJson`
 */
export function readJsonBody(
  bytes: Buffer,
  encoding: string | undefined,
  bytesMax: number,
): ExactJson | Promise<ExactJson> {
  if (encoding === undefined || encoding === 'identity') return toJson(bytes)
  return decompress(bytes, encoding, bytesMax).then(toJson)
}

async function decompress(packed: Buffer, encoding: string, bytesMax: number): Promise<Buffer> {
  if (encoding !== 'gzip' && encoding !== 'x-gzip') {
    throw new Refusal('unsupportedType', `Content-Encoding "${encoding}" is not understood: send gzip, or no encoding.`)
  }
  try {
    return await gunzip(packed, { maxOutputLength: bytesMax })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') throw tooLarge(bytesMax)
    throw new Refusal('badCompression', 'The body is marked as gzip but cannot be decompressed.', { cause: error })
  }
}

function toJson(bytes: Buffer): ExactJson {
  if (!isUtf8(bytes)) throw new Refusal('badJson', 'The body is not valid UTF-8.')
  const text = bytes.toString('utf8')
  try {
    return parseExactJson(text.charCodeAt(0) === 0xfeff ? text.slice(1) : text)
  } catch (error) {
    if (error instanceof RangeError) throw new Refusal('badJson', 'The body is nested too deeply.', { cause: error })
    const hint = /\b(NaN|Infinity)\b/.test(text.slice(0, 100_000))
      ? ' Send NaN and Infinity as strings: "NaN", "Infinity", "-Infinity".'
      : ''
    const reason = text.trim() === '' ? 'it is empty' : (error as Error).message
    throw new Refusal('badJson', `The body is not JSON: ${reason}.${hint}`, { cause: error })
  }
}

export function tooLarge(bytesMax: number): Refusal {
  return new Refusal('tooLarge', `The body is over the limit of ${bytesMax} bytes: send less in one request.`)
}
