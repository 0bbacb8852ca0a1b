import type { Readable } from 'node:stream'
import { compare } from '../../../runtime/compare.ts'
import { formsOf } from '../../point-forms.ts'
import type { ClickHouse } from '../connection.ts'
import { toDoubleText } from './double-text.ts'
import { isOfSystem, matchesSeries, type SeriesName, seriesParams, streamLongSeries } from './reads.ts'
import { readStoredPoints, type StoredPoint } from './stored-points.ts'
import { present } from './tables.ts'

/**
 * Reads a short series as it is stored, and writes its JSON here: ClickHouse takes twice as long to analyze the query that writes
 * it as to read some hundred points (measured: 20 instead of 8 ms of CPU for 400), and to take the points out of chunks takes a
 * quarter of such a query. For a long series ClickHouse is faster.
 */

const pointsMax = 2_000
/** A long series has chunks of a thousand points, of which few are enough to know that (measured: 26 ms instead of a second). */
const chunksFirst = 64

/** Every stored point of a series as a JSON array, ordered by context, step and time. */
export async function readSeries(clickhouse: ClickHouse, series: SeriesName): Promise<string | Readable> {
  return (await readShortSeries(clickhouse, series)) ?? (await streamLongSeries(clickhouse, series))
}

/**
 * The same of a series of at most `most` points; undefined if it has more, or too many to be read here.
 */
export async function readShortSeries(
  clickhouse: ClickHouse,
  series: SeriesName,
  most = pointsMax,
): Promise<string | undefined> {
  const rows = await readStoredPoints(clickhouse, {
    forms: formsOf([series]),
    withSystem: isOfSystem(series),
    where: matchesSeries(series),
    params: seriesParams(series),
    isFinal: true,
    withIds: false,
    most: Math.min(most, pointsMax),
    chunksFirst,
  })
  if (rows === undefined) return undefined
  rows.sort(comparePoints)
  return rows.length === 0 ? '[]' : `[\n${rows.map(toJson).join(',\n')}\n]`
}

/** The order of `readSeries`. Rows come nearly in it. */
function comparePoints(one: StoredPoint, other: StoredPoint): number {
  if (one.context !== other.context) return Buffer.from(one.context).compare(Buffer.from(other.context))
  return (
    compare(one.step, other.step) ||
    compare(one.time, other.time) ||
    compare(one.requestHigh, other.requestHigh) ||
    compare(one.requestLow, other.requestLow) ||
    one.place - other.place
  )
}

function toJson({ metric, context, step, time, epoch, value, present: bits }: StoredPoint): string {
  const [ofStep, ofEpoch] = [bits & present.step ? step : null, bits & present.epoch ? epoch : null]
  return (
    `{"metricName":${JSON.stringify(metric)},"metricValue":"${toDoubleText(value)}","timestamp":${time},"step":${ofStep},` +
    `"epoch":${ofEpoch},"runContext":${context === '' ? null : JSON.stringify(context)}}`
  )
}
