import zlib from 'node:zlib'
import { createNativeBlock } from '../../blocks/native-block.ts'
import { type Numbers, type ReadBlock, type ReadColumn, readNativeBlocks } from '../../blocks/native-reader.ts'
import { contentSize } from '../../blocks/zstd-frame.ts'
import type { Table } from '../../table.ts'
import { present } from '../tables.ts'
import { summaryTable } from './summary.ts'

/**
 * Summarizes blocks of points or chunks: the rows that `selectSummary` makes of them, in a block for the table of summaries. A
 * worker does that for small batches, because ClickHouse would take three quarters of an insert to analyze the query (measured: 33
 * instead of 8 ms of CPU for a few points, 53 instead of 11 for a few chunks).
 *
 * Everything is words of 32 bits, which are compared without allocating: a number of 64 bits has two, and sorts as it should
 * when its bits are turned as in `summary.ts`.
 */
const summaryBlocks = {
  name: summaryTable,
  columns: [
    { name: 'experiment_id', type: 'UInt64', codec: '' },
    { name: 'metric', type: 'LowCardinality(String)', codec: '' },
    { name: 'context', type: 'LowCardinality(String)', codec: '' },
    { name: 'minimum', type: 'UInt256', codec: '' },
    { name: 'maximum', type: 'UInt256', codec: '' },
    { name: 'current', type: 'UInt256', codec: '' },
    { name: 'current_bits', type: 'AggregateFunction(argMax, UInt64, UInt256)', codec: '' },
    { name: 'rows', type: 'UInt64', codec: '' },
    { name: 'step_low', type: 'Int64', codec: '' },
    { name: 'step_high', type: 'Int64', codec: '' },
    { name: 'time_low', type: 'Int64', codec: '' },
    { name: 'time_high', type: 'Int64', codec: '' },
    { name: 'has_nan', type: 'UInt8', codec: '' },
    { name: 'present_all', type: 'UInt8', codec: '' },
    { name: 'present_any', type: 'UInt8', codec: '' },
  ],
  primaryKey: ['experiment_id', 'metric', 'context'],
  identity: [],
} as const satisfies Table

export const summaryColumns: Table = summaryBlocks

/**
 * @param blocks of the tables of points or of chunks, in Native format and compressed with zstd
 * @throws Error when this version cannot read one
 */
export function summarizeBlocks(blocks: Buffer[]): Buffer {
  const states = new States()
  for (const bytes of blocks) {
    // In one piece: to put pieces together takes as long as to decompress them. Node takes another once one is full.
    const chunkSize = Math.max(leastChunkBytes, (contentSize(bytes) ?? 0) + 1)
    for (const it of readNativeBlocks(zlib.zstdDecompressSync(bytes, { chunkSize }))) addBlock(states, it)
  }
  return zlib.zstdCompressSync(states.take())
}

const leastChunkBytes = 4 * 1024

/**
 * Where each thing is among the words of a series. A low word has its highest bit turned, so that words compare as signed ones; the
 * high word of a number that may be negative compares so as it is.
 */
const minimum = { value: 0, time: 2, step: 4, present: 6 } as const
const maximum = { value: 7, time: 9, step: 11, present: 13 } as const
const current = { time: 14, step: 16, request: 18, arrival: 20, bits: 22 } as const
const extent = { stepLow: 24, stepHigh: 26, timeLow: 28, timeHigh: 30 } as const
const [rowsAt, hasNanAt, presentAllAt, presentAnyAt, hasPointAt, hasExtentAt] = [32, 33, 34, 35, 36, 37]
const wordsOfSeries = 38

const topBit = -(2 ** 31)
const infinityHigh = 0x7ff00000

/** The words of a point as they are stored, the high one first, and of the request that it came with. Reused for all. */
class Point {
  bitsHigh = 0
  bitsLow = 0
  timeHigh = 0
  timeLow = 0
  stepHigh = 0
  stepLow = 0
  place = 0
  present = 0
  requestHighHigh = 0
  requestHighLow = 0
  requestLowHigh = 0
  requestLowLow = 0
}

