import { promisify } from 'node:util'
import { gunzip, gzip } from 'node:zlib'
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
const decompress = promisify(gunzip)

export const toLines = (lines: string | Buffer) => compress(lines, { level: 4 })

/**
 * The rows of a member, parsed one by one: a list of all of them takes several times the memory of their text.
 *
 * @throws WrongArchive for what is not compressed lines, or too long; and while it is read, for a line that is not JSON
 */
export async function openLines(content: Buffer): Promise<Iterable<unknown>> {
  return parseLines(await decompress(content, { maxOutputLength: linesBytesMax }).catch(refuseLines))
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
    return refuseLines(error)
  }
}

function refuseLines(error: unknown): never {
  throw new WrongArchive(`is damaged: it is not compressed lines of JSON (${(error as Error).message.slice(0, 100)})`)
}
