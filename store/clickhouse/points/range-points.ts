import { buffer } from 'node:stream/consumers'
import { ClickHouseError } from '@clickhouse/client'
import { formsOf } from '../../point-forms.ts'
import { type ReadBlock, type ReadColumn, readNativeBlocks } from '../blocks/native-reader.ts'
import type { ClickHouse } from '../connection.ts'
import { chunksTable } from './chunks.ts'
import { isOfSeries, type Range, type RangeSeries, rangeParams, toConditions } from './range-rows.ts'
import { pointsTable, present, systemPointsTable } from './tables.ts'

/**
 * Reads the points of a range as they are stored, rows and chunks side by side, and takes them out of the chunks here.
 *
 * Most series have no two points at the same x, and come in parts that are in order: of these nothing but x and the values is read,
 * and kept as numbers. What else decides the order of points is read and compared for the other series only.
 */

/** The points that a range has of a series, in their order, and how many more have no value of x. */
export type RangePoints = {
  series: RangeSeries
  xs: ArrayLike<number>
  values: ArrayLike<number>
  count: number
  withoutX: number
}

/** More than the points take that are to be read here, unless their names are long. ClickHouse has this code for more. */
const bytesMax = 16 * 1024 ** 2
const tooManyBytes = '396'

/**
 * Points of series that have no two at the same x.
 *
 * @returns undefined if some have, if there are more than `most`, or if an integer is not safe in JavaScript
 */
export async function readAscending(
  clickhouse: ClickHouse,
  series: RangeSeries[],
  range: Range,
  most: number,
): Promise<RangePoints[] | undefined> {
  const { x, acceptedUntilMs } = range
  const isOverTime = x === 'time' || x === 'relative'
  const one = isOverTime ? 'timestamp' : String(x)
  const received = isOverTime ? ', received' : ''
  return await readBlocks(clickhouse, series, range, {
    ofRows: `value_bits, present, ${one}${received}`,
    ofChunks: `value_bits, presents, present_all, ${one}s${isOverTime || acceptedUntilMs !== undefined ? ', received' : ''}`,
    most,
    reader: createAscendingReader(series, range, most),
  })
}

/** The same of any series. */
export async function readUnordered(
  clickhouse: ClickHouse,
  series: RangeSeries[],
  range: Range,
  most: number,
): Promise<RangePoints[] | undefined> {
  const names = 'received, request_hi, request_lo, value_bits'
  const [epoch, epochs] = range.x === 'epoch' ? [', epoch', ', epochs'] : ['', '']
  return await readBlocks(clickhouse, series, range, {
    ofRows: `${names}, present, place, step, timestamp${epoch}`,
    ofChunks: `${names}, presents, present_all, places, first_place, steps, timestamps${epochs}`,
    most,
    reader: createUnorderedReader(series, range, most),
  })
}

type Reader = {
  /** @returns false if there are too many points, or one with an integer that is not safe */
  add(block: ReadBlock): boolean
  /** Series without points in the range are left out. */
  take(): RangePoints[] | undefined
}

async function readBlocks(
  clickhouse: ClickHouse,
  series: RangeSeries[],
  range: Range,
  { ofRows, ofChunks, most, reader }: { ofRows: string; ofChunks: string; most: number; reader: Reader },
): Promise<RangePoints[] | undefined> {
  const { database } = clickhouse
  const { points, chunks } = toConditions(range)
  const ofSeries = isOfSeries(series)
  const names = 'experiment_id, metric, context'
  const { hasRows, hasChunks } = formsOf(series)
  const tables = [
    ...(hasRows ? [pointsTable] : []),
    ...(series.some((it) => it.metric.startsWith('sys.')) ? [systemPointsTable] : []),
  ]
  const selects = tables.map(
    (it) => `SELECT ${names}, ${ofRows} FROM ${database}.${it.name} FINAL WHERE ${ofSeries} AND ${points}`,
  )
  if (hasChunks) {
    selects.push(
      `SELECT ${names}, ${ofChunks} FROM ${database}.${chunksTable.name} FINAL PREWHERE ${ofSeries} AND ${chunks}`,
    )
  }
  const settings = `${series.length === 1 ? 'max_threads = 1, ' : ''}max_result_bytes = ${bytesMax}`
  const answers = await clickhouse
    .streams(
      selects.map((it) => `${it} LIMIT ${most + 1} SETTINGS ${settings} FORMAT Native`),
      rangeParams(series, range),
    )
    .catch((error: unknown) => {
      if (error instanceof ClickHouseError && error.code === tooManyBytes) return undefined
      throw error
    })
  if (answers === undefined) return undefined
  for (const bytes of await Promise.all(answers.map((it) => buffer(it)))) {
    for (const block of readNativeBlocks(bytes)) if (!reader.add(block)) return undefined
  }
  return reader.take()
}

