import {
  bool,
  type DataType,
  dictionary,
  float32,
  float64,
  int16,
  int64,
  largeList,
  largeUtf8,
  list,
  struct,
  TimeUnit,
  timestamp,
  uint8,
  uint64,
  utf8,
} from '@uwdata/flechette'
import fc from 'fast-check'
import { describe, expect, it, vi } from 'vitest'
import { type ArrowBatch, readArrowStream } from '../../http/body/arrow.ts'
import { HttpError } from '../../http/errors.ts'
import { toArrowStream } from '../kit/arrow.ts'

const readColumn = (type: DataType, values: unknown[]) => {
  const { fields, batches } = readArrowStream(toArrowStream({ columns: { a: values }, types: { a: type } }))
  const rows = batches.flatMap(({ length, columns }) =>
    Array.from({ length }, (_, row) => ({ row, column: columns.get('a') })),
  )
  return { kind: fields.get('a'), rows }
}
const readValues = (type: DataType, values: unknown[]) =>
  readColumn(type, values).rows.map((it) => it.column?.at(it.row))
const readLists = (type: DataType, values: unknown[]) =>
  readColumn(type, values).rows.map((it) => it.column?.list(it.row))

/** A column `a` of string_view, which pyarrow 25 wrote: 'short', null, twenty x, twenty y, and twenty x once more. */
const views = Buffer.from(
  '/////3AAAAAQAAAAAAAKAAwABgAFAAgACgAAAAABBAAMAAAACAAIAAAABAAIAAAABAAAAAEAAAAUAAAAEAAUAAgABgAHAAwAAAAQABAAAAAAAA' +
    'EYEAAAABgAAAAEAAAAAAAAAAEAAABhAAAABAAEAAQAAAAAAAAA/////7AAAAAUAAAAAAAAAAwAFgAGAAUACAAMAAwAAAAAAwQAHAAAAJgAAAAA' +
    'AAAAAAAOABwAEAAEAAgAAAAMAA4AAABgAAAAJAAAABAAAAAFAAAAAAAAAAAAAAABAAAAAQAAAAAAAAAAAAAAAwAAAAAAAAAAAAAAAQAAAAAAAA' +
    'AIAAAAAAAAAFAAAAAAAAAAWAAAAAAAAAA8AAAAAAAAAAAAAAABAAAABQAAAAAAAAABAAAAAAAAAB0AAAAAAAAABQAAAHNob3J0AAAAAAAAAAAA' +
    'AAAAAAAAAAAAAAAAAAAUAAAAeHh4eAAAAAAAAAAAFAAAAHl5eXkAAAAAFAAAABQAAAB4eHh4AAAAACgAAAB4eHh4eHh4eHh4eHh4eHh4eHh4eH' +
    'l5eXl5eXl5eXl5eXl5eXl5eXl5eHh4eHh4eHh4eHh4eHh4eHh4eHgAAAAA/////wAAAAA=',
  'base64',
)

