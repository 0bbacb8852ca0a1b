import {
  type Cursor,
  fixedWidths,
  readDictionaryHead,
  readText,
  readVarUint,
  take,
  versionBytes,
} from './native-reader.ts'

/**
 * Splits a block in Native format into blocks of fewer rows, to find the rows that ClickHouse rejects. Supports only the
 * column types of our tables; see native-block.ts for the format.
 */

type Column = { head: Buffer; slice(from: number, to: number): Buffer }

export type SliceableBlock = {
  rows: number
  /** A block of the rows from `from` (inclusive) to `to` (exclusive). */
  slice(from: number, to: number): Buffer
}

/** @throws Error when the bytes are not one whole block of our column types */
export function readNativeBlock(bytes: Buffer): SliceableBlock {
  const cursor = { bytes, at: 0 }
  const columnCount = readVarUint(cursor)
  const rows = readVarUint(cursor)
  const columns = Array.from({ length: columnCount }, () => readColumn(cursor, rows))
  if (cursor.at !== bytes.length) throw new Error(`${bytes.length - cursor.at} bytes are left after the block`)
  return {
    rows,
    slice: (from, to) =>
      Buffer.concat([
        toVarUint(columnCount),
        toVarUint(to - from),
        ...columns.flatMap((it) => [it.head, it.slice(from, to)]),
      ]),
  }
}

function readColumn(cursor: Cursor, rows: number): Column {
  const start = cursor.at
  readText(cursor)
  const type = readText(cursor).toString()
  const head = cursor.bytes.subarray(start, cursor.at)
  const width = fixedWidths[type]
  if (width !== undefined) return { head, slice: sliceFixed(take(cursor, rows * width), width) }
  const itemWidth = fixedWidths[/^Array\((.+)\)$/.exec(type)?.[1] ?? '']
  if (itemWidth !== undefined) return { head, slice: sliceArrays(cursor, rows, itemWidth) }
  if (type === 'String') return { head, slice: sliceText(cursor, rows) }
  if (type === 'LowCardinality(String)') return { head, slice: sliceDictionary(cursor, rows) }
  if (type === 'Array(LowCardinality(String))') return { head, slice: sliceDictionaryArrays(cursor, rows) }
  throw new Error(`the column type ${type} is not supported`)
}

function sliceFixed(values: Buffer, width: number) {
  return (from: number, to: number) => values.subarray(from * width, to * width)
}

function sliceArrays(cursor: Cursor, rows: number, width: number) {
  const ends = readEnds(cursor, rows)
  const items = take(cursor, ends.itemCount * width)
  return (from: number, to: number) => {
    const [start, end] = ends.range(from, to)
    return Buffer.concat([ends.slice(from, to), items.subarray(start * width, end * width)])
  }
}

/** Where no array has an item, nothing follows the ends. */
function sliceDictionaryArrays(cursor: Cursor, rows: number) {
  const version = take(cursor, versionBytes)
  const ends = readEnds(cursor, rows)
  const sliceItems = ends.itemCount > 0 ? sliceIndexes(cursor, ends.itemCount) : undefined
  return (from: number, to: number) => {
    const [start, end] = ends.range(from, to)
    const items = sliceItems && end > start ? [sliceItems(start, end)] : []
    return Buffer.concat([version, ends.slice(from, to), ...items])
  }
}

/** Where the arrays of a column end among their items. */
function readEnds(cursor: Cursor, rows: number) {
  const stored = take(cursor, rows * 8)
  const ends = Array.from({ length: rows }, (_, row) => Number(stored.readBigUInt64LE(row * 8)))
  return {
    itemCount: ends.at(-1) ?? 0,
    /** The items of some rows. */
    range(from: number, to: number): [number, number] {
      const start = ends[from - 1] ?? 0
      return [start, ends[to - 1] ?? start]
    },
    slice(from: number, to: number): Buffer {
      const start = ends[from - 1] ?? 0
      const offsets = Buffer.alloc((to - from) * 8)
      for (let row = from; row < to; row++) {
        offsets.writeBigUInt64LE(BigInt((ends[row] as number) - start), (row - from) * 8)
      }
      return offsets
    },
  }
}

function sliceText(cursor: Cursor, rows: number) {
  const offsets = [cursor.at]
  for (let row = 0; row < rows; row++) {
    readText(cursor)
    offsets.push(cursor.at)
  }
  return (from: number, to: number) => cursor.bytes.subarray(offsets[from], offsets[to])
}

function sliceDictionary(cursor: Cursor, rows: number) {
  const version = take(cursor, versionBytes)
  const slice = sliceIndexes(cursor, rows)
  return (from: number, to: number) => Buffer.concat([version, slice(from, to)])
}

/** Each slice has the whole dictionary: unused entries are harmless. */
function sliceIndexes(cursor: Cursor, length: number) {
  const start = cursor.at
  const { width, keyCount } = readDictionaryHead(cursor)
  for (let key = 0; key < keyCount; key++) readText(cursor)
  const dictionary = cursor.bytes.subarray(start, cursor.at)
  take(cursor, 8)
  const indexes = take(cursor, length * width)
  return (from: number, to: number) => {
    const count = Buffer.alloc(8)
    count.writeBigUInt64LE(BigInt(to - from))
    return Buffer.concat([dictionary, count, indexes.subarray(from * width, to * width)])
  }
}

function toVarUint(value: number): Buffer {
  const bytes: number[] = []
  let rest = value
  while (rest >= 0x80) {
    bytes.push((rest % 0x80) | 0x80)
    rest = Math.floor(rest / 0x80)
  }
  bytes.push(rest)
  return Buffer.from(bytes)
}
