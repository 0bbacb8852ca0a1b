import { pipeline, Readable } from 'node:stream'
import { promisify } from 'node:util'
import { createGunzip, gzip } from 'node:zlib'
import { WrongArchive } from './rows.ts'

/**
 * The archive of a project is a tar file. Its members, in this order:
 *
 *     archive.json                    which project, and the version of the format
 *     tables/NAME-00001.jsonl.gz      rows of Postgres, a line of JSON each
 *     logged/NAME-00001.jsonl.gz      rows of ClickHouse
 *     objects/00000001                the bytes of assets, by the numbers that tables name
 *     SHA256SUMS                      of every member before it; without it the archive is cut off
 */
export const archiveFormat = 'svc project archive'
export const archiveVersion = 1

export const headMember = 'archive.json'
export const sumsMember = 'SHA256SUMS'
export const sumsBytesMax = 1024 ** 3

/** The lines of a member, before compression. A single row may be longer. */
export const linesBytes = 8 * 1024 * 1024
/** The longest document has 16 Mi characters, and a character may take six bytes of JSON. */
export const linesBytesMax = linesBytes + 6 * 16 * 1024 * 1024 + 1024 * 1024
/** All tables, compressed: they are in memory until the rest has arrived. */
export const tablesBytesMax = 256 * 1024 * 1024

const number = (at: number, digits: number) => String(at).padStart(digits, '0')
export const toLinesName = (folder: 'tables' | 'logged', name: string, at: number) =>
  `${folder}/${name}-${number(at, 5)}.jsonl.gz`
export const toObjectName = (at: number) => `objects/${number(at, 8)}`

export const linesNamePattern = /^(tables|logged)\/([a-z_-]+)-\d{5,9}\.jsonl\.gz$/
export const objectNamePattern = /^objects\/(\d{8,12})$/

const compress = promisify(gzip)

export const toLines = (lines: string | Buffer) => compress(lines, { level: 4 })

type Rows = AsyncGenerator<Iterable<unknown>>

/**
 * Gives the rows of a member to `use` while it arrives, some at a time: all of them together take several times the memory of the
 * member. When `use` refuses a row, the rest is unpacked too: the checksum at its end tells a damaged member from a wrong one.
 *
 * @throws WrongArchive for what is not compressed lines of JSON, or too long; and what the content and `use` throw
 */
export async function withRows<T>(
  content: AsyncIterable<Buffer> | Iterable<Buffer>,
  use: (rows: Rows) => Promise<T>,
): Promise<T> {
  const gunzip = createGunzip({ chunkSize: 64 * 1024 })
  pipeline(Readable.from(content, { objectMode: false }), gunzip, () => undefined)
  let bytes = 0
  async function* unpack(): AsyncGenerator<Buffer> {
    try {
      for await (const chunk of gunzip.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
        bytes += chunk.length
        if (bytes > linesBytesMax)
          throw new WrongArchive(`must have ${linesBytesMax} bytes or fewer when it is unpacked`)
        yield chunk
      }
    } catch (error) {
      throw (error as NodeJS.ErrnoException).code?.startsWith('Z_') ? notLines(error) : error
    }
  }
  try {
    return await use(toRows(unpack()))
  } catch (error) {
    if (gunzip.destroyed || bytes > linesBytesMax) throw error
    for await (const _ of unpack()) {
      // To its end.
    }
    throw error
  } finally {
    gunzip.destroy()
  }
}

async function* toRows(chunks: AsyncIterable<Buffer>): Rows {
  const pending: Buffer[] = []
  for await (const chunk of chunks) {
    const end = chunk.lastIndexOf(lineEnd) + 1
    if (end > 0) yield parseLines(Buffer.concat([...pending.splice(0), chunk.subarray(0, end)]))
    pending.push(chunk.subarray(end))
  }
  yield parseLines(Buffer.concat(pending))
}

function* parseLines(text: Buffer): Generator<unknown> {
  for (let from = 0; from < text.length; ) {
    const end = text.indexOf(lineEnd, from)
    const to = end < 0 ? text.length : end
    if (to > from) yield parseLine(text.toString('utf8', from, to))
    from = to + 1
  }
}

const lineEnd = '\n'.charCodeAt(0)

function parseLine(line: string): unknown {
  try {
    return JSON.parse(line)
  } catch (error) {
    throw notLines(error)
  }
}

const notLines = (error: unknown) =>
  new WrongArchive(`is damaged: it is not compressed lines of JSON (${(error as Error).message.slice(0, 100)})`)

export async function collectRows(content: Buffer): Promise<unknown[]> {
  return await withRows([content], async (parts) => {
    const found: unknown[] = []
    for await (const rows of parts) found.push(...rows)
    return found
  })
}