describe('reading an Arrow stream', () => {
  it('numbers of each width have their value, and integers all their digits', () => {
    expect(readValues(int16(), [1, null, -32_768])).toEqual([1, null, -32_768])
    expect(readValues(uint8(), [255, 0])).toEqual([255, 0])
    expect(readValues(int64(), [1n, null, 2n ** 63n - 1n, -(2n ** 63n)])).toEqual([
      1,
      null,
      2n ** 63n - 1n,
      -(2n ** 63n),
    ])
    expect(readValues(uint64(), [2n ** 64n - 1n])).toEqual([2n ** 64n - 1n])
    expect(readValues(float32(), [0.5, null, Number.NaN])).toEqual([0.5, null, Number.NaN])
    expect(readValues(float64(), [-0, Number.NEGATIVE_INFINITY])).toEqual([-0, Number.NEGATIVE_INFINITY])
  })

  it('times are milliseconds, whatever their unit; those before 1970 are rounded down', () => {
    const dates = [1_000, -2_000]
    const toTimes = (unit: number, values: number[]) => readValues(timestamp(unit as typeof TimeUnit.SECOND), values)

    for (const unit of Object.values(TimeUnit)) expect(toTimes(unit, dates)).toEqual(dates)
    expect(toTimes(TimeUnit.MICROSECOND, [1.5, -1.5])).toEqual([1, -2])
  })

  it('texts come from dictionaries and long offsets too', () => {
    const words = ['loss', null, 'Genauigkeit ✓', '', 'loss']
    for (const type of [utf8(), largeUtf8(), dictionary(utf8(), int16())])
      expect(readValues(type, words)).toEqual(words)
  })

  it('lists of 64-bit numbers are typed, others are lists', () => {
    expect(readLists(list(float64()), [[1, 2], null, [], [3]])).toEqual([
      new Float64Array([1, 2]),
      null,
      new Float64Array(),
      new Float64Array([3]),
    ])
    expect(readLists(largeList(int64()), [[1n], [2n ** 62n]])).toEqual([
      new BigInt64Array([1n]),
      new BigInt64Array([2n ** 62n]),
    ])
    expect(readLists(list(int64()), [[1n, null], [5n]])).toEqual([[1, null], [5]])
    expect(readLists(list(float32()), [[0.5]])).toEqual([new Float64Array([0.5])])
    expect(readLists(list(dictionary(float64())), [[0.5, 0.5], [], [1]])).toEqual([[0.5, 0.5], [], [1]])
  })

  it('columns of other types are skipped, wherever they stand', () => {
    const columns = { before: [true, false], a: [1n, 2n], after: [null, null] }
    const { fields, batches } = readArrowStream(toArrowStream({ columns, types: { before: bool(), a: int64() } }))

    expect([...fields]).toEqual([
      ['before', 'other'],
      ['a', 'integers'],
      ['after', 'nothing'],
    ])
    expect(batches[0]?.columns.get('a')?.at(1)).toBe(2)
  })

  it('a stream in an odd place of memory is read too', () => {
    const bytes = toArrowStream({ columns: { a: [1n, 2n] }, types: { a: int64() } })
    const moved = Buffer.concat([Buffer.from([0]), bytes]).subarray(1)
    const odd = new Uint8Array(new ArrayBuffer(moved.length + 1), 1)
    odd.set(moved)
    expect(readArrowStream(odd).batches[0]?.columns.get('a')?.at(1)).toBe(2)
  })

  it('a type that is not read is named with its column', () => {
    const bytes = toArrowStream({ columns: { deep: [{ a: 1 }] }, types: { deep: struct({ a: float64() }) } })
    expect(() => readArrowStream(bytes)).toThrow(/^deep: has a type of Arrow that is not read here/)
  })

  it('what is no stream, and a stream that is cut off, is said to be so', () => {
    const bytes = toArrowStream({ columns: { a: [1n, 2n] }, types: { a: int64() } })
    for (const wrong of [
      Buffer.alloc(0),
      Buffer.from('{"experimentKey": "x"}'),
      Buffer.from('PAR1'),
      bytes.subarray(0, -20),
    ]) {
      expect(() => readArrowStream(wrong)).toThrow(/^The body is not an Arrow IPC stream: /)
    }
  })

  it('columns that name the same bytes are not read again and again', () => {
    const bytes = toArrowStream({ columns: { a: [1n, 2n], b: [3n, 4n] }, types: { a: int64(), b: int64() } })
    const place = Buffer.alloc(16)
    place.writeBigInt64LE(16n, 0)
    place.writeBigInt64LE(16n, 8)
    const at = bytes.lastIndexOf(place)
    bytes.writeBigInt64LE(0n, at)
    bytes.writeBigInt64LE(32n, at + 8)
    expect(() => readArrowStream(bytes)).toThrow(/its columns lie upon each other/)
  })

  it('texts that stand elsewhere are read, also where rows share one, but not where they lie upon each other', () => {
    const readAll = (bytes: Buffer) => {
      const column = readArrowStream(bytes).batches[0]?.columns.get('a')
      return Array.from({ length: 5 }, (_, row) => column?.at(row))
    }
    expect(readAll(views)).toEqual(['short', null, 'x'.repeat(20), 'y'.repeat(20), 'x'.repeat(20)])

    // A view has the size of its text, four bytes of it, a buffer, and the place in that.
    const find = (letter: string, at: number) =>
      views.indexOf(Buffer.from([20, 0, 0, 0, ...Buffer.from(letter.repeat(4)), 0, 0, 0, 0, at]))
    const shared = Buffer.from(views)
    shared.writeInt32LE(0, find('x', 40) + 12)
    expect(readAll(shared)[4]).toBe('x'.repeat(20))
    const upon = Buffer.from(views)
    upon.writeInt32LE(40, find('y', 20))
    expect(() => readAll(upon)).toThrow(/its texts lie upon each other/)
    const outside = Buffer.from(views)
    outside.writeInt32LE(41, find('x', 40) + 12)
    expect(() => readAll(outside)).toThrow(/a column is cut off/)
  })

  it('a word of a dictionary is decoded once, however many rows have it', () => {
    const type = dictionary(utf8())
    const { rows } = readColumn(type, Array(3).fill('a long word '.repeat(1_000)))
    const decode = vi.spyOn(TextDecoder.prototype, 'decode')
    expect(new Set(rows.map((it) => it.column?.at(it.row))).size).toBe(1)
    expect(decode).toHaveBeenCalledTimes(1)
    decode.mockRestore()
  })

  it('a stream of very many fields is refused', () => {
    const columns = Object.fromEntries(Array.from({ length: 2_001 }, (_, at) => [`c${at}`, [at]]))
    expect(() => readArrowStream(toArrowStream({ columns }))).toThrow(/it has more than 2000 fields/)
  })

  it('no bytes, wherever they are wrong, end in anything but an answer', () => {
    const bytes = toArrowStream({
      columns: { name: ['a', null, 'b'], values: [[1, 2], [], [3]], steps: [[1n], null, [2n, 3n]] },
      types: { name: dictionary(utf8()), values: list(float64()), steps: list(int64()) },
      metadata: { experimentKey: 'x' },
    })
    const odd = fc.constantFrom(0, 1, 0x7f, 0x80, 0xff)
    const faults = fc.array(fc.tuple(fc.nat(bytes.length - 1), fc.oneof(odd, fc.nat(255))), {
      minLength: 1,
      maxLength: 6,
    })
    let read = 0
    fc.assert(
      fc.property(faults, fc.nat(bytes.length), (faults, length) => {
        const broken = Buffer.from(bytes)
        for (const [at, byte] of faults) broken[at] = byte
        let batches: ArrowBatch[]
        try {
          batches = readArrowStream(length % 3 === 0 ? broken.subarray(0, length) : broken).batches
        } catch (error) {
          expect(error).toBeInstanceOf(HttpError)
          return
        }
        // What was read has all its values.
        for (const { length, columns } of batches) {
          for (let row = 0; row < Math.min(length, 10); row++)
            for (const it of columns.values()) [it.at(row), it.list(row)]
        }
        read++
      }),
      { numRuns: 3_000 },
    )
    expect(read).toBeGreaterThan(100)
  })
})
