import type { Column, ColumnType, NumberType, Table } from '../table.ts'

/**
 * Builds blocks in ClickHouse's Native format: columns of little-endian values, one after the other. Blocks can be
 * concatenated into one insert without parsing. Each block names its columns and types, so a block written before a
 * migration can be inserted after it.
 *
 * Sources of the format: ClickHouse documentation, "Native"; for LowCardinality, the official client libraries: a version,
 * the index width with flags, the dictionary, then one index per row.
 */

const uint32Size = 2 ** 32
const rowsAtFirst = 256

/** Int64 or UInt64. Takes numbers that are safe integers, and bigints. */
class Int64Column {
  #words = new Uint32Array(rowsAtFirst * 2)
  // The same memory for bigints: splitting them by shifts would allocate two more per row.
  #longs = new BigInt64Array(this.#words.buffer)
  #used = 0

  push(value: number | bigint) {
    if (this.#used === this.#words.length) this.#grow()
    if (typeof value === 'number') {
      const high = Math.floor(value / uint32Size)
      this.#words[this.#used] = value - high * uint32Size
      this.#words[this.#used + 1] = high
    } else {
      this.#longs[this.#used >>> 1] = value
    }
    this.#used += 2
  }

  /** The first `count` values of a list. */
  pushAll(values: readonly (number | bigint)[] | Float64Array | BigInt64Array, count: number) {
    this.#reserve(count)
    if (values instanceof BigInt64Array) {
      this.#longs.set(values.subarray(0, count), this.#used >>> 1)
      this.#used += count * 2
      return
    }
    const words = this.#words
    let at = this.#used
    for (let from = 0; from < count; from++, at += 2) {
      const value = values[from] as number | bigint
      if (typeof value !== 'number') this.#longs[at >>> 1] = value
      else if (value === (value | 0)) {
        // Most steps, without a division.
        words[at] = value
        words[at + 1] = value >> 31
      } else {
        const high = Math.floor(value / uint32Size)
        words[at] = value - high * uint32Size
        words[at + 1] = high
      }
    }
    this.#used = at
  }

  /** The same value for many rows. */
  fill(value: number | bigint, rows: number) {
    this.#reserve(rows)
    const start = this.#used >>> 1
    this.#longs.fill(BigInt(value), start, start + rows)
    this.#used += rows * 2
  }

  #reserve(rows: number) {
    while (this.#used + rows * 2 > this.#words.length) this.#grow()
  }

  #grow() {
    this.#words = grow(this.#words, Uint32Array)
    this.#longs = new BigInt64Array(this.#words.buffer)
  }

  get length() {
    return this.#used / 2
  }

  /** Drops the last values. */
  truncate(length: number) {
    this.#used = length * 2
  }

