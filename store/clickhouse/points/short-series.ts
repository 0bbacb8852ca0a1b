import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import type { ClickHouse } from '../connection.ts'
import { chunksTable } from './chunks.ts'
import { toDoubleText } from './double-text.ts'
import { isOfSystem, matchesSeries, type SeriesName, seriesParams, streamLongSeries } from './reads.ts'
import { pointsTable, present, systemPointsTable } from './tables.ts'

/**
 * Reads a short series as it is stored, and writes its JSON here: ClickHouse takes twice as long to analyze the query that writes
 * it as to read some hundred points (measured: 20 instead of 8 ms of CPU for 400), and to take the points out of chunks takes a
 * quarter of such a query. For a long series ClickHouse is faster.
 */

const pointsMax = 2_000

/** The columns of a chunk. A point is one without lists. */
const ofChunks =
  'metric, context, received, request_hi, request_lo, present_all, first_place, value_bits, steps, timestamps, epochs, places, presents'
const ofPoint = (toList: (column: string) => string) =>
  `metric, context, received, request_hi, request_lo, present AS present_all, place AS first_place, ${[
    'value_bits',
    'step',
    'timestamp',
    'epoch',
    'place',
    'present',
  ]
    .map(toList)
    .join(', ')}`

/** More than points of any name take that are not too many. */
const bytesMax = 32 * 1024 ** 2
/** A second thread would wait for a core beside others, and has little to do. */
const light = `max_threads = 1, max_result_bytes = ${bytesMax}, result_overflow_mode = 'break'`

/** A point as it is stored. */
type Row = {
  metric: string
  context: string
  step: bigint
  time: bigint
  epoch: bigint
  present: number
  value: number
  requestHigh: bigint
  requestLow: bigint
  place: number
}

/** Every stored point of a series as a JSON array, ordered by context, step and time. */
export async function streamSeries(clickhouse: ClickHouse, series: SeriesName): Promise<Readable> {
  const short = await readShortSeries(clickhouse, series)
  return short === undefined ? await streamLongSeries(clickhouse, series) : Readable.from([short])
}

/**
 * The same of a series of at most `most` points; undefined if it has more, or too many to be read here.
 */
export async function readShortSeries(
  clickhouse: ClickHouse,
  series: SeriesName,
  most = pointsMax,
): Promise<string | undefined> {
  const limit = Math.min(most, pointsMax)
  const { database } = clickhouse
  const where = matchesSeries(series)
  const selectRows = ({ name }: { name: string }) =>
    `SELECT ${ofPoint((it) => (series.hasChunks ? `[${it}]` : it))} FROM ${database}.${name} FINAL WHERE ${where} LIMIT {limit:UInt32}`
  const selects = [
    selectRows(pointsTable),
    ...(series.hasChunks
      ? [`SELECT ${ofChunks} FROM ${database}.${chunksTable.name} FINAL PREWHERE ${where} LIMIT {limit:UInt32}`]
      : []),
    ...(isOfSystem(series) ? [selectRows(systemPointsTable)] : []),
  ]
  const stream = await clickhouse.stream(`${selects.join(' UNION ALL ')} SETTINGS ${light} FORMAT RowBinary`, {
    ...seriesParams(series),
    limit: limit + 1,
  })
  const rows = readRows(await buffer(stream), { hasLists: series.hasChunks, most: limit })
  if (rows === undefined) return undefined
  rows.sort(compare)
  return rows.length === 0 ? '[]' : `[\n${rows.map(toJson).join(',\n')}\n]`
}

/**
 * @param hasLists else each has one point, without a length before it
 * @returns undefined where there are more than `most`
 */
function readRows(bytes: Buffer, { hasLists, most }: { hasLists: boolean; most: number }): Row[] | undefined {
  const rows: Row[] = []
  let at = 0
  /** Seven bits a byte. */
  function readLength(): number {
    let length = 0
    for (let shift = 0; ; shift += 7) {
      const byte = bytes[at++] as number
      length |= (byte & 0x7f) << shift
      if (byte < 0x80) return length
    }
  }
  function readText(): string {
    const length = readLength()
    at += length
    return bytes.toString('utf8', at - length, at)
  }
  /** Where a list starts, and its length. */
  function readList(width: number) {
    const length = hasLists ? readLength() : 1
    const start = at
    at += length * width
    return { length, start }
  }
  while (at < bytes.length) {
    const metric = readText()
    const context = readText()
    const received = bytes.readBigInt64LE(at)
    const requestHigh = bytes.readBigUInt64LE(at + 8)
    const requestLow = bytes.readBigUInt64LE(at + 16)
    const presentAll = bytes[at + 24] as number
    const firstPlace = bytes.readUInt32LE(at + 25)
    at += 29
    const values = readList(8)
    const steps = readList(8)
    const timestamps = readList(8)
    const epochs = readList(8)
    const places = readList(4)
    const presents = readList(1)
    if (rows.length + values.length > most) return undefined
    const integer = ({ start, length }: typeof steps, index: number) =>
      length === 0 ? 0n : bytes.readBigInt64LE(start + index * 8)
    for (let index = 0; index < values.length; index++) {
      const bits = presents.length === 0 ? presentAll : (bytes[presents.start + index] as number)
      rows.push({
        metric,
        context,
        requestHigh,
        requestLow,
        value: bytes.readDoubleLE(values.start + index * 8),
        step: integer(steps, index),
        time: bits & present.timestamp ? integer(timestamps, index) : received,
        epoch: integer(epochs, index),
        place: places.length === 0 ? firstPlace + index : bytes.readUInt32LE(places.start + index * 4),
        present: bits,
      })
    }
  }
  return rows
}

/** The order of `streamSeries`. Rows come nearly in it. */
function compare(one: Row, other: Row): number {
  if (one.context !== other.context) return Buffer.from(one.context).compare(Buffer.from(other.context))
  return (
    order(one.step, other.step) ||
    order(one.time, other.time) ||
    order(one.requestHigh, other.requestHigh) ||
    order(one.requestLow, other.requestLow) ||
    one.place - other.place
  )
}

const order = (one: bigint, other: bigint) => (one < other ? -1 : one > other ? 1 : 0)

function toJson({ metric, context, step, time, epoch, value, present: bits }: Row): string {
  const [ofStep, ofEpoch] = [bits & present.step ? step : null, bits & present.epoch ? epoch : null]
  return (
    `{"metricName":${JSON.stringify(metric)},"metricValue":"${toDoubleText(value)}","timestamp":${time},"step":${ofStep},` +
    `"epoch":${ofEpoch},"runContext":${context === '' ? null : JSON.stringify(context)}}`
  )
}
