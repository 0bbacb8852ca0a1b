import { buffer } from 'node:stream/consumers'
import { promisify } from 'node:util'
import zlib from 'node:zlib'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { createNativeBlock } from '../../../store/clickhouse/blocks/native-block.ts'
import { readNativeBlock } from '../../../store/clickhouse/blocks/native-slice.ts'
import { contentSize } from '../../../store/clickhouse/blocks/zstd-frame.ts'
import { type ClickHouse, openClickHouse } from '../../../store/clickhouse/connection.ts'
import type { Table } from '../../../store/clickhouse/table.ts'
import { uniqueName } from '../../kit/service.ts'

/** A table with a column of every type that blocks can have. */
const columns = [
  { name: 'row', type: 'UInt32', codec: 'NONE' },
  { name: 'u8', type: 'UInt8', codec: 'NONE' },
  { name: 'u64', type: 'UInt64', codec: 'NONE' },
  { name: 'i64', type: 'Int64', codec: 'NONE' },
  { name: 'f64', type: 'Float64', codec: 'NONE' },
  { name: 'text', type: 'String', codec: 'NONE' },
  { name: 'word', type: 'LowCardinality(String)', codec: 'NONE' },
  { name: 'floats', type: 'Array(Float64)', codec: 'NONE' },
  { name: 'words', type: 'Array(LowCardinality(String))', codec: 'NONE' },
  { name: 'last', type: 'UInt32', codec: 'NONE' },
] as const

type Row = {
  u8: number
  u64: bigint
  i64: bigint
  f64: number
  text: string
  word: string
  words: string[]
  floats: number[]
}

const toTable = (name: string) => ({ name, columns, primaryKey: ['row'], identity: [] }) satisfies Table

let clickhouse: ClickHouse
beforeAll(() => {
  clickhouse = openClickHouse({ url: inject('stores').clickhouseUrl })
})
afterAll(() => clickhouse?.close())

/** Inserts rows as blocks of the given sizes, all in one insert, and reads them back in the order they were pushed. */
async function writeAndRead(rows: Row[], blockSizes: number[]): Promise<Row[]> {
  const table = toTable(uniqueName('blocks').replaceAll('-', '_'))
  const definitions = columns.map((it) => `${it.name} ${it.type}`).join(', ')
  await clickhouse.command(
    `CREATE TABLE ${clickhouse.database}.${table.name} (${definitions}) ENGINE = MergeTree ORDER BY row`,
  )
  try {
    const block = createNativeBlock(table)
    const frames: Buffer[] = []
    let at = 0
    for (const size of blockSizes) {
      for (const row of rows.slice(at, at + size)) {
        block.columns.row.push(at++)
        block.columns.u8.push(row.u8)
        block.columns.u64.push(toShortest(row.u64))
        block.columns.i64.push(toShortest(row.i64))
        block.columns.f64.push(row.f64)
        block.columns.text.push(row.text)
        block.columns.word.push(row.word)
        block.columns.floats.items.pushAll(row.floats, row.floats.length)
        block.columns.floats.end()
        for (const word of row.words) block.columns.words.items.push(word)
        block.columns.words.end()
        block.columns.last.push(at - 1)
        block.endRow()
      }
      const rowsBefore = block.rows
      const native = block.take()
      expect([rowsBefore, block.rows]).toEqual([rows.slice(at - size, at).length, 0])
      expect(toBlockAtOnce(rows.slice(at - size, at), at - size).equals(native)).toBe(true)
      const whole = readNativeBlock(native)
      for (const [from, to] of toHalves(whole.rows)) frames.push(zlib.zstdCompressSync(whole.slice(from, to)))
    }
    await clickhouse.insertBlocks(table, frames)
    const found = await clickhouse.rows<Record<string, string> & { words: string[]; floats: string[] }>(
      `SELECT toString(u8) AS u8, toString(u64) AS u64, toString(i64) AS i64,
         toString(reinterpretAsUInt64(f64)) AS f64, text, word, words,
         arrayMap(it -> toString(reinterpretAsUInt64(it)), floats) AS floats FROM ${clickhouse.database}.${table.name} ORDER BY row`,
    )
    return found.map((it) => ({
      u8: Number(it.u8),
      u64: BigInt(it.u64 as string),
      i64: BigInt(it.i64 as string),
      f64: fromBits(BigInt(it.f64 as string)),
      text: it.text as string,
      word: it.word as string,
      words: it.words,
      floats: it.floats.map((bits) => fromBits(BigInt(bits))),
    }))
  } finally {
    await clickhouse.command(`DROP TABLE ${clickhouse.database}.${table.name}`)
  }
}

