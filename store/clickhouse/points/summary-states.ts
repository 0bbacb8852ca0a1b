import { promisify } from 'node:util'
import zlib from 'node:zlib'
import { createNativeBlock } from '../blocks/native-block.ts'
import { type ReadColumn, readNativeColumns, UnreadableBlock } from '../blocks/native-reader.ts'
import type { Table } from '../table.ts'
import { summaryTable } from './summary.ts'
import { present } from './tables.ts'

/**
 * Summarizes blocks of points or chunks: the rows that `selectSummary` makes of them, in a block for the table of summaries. A
 * worker does that because ClickHouse takes three quarters of an insert to analyze the query of a view (measured: 33 instead of
 * 8 ms of CPU for a few points, 53 instead of 11 for a few chunks).
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

const decompress = promisify(zlib.zstdDecompress)
const compress = promisify(zlib.zstdCompress)

/**
 * @param blocks of the tables of points or of chunks, in Native format and compressed with zstd
 * @throws UnreadableBlock
 */
export async function summarizeBlocks(blocks: Buffer[]): Promise<Buffer> {
  const states = createStates()
  try {
    for (const it of blocks) addBlock(states, await decompress(it))
  } catch (error) {
    throw new UnreadableBlock(`points cannot be summarized: ${(error as Error).message}`, { cause: error })
  }
  return await compress(states.take())
}

/** Of a series: three keys of eight words, then the rest, each from its place on. */
const at = {
  minimum: 0,
  maximum: 8,
  current: 16,
  currentBits: 24,
  stepLow: 26,
  stepHigh: 28,
  timeLow: 30,
  timeHigh: 32,
  rows: 34,
  hasNan: 35,
  presentAll: 36,
  presentAny: 37,
  hasPoint: 38,
} as const
const wordsOfSeries = 39

const signBit = 0x80000000
const allBits = 0xffffffff
const infinityHigh = 0x7ff00000

/** The words of a point, of each number the high one first. Reused for all. */
type Point = {
  bitsHigh: number
  bitsLow: number
  /** As they sort. */
  timeHigh: number
  timeLow: number
  stepHigh: number
  stepLow: number
  place: number
  present: number
}

/** The request that a row came with. */
type Request = { highHigh: number; highLow: number; lowHigh: number; lowLow: number }

type States = ReturnType<typeof createStates>

