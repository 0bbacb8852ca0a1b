import { z } from 'zod'
import type { ExactJson } from '../../http/body/exact-json.ts'
import { experimentKey, list, object, optional, text, toFieldRefusal } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import {
  isPlainInteger,
  isPlainName,
  isPlainValue,
  metricName,
  type Point,
  pointFields,
  readPlainContext,
  readPoint,
  toPlainPoint,
} from './point.ts'

/** A batch of points as rows, as columns, or both. */
export const batchFields = object({
  experimentKey,
  metrics: optional(z.array(pointFields)),
  series: optional(
    z.array(
      object({
        metricName,
        context: optional(text(1_000)),
        runContext: optional(text(1_000)),
        steps: optional(z.array(pointFields.shape.step)),
        epochs: optional(z.array(pointFields.shape.epoch)),
        timestamps: optional(z.array(pointFields.shape.timestamp)),
        values: z.array(pointFields.shape.metricValue),
      }),
    ),
  ),
})

/** Points of the request that are not stored: where they stand among all its points, and why. */
type Rejected = { index: number; msg: string }

/** What a batch comes to. `places[i]` is where `points[i]` stands in the request: part of its identity. */
export type Batch = { points: Point[]; places: number[]; rejected: Rejected[]; rejectedCount: number }

const pointsMax = 1_000_000
/** So that a request of a million bad points is not answered with a million messages. */
const rejectedShownMax = 1_000

const envelopeFields = object({
  experimentKey,
  metrics: optional(list(z.unknown(), Number.POSITIVE_INFINITY)),
  series: optional(list(z.unknown(), Number.POSITIVE_INFINITY)),
})

type Envelope = z.output<typeof envelopeFields>

/**
 * Checks the frame of a batch: whose it is, and that it has points.
 *
 * @throws HttpError
 */
export function readEnvelope(body: ExactJson): Envelope {
  const checked = envelopeFields.safeParse(body)
  if (!checked.success) throw toFieldRefusal(checked.error, body)
  if (!checked.data.metrics && !checked.data.series) {
    throw new HttpError('badRequest', 'metrics: is missing (send points as "metrics", or whole series as "series")')
  }
  return checked.data
}

/**
 * How many points a batch claims to hold, before any of them is looked at.
 *
 * @throws HttpError `tooLarge`: two bytes of JSON make a point of 64 bytes, so the limit on the body alone would not do
 */
export function countPoints({ metrics, series }: Envelope): number {
  const points = (metrics?.length ?? 0) + (series ?? []).reduce<number>((sum, it) => sum + seriesLength(it), 0)
  if (points <= pointsMax) return points
  throw new HttpError('tooLarge', `The request has ${points} points: send at most ${pointsMax} in one request.`)
}

function seriesLength(raw: unknown): number {
  const values = (raw as { values?: unknown } | null)?.values
  return Array.isArray(values) ? values.length : 1
}

/** Reads every point; a bad one is told and does not sink the others. */
export function readBatch({ metrics, series }: Envelope): Batch {
  const batch: Batch = { points: [], places: [], rejected: [], rejectedCount: 0 }
  let place = 0
  metrics?.forEach((raw, index) => {
    add(
      batch,
      place++,
      readPoint(raw, () => `metrics[${index}]`),
    )
  })
  series?.forEach((raw, index) => {
    readSeries(batch, place, raw, index)
    place += seriesLength(raw)
  })
  return batch
}

/**
 * A series is read point by point, with the same check as rows. One whose columns do not fit together has no points to
 * tell apart, so it is refused as a whole.
 */
function readSeries(batch: Batch, place: number, raw: unknown, index: number) {
  const name = `series[${index}]`
  if (typeof raw !== 'object' || raw === null) return reject(batch, place, 1, `${name}: expected an object`)
  const { steps, epochs, timestamps, values, ...names } = raw as Record<string, unknown>
  const { metricName } = names
  if (!Array.isArray(values)) return reject(batch, place, 1, `${name}.values: expected a list`)
  for (const [field, column] of Object.entries({ steps, epochs, timestamps })) {
    const fault = columnFault(column, values.length)
    if (fault) return reject(batch, place, values.length, `${name}.${field}: ${fault}; none of its points was stored`)
  }
  const columns = { steps, epochs, timestamps } as Record<string, unknown[] | null | undefined>
  const context = readPlainContext(raw)
  const isPlain = isPlainName(metricName) && context !== undefined
  for (let at = 0; at < values.length; at++) {
    const value = values[at]
    const step = columns.steps?.[at]
    const epoch = columns.epochs?.[at]
    const timestamp = columns.timestamps?.[at]
    // The same shortcut that rows take; name and context are the same for all points, and were looked at once.
    if (isPlain && isPlainValue(value) && isPlainInteger(step) && isPlainInteger(epoch) && isPlainInteger(timestamp)) {
      batch.points.push(toPlainPoint(metricName, context, value, step, epoch, timestamp))
      batch.places.push(place + at)
      continue
    }
    const fields = { ...names, metricValue: value, step, epoch, timestamp }
    add(
      batch,
      place + at,
      readPoint(fields, () => `${name}[${at}]`),
    )
  }
}

function columnFault(column: unknown, length: number): string | undefined {
  if (column == null) return undefined
  if (!Array.isArray(column)) return 'expected a list'
  return column.length === length ? undefined : `has ${column.length} entries, but values has ${length}`
}

function add(batch: Batch, place: number, point: Point | string) {
  if (typeof point === 'string') return reject(batch, place, 1, point)
  batch.points.push(point)
  batch.places.push(place)
}

function reject(batch: Batch, index: number, count: number, msg: string) {
  batch.rejectedCount += count
  if (batch.rejected.length < rejectedShownMax) batch.rejected.push({ index, msg })
}