class States {
  #words = new Int32Array(64 * wordsOfSeries)
  readonly #series: { experimentId: bigint; metric: string; context: string }[] = []
  /** By experiment, context and metric. */
  readonly #starts = new Map<bigint, Map<string, Map<string, number>>>()

  /** Where the words of a series start. */
  open(experimentId: bigint, metric: string, context: string): number {
    const ofExperiment = getOrAdd(this.#starts, experimentId, () => new Map<string, Map<string, number>>())
    const starts = getOrAdd(ofExperiment, context, () => new Map<string, number>())
    const known = starts.get(metric)
    if (known !== undefined) return known
    const start = this.#series.length * wordsOfSeries
    if (start === this.#words.length) {
      const larger = new Int32Array(this.#words.length * 2)
      larger.set(this.#words)
      this.#words = larger
    }
    this.#words[start + presentAllAt] = 0xff
    this.#series.push({ experimentId, metric, context })
    starts.set(metric, start)
    return start
  }

  /** Adds what the minimum, the maximum and the current point have of a point. */
  addKeys(start: number, it: Point) {
    const words = this.#words
    const isFirst = words[start + hasPointAt] === 0
    const magnitude = it.bitsHigh & ~topBit
    const isNan = magnitude > infinityHigh || (magnitude === infinityHigh && it.bitsLow !== 0)
    const isNegative = it.bitsHigh < 0
    // NaN is the minimum or maximum only of a series of NaN.
    const valueHigh = isNegative ? ~it.bitsHigh ^ topBit : it.bitsHigh
    const valueLow = (isNegative ? ~it.bitsLow : it.bitsLow) ^ topBit
    const leastHigh = isNan ? ~topBit : valueHigh
    const leastLow = isNan ? ~topBit : valueLow
    const greatestHigh = isNan ? topBit : valueHigh
    const greatestLow = isNan ? topBit : valueLow
    const timeLow = it.timeLow ^ topBit
    const stepLow = it.stepLow ^ topBit

    let order = compare(leastHigh, leastLow, words, start + minimum.value)
    if (order === 0) order = compare(it.timeHigh, timeLow, words, start + minimum.time)
    if (order === 0) order = compare(it.stepHigh, stepLow, words, start + minimum.step)
    if (order === 0) order = it.present - (words[start + minimum.present] as number)
    if (isFirst || order < 0) {
      put(words, start + minimum.value, leastHigh, leastLow)
      put(words, start + minimum.time, it.timeHigh, timeLow)
      put(words, start + minimum.step, it.stepHigh, stepLow)
      words[start + minimum.present] = it.present
    }

    // Of points with the same value, the one with the smallest time, then step; then with the most fields.
    order = compare(greatestHigh, greatestLow, words, start + maximum.value)
    if (order === 0) order = -compare(it.timeHigh, timeLow, words, start + maximum.time)
    if (order === 0) order = -compare(it.stepHigh, stepLow, words, start + maximum.step)
    if (order === 0) order = it.present - (words[start + maximum.present] as number)
    if (isFirst || order > 0) {
      put(words, start + maximum.value, greatestHigh, greatestLow)
      put(words, start + maximum.time, it.timeHigh, timeLow)
      put(words, start + maximum.step, it.stepHigh, stepLow)
      words[start + maximum.present] = it.present
    }

    // The order of arrival: the low half of the request's identity shifted by 24 bits, the place by 4, and the fields.
    const requestHigh = it.requestHighHigh ^ topBit
    const requestLow = it.requestHighLow ^ topBit
    const arrivalHigh = ((it.requestLowHigh << 24) | (it.requestLowLow >>> 8) | (it.place >>> 28)) ^ topBit
    const arrivalLow = ((it.requestLowLow << 24) | (it.place << 4) | it.present) ^ topBit
    order = compare(it.timeHigh, timeLow, words, start + current.time)
    if (order === 0) order = compare(it.stepHigh, stepLow, words, start + current.step)
    if (order === 0) order = compare(requestHigh, requestLow, words, start + current.request)
    if (order === 0) order = compare(arrivalHigh, arrivalLow, words, start + current.arrival)
    if (isFirst || order > 0) {
      put(words, start + current.time, it.timeHigh, timeLow)
      put(words, start + current.step, it.stepHigh, stepLow)
      put(words, start + current.request, requestHigh, requestLow)
      put(words, start + current.arrival, arrivalHigh, arrivalLow)
      put(words, start + current.bits, it.bitsHigh, it.bitsLow)
    }
    if (isNan) words[start + hasNanAt] = 1
    words[start + hasPointAt] = 1
  }

  /** Takes the step, the time and the fields of a point into their ranges. */
  addExtent(start: number, it: Point) {
    const words = this.#words
    const isFirst = words[start + hasExtentAt] === 0
    const timeLow = it.timeLow ^ topBit
    const stepLow = it.stepLow ^ topBit
    if (isFirst || compare(it.stepHigh, stepLow, words, start + extent.stepLow) < 0)
      put(words, start + extent.stepLow, it.stepHigh, stepLow)
    if (isFirst || compare(it.stepHigh, stepLow, words, start + extent.stepHigh) > 0)
      put(words, start + extent.stepHigh, it.stepHigh, stepLow)
    if (isFirst || compare(it.timeHigh, timeLow, words, start + extent.timeLow) < 0)
      put(words, start + extent.timeLow, it.timeHigh, timeLow)
    if (isFirst || compare(it.timeHigh, timeLow, words, start + extent.timeHigh) > 0)
      put(words, start + extent.timeHigh, it.timeHigh, timeLow)
    words[start + presentAnyAt] = (words[start + presentAnyAt] as number) | it.present
    words[start + hasExtentAt] = 1
  }

  /** @param presentAll the fields that each of the points has */
  addCount(start: number, points: number, presentAll: number) {
    const words = this.#words
    words[start + rowsAt] = (words[start + rowsAt] as number) + points
    words[start + presentAllAt] = (words[start + presentAllAt] as number) & presentAll
  }

  /** One row for each series, as a block in Native format. */
  take(): Buffer {
    const block = createNativeBlock(summaryBlocks)
    const { columns } = block
    const words = this.#words
    const wide = Buffer.alloc(32)
    /** Writes a number of 64 bits whose two words compare as signed ones, into its place of four, the highest of which is 0. */
    function write(place: number, at: number, high: number, low: number) {
      wide.writeInt32LE((words[at + 1] as number) ^ topBit ^ low, (3 - place) * 8)
      wide.writeInt32LE((words[at] as number) ^ high, (3 - place) * 8 + 4)
    }
    const long = new BigInt64Array(1)
    const halves = new Int32Array(long.buffer)
    function toSigned(at: number) {
      halves[1] = words[at] as number
      halves[0] = (words[at + 1] as number) ^ topBit
      return long[0] as bigint
    }
    // A byte before each part says that there is one.
    const state = Buffer.alloc(42)
    state[0] = 1
    state[9] = 1
    for (const [index, { experimentId, metric, context }] of this.#series.entries()) {
      const start = index * wordsOfSeries
      columns.experiment_id.push(experimentId)
      columns.metric.push(metric)
      columns.context.push(context)
      write(0, start + minimum.value, topBit, 0)
      write(1, start + minimum.time, topBit, 0)
      write(2, start + minimum.step, topBit, 0)
      wide.writeBigUInt64LE(BigInt(words[start + minimum.present] as number))
      columns.minimum.push(wide)
      // Time and step are turned: of the same value, the greatest key has the smallest.
      write(0, start + maximum.value, topBit, 0)
      write(1, start + maximum.time, ~topBit, -1)
      write(2, start + maximum.step, ~topBit, -1)
      wide.writeBigUInt64LE(BigInt(words[start + maximum.present] as number))
      columns.maximum.push(wide)
      write(0, start + current.time, topBit, 0)
      write(1, start + current.step, topBit, 0)
      write(2, start + current.request, topBit, 0)
      write(3, start + current.arrival, topBit, 0)
      columns.current.push(wide)
      state.writeInt32LE(words[start + current.bits + 1] as number, 1)
      state.writeInt32LE(words[start + current.bits] as number, 5)
      state.set(wide, 10)
      columns.current_bits.push(state)
      columns.rows.push(words[start + rowsAt] as number)
      columns.step_low.push(toSigned(start + extent.stepLow))
      columns.step_high.push(toSigned(start + extent.stepHigh))
      columns.time_low.push(toSigned(start + extent.timeLow))
      columns.time_high.push(toSigned(start + extent.timeHigh))
      columns.has_nan.push(words[start + hasNanAt] as number)
      columns.present_all.push(words[start + presentAllAt] as number)
      columns.present_any.push(words[start + presentAnyAt] as number)
      block.endRow()
    }
    return block.take()
  }
}

function getOrAdd<Key, Value>(map: Map<Key, Value>, key: Key, create: () => Value): Value {
  const known = map.get(key)
  if (known !== undefined) return known
  const created = create()
  map.set(key, created)
  return created
}

/** Below 0 where a number of two words is less than the one there, above 0 where it is greater. */
function compare(high: number, low: number, words: Int32Array, at: number): number {
  const otherHigh = words[at] as number
  if (high !== otherHigh) return high < otherHigh ? -1 : 1
  const otherLow = words[at + 1] as number
  return low === otherLow ? 0 : low < otherLow ? -1 : 1
}

function put(words: Int32Array, at: number, high: number, low: number) {
  words[at] = high
  words[at + 1] = low
}

function addBlock(states: States, { rows, columns }: ReadBlock) {
  const read = createReader(columns, rows)
  const findSeries = createSeriesLookup(states, read)
  const point = new Point()
  const addPoints = read.has('steps') ? createChunkAdder(states, read, point) : createRowAdder(states, read, point)
  const high = read.numbers('request_hi', 2)
  const low = read.numbers('request_lo', 2)
  for (let row = 0; row < rows; row++) {
    point.requestHighHigh = high[row * 2 + 1] as number
    point.requestHighLow = high[row * 2] as number
    point.requestLowHigh = low[row * 2 + 1] as number
    point.requestLowLow = low[row * 2] as number
    addPoints(findSeries(row), row)
  }
}

type Reader = ReturnType<typeof createReader>

/** As ClickHouse has it, a column that a block has not is 0, or empty. */
function createReader(columns: Map<string, ReadColumn>, rows: number) {
  return {
    has: (name: string) => columns.has(name),
    numbers: (name: string, words: 1 | 2): Numbers => columns.get(name)?.numbers() ?? new Int32Array(rows * words),
    words: (name: string) => columns.get(name)?.words() ?? { keys: [''], indexes: new Uint8Array(rows) },
    lists: (name: string) =>
      columns.get(name)?.lists() ?? { starts: new Float64Array(rows + 1), items: new Int32Array() },
  }
}

/** More would take more memory than it saves time. */
const tableMax = 100_000

/** Finds where the words of a row's series start, by the places of its names in the dictionaries of the block. */
function createSeriesLookup(states: States, read: Reader) {
  const ids = read.numbers('experiment_id', 2)
  const metrics = read.words('metric')
  const contexts = read.words('context')
  const names = metrics.keys.length * contexts.keys.length
  const createStarts = () => (names <= tableMax ? new Int32Array(names).fill(-1) : new Map<number, number>())
  const experiments = new Map<bigint, Int32Array | Map<number, number>>()
  let starts: Int32Array | Map<number, number> = new Map()
  let id = -1n
  let lastHigh = -1
  let lastLow = -1
  return (row: number): number => {
    const high = ids[row * 2 + 1] as number
    const low = ids[row * 2] as number
    if (high !== lastHigh || low !== lastLow || row === 0) {
      lastHigh = high
      lastLow = low
      id = (BigInt(high >>> 0) << 32n) | BigInt(low >>> 0)
      starts = experiments.get(id) ?? createStarts()
      experiments.set(id, starts)
    }
    const metric = metrics.indexes[row] as number
    const context = contexts.indexes[row] as number
    const name = metric * contexts.keys.length + context
    const known = starts instanceof Int32Array ? (starts[name] as number) : (starts.get(name) ?? -1)
    if (known >= 0) return known
    const start = states.open(id, metrics.keys[metric] as string, contexts.keys[context] as string)
    if (starts instanceof Int32Array) starts[name] = start
    else starts.set(name, start)
    return start
  }
}

type AddPoints = (start: number, row: number) => void

function setValue(point: Point, words: Numbers, index: number) {
  point.bitsHigh = words[index * 2 + 1] as number
  point.bitsLow = words[index * 2] as number
}

function setStep(point: Point, words: Numbers, index: number) {
  point.stepHigh = words[index * 2 + 1] as number
  point.stepLow = words[index * 2] as number
}

function setTime(point: Point, words: Numbers, index: number) {
  point.timeHigh = words[index * 2 + 1] as number
  point.timeLow = words[index * 2] as number
}

function createRowAdder(states: States, read: Reader, point: Point): AddPoints {
  const values = read.numbers('value', 2)
  const steps = read.numbers('step', 2)
  const timestamps = read.numbers('timestamp', 2)
  const received = read.numbers('received', 2)
  const places = read.numbers('place', 1)
  const presents = read.numbers('present', 1)
  return (start, row) => {
    point.place = places[row] as number
    point.present = presents[row] as number
    setValue(point, values, row)
    setStep(point, steps, row)
    setTime(point, point.present & present.timestamp ? timestamps : received, row)
    states.addKeys(start, point)
    states.addExtent(start, point)
    states.addCount(start, 1, point.present)
  }
}

function createChunkAdder(states: States, read: Reader, point: Point): AddPoints {
  const values = read.lists('value_bits')
  const steps = read.lists('steps')
  const timestamps = read.lists('timestamps')
  const places = read.lists('places')
  const presents = read.lists('presents')
  const firstPlaces = read.numbers('first_place', 1)
  const presentAlls = read.numbers('present_all', 1)
  const received = read.numbers('received', 2)
  const isPlain = read.numbers('is_plain', 1)
  const leastAt = read.numbers('least_at', 1)
  const greatestAt = read.numbers('greatest_at', 1)

  /** Reads a point of the chunk in a row. A list without items has as many zeros. */
  function readPoint(row: number, index: number) {
    setValue(point, values.items, (values.starts[row] as number) + index)
    const step = (steps.starts[row] as number) + index
    if (step < (steps.starts[row + 1] as number)) setStep(point, steps.items, step)
    else setStep(point, zero, 0)
    const place = (places.starts[row] as number) + index
    point.place =
      place < (places.starts[row + 1] as number)
        ? (places.items[place] as number)
        : ((firstPlaces[row] as number) + index) | 0
    const bits = (presents.starts[row] as number) + index
    point.present =
      bits < (presents.starts[row + 1] as number) ? (presents.items[bits] as number) : (presentAlls[row] as number)
    const time = (timestamps.starts[row] as number) + index
    if ((point.present & present.timestamp) === 0) setTime(point, received, row)
    else if (time < (timestamps.starts[row + 1] as number)) setTime(point, timestamps.items, time)
    else setTime(point, zero, 0)
  }

  return (start, row) => {
    const count = (values.starts[row + 1] as number) - (values.starts[row] as number)
    if (count === 0) return
    if (isPlain[row] === 1) {
      // The three points are among these, and steps and times never go back.
      readPoint(row, (leastAt[row] as number) - 1)
      states.addKeys(start, point)
      readPoint(row, (greatestAt[row] as number) - 1)
      states.addKeys(start, point)
      readPoint(row, 0)
      states.addExtent(start, point)
      readPoint(row, count - 1)
      states.addKeys(start, point)
      states.addExtent(start, point)
    } else {
      for (let index = 0; index < count; index++) {
        readPoint(row, index)
        states.addKeys(start, point)
        states.addExtent(start, point)
      }
    }
    states.addCount(start, count, presentAlls[row] as number)
  }
}

const zero = new Int32Array(2)
