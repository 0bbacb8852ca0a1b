import { buffer } from 'node:stream/consumers'
import { ClickHouseError } from '@clickhouse/client'
import { type ReadBlock, type ReadColumn, readNativeBlocks } from '../blocks/native-reader.ts'
import type { ClickHouse } from '../connection.ts'
import { chunksTable } from './chunks.ts'
import {
  type Extent,
  isOfSeries,
  type Range,
  type RangeSeries,
  type ReadRange,
  rangeParams,
  toConditions,
} from './range-rows.ts'
import { pointsTable, present, systemPointsTable } from './tables.ts'

/**
 * Reads ranges with few points for charts as they are stored, and counts them into buckets here: ClickHouse takes longer to analyze
 * the query that counts them than to read some ten thousand points.
 */

/** Of all series together. With more this process, which others wait for, would take longer than the analysis. */
export const shortRangesMax = 20_000
/** The first and the last chunk of a series have points beyond the range. */
const readMax = 4 * shortRangesMax
/** More than so many points take, unless their names are long. ClickHouse has this code for more. */
const bytesMax = 16 * 1024 ** 2
const tooManyBytes = '396'

type Point = {
  x: number
  value: number
  /** 0 where timestamps were not read. */
  time: number
  step: number
  /** The words of a column, and which of them are the point's request. */
  requestHigh: Int32Array
  requestLow: Int32Array
  row: number
  place: number
}

/** What the range has of a series. */
type Found = { series: RangeSeries; points: Point[]; withoutX: number }

/**
 * The ranges of the series, as `readRanges` has them; undefined if they have too many points or an integer that is not safe in
 * JavaScript, or if x is another metric.
 */
export async function readShortRanges(
  clickhouse: ClickHouse,
  series: RangeSeries[],
  range: Range,
  { extent, points }: { extent: Extent; points: number },
): Promise<ReadRange[] | undefined> {
  const { x, from = 0, to = 0 } = range
  if (typeof x === 'object' || ![from, to, extent.from, extent.to].every((it) => Number.isSafeInteger(Number(it)))) {
    return undefined
  }
  // Half of what is read would be timestamps, and only the order of points at the same step needs them.
  let found = await readPoints(clickhouse, series, range, { withTimes: x !== 'step' })
  if (x === 'step' && found?.some(hasEqualX)) found = await readPoints(clickhouse, series, range, { withTimes: true })
  return found?.map(({ points: all, ...it }) => {
    const isBucketed = all.length > points
    const columns = isBucketed
      ? toBuckets(all, extent, points)
      : { x: all.map((point) => point.x), last: all.map((point) => point.value) }
    return { ...it, isBucketed, total: all.length, columns: toJson(columns, range) }
  })
}

const hasEqualX = ({ points }: Found) => points.some((it, at) => it.x === points[at - 1]?.x)

/** Points in their order. */
async function readPoints(
  clickhouse: ClickHouse,
  series: RangeSeries[],
  range: Range,
  { withTimes }: { withTimes: boolean },
): Promise<Found[] | undefined> {
  const { database } = clickhouse
  const { points, chunks } = toConditions(range)
  const ofSeries = isOfSeries(series)
  const names = 'experiment_id, metric, context, received, request_hi, request_lo, value_bits'
  const further = (ending: '' | 's') =>
    `${withTimes ? `, timestamp${ending}` : ''}${range.x === 'epoch' ? `, epoch${ending}` : ''}`
  const selectRows = (table: string) =>
    `SELECT ${names}, present, place, step${further('')} FROM ${database}.${table} FINAL WHERE ${ofSeries} AND ${points}`
  const tables = series.some((it) => it.metric.startsWith('sys.')) ? [pointsTable, systemPointsTable] : [pointsTable]
  const selects = tables.map((it) => selectRows(it.name))
  if (series.some((it) => it.hasChunks)) {
    selects.push(`SELECT ${names}, presents, present_all, places, first_place, steps${further('s')}
      FROM ${database}.${chunksTable.name} FINAL PREWHERE ${ofSeries} AND ${chunks}`)
  }
  const settings = `${series.length === 1 ? 'max_threads = 1, ' : ''}max_result_bytes = ${bytesMax}`
  const answers = await clickhouse
    .streams(
      selects.map((it) => `${it} LIMIT ${readMax + 1} SETTINGS ${settings} FORMAT Native`),
      rangeParams(series, range),
    )
    .catch((error: unknown) => {
      if (error instanceof ClickHouseError && error.code === tooManyBytes) return undefined
      throw error
    })
  if (answers === undefined) return undefined
  const reader = createReader(series, range)
  for (const bytes of await Promise.all(answers.map((it) => buffer(it)))) {
    for (const block of readNativeBlocks(bytes)) if (!reader.add(block)) return undefined
  }
  return reader.take()
}

