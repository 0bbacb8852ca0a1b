import type { z } from 'zod'
import { describeFault, float64, int64, isStorable, object, optional, text, timestampMs } from '../http/fields.ts'
import { present } from '../store/clickhouse/tables.ts'

const nameCharactersMax = 1_000

export const metricName = text(nameCharactersMax, 1)
const context = optional(text(nameCharactersMax))

/** Where and when something was logged; clients spell the context in two ways. */
export const placeFields = {
  context,
  runContext: context,
  step: optional(int64),
  epoch: optional(int64),
  timestamp: optional(timestampMs),
}

/** One point of a metric, as a request gives it. */
export const pointFields = object({ metricName, metricValue: float64, ...placeFields })

/** One point, checked. What the client left out is absent. */
export type Point = {
  metric: string
  context: string
  value: number
  step: number | bigint | undefined
  epoch: number | bigint | undefined
  timestamp: number | bigint | undefined
}

/** Reads a point that needs no conversion; undefined for every other, right or wrong. */
export function readPlainPoint(raw: unknown): Point | undefined {
  if (!isPlain(raw)) return undefined
  return {
    metric: raw.metricName,
    context: raw.context ?? '',
    value: raw.metricValue,
    step: raw.step ?? undefined,
    epoch: raw.epoch ?? undefined,
    timestamp: raw.timestamp ?? undefined,
  }
}

/**
 * Reads one point; a point that cannot be stored as it is comes back as the message that says why.
 *
 * @param where names its place in the request
 */
export function readPoint(raw: unknown, where: () => string): Point | string {
  const plain = readPlainPoint(raw)
  if (plain) return plain
  const checked = pointFields.safeParse(raw)
  return checked.success ? toPoint(checked.data) : describeFault(checked.error, where())
}

export function toPoint({ metricName, metricValue, ...place }: z.output<typeof pointFields>): Point {
  const { context, runContext, step, epoch, timestamp } = place
  return { metric: metricName, context: context ?? runContext ?? '', value: metricValue, step, epoch, timestamp }
}

type PlainPoint = {
  metricName: string
  metricValue: number
  context?: string | null
  step?: number | null
  epoch?: number | null
  timestamp?: number | null
}

/**
 * True for a point that needs no conversion, which most are. It is a shortcut past the schema, never a second opinion:
 * whatever is not plainly right goes to the schema, which alone refuses. A property test holds the two together.
 */
function isPlain(raw: unknown): raw is PlainPoint {
  if (typeof raw !== 'object' || raw === null) return false
  const { metricName, metricValue, context, runContext, step, epoch, timestamp } = raw as Record<string, unknown>
  return (
    typeof metricValue === 'number' &&
    Number.isFinite(metricValue) &&
    isPlainName(metricName) &&
    metricName !== '' &&
    (context == null || isPlainName(context)) &&
    runContext == null &&
    isPlainInteger(step) &&
    isPlainInteger(epoch) &&
    isPlainInteger(timestamp)
  )
}

function isPlainName(value: unknown): value is string {
  return typeof value === 'string' && value.length <= nameCharactersMax && isStorable(value)
}

function isPlainInteger(value: unknown): value is number | null | undefined {
  return value == null || (Number.isSafeInteger(value) && !Object.is(value, -0))
}

/** Which of the optional parts a point has, as the bits that are stored with it. */
export function toPresentBits(point: Pick<Point, 'step' | 'epoch' | 'timestamp'>): number {
  return (
    (point.step === undefined ? 0 : present.step) |
    (point.epoch === undefined ? 0 : present.epoch) |
    (point.timestamp === undefined ? 0 : present.timestamp)
  )
}
