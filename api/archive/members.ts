import { promisify } from 'node:util'
import { gunzip, gzip } from 'node:zlib'

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

/** @throws Error for what is not compressed lines of JSON, or too long */
export async function parseLines(content: Buffer): Promise<unknown[]> {
  const text = (await decompress(content, { maxOutputLength: linesBytesMax })).toString()
  return text
    .split('\n')
    .filter((it) => it !== '')
    .map((it) => JSON.parse(it) as unknown)
}