/** @returns what it makes of a series, by the names of the series */
const bySeries = <It>(series: RangeSeries[], make: (series: RangeSeries) => It) =>
  new Map(series.map((it) => [toKey(it.experimentId, it.metric, it.context), make(it)]))

/** What the points of a block have of x, if their axis is not time. */
const bitOf = { step: present.step, epoch: present.epoch } as const

/** Takes the points of blocks, which may come in any order. */
export function createAscendingReader(
  series: RangeSeries[],
  { x: axis, from = -Infinity, to = Infinity, acceptedUntilMs = Infinity }: Range,
  most: number,
): Reader {
  const all = bySeries(series, (it) => new Runs(it))
  const [least, greatest] = [Number(from), Number(to)]
  const needed = axis === 'step' || axis === 'epoch' ? bitOf[axis] : 0
  let read = 0

  return {
    take() {
      const found = [...all.values()].filter((it) => it.count + it.withoutX > 0)
      return found.every((it) => it.putInOrder()) ? found : undefined
    },

    add({ rows, columns }) {
      const isOfChunks = columns.has('present_all')
      const lists = (name: string) => toLists(columns.get(isOfChunks ? `${name}s` : name), isOfChunks)
      const xs = lists(needed === 0 ? 'timestamp' : String(axis))
      const presents = lists('present')
      const values = toLists(columnOf(columns, 'value_bits'), isOfChunks)
      const floats = new Float64Array(values.items.buffer)
      const received = columns.get('received')?.numbers()
      const presentAll = columns.get('present_all')?.numbers()
      const foundOf = findByRow(columns, all)
      let last: Runs | undefined

      for (let row = 0; row < rows; row++) {
        const count = values.lengthOf(row)
        read += count
        if (read > most) return false
        const receivedMs = received ? integerAt(received, row) : 0
        const found = foundOf(row)
        if (found === undefined || receivedMs > acceptedUntilMs) continue
        // Parts that do not overlap come one after the other, in any order: the next chunk or block may belong before the last one.
        if (isOfChunks || found !== last) found.endRun()
        last = found
        const startMs = axis === 'relative' ? Number(found.series.startTimeMs) : 0
        const [xStart, presentStart, valueStart] = [xs.startOf(row), presents.startOf(row), values.startOf(row)]
        const bitsOfAll = presentAll?.[row] ?? 0
        for (let index = 0; index < count; index++) {
          const bits = presentStart < 0 ? bitsOfAll : (presents.items[presentStart + index] as number)
          if ((bits & needed) !== needed) {
            found.withoutX++
            continue
          }
          const stored = xStart < 0 ? 0 : integerAt(xs.items, xStart + index)
          const x = needed !== 0 || bits & present.timestamp ? stored - startMs : receivedMs - startMs
          if (!Number.isSafeInteger(x)) return false
          if (x >= least && x <= greatest) found.add(x, floats[valueStart + index] as number)
        }
      }
      return true
    },
  }
}

const pointsAtFirst = 64

