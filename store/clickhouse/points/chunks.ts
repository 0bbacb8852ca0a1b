import type { Layout } from '../cluster/layout.ts'
import type { Table } from '../table.ts'
import { outputLinesTable, pointsTable, present, systemPointsTable } from './tables.ts'

/**
 * Points of a series that came in one request, as one row: a chunk. It is sorted, merged and compared as one, so a merge costs
 * a tenth of that of a row per point, and reads skip or aggregate it without its points.
 *
 * A request becomes chunks or rows as a whole, by what it has (`ingest/points/chunks.ts`), so a repetition becomes the same. Reads
 * have the points of both tables, unless Postgres knows that the experiment has none in one of them (`experiments.has_rows`, `has_chunks`).
 *
 * The points are in the order of the request. An array is empty where no point has a value, or where all have what the row says:
 * places that count on from `first_place`, and the same `present_all`. A chunk that was cut by a limit and the whole one differ in
 * nothing else but their length, so the longer one stays (`count` is the version of the Replacing table). `digest` tells requests
 * with the same `Idempotency-Key` apart.
 */
const stepsEmpty = 'empty(steps)'
const isTimed = `bitAnd(present_all, ${present.timestamp}) != 0`
/** The times of a chunk whose points differ in having one. */
const mixedTimes = `arrayMap((at, bits) -> if(bitAnd(bits, ${present.timestamp}) != 0, at, received), arrayResize(timestamps, length(presents)), presents)`
const timeEnd = (pick: 'arrayMin' | 'arrayMax') =>
  `multiIf(notEmpty(presents), ${pick}(${mixedTimes}), ${isTimed}, ${pick}(timestamps), received)`

const infinityBits = '9218868437227405312'
const nonFinite = `arrayCount(bits -> bitAnd(bits, ${infinityBits}) = ${infinityBits}, value_bits)`
const nans = `arrayCount(bits -> bitAnd(bits, 9223372036854775807) > ${infinityBits}, value_bits)`
/** Words that sort as the floats do, as in the summary. */
const words =
  'arrayMap(bits -> bitXor(bits, if(bitTest(bits, 63), 18446744073709551615, 9223372036854775808)), value_bits)'
const isAscending = (array: string) =>
  `arrayAll((before, after) -> before <= after, arrayPopBack(${array}), arrayPopFront(${array}))`
/** The fewest points of a chunk that says their sum. */
export const summedLeast = 100
const whenSummed = (value: string) => `if(is_summed, ${value}, 0)`
const float = (bits: string) => `reinterpretAsFloat64(${bits})`

/**
 * A read of one series takes a few chunks of a granule, but decompresses whole blocks: 6.4 instead of 7.5 ms for 400 points, for 0.5 %
 * more bytes on disk; reads of all points, inserts and merges take as long.
 */
export const shortBlocks = 'min_compress_block_size = 16384'

