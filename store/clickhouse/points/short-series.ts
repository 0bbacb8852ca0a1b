import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import type { ClickHouse } from '../connection.ts'
import { selectPointRows } from './chunks.ts'
import { toDoubleText } from './double-text.ts'
import { isOfSystem, matchesSeries, type SeriesName, seriesParams, streamLongSeries } from './reads.ts'
import { present } from './tables.ts'

/**
 * Reads a short series as plain rows, and writes its JSON here: ClickHouse takes twice as long to analyze the query that writes
 * it as to read some hundred points (measured: 20 instead of 8 ms of CPU for 400). For a long series ClickHouse is faster.
 */

const pointsMax = 2_000

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
  const columns =
    'metric, context, step, timestamp, received, epoch, value_bits, request_hi, request_lo, place, present'
  const points = selectPointRows(clickhouse, matchesSeries(series), {
    withSystem: isOfSystem(series),
    withChunks: series.hasChunks,
  })
  const stream = await clickhouse.stream(`SELECT ${columns} FROM (${points}) LIMIT {limit:UInt32} FORMAT RowBinary`, {
    ...seriesParams(series),
    limit: limit + 1,
  })
  const rows = readRows(await buffer(stream))
  if (rows.length > limit) return undefined
  rows.sort(compare)
  return rows.length === 0 ? '[]' : `[\n${rows.map(toJson).join(',\n')}\n]`
}

function readRows(bytes: Buffer): Row[] {
  const rows: Row[] = []
  let at = 0
  /** A text follows its length, of seven bits a byte. */
  function readText(): string {
    let length = 0
    for (let shift = 0; ; shift += 7) {
      const byte = bytes[at++] as number
      length |= (byte & 0x7f) << shift
      if (byte < 0x80) break
    }
    at += length
    return bytes.toString('utf8', at - length, at)
  }
  while (at < bytes.length) {
    const metric = readText()
    const context = readText()
    const bits = bytes[at + 60] as number
    rows.push({
      metric,
      context,
      step: bytes.readBigInt64LE(at),
      time: bytes.readBigInt64LE(bits & present.timestamp ? at + 8 : at + 16),
      epoch: bytes.readBigInt64LE(at + 24),
      value: bytes.readDoubleLE(at + 32),
      requestHigh: bytes.readBigUInt64LE(at + 40),
      requestLow: bytes.readBigUInt64LE(at + 48),
      place: bytes.readUInt32LE(at + 56),
      present: bits,
    })
    at += 61
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