/** The points of a series in runs, in each of which x ascends: a chunk is one, or rows of a block. */
class Runs {
  readonly series: RangeSeries
  xs = new Float64Array(pointsAtFirst)
  values = new Float64Array(pointsAtFirst)
  count = 0
  withoutX = 0
  /** Where each run starts. */
  readonly #starts: number[] = []
  #last = Number.POSITIVE_INFINITY

  constructor(series: RangeSeries) {
    this.series = series
  }

  add(x: number, value: number) {
    const at = this.count++
    if (at === this.xs.length) {
      this.xs = grow(this.xs)
      this.values = grow(this.values)
    }
    if (x <= this.#last) this.#starts.push(at)
    this.#last = x
    this.xs[at] = x
    this.values[at] = value
  }

  endRun() {
    this.#last = Number.POSITIVE_INFINITY
  }

  /** @returns whether x ascends from run to run */
  putInOrder(): boolean {
    const { xs, values, count } = this
    const starts = this.#starts
    if (starts.length <= 1) return true
    const runs = starts.map((start, at) => ({ start, end: starts[at + 1] ?? count }))
    runs.sort((one, other) => (xs[one.start] as number) - (xs[other.start] as number))
    this.xs = new Float64Array(count)
    this.values = new Float64Array(count)
    let at = 0
    for (const { start, end } of runs) {
      if (at > 0 && (xs[start] as number) <= (this.xs[at - 1] as number)) return false
      this.xs.set(xs.subarray(start, end), at)
      this.values.set(values.subarray(start, end), at)
      at += end - start
    }
    return true
  }
}

function grow(list: Float64Array<ArrayBuffer>): Float64Array<ArrayBuffer> {
  const larger = new Float64Array(list.length * 2)
  larger.set(list)
  return larger
}

type Point = {
  x: number
  value: number
  time: number
  step: number
  /** The words of a column, and which of them are the point's request. */
  requestHigh: Int32Array
  requestLow: Int32Array
  row: number
  place: number
}

function createUnorderedReader(
  series: RangeSeries[],
  { x: axis, from = -Infinity, to = Infinity, acceptedUntilMs = Infinity }: Range,
  most: number,
): Reader {
  const all = bySeries(series, (it) => ({ series: it, points: [] as Point[], withoutX: 0 }))
  const [least, greatest] = [Number(from), Number(to)]
  let read = 0

  return {
    take() {
      const found = [...all.values()].filter((it) => it.points.length + it.withoutX > 0)
      return found.map(({ points, ...it }) => {
        points.sort(comparePoints)
        return {
          ...it,
          xs: points.map((point) => point.x),
          values: points.map((point) => point.value),
          count: points.length,
        }
      })
    },

    add({ rows, columns }) {
      const isOfChunks = columns.has('first_place')
      const lists = (name: string) => toLists(columns.get(isOfChunks ? `${name}s` : name), isOfChunks)
      const [steps, timestamps, epochs] = [lists('step'), lists('timestamp'), lists('epoch')]
      const [places, presents] = [lists('place'), lists('present')]
      const values = toLists(columnOf(columns, 'value_bits'), isOfChunks)
      const floats = new Float64Array(values.items.buffer)
      const words = (name: string) => columnOf(columns, name).numbers() as Int32Array
      const [received, requestHigh, requestLow] = [words('received'), words('request_hi'), words('request_lo')]
      const presentAll = columns.get('present_all')?.numbers()
      const firstPlaces = columns.get('first_place')?.numbers()
      const foundOf = findByRow(columns, all)

      for (let row = 0; row < rows; row++) {
        const count = values.lengthOf(row)
        read += count
        if (read > most) return false
        const receivedMs = integerAt(received, row)
        const found = foundOf(row)
        if (found === undefined || receivedMs > acceptedUntilMs) continue
        const startMs = axis === 'relative' ? Number(found.series.startTimeMs) : 0
        for (let index = 0; index < count; index++) {
          const bits = presents.items[placeOf(presents, row, index)] ?? presentAll?.[row] ?? 0
          const step = integerAt(steps.items, placeOf(steps, row, index))
          const stamp = integerAt(timestamps.items, placeOf(timestamps, row, index))
          const time = bits & present.timestamp ? stamp : receivedMs
          const epoch = integerAt(epochs.items, placeOf(epochs, row, index))
          const x = axis === 'step' ? step : axis === 'epoch' ? epoch : time - startMs
          if (!(Number.isSafeInteger(x) && Number.isSafeInteger(time) && Number.isSafeInteger(step))) return false
          if ((axis === 'step' && !(bits & present.step)) || (axis === 'epoch' && !(bits & present.epoch))) {
            found.withoutX++
          } else if (x >= least && x <= greatest) {
            const place = places.items[placeOf(places, row, index)] ?? (firstPlaces?.[row] as number) + index
            const value = floats[placeOf(values, row, index)] as number
            found.points.push({ x, value, time, step, requestHigh, requestLow, row, place: place >>> 0 })
          }
        }
      }
      return true
    },
  }
}

const toKey = (experimentId: bigint, metric: string, context: string) =>
  JSON.stringify([String(experimentId), metric, context])

/** The series of a row. Rows come by series, so that few are looked up. */
function findByRow<It>(columns: ReadBlock['columns'], all: Map<string, It>): (row: number) => It | undefined {
  const ids = new BigUint64Array(columnOf(columns, 'experiment_id').numbers().buffer)
  const metrics = columnOf(columns, 'metric').words()
  const contexts = columnOf(columns, 'context').words()
  let last:
    | { id: bigint | undefined; metric: number | undefined; context: number | undefined; found: It | undefined }
    | undefined
  return (row) => {
    const [id, metric, context] = [ids[row] as bigint, metrics.indexes[row] as number, contexts.indexes[row] as number]
    if (last?.id !== id || last.metric !== metric || last.context !== context) {
      const found = all.get(toKey(id, metrics.keys[metric] as string, contexts.keys[context] as string))
      last = { id, metric, context, found }
    }
    return last.found
  }
}

function columnOf(columns: ReadBlock['columns'], name: string): ReadColumn {
  const column = columns.get(name)
  if (!column) throw new Error(`the column ${name} is missing`)
  return column
}

const noItems = new Int32Array(0)

/** The values of each row: those of its list, or one. */
function toLists(column: ReadColumn | undefined, isList: boolean) {
  if (column === undefined) return { items: noItems, lengthOf: () => 0, startOf: () => -1 }
  if (!isList) return { items: column.numbers(), lengthOf: () => 1, startOf: (row: number) => row }
  const { starts, items } = column.lists()
  const lengthOf = (row: number) => (starts[row + 1] as number) - (starts[row] as number)
  return {
    items,
    lengthOf,
    /** Where the first one is; below 0 where there is none. */
    startOf: (row: number) => (lengthOf(row) === 0 ? -1 : (starts[row] as number)),
  }
}

/** Where a value of a row is; below 0 where the row has none. */
function placeOf({ startOf }: { startOf(row: number): number }, row: number, index: number): number {
  const start = startOf(row)
  return start < 0 ? -1 : start + index
}

/** A number of two words; 0 where there is none. Beyond 2^53 it is one nearby, which is not safe either. */
const integerAt = (words: ArrayLike<number>, index: number) =>
  index < 0 ? 0 : (words[index * 2 + 1] as number) * 2 ** 32 + ((words[index * 2] as number) >>> 0)

/** The order of `readRanges`. */
const comparePoints = (one: Point, other: Point) =>
  one.x - other.x ||
  one.time - other.time ||
  one.step - other.step ||
  compareWords(one.requestHigh, one.row, other.requestHigh, other.row) ||
  compareWords(one.requestLow, one.row, other.requestLow, other.row) ||
  one.place - other.place

function compareWords(one: Int32Array, row: number, other: Int32Array, otherRow: number): number {
  const word = (words: Int32Array, index: number) => (words[index] as number) >>> 0
  return word(one, row * 2 + 1) - word(other, otherRow * 2 + 1) || word(one, row * 2) - word(other, otherRow * 2)
}
