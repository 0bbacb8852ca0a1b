import { isUtf8 } from 'node:buffer'
import type { Readable } from 'node:stream'
import { promisify } from 'node:util'
import zlib from 'node:zlib'
import { Refusal } from './errors.ts'
import { type ExactJson, parseExactJson } from './exact-json.ts'

const gunzip = promisify(zlib.gunzip)

/**
 * Reads a JSON request body, plain or gzip.
 *
 * @param bytesMax the limit for the body as sent and for the body as decompressed
 * @throws Refusal `tooLarge`, `unsupportedType`, `badCompression`, `badJson`
 */
export async function readJsonBody(
  stream: Readable,
  encoding: string | undefined,
  bytesMax: number,
): Promise<ExactJson> {
  const packed = await readAll(stream, bytesMax)
  return toJson(await decompress(packed, encoding, bytesMax))
}

async function readAll(stream: Readable, bytesMax: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  let bytes = 0
  try {
    for await (const chunk of stream) {
      bytes += chunk.length
      if (bytes > bytesMax) throw tooLarge(bytesMax)
      chunks.push(chunk)
    }
  } catch (error) {
    // The caller went away; or else its connection's ECONNRESET would be taken for one of a store's.
    throw error instanceof Refusal ? error : new Refusal('badRequest', 'The body broke off.', { cause: error })
  }
  return chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks, bytes)
}

async function decompress(packed: Buffer, encoding: string | undefined, bytesMax: number): Promise<Buffer> {
  if (encoding === undefined || encoding === 'identity') return packed
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

function tooLarge(bytesMax: number): Refusal {
  return new Refusal('tooLarge', `The body is over the limit of ${bytesMax} bytes: send less in one request.`)
}
