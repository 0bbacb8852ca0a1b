import { z } from 'zod'
import {
  describeFieldError,
  experimentKey,
  list,
  object,
  optional,
  text,
  toFieldError,
} from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { readArrowBatch } from './arrow-batch.ts'
import {
  isPlainInteger,
  isPlainName,
  isPlainValue,
  metricName,
  pointFields,
  readPlainContext,
  readPoint,
} from './point.ts'
import { createSeriesPoints, type SeriesPoints, toPresentBits } from './series-points.ts'

/** The largest index that an identity has room for. */
const indexMax = 2 ** 32 - 1

const firstIndex = optional(z.int().min(0).max(indexMax)).describe(
  'The index of the first point of this series among all that share the Idempotency-Key; the following ones count on. ' +
    'Without it, points are counted through the request. A client that reads a source again, or goes on with it, may then ' +
    'send it in requests of any size under one key: each point is stored once.',
)

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
        firstIndex,
        steps: optional(z.array(pointFields.shape.step)),
        epochs: optional(z.array(pointFields.shape.epoch)),
        timestamps: optional(z.array(pointFields.shape.timestamp)),
        values: z.array(pointFields.shape.metricValue),
      }),
    ),
  ),
})

/** The row index and the error of a rejected point, or of the first point of a rejected series. */
type Rejected = { index: number; msg: string }

/** The valid points of a batch by series, and the errors of the first thousand wrong ones. */
export type Batch = {
  series: SeriesPoints[]
  /** Some of the points have an index that the client chose. */
  hasOwnIndexes: boolean
  rejected: Rejected[]
  rejectedCount: number
}

const pointsMax = 1_000_000
/** Limits the answer: a batch may have a million wrong points. */
const rejectedShownMax = 1_000

const envelopeFields = object({
  experimentKey,
  metrics: optional(list(z.unknown(), Number.POSITIVE_INFINITY)),
  series: optional(list(z.unknown(), Number.POSITIVE_INFINITY)),
})

type Envelope = z.output<typeof envelopeFields>

/**
 * Checks a batch without its points: it has an experiment key, and at least one of the two lists.
 *
 * @param sent what JSON says, or the bytes of an Arrow stream
 * @throws HttpError
 */
export function readEnvelope(sent: unknown): Envelope {
  const body = sent instanceof Uint8Array ? readArrowBatch(sent) : sent
  const checked = envelopeFields.safeParse(body)
  if (!checked.success) throw toFieldError(checked.error, body)
  if (!checked.data.metrics && !checked.data.series) {
    throw new HttpError('badRequest', 'metrics: is missing (send points as "metrics", or whole series as "series")')
  }
  return checked.data
}

/**
 * Counts the points of a batch before any of them is checked.
 *
 * @throws HttpError `tooLarge`: two bytes of JSON make a point of 64 bytes in memory, so a limit on the body is not enough
 */
export function countPoints({ metrics, series }: Envelope): number {
  const points = (metrics?.length ?? 0) + (series ?? []).reduce<number>((sum, it) => sum + seriesLength(it), 0)
  if (points <= pointsMax) return points
  throw new HttpError('tooLarge', `The request has ${points} points: send at most ${pointsMax} in one request.`)
}

function seriesLength(raw: unknown): number {
  const values = (raw as { values?: unknown } | null)?.values
  return isColumn(values) ? values.length : 1
}

/** A list, or the numbers of an Arrow stream as they are. */
type Column = unknown[] | Float64Array | BigInt64Array

const isColumn = (value: unknown): value is Column =>
  Array.isArray(value) || value instanceof Float64Array || value instanceof BigInt64Array

/** Checks every point. A wrong one is rejected; the others are kept. */
export function readBatch({ metrics, series }: Envelope): Batch {
  const batch: Batch = { series: [], hasOwnIndexes: false, rejected: [], rejectedCount: 0 }
  if (metrics) readRows(batch, metrics)
  let rowIndex = metrics?.length ?? 0
  series?.forEach((raw, index) => {
    readSeries(batch, rowIndex, raw, index)
    rowIndex += seriesLength(raw)
  })
  return batch
}

type RowsOfSeries = {
  metric: string
  context: string
  points: ReturnType<typeof createSeriesPoints>
  /** The series whose row came after the last one of this: rows of the same few metrics take turns. */
  next: RowsOfSeries | undefined
}