function createStates() {
  let words = new Uint32Array(64 * wordsOfSeries)
  const series: { experimentId: bigint; metric: string; context: string }[] = []
  const places = new Map<string, number>()
  const key = new Uint32Array(8)

  /** Where the words of a series start. */
  function open(experimentId: bigint, metric: string, context: string): number {
    const name = `${experimentId} ${metric.length} ${metric}${context}`
    const known = places.get(name)
    if (known !== undefined) return known
    const start = series.length * wordsOfSeries
    if (start === words.length) {
      const larger = new Uint32Array(words.length * 2)
      larger.set(words)
      words = larger
    }
    words.fill(allBits, start + at.minimum, start + at.maximum)
    for (const low of [at.stepLow, at.timeLow]) words.fill(allBits, start + low, start + low + 2)
    words[start + at.presentAll] = 0xff
    series.push({ experimentId, metric, context })
    places.set(name, start)
    return start
  }

  /** Whether the key is less than the one there, or greater. */
  function isLess(there: number): boolean {
    for (let word = 0; word < 8; word++) {
      const [one, other] = [key[word] as number, words[there + word] as number]
      if (one !== other) return one < other
    }
    return false
  }
  function isGreater(there: number): boolean {
    for (let word = 0; word < 8; word++) {
      const [one, other] = [key[word] as number, words[there + word] as number]
      if (one !== other) return one > other
    }
    return false
  }

  /** Adds what the three keys have of a point. */
  function addKeys(start: number, it: Point, request: Request) {
    const { bitsHigh, bitsLow, timeHigh, timeLow, stepHigh, stepLow } = it
    const magnitude = bitsHigh & ~signBit
    const isNan = magnitude > infinityHigh || (magnitude === infinityHigh && bitsLow !== 0)
    const isNegative = bitsHigh >= signBit
    const valueHigh = isNegative ? ~bitsHigh : bitsHigh ^ signBit
    const valueLow = isNegative ? ~bitsLow : bitsLow
    if (isNan) words[start + at.hasNan] = 1

    // NaN is the minimum or maximum only of a series of NaN.
    key[0] = isNan ? allBits : valueHigh
    key[1] = isNan ? allBits : valueLow
    key[2] = timeHigh
    key[3] = timeLow
    key[4] = stepHigh
    key[5] = stepLow
    key[6] = 0
    key[7] = it.present
    if (isLess(start + at.minimum)) words.set(key, start + at.minimum)

    key[0] = isNan ? 0 : valueHigh
    key[1] = isNan ? 0 : valueLow
    key[2] = ~timeHigh
    key[3] = ~timeLow
    key[4] = ~stepHigh
    key[5] = ~stepLow
    if (isGreater(start + at.maximum)) words.set(key, start + at.maximum)

    key[0] = timeHigh
    key[1] = timeLow
    key[2] = stepHigh
    key[3] = stepLow
    key[4] = request.highHigh
    key[5] = request.highLow
    // The order of arrival: the low half of the request's identity shifted by 24 bits, the place by 4, and the fields.
    key[6] = (request.lowHigh << 24) | (request.lowLow >>> 8) | (it.place >>> 28)
    key[7] = (request.lowLow << 24) | (it.place << 4) | it.present
    if (isGreater(start + at.current) || words[start + at.hasPoint] === 0) {
      words[start + at.hasPoint] = 1
      words.set(key, start + at.current)
      words[start + at.currentBits] = bitsHigh
      words[start + at.currentBits + 1] = bitsLow
    }
  }

  /** Takes a number into a range of two. */
  function widen(low: number, high: number, numberHigh: number, numberLow: number) {
    const [lowHigh, highHigh] = [words[low] as number, words[high] as number]
    if (numberHigh < lowHigh || (numberHigh === lowHigh && numberLow < (words[low + 1] as number))) {
      words[low] = numberHigh
      words[low + 1] = numberLow
    }
    if (numberHigh > highHigh || (numberHigh === highHigh && numberLow > (words[high + 1] as number))) {
      words[high] = numberHigh
      words[high + 1] = numberLow
    }
  }

  return {
    open,
    addKeys,

    addExtent(start: number, { timeHigh, timeLow, stepHigh, stepLow, present: bits }: Point) {
      widen(start + at.stepLow, start + at.stepHigh, stepHigh, stepLow)
      widen(start + at.timeLow, start + at.timeHigh, timeHigh, timeLow)
      words[start + at.presentAny] = (words[start + at.presentAny] as number) | bits
    },

    /** @param presentAll the fields that each of the points has */
    addCount(start: number, points: number, presentAll: number) {
      words[start + at.rows] = (words[start + at.rows] as number) + points
      words[start + at.presentAll] = (words[start + at.presentAll] as number) & presentAll
    },

    /** One row for each series, as a block in Native format. */
    take(): Buffer {
      const block = createNativeBlock(summaryBlocks)
      const { columns } = block
      const state = Buffer.alloc(42)
      state[0] = 1
      state[9] = 1
      const wide = Buffer.alloc(32)
      /** The least significant word first. */
      function toWide(from: number) {
        for (let word = 0; word < 8; word++) wide.writeUInt32LE(words[from + word] as number, (7 - word) * 4)
        return wide
      }
      const long = new BigInt64Array(1)
      const halves = new Uint32Array(long.buffer)
      function toSigned(from: number) {
        halves[1] = (words[from] as number) ^ signBit
        halves[0] = words[from + 1] as number
        return long[0] as bigint
      }
      series.forEach(({ experimentId, metric, context }, index) => {
        const start = index * wordsOfSeries
        columns.experiment_id.push(experimentId)
        columns.metric.push(metric)
        columns.context.push(context)
        columns.minimum.push(toWide(start + at.minimum))
        columns.maximum.push(toWide(start + at.maximum))
        columns.current.push(toWide(start + at.current))
        state.writeUInt32LE(words[start + at.currentBits + 1] as number, 1)
        state.writeUInt32LE(words[start + at.currentBits] as number, 5)
        state.set(wide, 10)
        columns.current_bits.push(state)
        columns.rows.push(words[start + at.rows] as number)
        columns.step_low.push(toSigned(start + at.stepLow))
        columns.step_high.push(toSigned(start + at.stepHigh))
        columns.time_low.push(toSigned(start + at.timeLow))
        columns.time_high.push(toSigned(start + at.timeHigh))
        columns.has_nan.push(words[start + at.hasNan] as number)
        columns.present_all.push(words[start + at.presentAll] as number)
        columns.present_any.push(words[start + at.presentAny] as number)
        block.endRow()
      })
      return block.take()
    },
  }
}

