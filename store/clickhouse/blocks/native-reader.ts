/**
 * Reads the columns of a block in Native format; see native-block.ts for the format. Supports the types of columns that points
 * have.
 */

export type Cursor = { bytes: Buffer; at: number }

/** Numbers of 64 bits are two words each, the low one first: bigints would be allocated one by one. */
type Numbers = Uint8Array | Uint32Array

export type ReadColumn =
  | { kind: 'numbers'; values: Numbers }
  | { kind: 'words'; keys: string[]; indexes: Uint8Array | Uint16Array | Uint32Array }
  /** Where the list of each row ends among the items of all. */
  | { kind: 'lists'; ends: Float64Array; items: Numbers }

/** A block that ClickHouse may know, but this version does not. */
export class UnreadableBlock extends Error {
  override name = 'UnreadableBlock'
}

/** @throws Error when the bytes are not one whole block of such columns */
export function readNativeColumns(bytes: Buffer): { rows: number; columns: Map<string, ReadColumn> } {
  const cursor = { bytes, at: 0 }
  const count = readVarUint(cursor)
  const rows = readVarUint(cursor)
  const columns = new Map<string, ReadColumn>()
  for (let index = 0; index < count; index++) {
    const name = readText(cursor).toString()
    columns.set(name, readColumn(cursor, rows, readText(cursor).toString()))
  }
  expectEnd(cursor)
  return { rows, columns }
}

/** @throws Error when bytes are left */
export function expectEnd({ bytes, at }: Cursor) {
  if (at !== bytes.length) throw new Error(`${bytes.length - at} bytes are left after the block`)
}

function readColumn(cursor: Cursor, rows: number, type: string): ReadColumn {
  if (type === 'LowCardinality(String)') return readWords(cursor, rows)
  const itemType = /^Array\((.+)\)$/.exec(type)?.[1]
  if (itemType === undefined) return { kind: 'numbers', values: readNumbers(cursor, rows, type) }
  const words = readNumbers(cursor, rows, 'UInt64')
  const ends = Float64Array.from({ length: rows }, (_, row) => toNumber(words, row))
  return { kind: 'lists', ends, items: readNumbers(cursor, ends.at(-1) ?? 0, itemType) }
}

/** A number of 64 bits, exact up to 2^53. */
const toNumber = (words: Numbers, index: number) =>
  (words[index * 2 + 1] as number) * 2 ** 32 + (words[index * 2] as number)

export const fixedWidths: Record<string, number> = { UInt8: 1, UInt32: 4, UInt64: 8, Int64: 8, Float64: 8 }

function readNumbers(cursor: Cursor, count: number, type: string): Numbers {
  const width = fixedWidths[type]
  if (width === undefined) throw new Error(`the column type ${type} is not supported`)
  const bytes = take(cursor, count * width)
  return width === 1 ? bytes : new Uint32Array(copyBytes(bytes))
}

/** Typed arrays start at a multiple of their width. */
const copyBytes = (bytes: Buffer) => new Uint8Array(bytes).buffer

const indexKinds = [Uint8Array, Uint16Array, Uint32Array]

function readWords(cursor: Cursor, rows: number): ReadColumn {
  take(cursor, versionBytes)
  const { width, keyCount } = readDictionaryHead(cursor)
  const keys = Array.from({ length: keyCount }, () => readText(cursor).toString())
  take(cursor, 8)
  const Kind = indexKinds[Math.log2(width)]
  if (!Kind) throw new Error(`an index of ${width} bytes is not supported`)
  return { kind: 'words', keys, indexes: new Kind(copyBytes(take(cursor, rows * width))) }
}

export const versionBytes = 8
const indexWidthMask = 0xffn

/** How many bytes an index of LowCardinality has, and the number of keys, which follow. */
export function readDictionaryHead(cursor: Cursor): { width: number; keyCount: number } {
  const width = 1 << Number(take(cursor, 8).readBigUInt64LE() & indexWidthMask)
  return { width, keyCount: Number(take(cursor, 8).readBigUInt64LE()) }
}

export function take(cursor: Cursor, length: number): Buffer {
  const end = cursor.at + length
  if (end > cursor.bytes.length) throw new Error('the block ends too early')
  const taken = cursor.bytes.subarray(cursor.at, end)
  cursor.at = end
  return taken
}

export function readText(cursor: Cursor): Buffer {
  return take(cursor, readVarUint(cursor))
}

export function readVarUint(cursor: Cursor): number {
  let value = 0
  for (let factor = 1; ; factor *= 0x80) {
    const byte = take(cursor, 1)[0] as number
    value += (byte & 0x7f) * factor
    if (byte < 0x80) return value
  }
}