function readRows(batch: Batch, metrics: unknown[]) {
  const byName = new Map<string, Map<string, RowsOfSeries>>()
  const all: RowsOfSeries[] = []
  const find = (metric: string, context: string) => {
    const contexts = byName.get(metric) ?? new Map<string, RowsOfSeries>()
    const known = contexts.get(context)
    if (known) return known
    const made = { metric, context, points: createSeriesPoints(metric, context), next: undefined }
    byName.set(metric, contexts.set(context, made))
    all.push(made)
    return made
  }
  let last: RowsOfSeries | undefined
  metrics.forEach((raw, index) => {
    const likely = last?.next
    const point = readPoint(raw, () => `metrics[${index}]`, likely)
    if (typeof point === 'string') {
      reject(batch, index, 1, point)
      return
    }
    const isLikely = point.metric === likely?.metric && point.context === likely.context
    const series = isLikely ? likely : find(point.metric, point.context)
    series.points.add(point, index)
    if (last) last.next = series
    last = series
  })
  for (const it of all) batch.series.push(it.points.take())
}

const absent = { success: true, data: undefined } as const

/**
 * Checks a series point by point, as rows are. If its columns differ in length its values cannot be matched to steps, so
 * all of it is rejected.
 */
function readSeries(batch: Batch, firstRowIndex: number, raw: unknown, index: number) {
  if (typeof raw !== 'object' || raw === null)
    return reject(batch, firstRowIndex, 1, `series[${index}]: expected an object`)
  const { metricName, values, firstIndex: first } = raw as Record<string, unknown>
  const steps = (raw as Record<string, unknown>).steps ?? undefined
  const epochs = (raw as Record<string, unknown>).epochs ?? undefined
  const timestamps = (raw as Record<string, unknown>).timestamps ?? undefined
  if (!isColumn(values)) return reject(batch, firstRowIndex, 1, `series[${index}].values: expected a list`)
  const { length } = values
  const rejectAll = (error: string) =>
    reject(batch, firstRowIndex, length, `series[${index}].${error}; none of its points was stored`)
  if (!isColumnOf(steps, length)) return rejectAll(`steps: ${describeLength(steps, length)}`)
  if (!isColumnOf(epochs, length)) return rejectAll(`epochs: ${describeLength(epochs, length)}`)
  if (!isColumnOf(timestamps, length)) return rejectAll(`timestamps: ${describeLength(timestamps, length)}`)
  const checked = first === undefined ? absent : firstIndex.safeParse(first)
  if (!checked.success) return rejectAll(describeFieldError(checked.error, 'firstIndex'))
  if ((checked.data ?? 0) + length - 1 > indexMax) {
    return rejectAll(`firstIndex: expected at most ${indexMax} for the last of its points`)
  }
  const firstPlace = checked.data ?? firstRowIndex
  batch.hasOwnIndexes ||= checked.data !== undefined
  if (length === 0) return
  const context = readPlainContext(raw)
  const isPlain =
    isPlainName(metricName) &&
    context !== undefined &&
    areAllPlainValues(values) &&
    areAllPlainIntegers(steps) &&
    areAllPlainIntegers(epochs) &&
    areAllPlainIntegers(timestamps)
  if (isPlain) {
    batch.series.push({
      metric: metricName,
      context,
      values,
      steps,
      epochs,
      timestamps,
      present: toPresentBits(steps, epochs, timestamps),
      presents: undefined,
      firstPlace,
      places: undefined,
      kept: length,
    })
    return
  }
  let points: ReturnType<typeof createSeriesPoints> | undefined
  for (let at = 0; at < length; at++) {
    const fields = {
      ...raw,
      metricValue: values[at],
      step: steps?.[at],
      epoch: epochs?.[at],
      timestamp: timestamps?.[at],
    }
    const point = readPoint(fields, () => `series[${index}][${at}]`)
    if (typeof point === 'string') {
      reject(batch, firstRowIndex + at, 1, point)
      continue
    }
    points ??= createSeriesPoints(point.metric, point.context)
    points.add(point, firstPlace + at)
  }
  if (points) batch.series.push(points.take())
}

/* The same shortcut as for rows, for columns that are there for every point. `every` would take three times as long. */

function areAllPlainValues(values: Column): values is number[] | Float64Array {
  // Any float can be stored, and any 64-bit integer.
  if (!Array.isArray(values)) return values instanceof Float64Array
  for (let at = 0; at < values.length; at++) if (!isPlainValue(values[at])) return false
  return true
}

function areAllPlainIntegers(column: Column | undefined): column is number[] | BigInt64Array | undefined {
  if (!Array.isArray(column)) return !(column instanceof Float64Array)
  for (let at = 0; at < column.length; at++) {
    const value = column[at]
    if (value == null || !isPlainInteger(value)) return false
  }
  return true
}

const isColumnOf = (value: unknown, length: number): value is Column | undefined =>
  value === undefined || (isColumn(value) && value.length === length)

const describeLength = (column: unknown, length: number) =>
  isColumn(column) ? `has ${column.length} entries, but values has ${length}` : 'expected a list'

function reject(batch: Batch, index: number, count: number, msg: string) {
  batch.rejectedCount += count
  if (batch.rejected.length < rejectedShownMax) batch.rejected.push({ index, msg })
}