  /** The values from one on as they are written; valid until the next push. */
  bytesFrom(start: number): Uint8Array {
    return new Uint8Array(this.#words.buffer, start * 8, this.byteLength() - start * 8)
  }

  /** The low and the high word of each value from one on, by turns; valid until the next push. */
  wordsFrom(start: number): Uint32Array {
    return this.#words.subarray(start * 2, this.#used)
  }

  byteLength() {
    return this.#used * 4
  }

  write(target: Buffer, at: number) {
    return copyInto(target, at, this.#words, this.byteLength())
  }

  clear() {
    this.#used = 0
  }
}

type NumberArray = Uint8Array | Uint32Array | Float64Array

/** UInt8, UInt32 or Float64: any type that a typed array stores directly. */
class NumberColumn<T extends NumberArray> {
  readonly #kind: new (
    length: number,
  ) => T
  #values: T
  #used = 0

  constructor(kind: new (length: number) => T) {
    this.#kind = kind
    this.#values = new kind(rowsAtFirst)
  }

  push(value: number) {
    if (this.#used === this.#values.length) this.#values = grow(this.#values, this.#kind)
    this.#values[this.#used++] = value
  }

  /** The first `count` values of a list. */
  pushAll(list: readonly number[] | NumberArray, count: number) {
    this.#reserve(count)
    const values = this.#values
    if (ArrayBuffer.isView(list)) {
      values.set(list.subarray(0, count), this.#used)
      this.#used += count
      return
    }
    let at = this.#used
    for (let from = 0; from < count; from++) values[at++] = list[from] as number
    this.#used = at
  }

  /** The same value for many rows. */
  fill(value: number, rows: number) {
    this.#reserve(rows)
    this.#values.fill(value, this.#used, this.#used + rows)
    this.#used += rows
  }

  #reserve(rows: number) {
    while (this.#used + rows > this.#values.length) this.#values = grow(this.#values, this.#kind)
  }

  get length() {
    return this.#used
  }

  /** Drops the last values. */
  truncate(length: number) {
    this.#used = length
  }

  /** The values from one on as they are written; valid until the next push. */
  bytesFrom(start: number): Uint8Array {
    const width = this.#values.BYTES_PER_ELEMENT
    return new Uint8Array(this.#values.buffer, start * width, (this.#used - start) * width)
  }

  /** The values from one on; valid until the next push. */
  valuesFrom(start: number): T {
    return this.#values.subarray(start, this.#used) as T
  }

  byteLength() {
    return this.#used * this.#values.BYTES_PER_ELEMENT
  }

  write(target: Buffer, at: number) {
    return copyInto(target, at, this.#values, this.byteLength())
  }

  clear() {
    this.#used = 0
  }
}

/** String: each value is preceded by its length. */
class StringColumn {
  #bytes = Buffer.allocUnsafe(4 * 1024)
  #used = 0

  push(value: string) {
    const length = Buffer.byteLength(value)
    const needed = this.#used + length + varUintBytesMax
    if (needed > this.#bytes.length) {
      const larger = Buffer.allocUnsafe(Math.max(needed, this.#bytes.length * 2))
      this.#bytes.copy(larger, 0, 0, this.#used)
      this.#bytes = larger
    }
    this.#used = writeVarUint(this.#bytes, this.#used, length)
    this.#used += this.#bytes.write(value, this.#used)
  }

  byteLength() {
    return this.#used
  }

  write(target: Buffer, at: number) {
    return at + this.#bytes.copy(target, at, 0, this.#used)
  }

  clear() {
    this.#used = 0
  }
}

/** Values of some bytes each, as they are written. */
class BytesColumn {
  readonly #width: number
  #bytes: Uint8Array
  #used = 0

  constructor(width: number) {
    this.#width = width
    this.#bytes = new Uint8Array(rowsAtFirst * width)
  }

  push(value: Uint8Array) {
    if (this.#used === this.#bytes.length) this.#bytes = grow(this.#bytes, Uint8Array)
    this.#bytes.set(value, this.#used)
    this.#used += this.#width
  }

  byteLength() {
    return this.#used
  }

  write(target: Buffer, at: number) {
    return copyInto(target, at, this.#bytes, this.#used)
  }

  clear() {
    this.#used = 0
  }
}

const lowCardinalityVersion = 1n
// "Keys follow" and "replace the dictionary"; the low byte says how wide an index is (0: 1 byte, 1: 2, 2: 4).
const dictionaryFlags = 0x600
const dictionaryHeadBytes = 4 * 8

/** LowCardinality(String): a dictionary of the distinct values, and one index per row. */
class DictionaryColumn {
  #places = new Map<string, number>()
  readonly #keys = new StringColumn()
  #indexes = new Uint32Array(rowsAtFirst)
  #used = 0
  #last = ''
  #lastPlace = 0

  constructor() {
    this.#addKey('')
  }

  push(value: string) {
    if (this.#used === this.#indexes.length) this.#indexes = grow(this.#indexes, Uint32Array)
    // Rows of a series are adjacent, so most values need no lookup.
    if (value !== this.#last) {
      this.#lastPlace = this.#places.get(value) ?? this.#addKey(value)
      this.#last = value
    }
    this.#indexes[this.#used++] = this.#lastPlace
  }

  /** The same value for many rows. */
  fill(value: string, rows: number) {
    if (rows === 0) return
    while (this.#used + rows > this.#indexes.length) this.#indexes = grow(this.#indexes, Uint32Array)
    this.#indexes.fill(this.#places.get(value) ?? this.#addKey(value), this.#used, this.#used + rows)
    this.#used += rows
  }

  get length() {
    return this.#used
  }

  byteLength() {
    return dictionaryHeadBytes + this.#keys.byteLength() + this.#used * this.#indexKind().BYTES_PER_ELEMENT
  }

  write(target: Buffer, at: number) {
    return this.writeValues(target, this.writeVersion(target, at))
  }

  writeVersion(target: Buffer, at: number) {
    return target.writeBigUInt64LE(lowCardinalityVersion, at)
  }

  writeValues(target: Buffer, start: number) {
    const kind = this.#indexKind()
    const indexes = kind.from(this.#indexes.subarray(0, this.#used))
    let at = target.writeBigUInt64LE(BigInt(dictionaryFlags | Math.log2(kind.BYTES_PER_ELEMENT)), start)
    at = target.writeBigUInt64LE(BigInt(this.#places.size), at)
    at = this.#keys.write(target, at)
    at = target.writeBigUInt64LE(BigInt(this.#used), at)
    return copyInto(target, at, indexes, indexes.byteLength)
  }

  clear() {
    this.#places = new Map()
    this.#keys.clear()
    this.#used = 0
    this.#addKey('')
    this.#last = ''
    this.#lastPlace = 0
  }

  #addKey(value: string): number {
    const place = this.#places.size
    this.#places.set(value, place)
    this.#keys.push(value)
    return place
  }

  #indexKind() {
    return this.#places.size <= 2 ** 8 ? Uint8Array : this.#places.size <= 2 ** 16 ? Uint16Array : Uint32Array
  }
}

/** Array: where each ends, then the items of all. Push the items of a row into `items`, then call `end`. */
class ArrayColumn<Items extends Int64Column | NumberColumn<NumberArray> | DictionaryColumn> {
  readonly items: Items
  readonly #ends = new Int64Column()

  constructor(items: Items) {
    this.items = items
  }

  end() {
    this.#ends.push(this.items.length)
  }

  byteLength() {
    return this.#ends.byteLength() + this.items.byteLength()
  }

  write(target: Buffer, at: number) {
    return this.items.write(target, this.writeEnds(target, at))
  }

  protected writeEnds(target: Buffer, at: number) {
    return this.#ends.write(target, at)
  }

  clear() {
    this.#ends.clear()
    this.items.clear()
  }
}

/** An array of words: the version of LowCardinality comes before the ends, and where no array has a word, nothing after them. */
class DictionaryArrayColumn extends ArrayColumn<DictionaryColumn> {
  override write(target: Buffer, at: number) {
    const end = this.writeEnds(target, this.items.writeVersion(target, at))
    return this.items.length === 0 ? end : this.items.writeValues(target, end)
  }
}

const numberWriters = {
  UInt8: () => new NumberColumn(Uint8Array),
  UInt32: () => new NumberColumn(Uint32Array),
  UInt64: () => new Int64Column(),
  Int64: () => new Int64Column(),
  Float64: () => new NumberColumn(Float64Array),
} satisfies Record<NumberType, () => unknown>

const writers = {
  ...numberWriters,
  String: () => new StringColumn(),
  'LowCardinality(String)': () => new DictionaryColumn(),
  'Array(UInt8)': () => new ArrayColumn(numberWriters.UInt8()),
  'Array(UInt32)': () => new ArrayColumn(numberWriters.UInt32()),
  'Array(UInt64)': () => new ArrayColumn(numberWriters.UInt64()),
  'Array(Int64)': () => new ArrayColumn(numberWriters.Int64()),
  'Array(Float64)': () => new ArrayColumn(numberWriters.Float64()),
  UInt256: () => new BytesColumn(32),
  // Each of its two parts after a byte that says that there is one.
  'AggregateFunction(argMax, UInt64, UInt256)': () => new BytesColumn(1 + 8 + 1 + 32),
  'Array(LowCardinality(String))': () => new DictionaryArrayColumn(new DictionaryColumn()),
} satisfies Record<ColumnType, () => unknown>

type Writers<Columns extends readonly Column[]> = {
  readonly [It in Columns[number] as It['name']]: ReturnType<
    (typeof writers)[It extends { bitsOf: ColumnType } ? It['bitsOf'] : It['type']]
  >
}

/** An open block of one table: push one value per row into each column, then call `endRow` or `endRows`. */
export type NativeBlock<T extends Table = Table> = {
  readonly columns: Writers<T['columns']>
  readonly rows: number
  endRow(): void
  endRows(count: number): void
  byteLength(): number
  /** Returns the rows as one block in Native format and empties the open block. */
  take(): Buffer
}

/** Opens a block for a table. Its buffers are reused after `take`. */
export function createNativeBlock<T extends Table>(table: T): NativeBlock<T> {
  const columns = table.columns.map((it) => ({ name: it.name, type: it.type, writer: writers[it.bitsOf ?? it.type]() }))
  const heads = columns.map((it) => Buffer.concat([toLengthAndText(it.name), toLengthAndText(it.type)]))
  const headBytes = heads.reduce((sum, it) => sum + it.length, 2 * varUintBytesMax)
  let rows = 0

  const byteLength = () => columns.reduce((sum, it) => sum + it.writer.byteLength(), headBytes)

  return {
    columns: Object.fromEntries(columns.map((it) => [it.name, it.writer])) as Writers<T['columns']>,
    get rows() {
      return rows
    },
    endRow() {
      rows++
    },
    endRows(count) {
      rows += count
    },
    byteLength,
    take() {
      const target = Buffer.allocUnsafe(byteLength())
      let at = writeVarUint(target, writeVarUint(target, 0, columns.length), rows)
      columns.forEach(({ writer }, index) => {
        const head = heads[index] as Buffer
        at = writer.write(target, at + head.copy(target, at))
        writer.clear()
      })
      rows = 0
      return target.subarray(0, at)
    },
  }
}

function grow<T extends NumberArray>(values: T, kind: new (length: number) => T): T {
  const larger = new kind(values.length * 2)
  larger.set(values)
  return larger
}

function copyInto(target: Buffer, at: number, values: NumberArray | Uint16Array, bytes: number): number {
  target.set(new Uint8Array(values.buffer, values.byteOffset, bytes), at)
  return at + bytes
}

const varUintBytesMax = 5

function writeVarUint(target: Buffer, start: number, value: number): number {
  let at = start
  let rest = value
  while (rest >= 0x80) {
    target[at++] = (rest & 0x7f) | 0x80
    rest >>>= 7
  }
  target[at++] = rest
  return at
}

function toLengthAndText(value: string): Buffer {
  const column = new StringColumn()
  column.push(value)
  const target = Buffer.allocUnsafe(column.byteLength())
  column.write(target, 0)
  return target
}