export const chunksTable = {
  name: 'point_chunks',
  columns: [
    { name: 'experiment_id', type: 'UInt64', codec: 'Delta, ZSTD(1)' },
    { name: 'metric', type: 'LowCardinality(String)', codec: 'ZSTD(1)' },
    { name: 'context', type: 'LowCardinality(String)', codec: 'ZSTD(1)' },
    { name: 'request_hi', type: 'UInt64', codec: 'Delta, ZSTD(1)' },
    { name: 'request_lo', type: 'UInt64', codec: 'Delta, ZSTD(1)' },
    { name: 'first_place', type: 'UInt32', codec: 'Delta, ZSTD(1)' },
    { name: 'digest', type: 'UInt64', codec: 'ZSTD(1)' },
    { name: 'received', type: 'Int64', codec: 'Delta, ZSTD(1)' },
    { name: 'present_all', type: 'UInt8', codec: 'ZSTD(1)' },
    /** Of the whole series, also where a limit cuts it: the same in every repetition. */
    { name: 'size', type: 'UInt32', codec: 'ZSTD(1)' },
    { name: 'steps', type: 'Array(Int64)', codec: 'DoubleDelta, ZSTD(1)' },
    { name: 'timestamps', type: 'Array(Int64)', codec: 'Delta, ZSTD(1)' },
    { name: 'epochs', type: 'Array(Int64)', codec: 'Delta, ZSTD(1)' },
    { name: 'places', type: 'Array(UInt32)', codec: 'Delta, ZSTD(1)' },
    { name: 'presents', type: 'Array(UInt8)', codec: 'ZSTD(1)' },
    { name: 'value_bits', type: 'Array(UInt64)', bitsOf: 'Array(Float64)', codec: "T64('bit'), ZSTD(1)" },
  ],
  derived: [
    { name: 'count', type: 'UInt32', codec: 'ZSTD(1)', from: 'length(value_bits)' },
    { name: 'first_step', type: 'Int64', codec: 'Delta, ZSTD(1)', from: 'steps[1]' },
    { name: 'step_low', type: 'Int64', codec: 'Delta, ZSTD(1)', from: `if(${stepsEmpty}, 0, arrayMin(steps))` },
    { name: 'step_high', type: 'Int64', codec: 'Delta, ZSTD(1)', from: `if(${stepsEmpty}, 0, arrayMax(steps))` },
    { name: 'time_low', type: 'Int64', codec: 'Delta, ZSTD(1)', from: timeEnd('arrayMin') },
    { name: 'time_high', type: 'Int64', codec: 'Delta, ZSTD(1)', from: timeEnd('arrayMax') },
    { name: 'has_nan', type: 'UInt8', codec: 'ZSTD(1)', from: `${nans} > 0` },
    {
      name: 'present_any',
      type: 'UInt8',
      codec: 'ZSTD(1)',
      from: `if(empty(presents), present_all, arrayReduce('groupBitOr', presents))`,
    },
    /** All points have the same fields and finite values, and neither step nor time ever goes back. */
    {
      name: 'is_plain',
      type: 'UInt8',
      codec: 'ZSTD(1)',
      from: `empty(presents) AND notEmpty(value_bits) AND ${nonFinite} = 0 AND ${isAscending('steps')} AND ${isAscending('timestamps')}`,
    },
    // Of equal values the first.
    { name: 'least_at', type: 'UInt32', codec: 'ZSTD(1)', from: `indexOf(${words}, arrayMin(${words}))` },
    { name: 'greatest_at', type: 'UInt32', codec: 'ZSTD(1)', from: `indexOf(${words}, arrayMax(${words}))` },
    /** Buckets take it as a whole; if so, its cut repetitions as well. Of a small chunk, the five values below would be a third of its bytes. */
    { name: 'is_summed', type: 'UInt8', codec: 'ZSTD(1)', from: `is_plain AND size >= ${summedLeast}` },
    { name: 'least', type: 'Float64', codec: 'ZSTD(1)', from: whenSummed(float('value_bits[least_at]')) },
    { name: 'greatest', type: 'Float64', codec: 'ZSTD(1)', from: whenSummed(float('value_bits[greatest_at]')) },
    { name: 'first_value', type: 'Float64', codec: 'ZSTD(1)', from: whenSummed(float('value_bits[1]')) },
    { name: 'last_value', type: 'Float64', codec: 'ZSTD(1)', from: whenSummed(float('value_bits[-1]')) },
    {
      name: 'total',
      type: 'Float64',
      codec: 'ZSTD(1)',
      from: whenSummed(`arraySum(bits -> ${float('bits')}, value_bits)`),
    },
  ],
  primaryKey: ['experiment_id', 'metric', 'context', 'first_step'],
  identity: ['request_hi', 'request_lo', 'first_place', 'digest'],
  version: 'count',
  indexGranularity: 1_024,
  laterSettings: [shortBlocks],
} as const satisfies Table

/** What a block of ingest has: also what ClickHouse would compute. */
export const chunkBlocks = {
  ...chunksTable,
  columns: [...chunksTable.columns, ...chunksTable.derived],
} as const satisfies Table

/** One row per point of the chunks, under the names of the columns of `points`. */
export const unfolded = `ARRAY JOIN value_bits AS bits, arrayResize(steps, count) AS step, arrayResize(timestamps, count) AS timestamp,
  arrayResize(epochs, count) AS epoch, if(empty(presents), arrayResize(presents, count, present_all), presents) AS present,
  if(empty(places), arrayMap(at -> toUInt32(first_place + at), range(count)), places) AS place`

/** The tables of what experiments log. */
export const experimentTables: readonly Table[] = [pointsTable, chunksTable, systemPointsTable, outputLinesTable]

/**
 * The columns of `points`, of the points of both tables, and of resource usage if asked for, where a condition on columns that rows
 * and chunks have in common is met.
 */
export function selectPointRows(
  { database }: Layout,
  condition: string,
  { withSystem = false, withChunks = true } = {},
): string {
  const names = pointsTable.columns.map((it) => ('storedAs' in it ? it.storedAs.name : it.name))
  const ofChunks = names.map((it) => (it === 'value_bits' ? 'bits AS value_bits' : it)).join(', ')
  const ofRows = (table: string) => `SELECT ${names.join(', ')} FROM ${database}.${table} FINAL WHERE ${condition}`
  return [
    ofRows(pointsTable.name),
    ...(withChunks
      ? [`SELECT ${ofChunks} FROM ${database}.${chunksTable.name} FINAL ${unfolded} PREWHERE ${condition}`]
      : []),
    ...(withSystem ? [ofRows(systemPointsTable.name)] : []),
  ].join(' UNION ALL ')
}