function addBlock(states: States, bytes: Buffer) {
  const { rows, columns } = readNativeColumns(bytes)
  const read = createReader(columns, rows)
  const findSeries = createSeriesLookup(states, read)
  const addPoints =
    columns.get('value_bits')?.kind === 'lists' ? createChunkAdder(states, read) : createRowAdder(states, read)
  const [high, low] = [read.numbers('request_hi', 2), read.numbers('request_lo', 2)]
  const request: Request = { highHigh: 0, highLow: 0, lowHigh: 0, lowLow: 0 }
  for (let row = 0; row < rows; row++) {
    request.highHigh = high[row * 2 + 1] as number
    request.highLow = high[row * 2] as number
    request.lowHigh = low[row * 2 + 1] as number
    request.lowLow = low[row * 2] as number
    addPoints(findSeries(row), row, request)
  }
}

type Reader = ReturnType<typeof createReader>

/** As ClickHouse has it, a column that a block has not is 0, or empty. */
function createReader(columns: Map<string, ReadColumn>, rows: number) {
  return {
    numbers(name: string, words: 1 | 2) {
      const found = columns.get(name)
      return found?.kind === 'numbers' ? found.values : new Uint32Array(rows * words)
    },
    words(name: string) {
      const found = columns.get(name)
      return found?.kind === 'words' ? found : { keys: [''], indexes: new Uint8Array(rows) }
    },
    lists(name: string) {
      const found = columns.get(name)
      const { ends, items } =
        found?.kind === 'lists' ? found : { ends: new Float64Array(rows), items: new Uint32Array() }
      const startOf = (row: number) => ends[row - 1] ?? 0
      return { items, startOf, lengthOf: (row: number) => (ends[row] as number) - startOf(row) }
    },
  }
}

/** Finds where the words of a row's series start, by the places of its names in the dictionaries of the block. */
function createSeriesLookup(states: States, read: Reader) {
  const ids = read.numbers('experiment_id', 2)
  const [metrics, contexts] = [read.words('metric'), read.words('context')]
  const experiments = new Map<bigint | number, number>()
  const starts = new Map<number, number>()
  return (row: number): number => {
    const [high, low] = [ids[row * 2 + 1] as number, ids[row * 2] as number]
    const id = high < 2 ** 21 ? high * 2 ** 32 + low : (BigInt(high) << 32n) | BigInt(low)
    let experiment = experiments.get(id)
    if (experiment === undefined) {
      experiment = experiments.size
      experiments.set(id, experiment)
    }
    const [metric, context] = [metrics.indexes[row] as number, contexts.indexes[row] as number]
    const series = (experiment * metrics.keys.length + metric) * contexts.keys.length + context
    const known = starts.get(series)
    if (known !== undefined) return known
    const start = states.open(BigInt(id), metrics.keys[metric] as string, contexts.keys[context] as string)
    starts.set(series, start)
    return start
  }
}