/** The same block with the numbers of each column pushed at once; the values after them are left out. */
function toBlockAtOnce(rows: Row[], first: number): Buffer {
  const block = createNativeBlock(toTable('any'))
  const { columns } = block
  const count = rows.length
  const followed = <T>(values: T[]) => [...values, ...values]
  columns.row.pushAll(followed(rows.map((_, at) => first + at)), count)
  columns.u8.pushAll(followed(rows.map((it) => it.u8)), count)
  columns.u64.pushAll(followed(rows.map((it) => toShortest(it.u64))), count)
  columns.i64.pushAll(followed(rows.map((it) => toShortest(it.i64))), count)
  columns.f64.pushAll(followed(rows.map((it) => it.f64)), count)
  columns.last.pushAll(Uint32Array.from(followed(rows.map((_, at) => first + at))), count)
  for (const { text, word, words, floats } of rows) {
    columns.text.push(text)
    columns.word.push(word)
    columns.floats.items.pushAll(Float64Array.from(followed(floats)), floats.length)
    columns.floats.end()
    for (const it of words) columns.words.items.push(it)
    columns.words.end()
  }
  block.endRows(count)
  return block.take()
}

/** Blocks are split to find poison rows. */
function toHalves(rows: number): [number, number][] {
  const half = Math.floor(rows / 2)
  return half === 0
    ? [[0, rows]]
    : [
        [0, half],
        [half, rows],
      ]
}

/** As callers push integers: numbers where they are safe. */
function toShortest(value: bigint): number | bigint {
  const short = Number(value)
  return Number.isSafeInteger(short) ? short : value
}

function fromBits(bits: bigint): number {
  const view = new DataView(new ArrayBuffer(8))
  view.setBigUint64(0, bits)
  return view.getFloat64(0)
}

const aRow = (changes: Partial<Row> = {}): Row => ({
  u8: 1,
  u64: 2n,
  i64: -3n,
  f64: 0.5,
  text: 'text',
  word: 'word',
  words: ['one', 'two'],
  floats: [0.5],
  ...changes,
})

const rowsOf = (count: number, toRow: (at: number) => Partial<Row>) =>
  Array.from({ length: count }, (_, at) => aRow(toRow(at)))

