import type { z } from 'zod'
import {
  describeFieldError,
  float64,
  int64,
  isStorable,
  object,
  optional,
  text,
  timestampMs,
} from '../../http/body/fields.ts'

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
  if (typeof raw !== 'object' || raw === null) return undefined
  const { metricName, metricValue, step, epoch, timestamp } = raw as Record<string, unknown>
  const context = readPlainContext(raw)
  if (context === undefined || !isPlainName(metricName) || !isPlainValue(metricValue)) return undefined
  if (!isPlainInteger(step) || !isPlainInteger(epoch) || !isPlainInteger(timestamp)) return undefined
  return toPlainPoint(metricName, context, metricValue, step, epoch, timestamp)
}

/** Puts a point together of parts that need no conversion. */
export function toPlainPoint(
  metric: string,
  context: string,
  value: number,
  step: Absent | number,
  epoch: Absent | number,
  timestamp: Absent | number,
): Point {
  return {
    metric,
    context,
    value,
    step: step ?? undefined,
    epoch: epoch ?? undefined,
    timestamp: timestamp ?? undefined,
  }
}

type Absent = null | undefined

/**
 * Reads one point; a point that cannot be stored as it is comes back as the message that says why.
 *
 * @param where names its place in the request
 */
export function readPoint(raw: unknown, where: () => string): Point | string {
  const plain = readPlainPoint(raw)
  if (plain) return plain
  const checked = pointFields.safeParse(raw)
  return checked.success ? toPoint(checked.data) : describeFieldError(checked.error, where())
}

export function toPoint({ metricName, metricValue, ...place }: z.output<typeof pointFields>): Point {
  const { context, runContext, step, epoch, timestamp } = place
  return { metric: metricName, context: context ?? runContext ?? '', value: metricValue, step, epoch, timestamp }
}

/*
 * The parts of a point that need no conversion, which most are. They are a shortcut past the schema, never a second opinion:
 * whatever is not plainly right goes to the schema, which alone refuses. A property test holds the two together.
 */

export function isPlainName(name: unknown): name is string {
  return name !== '' && isPlainText(name)
}

export function isPlainValue(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value)
}

export function isPlainInteger(value: unknown): value is number | Absent {
  return value == null || (Number.isSafeInteger(value) && !Object.is(value, -0))
}

/** The context of a point or a series; undefined when it needs a closer look. */
export function readPlainContext(raw: { context?: unknown; runContext?: unknown }): string | undefined {
  if (raw.runContext != null) return undefined
  const context = raw.context ?? ''
  return isPlainText(context) ? context : undefined
}

function isPlainText(value: unknown): value is string {
  return typeof value === 'string' && value.length <= nameCharactersMax && isStorable(value)
}
