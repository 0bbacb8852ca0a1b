import { isAscii, isUtf8 } from 'node:buffer'
import { promisify } from 'node:util'
import zlib from 'node:zlib'
import { mapMaybeAsync } from '../../runtime/map-maybe-async.ts'
import { HttpError } from '../errors.ts'
import { type ExactJson, parseExactJson } from './exact-json.ts'

/** The limit of a body when its route sets no other. */
export const bodyBytesMaxDefault = 4 * 1024 * 1024

const gunzip = promisify(zlib.gunzip)

/**
 * How many bodies are decompressed at a time; others wait. 16 KB can become 16 MB, so without a limit a few hundred small
 * requests would take all memory. Node has four threads for it: more at a time would not be faster.
 */
const decompressedAtOnceDefault = 4

/** Reads request bodies, plain or gzip. */
export function createBodyReader(decompressedAtOnce = decompressedAtOnceDefault) {
  const waiting: (() => void)[] = []
  let underWay = 0

  async function inTurn<T>(work: () => Promise<T>): Promise<T> {
    if (underWay < decompressedAtOnce) underWay++
    else await new Promise<void>((resolve) => waiting.push(resolve))
    try {
      return await work()
    } finally {
      // `underWay` stays the same: the next one starts as this one ends.
      const next = waiting.shift()
      if (next) next()
      else underWay--
    }
  }

  /**
   * Returns a promise for a compressed body only: most are plain, and a promise would cost each a turn of the event loop.
   *
   * @param bytesMax the limit for the body as decompressed
   * @throws HttpError `tooLarge`, `unsupportedType`, `badCompression`
   */
  function readBytes(bytes: Buffer, encoding: string | undefined, bytesMax: number): Buffer | Promise<Buffer> {
    if (encoding === undefined || encoding === 'identity') return bytes
    return inTurn(() => decompress(bytes, encoding, bytesMax))
  }

  return {
    readBytes,

    /** @throws HttpError those of `readBytes`, and `badJson` */
    readJson: (bytes: Buffer, encoding: string | undefined, bytesMax: number): ExactJson | Promise<ExactJson> =>
      mapMaybeAsync(readBytes(bytes, encoding, bytesMax), toJson),
  }
}

async function decompress(packed: Buffer, encoding: string, bytesMax: number): Promise<Buffer> {
  if (encoding !== 'gzip' && encoding !== 'x-gzip') {
    throw new HttpError(
      'unsupportedType',
      `Content-Encoding "${encoding}" is not understood: send gzip, or no encoding.`,
    )
  }
  try {
    return await gunzip(packed, { maxOutputLength: bytesMax })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') throw tooLarge(bytesMax)
    throw new HttpError('badCompression', 'The body is marked as gzip but cannot be decompressed.', { cause: error })
  }
}

/**
 * The nesting of a larger body is checked before it is parsed. The parser keeps forty bytes for every open level: 16 MiB of
 * "[" would take 650 MiB and block other requests for more than a second (measured).
 */
const uncheckedBytesMax = 256 * 1024
const levelsMax = 1_000

function toJson(bytes: Buffer): ExactJson {
  if (!isUtf8(bytes)) throw new HttpError('badJson', 'The body is not valid UTF-8.')
  if (bytes.length > uncheckedBytesMax && isDeeperThan(bytes, levelsMax)) {
    throw new HttpError('badJson', `The body is nested too deeply: it may have ${levelsMax} levels.`)
  }
  // Most bodies are ASCII, and for those latin1 only copies the bytes.
  const text = bytes.toString(isAscii(bytes) ? 'latin1' : 'utf8')
  try {
    return parseExactJson(text.charCodeAt(0) === 0xfeff ? text.slice(1) : text, bytes)
  } catch (error) {
    if (error instanceof RangeError) throw new HttpError('badJson', 'The body is nested too deeply.', { cause: error })
    const reason = text.trim() === '' ? 'it is empty' : (error as Error).message
    throw new HttpError('badJson', `The body is not JSON: ${reason}.`, { cause: error })
  }
}

const [quote, backslash] = Buffer.from('"\\')
const inString = 2
const levelChange = new Int8Array(256)
for (const byte of Buffer.from('[{')) levelChange[byte] = 1
for (const byte of Buffer.from(']}')) levelChange[byte] = -1
levelChange[quote as number] = inString

function isDeeperThan(json: Buffer, levels: number): boolean {
  let open = 0
  const { length } = json
  for (let at = 0; at < length; at++) {
    const change = levelChange[json[at] as number] as number
    // One table lookup for each byte: most change nothing.
    if (change === 0) continue
    if (change === inString) {
      for (at++; at < length && json[at] !== quote; at++) if (json[at] === backslash) at++
    } else {
      open += change
      if (open > levels) return true
    }
  }
  return false
}

export function tooLarge(bytesMax: number): HttpError {
  return new HttpError('tooLarge', `The body is over the limit of ${bytesMax} bytes: send less in one request.`)
}
