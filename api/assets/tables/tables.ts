import type { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { LRUCache } from 'lru-cache'
import type { ObjectStore } from '../../../store/objects/object-store.ts'
import type { Asset } from '../../../store/postgres/assets/assets.ts'
import { createCsvScanner, parseCsv, type Separator } from './csv.ts'
import { createJsonScanner, NoTable, parseJsonRows, toColumns } from './json.ts'
import { type Marks, toSpan } from './marks.ts'

/**
 * Reads ranges of rows of a stored table. The first read of a file notes where every few hundredth row begins; later ones read
 * only the bytes of their rows. Contents never change under a checksum, so these notes are never stale.
 */

export type TableFormat = 'csv' | 'json'

export type Row = (string | null)[]

/** An open table. `names` are those of its columns, as far as the file names them; rows may have more cells. */
export type Table = {
  format: TableFormat
  /** Rows; with the one that may hold names. */
  total: number
  /** Undefined: the first row may hold them. */
  names: string[] | undefined
  /** The most cells that a row has. */
  width: number
  read(from: number, to: number): Promise<Row[]>
}

/** A table has its bytes read once from end to end. */
const tableBytesMax = 2 * 1024 ** 3
/** The bytes of the rows of one range, which are in memory. */
const spanBytesMax = 64 * 1024 * 1024
const indexesMax = 200
/** Files that are read from end to end at a time. */
const scansMax = 2
const sniffedBytes = 64 * 1024

type Stored = Pick<Asset, 'fileName' | 'contentType' | 'size'> & { objectKey: string; sha256: string }

type Index =
  | { format: 'csv'; marks: Marks; width: number; separator: Separator }
  | { format: 'json'; marks: Marks; names: string[] }

/** The table cannot be read by ranges; the message says why. */
export class UnreadableTable extends Error {}

export function createTables(objects: ObjectStore) {
  const indexes = new LRUCache<string, Promise<Index>>({ max: indexesMax })
  let scans = 0
  const waiting: (() => void)[] = []

  async function inTurn<T>(work: () => Promise<T>): Promise<T> {
    if (scans >= scansMax) await new Promise<void>((go) => waiting.push(go))
    else scans += 1
    try {
      return await work()
    } finally {
      const next = waiting.shift()
      if (next) next()
      else scans -= 1
    }
  }

  function findIndex(asset: Stored, format: TableFormat): Promise<Index> {
    const key = `${format} ${asset.sha256}`
    const known = indexes.get(key)
    if (known) return known
    const made = inTurn(() => (format === 'csv' ? scanCsv(asset) : scanJson(asset)))
    indexes.set(key, made)
    made.catch(() => indexes.delete(key))
    return made
  }

  async function scanCsv(asset: Stored): Promise<Index> {
    let scanner: ReturnType<typeof createCsvScanner> | undefined
    let separator: Separator = ','
    for await (const chunk of await objects.get(asset.objectKey)) {
      let bytes = chunk as Buffer
      if (!scanner) {
        const markBytes = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 3 : 0
        separator = toSeparator(bytes.subarray(markBytes, sniffedBytes), asset.fileName)
        scanner = createCsvScanner(separator, markBytes)
        bytes = bytes.subarray(markBytes)
      }
      scanner.push(bytes)
    }
    const { marks, cellsMost } = (scanner ?? createCsvScanner(separator, 0)).end()
    return { format: 'csv', marks, width: cellsMost, separator }
  }

  async function scanJson(asset: Stored): Promise<Index> {
    const scanner = createJsonScanner()
    try {
      for await (const chunk of await objects.get(asset.objectKey)) scanner.push(chunk as Buffer)
      const found = scanner.end()
      return { format: 'json', marks: found.marks, names: toColumns(found) }
    } catch (error) {
      throw error instanceof NoTable ? new UnreadableTable(error.message) : error
    }
  }

  async function readText(objectKey: string, { start, end }: { start: number; end: number }): Promise<string> {
    if (end - start > spanBytesMax) {
      throw new UnreadableTable(`has rows of more than ${spanBytesMax} bytes together`)
    }
    const content: Readable = await objects.get(objectKey, { start, end: end - 1 })
    return (await buffer(content)).toString()
  }

  /** @throws UnreadableTable */
  return async function openTable(asset: Stored, format: TableFormat): Promise<Table> {
    if (asset.size > tableBytesMax) {
      throw new UnreadableTable(`has ${asset.size} bytes; tables are read up to ${tableBytesMax}`)
    }
    const index = await findIndex(asset, format)
    const { marks } = index

    async function read(from: number, to: number): Promise<Row[]> {
      const last = Math.min(to, marks.total)
      if (from >= last) return []
      const span = toSpan(marks, from, last)
      const text = await readText(asset.objectKey, span)
      const rows = index.format === 'csv' ? parseCsv(text, index.separator) : parseRows(text, index.names)
      return rows.slice(from - span.row, last - span.row)
    }

    if (index.format === 'csv') return { format, total: marks.total, names: undefined, width: index.width, read }
    const names = index.names.length > 0 ? index.names : undefined
    return { format, total: marks.total, names, width: index.names.length, read }
  }
}

function parseRows(text: string, names: string[]): Row[] {
  try {
    return parseJsonRows(text, names)
  } catch (error) {
    throw error instanceof NoTable ? new UnreadableTable(error.message) : error
  }
}

/** The one that the first line has most of, and a comma where it has none. */
function toSeparator(begin: Buffer, fileName: string): Separator {
  if (fileName.toLowerCase().endsWith('.tsv')) return '\t'
  const line = begin.toString('latin1').split('\n', 1)[0] ?? ''
  const count = (it: Separator) => line.split(it).length
  return (['\t', ';'] as const).find((it) => count(it) > count(',')) ?? ','
}

/** The format of an asset, by its ending, else by its content type; undefined: it is no table. */
export function toTableFormat({
  fileName,
  contentType,
}: Pick<Asset, 'fileName' | 'contentType'>): TableFormat | undefined {
  const [, ending] = /\.(\w+)$/.exec(fileName.toLowerCase()) ?? []
  if (ending === 'csv' || ending === 'tsv' || contentType === 'text/csv') return 'csv'
  if (ending === 'json' || contentType === 'application/json') return 'json'
  return undefined
}
