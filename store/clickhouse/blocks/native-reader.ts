/**
 * Reads the columns of blocks in Native format; see native-block.ts for the format. Supports the types of columns that points
 * have.
 */

export type Cursor = { bytes: Buffer; at: number }

/** The bytes of a column; what it holds is read only when it is asked for. */
export type ReadColumn = {
  /** Numbers of 64 bits are two words each, the low one first: bigints would be allocated one by one. */
  numbers(): Numbers
  /** Words of a dictionary: its keys, and the key of each row. */
  words(): { keys: string[]; indexes: Numbers | Uint16Array }
  /** Where the list of each row begins among the items of all; one more than there are rows. */
  lists(): { starts: Float64Array; items: Numbers }
}

export type Numbers = Uint8Array | Int32Array

export type ReadBlock = { rows: number; columns: Map<string, ReadColumn> }

/** @throws Error when the bytes are not whole blocks of such columns */
export function* readNativeBlocks(bytes: Buffer): Generator<ReadBlock> {
  const cursor = { bytes, at: 0 }
  while (cursor.at < bytes.length) {
    const count = readVarUint(cursor)
    const rows = readVarUint(cursor)
    const columns = new Map<string, ReadColumn>()
    for (let index = 0; index < count; index++) {
      const name = readText(cursor).toString()
      columns.set(name, readColumn(cursor, rows, readText(cursor).toString()))
    }
    yield { rows, columns }
  }
}

function readColumn(cursor: Cursor, rows: number, type: string): ReadColumn {
  if (type === 'LowCardinality(String)') return { ...noColumn, words: readWords(cursor, rows) }
  const itemType = /^Array\((.+)\)$/.exec(type)?.[1]
  if (itemType === undefined) return { ...noColumn, numbers: readNumbers(cursor, rows, type) }
  const ends = take(cursor, rows * 8)
  const items = readNumbers(cursor, rows === 0 ? 0 : Number(ends.readBigUInt64LE((rows - 1) * 8)), itemType)
  return {
    ...noColumn,
    lists() {
      const words = new Uint32Array(copyBytes(ends))
      const starts = new Float64Array(rows + 1)
      for (let row = 0; row < rows; row++) {
        starts[row + 1] = (words[row * 2 + 1] as number) * 2 ** 32 + (words[row * 2] as number)
      }
      return { starts, items: items() }
    },
  }
}

function isAnother(): never {
  throw new Error('a column is of another type')
}
const noColumn: ReadColumn = { numbers: isAnother, words: isAnother, lists: isAnother }

export const fixedWidths: Record<string, number> = { UInt8: 1, UInt32: 4, UInt64: 8, Int64: 8, Float64: 8 }

function readNumbers(cursor: Cursor, count: number, type: string): () => Numbers {
  const width = fixedWidths[type]
  if (width === undefined) throw new Error(`the column type ${type} is not supported`)
  const bytes = take(cursor, count * width)
  return () => (width === 1 ? bytes : new Int32Array(copyBytes(bytes)))
}

/** Typed arrays start at a multiple of their width. */
const copyBytes = (bytes: Buffer) => new Uint8Array(bytes).buffer

const indexKinds = [Uint8Array, Uint16Array, Int32Array]

function readWords(cursor: Cursor, rows: number): ReadColumn['words'] {
  take(cursor, versionBytes)
  const { width, keyCount } = readDictionaryHead(cursor)
  const keys = Array.from({ length: keyCount }, () => readText(cursor))
  take(cursor, 8)
  const indexes = take(cursor, rows * width)
  return () => {
    const Kind = indexKinds[Math.log2(width)]
    if (!Kind) throw new Error(`an index of ${width} bytes is not supported`)
    return { keys: keys.map(String), indexes: new Kind(copyBytes(indexes)) }
  }
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