/** Takes the points of blocks that are in the range. */
function createReader(
  series: RangeSeries[],
  { x: axis, from = -Infinity, to = Infinity, acceptedUntilMs = Infinity }: Range,
) {
  const all = new Map<string, Found>(
    series.map((it) => [toKey(it.experimentId, it.metric, it.context), { series: it, points: [], withoutX: 0 }]),
  )
  const [least, greatest] = [Number(from), Number(to)]
  let read = 0

  return {
    /** Series without points in the range are left out. */
    take(): Found[] {
      const found = [...all.values()].filter((it) => it.points.length + it.withoutX > 0)
      for (const { points } of found) points.sort(comparePoints)
      return found
    },

    /** @returns false if there are too many points, or one with an integer that is not safe */
    add({ rows, columns }: ReadBlock): boolean {
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
        if (read > readMax) return false
        const receivedMs = integerAt(received, row)
        const found = foundOf(row)
        if (found === undefined || receivedMs > acceptedUntilMs) continue
        const startMs = axis === 'relative' ? Number(found.series.startTimeMs) : 0
        for (let index = 0; index < count; index++) {
          const bits = presents.items[presents.indexOf(row, index)] ?? presentAll?.[row] ?? 0
          const step = integerAt(steps.items, steps.indexOf(row, index))
          const stamp = integerAt(timestamps.items, timestamps.indexOf(row, index))
          const time = bits & present.timestamp ? stamp : receivedMs
          const epoch = integerAt(epochs.items, epochs.indexOf(row, index))
          const x = axis === 'step' ? step : axis === 'epoch' ? epoch : time - startMs
          if (!(Number.isSafeInteger(x) && Number.isSafeInteger(time) && Number.isSafeInteger(step))) return false
          if ((axis === 'step' && !(bits & present.step)) || (axis === 'epoch' && !(bits & present.epoch))) {
            found.withoutX++
          } else if (x >= least && x <= greatest) {
            const place = places.items[places.indexOf(row, index)] ?? (firstPlaces?.[row] as number) + index
            const value = floats[values.indexOf(row, index)] as number
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
function findByRow(columns: ReadBlock['columns'], all: Map<string, Found>): (row: number) => Found | undefined {
  const ids = new BigUint64Array(columnOf(columns, 'experiment_id').numbers().buffer)
  const metrics = columnOf(columns, 'metric').words()
  const contexts = columnOf(columns, 'context').words()
  let last:
    | { id: bigint | undefined; metric: number | undefined; context: number | undefined; found: Found | undefined }
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

/** The values of each row: those of its list, or one. Nothing is at an index beyond them. */
function toLists(column: ReadColumn | undefined, isList: boolean) {
  if (column === undefined) return { items: noItems, lengthOf: () => 0, indexOf: () => -1 }
  if (!isList) return { items: column.numbers(), lengthOf: () => 1, indexOf: (row: number) => row }
  const { starts, items } = column.lists()
  const startOf = (row: number) => starts[row] as number
  return {
    items,
    lengthOf: (row: number) => startOf(row + 1) - startOf(row),
    indexOf: (row: number, index: number) => (startOf(row) === startOf(row + 1) ? -1 : startOf(row) + index),
  }
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

type Columns = Record<string, number[]>

/** @param points in their order */
function toBuckets(points: Point[], { from, to }: Extent, bucketsMax: number): Columns {
  const low = Number(from)
  const width = Math.floor((Number(to) - low) / bucketsMax) + 1
  const bucketOf = ({ x }: Point) => (x < low ? 0 : Math.min(Math.floor((x - low) / width), bucketsMax - 1))
  const made = {
    x: [] as number[],
    xTo: [] as number[],
    min: [] as number[],
    max: [] as number[],
    first: [] as number[],
    last: [] as number[],
    mean: [] as number[],
    count: [] as number[],
    nonFinite: [] as number[],
  }
  for (let at = 0; at < points.length; ) {
    const first = points[at] as Point
    const bucket = bucketOf(first)
    let [last, min, max, sum, count, nonFinite] = [first, Infinity, -Infinity, 0, 0, 0]
    for (let point: Point | undefined = first; point && bucketOf(point) === bucket; point = points[++at]) {
      count++
      last = point
      if (Number.isFinite(point.value)) {
        if (point.value < min) min = point.value
        if (point.value > max) max = point.value
        sum += point.value
      } else nonFinite++
    }
    made.x.push(first.x)
    made.xTo.push(last.x)
    made.min.push(min)
    made.max.push(max)
    made.first.push(first.value)
    made.last.push(last.value)
    made.mean.push(sum / (count - nonFinite))
    made.count.push(count)
    made.nonFinite.push(nonFinite)
  }
  return made
}

/** Relative times are answered in seconds, and null is what is not finite. */
function toJson(columns: Columns, { x }: Range): Record<string, string> {
  const isRelative = (name: string) => x === 'relative' && (name === 'x' || name === 'xTo')
  const toText = (name: string, values: number[]) => {
    const scaled = isRelative(name) ? values.map((it) => it / 1_000) : values
    if (!scaled.some((it) => Object.is(it, -0))) return JSON.stringify(scaled)
    return `[${scaled.map((it) => (Object.is(it, -0) ? '-0' : JSON.stringify(it))).join()}]`
  }
  return Object.fromEntries(Object.entries(columns).map(([name, values]) => [name, toText(name, values)]))
}