describe('a block', () => {
  it('keeps the extremes of every integer type', async () => {
    const rows = [
      ...[0n, 1n, 2n ** 32n - 1n, 2n ** 32n, 2n ** 53n - 1n, 2n ** 53n, 2n ** 63n, 2n ** 64n - 1n].map((u64) =>
        aRow({ u64 }),
      ),
      ...[0n, 1n, 2n ** 31n, 2n ** 32n, 2n ** 53n - 1n, 2n ** 53n, 2n ** 63n - 1n].flatMap((it) => [
        aRow({ i64: it }),
        aRow({ i64: -it }),
        aRow({ i64: -it - 1n }),
      ]),
      ...[0, 127, 128, 255].map((u8) => aRow({ u8 })),
    ]
    expect(await writeAndRead(rows, [rows.length])).toStrictEqual(rows)
  })

  it('keeps every float bit for bit', async () => {
    const values = [0, -0, 5e-324, -5e-324, Number.MIN_VALUE, Number.MAX_VALUE, 0.1 + 0.2, NaN, Infinity, -Infinity]
    const rows = values.map((f64) => aRow({ f64 }))
    expect(await writeAndRead(rows, [rows.length])).toStrictEqual(rows)
  })

  it('keeps empty, long and unusual texts', async () => {
    const texts = [
      '',
      ' ',
      '\n',
      'é',
      '😀',
      '\u{10ffff}',
      'x'.repeat(127),
      'x'.repeat(128),
      'é'.repeat(8_192),
      '一'.repeat(100_000),
    ]
    const rows = texts.map((text) => aRow({ text, word: text }))
    expect(await writeAndRead(rows, [rows.length])).toStrictEqual(rows)
  })

  // Where the width of an index changes; the empty text is always in the dictionary.
  it.each([1, 2, 254, 255, 256, 257, 65_534, 65_535, 65_536, 70_000])(
    'keeps %i different words, each as often as it came',
    async (count) => {
      const rows = rowsOf(count + 10, (at) => ({ word: `word ${at % count}` }))
      expect(await writeAndRead(rows, [rows.length])).toStrictEqual(rows)
    },
  )

  it.each([{ lists: [[], []] }, { lists: [[''], []] }, { lists: [[], ['a'], [], ['', 'b', 'a', 'a'], []] }])(
    'keeps arrays, empty ones too: $lists',
    async ({ lists }) => {
      const rows = lists.map((words) => aRow({ words, floats: words.map((_, at) => -at) }))
      const twice = [...rows, ...rows]
      expect(await writeAndRead(twice, [rows.length, rows.length])).toStrictEqual(twice)
    },
  )

  it('grows as it is filled, and is empty after take', async () => {
    const rows = rowsOf(3_000, (at) => ({
      u64: BigInt(at),
      i64: BigInt(-at),
      f64: at,
      text: `${at}`,
      word: `${at % 7}`,
    }))
    expect(await writeAndRead(rows, [1, 255, 256, 257, 1_231, 1_000])).toStrictEqual(rows)
  })

  it('estimates its size well enough to enforce a limit', () => {
    const table = toTable('any')
    const block = createNativeBlock(table)
    for (let at = 0; at < 1_000; at++) {
      const row = aRow({ text: 'x'.repeat(at), word: `${at % 300}` })
      block.columns.row.push(at)
      for (const name of ['u8', 'u64', 'i64', 'f64', 'text', 'word'] as const)
        block.columns[name].push(row[name] as never)
      block.columns.floats.end()
      for (const word of row.words) block.columns.words.items.push(word)
      block.columns.words.end()
      block.columns.last.push(at)
      block.endRow()
    }
    const said = block.byteLength()
    const taken = block.take().length
    expect(said).toBeGreaterThanOrEqual(taken)
    expect(said - taken).toBeLessThan(16)
  })

  it('many blocks, each a zstd frame, form one insert', async () => {
    const text = fc.string({ unit: 'binary', maxLength: 20 }).filter((it) => !it.includes('\0'))
    const row = fc.record<Row>(
      {
        u8: fc.nat(255),
        u64: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
        i64: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
        f64: fc.double(),
        text,
        word: text,
        words: fc.array(text, { maxLength: 5 }),
        floats: fc.array(fc.double(), { maxLength: 5 }),
      },
      { noNullPrototype: true },
    )
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(row, { minLength: 1, maxLength: 30 }), { minLength: 1, maxLength: 8 }),
        async (blocks) => {
          const rows = blocks.flat()
          const read = await writeAndRead(
            rows,
            blocks.map((it) => it.length),
          )
          expect(read).toStrictEqual(rows)
        },
      ),
      { numRuns: 15 },
    )
  })
})

it('a frame of zstd says how large it is, unless it was written piece by piece', async () => {
  const compress = promisify(zlib.zstdCompress)
  for (const size of [0, 1, 255, 256, 65_535, 65_536, 65_791, 65_792, 3_000_000]) {
    const bytes = Buffer.alloc(size, 'ab')
    expect(contentSize(zlib.zstdCompressSync(bytes))).toBe(size)
    expect(contentSize(await compress(bytes, { pledgedSrcSize: size }))).toBe(size)
  }
  const stream = zlib.createZstdCompress()
  stream.write('a')
  stream.flush(zlib.constants.ZSTD_e_flush, () => stream.end('b'))
  expect(contentSize(await buffer(stream))).toBeUndefined()
  expect(contentSize(Buffer.alloc(0))).toBeUndefined()
})
