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

/** The context, step, epoch and time of a value; clients spell the context in two ways. */
export const positionFields = {
  context,
  runContext: context,
  step: optional(int64),
  epoch: optional(int64),
  timestamp: optional(timestampMs),
}

/** The fields of a point in a request. */
export const pointFields = object({ metricName, metricValue: float64, ...positionFields })

/** A checked point. Fields that the client did not send are undefined. */
export type Point = {
  metric: string
  context: string
  value: number
  step: number | bigint | undefined
  epoch: number | bigint | undefined
  timestamp: number | bigint | undefined
}

/**
 * Reads a point that needs no conversion; undefined for every other, right or wrong.
 *
 * @param likely a series of which other points were read: its texts are not checked again
 */
export function readPlainPoint(raw: unknown, likely?: Pick<Point, 'metric' | 'context'>): Point | undefined {
  if (typeof raw !== 'object' || raw === null) return undefined
  const { metricName, metricValue, step, epoch, timestamp } = raw as Record<string, unknown>
  if (!isPlainValue(metricValue)) return undefined
  if (!isPlainInteger(step) || !isPlainInteger(epoch) || !isPlainInteger(timestamp)) return undefined
  if (likely && isOfSeries(raw, likely)) {
    return toPlainPoint(likely.metric, likely.context, metricValue, step, epoch, timestamp)
  }
  const context = readPlainContext(raw)
  if (context === undefined || !isPlainName(metricName)) return undefined
  return toPlainPoint(metricName, context, metricValue, step, epoch, timestamp)
}

function isOfSeries(
  raw: { metricName?: unknown; context?: unknown; runContext?: unknown },
  { metric, context }: Pick<Point, 'metric' | 'context'>,
): boolean {
  return raw.metricName === metric && raw.runContext == null && (raw.context ?? '') === context
}

/** Builds a point from values that need no conversion. */
function toPlainPoint(
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
 * Reads one point.
 *
 * @param where returns its path in the request
 * @param likely the series that it probably belongs to
 * @returns the error message for a wrong point
 */
export function readPoint(
  raw: unknown,
  where: () => string,
  likely?: Pick<Point, 'metric' | 'context'>,
): Point | string {
  const plain = readPlainPoint(raw, likely)
  if (plain) return plain
  const checked = pointFields.safeParse(raw)
  return checked.success ? toPoint(checked.data) : describeFieldError(checked.error, where())
}

export function toPoint({ metricName, metricValue, ...position }: z.output<typeof pointFields>): Point {
  const { context, runContext, step, epoch, timestamp } = position
  return { metric: metricName, context: context ?? runContext ?? '', value: metricValue, step, epoch, timestamp }
}

/*
 * Fast checks: most points need no conversion. A point that fails one goes to the schema, and only the schema rejects points.
 * A property test checks that both agree.
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

/** The context of a point or a series; undefined when only the schema can read it. */
export function readPlainContext(raw: { context?: unknown; runContext?: unknown }): string | undefined {
  if (raw.runContext != null) return undefined
  const context = raw.context ?? ''
  return isPlainText(context) ? context : undefined
}

function isPlainText(value: unknown): value is string {
  return typeof value === 'string' && value.length <= nameCharactersMax && isStorable(value)
}
