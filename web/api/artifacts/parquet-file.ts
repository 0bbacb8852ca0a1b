import { type AsyncBuffer, type Compressors, type FileMetaData, parquetMetadataAsync, parquetRead } from 'hyparquet'
import { toBytes } from '../../kit/text.ts'
import { ApiError } from '../http.ts'
import type { Rows } from './files.ts'

/** Most footers are within the last of these; a longer one takes another read. */
const footerBytes = 65_536
/** What may be read at once for some rows: a file without an index of its pages is read by whole row groups. */
const readBytesMax = 100_000_000
/** Parts that were read are kept, so that the next rows of a row group do not read it anew. */
const keptBytesMax = 150_000_000
const cellCharactersMax = 500

type Decompress = NonNullable<Compressors['GZIP']>

/**
 * Most files need none of these: what Snappy compressed is read by the reader itself, and without WebAssembly, which the
 * policy of the page forbids.
 */
const decompressors: Record<string, () => Promise<Decompress>> = {
  BROTLI: async () => (await import('hyparquet-compressors/src/brotli.js')).decompressBrotli,
  GZIP: async () => {
    const { gunzip } = await import('hyparquet-compressors/src/gzip.js')
    return (input, length) => gunzip(input, new Uint8Array(length))
  },
  LZ4: async () => (await import('hyparquet-compressors/src/lz4.js')).decompressLz4,
  LZ4_RAW: async () => (await import('hyparquet-compressors/src/lz4.js')).decompressLz4Raw,
  ZSTD: async () => {
    const { decompress } = await import('fzstd')
    return (input) => decompress(input)
  },
}

async function loadCompressors({ row_groups: groups }: FileMetaData): Promise<Compressors> {
  const codecs = new Set(groups.flatMap((group) => group.columns.map((it) => it.meta_data?.codec ?? '')))
  const loaded = [...codecs].map(async (it) => [it, await decompressors[it]?.()] as const)
  return Object.fromEntries(
    (await Promise.all(loaded)).flatMap(([it, decompress]) => (decompress ? [[it, orEmpty(decompress)]] : [])),
  )
}

/** A column of nulls has empty blocks, which are an error to some of them. */
const orEmpty =
  (decompress: Decompress): Decompress =>
  (input, length) =>
    length === 0 ? new Uint8Array(0) : decompress(input, length)

type Asked = { from: number; count: number; columnsMax: number }
type ReadRange = (range: string) => Promise<{ bytes: ArrayBuffer; size: number }>
type ParquetFile = {
  buffer: AsyncBuffer
  metadata: FileMetaData
  compressors: Compressors
  columns: string[]
  total: number
}

/**
 * Reads the footer of a Parquet file.
 *
 * @throws Error for what is no such file
 */
export async function openParquet(readRange: ReadRange): Promise<ParquetFile> {
  const end = await readRange(`bytes=-${footerBytes}`)
  const buffer = keepParts(end, readRange)
  const metadata = await orExplain(parquetMetadataAsync(buffer, { initialFetchSize: footerBytes }))
  const compressors = await loadCompressors(metadata)
  return { buffer, metadata, compressors, columns: toColumns(metadata), total: Number(metadata.num_rows) }
}

/**
 * Reads some rows as texts; null where a value is missing.
 *
 * @throws Error when the file is broken, or the rows are in too large a part of it
 */
export async function readParquetRows(file: ParquetFile, { from, count, columnsMax }: Asked) {
  const { buffer, metadata, compressors, columns, total } = file
  const shown = columns.slice(0, columnsMax)
  const to = Math.min(from + count, total)
  const needed = countNeededBytes(metadata, new Set(shown), from, to)
  if (needed > readBytesMax) {
    throw new Error(
      `These rows are in row groups of ${toBytes(needed)} without an index of their pages, too much to read here: download the file.`,
    )
  }
  let found: unknown[][] = []
  if (from < to) {
    await orExplain(
      parquetRead({
        file: buffer,
        metadata,
        compressors,
        rowStart: from,
        rowEnd: to,
        useOffsetIndex: true,
        ...(shown.length < columns.length && { columns: shown }),
        onComplete: (rows: unknown[][]) => {
          found = rows
        },
      }),
    )
  }
  const cut: Rows['cut'] = []
  const rows = found.map((cells, row) =>
    shown.map((_, column) => {
      const text = toText(cells[column])
      if (text === null || text.length <= cellCharactersMax) return text
      cut.push({ row, column, characters: text.length })
      return text.slice(0, cellCharactersMax)
    }),
  )
  return { header: true, columns, total, from, rows, cut } satisfies Rows
}

/** The columns of the table: those just below the root of the schema, which lists each before what is within it. */
function toColumns({ schema }: FileMetaData): string[] {
  const names: string[] = []
  let at = 1
  const skip = (): void => {
    const children = schema[at++]?.num_children ?? 0
    for (let child = 0; child < children && at < schema.length; child++) skip()
  }
  while (at < schema.length) {
    names.push(schema[at]?.name ?? '')
    skip()
  }
  return names
}

/** Bytes of the row groups that hold some rows, as far as no index tells which of their pages do. */
function countNeededBytes({ row_groups: groups }: FileMetaData, shown: Set<string>, from: number, to: number): number {
  let first = 0
  let bytes = 0
  for (const group of groups) {
    const end = first + Number(group.num_rows)
    if (end > from && first < to) {
      for (const { meta_data: data, offset_index_offset: index } of group.columns) {
        if (index || !data || !shown.has(data.path_in_schema[0] ?? '')) continue
        bytes += Number(data.total_compressed_size)
      }
    }
    first = end
  }
  return bytes
}

function keepParts(end: { bytes: ArrayBuffer; size: number }, readRange: ReadRange): AsyncBuffer {
  const { size } = end
  const endStart = size - end.bytes.byteLength
  const kept = new Map<string, { bytes: number; part: Promise<ArrayBuffer> }>()
  let keptBytes = 0
  return {
    byteLength: size,
    async slice(start, before = size) {
      if (start >= endStart) return end.bytes.slice(start - endStart, before - endStart)
      const key = `${start}-${before}`
      const known = kept.get(key)
      if (known) return await known.part
      const part = readRange(`bytes=${start}-${before - 1}`).then((it) => it.bytes)
      kept.set(key, { bytes: before - start, part })
      keptBytes += before - start
      for (const [oldest, { bytes }] of kept) {
        if (keptBytes <= keptBytesMax || oldest === key) break
        kept.delete(oldest)
        keptBytes -= bytes
      }
      part.catch(() => {
        if (kept.delete(key)) keptBytes -= before - start
      })
      return await part
    },
  }
}

/** What the reader throws speaks of bytes and pages. Errors of the service stay what they are. */
async function orExplain<T>(work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    if (error instanceof ApiError) throw error
    const reason = error instanceof Error ? error.message : String(error)
    throw new Error(`It cannot be read as a Parquet file (${reason}): download it, or log it again.`)
  }
}

function toText(value: unknown): string | null {
  if (value === null || value === undefined) return null
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? 'no date' : value.toISOString()
  if (value instanceof Uint8Array) return `${value.length} bytes`
  return typeof value === 'object' ? JSON.stringify(value, toPlain) : String(value)
}

const toPlain = (_: string, value: unknown) =>
  typeof value === 'bigint' ? toNumber(value) : value instanceof Uint8Array ? `${value.length} bytes` : value

/** As text where a number would lose digits. */
const toNumber = (value: bigint) => (BigInt(Number(value)) === value ? Number(value) : String(value))