type AddPoints = (start: number, row: number, request: Request) => void

const createPoint = (): Point => ({
  bitsHigh: 0,
  bitsLow: 0,
  timeHigh: 0,
  timeLow: 0,
  stepHigh: 0,
  stepLow: 0,
  place: 0,
  present: 0,
})

type Words = Uint8Array | Uint32Array

function setValue(point: Point, words: Words, index: number) {
  point.bitsHigh = words[index * 2 + 1] as number
  point.bitsLow = words[index * 2] as number
}

function setStep(point: Point, words: Words, index: number) {
  point.stepHigh = ((words[index * 2 + 1] as number) ^ signBit) >>> 0
  point.stepLow = words[index * 2] as number
}

function setTime(point: Point, words: Words, index: number) {
  point.timeHigh = ((words[index * 2 + 1] as number) ^ signBit) >>> 0
  point.timeLow = words[index * 2] as number
}

function createRowAdder(states: States, read: Reader): AddPoints {
  const [values, steps] = [read.numbers('value', 2), read.numbers('step', 2)]
  const [timestamps, received] = [read.numbers('timestamp', 2), read.numbers('received', 2)]
  const [places, presents] = [read.numbers('place', 1), read.numbers('present', 1)]
  const point = createPoint()
  return (start, row, request) => {
    point.place = places[row] as number
    point.present = presents[row] as number
    setValue(point, values, row)
    setStep(point, steps, row)
    setTime(point, point.present & present.timestamp ? timestamps : received, row)
    states.addKeys(start, point, request)
    states.addExtent(start, point)
    states.addCount(start, 1, point.present)
  }
}

function createChunkAdder(states: States, read: Reader): AddPoints {
  const [values, steps, timestamps] = [read.lists('value_bits'), read.lists('steps'), read.lists('timestamps')]
  const [places, presents] = [read.lists('places'), read.lists('presents')]
  const [firstPlaces, presentAlls] = [read.numbers('first_place', 1), read.numbers('present_all', 1)]
  const received = read.numbers('received', 2)
  const isPlain = read.numbers('is_plain', 1)
  const [leastAt, greatestAt] = [read.numbers('least_at', 1), read.numbers('greatest_at', 1)]
  const point = createPoint()

  /** Reads a point of the chunk in a row. */
  function readPoint(row: number, index: number) {
    setValue(point, values.items, values.startOf(row) + index)
    if (index < steps.lengthOf(row)) setStep(point, steps.items, steps.startOf(row) + index)
    else setStep(point, zero, 0)
    point.place =
      places.lengthOf(row) === 0
        ? (firstPlaces[row] as number) + index
        : (places.items[places.startOf(row) + index] as number)
    point.present =
      presents.lengthOf(row) === 0
        ? (presentAlls[row] as number)
        : (presents.items[presents.startOf(row) + index] as number)
    if ((point.present & present.timestamp) === 0) setTime(point, received, row)
    else if (index < timestamps.lengthOf(row)) setTime(point, timestamps.items, timestamps.startOf(row) + index)
    else setTime(point, zero, 0)
  }

  return (start, row, request) => {
    const count = values.lengthOf(row)
    if (count === 0) return
    const last = count - 1
    if (isPlain[row]) {
      // The three points are among these, and steps and times never go back.
      for (const index of [(leastAt[row] as number) - 1, (greatestAt[row] as number) - 1, last]) {
        readPoint(row, index)
        states.addKeys(start, point, request)
      }
      states.addExtent(start, point)
      readPoint(row, 0)
      states.addExtent(start, point)
    } else {
      for (let index = 0; index < count; index++) {
        readPoint(row, index)
        states.addKeys(start, point, request)
        states.addExtent(start, point)
      }
    }
    states.addCount(start, count, presentAlls[row] as number)
  }
}

const zero = new Uint32Array(2)
