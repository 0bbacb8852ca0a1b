import { z } from 'zod'
import { int64, list, object, optional, text } from '../../../http/body/fields.ts'
import { HttpError } from '../../../http/errors.ts'
import { countEvents } from '../../../store/clickhouse/monitoring/event-counts.ts'
import type { EventReader } from '../../../store/clickhouse/monitoring/reader.ts'
import { countWindows, type EventScope, type Windows } from '../../../store/clickhouse/monitoring/scope.ts'
import type { ValuePart } from '../../../store/clickhouse/monitoring/tables.ts'
import { boundsOf } from '../windows.ts'

/**
 * The fields that the reads of `comet_mpm.API` share. They ask about one model, by its id, in hours or days of UTC, and once
 * for each of some conditions ("predicates"). All answers are series of points `{x, y}`, one series for each condition.
 */

export const readerRoute = {
  method: 'POST',
  charge: 'none',
  permission: 'caller',
  topic: 'Production monitoring: the reader of comet_mpm',
  atRoot: true,
  shape: 'plain',
} as const

const intervals = { HOURLY: 3_600_000, DAILY: 86_400_000 }
const predicatesMax = 100

const instant = z
  .union([z.string(), z.number(), z.bigint()], 'expected a time')
  .transform((value, context) => {
    const ms = toMs(value)
    if (ms !== undefined) return ms
    context.addIssue({
      code: 'custom',
      message: 'expected a time, such as 2026-01-31T00:00:00Z, or ms since the Unix epoch',
    })
    return z.NEVER
  })
  .meta({ type: ['string', 'integer'] })

function toMs(value: string | number | bigint): number | undefined {
  if (typeof value !== 'string' || /^\d+$/.test(value)) {
    const exact = int64.safeParse(value)
    return exact.success ? Number(exact.data) : undefined
  }
  if (!/^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?)?$/.test(value)) return undefined
  const isZoned = value.length === 10 || /(Z|[+-]\d\d:\d\d)$/.test(value.slice(11))
  const ms = Date.parse(`${value.replace(' ', 'T')}${isZoned ? '' : 'Z'}`)
  return Number.isNaN(ms) ? undefined : ms
}

/** The model, the time and the conditions of a read. */
export const readFields = {
  modelId: text(100, 1),
  from: optional(instant).describe(
    'start, included: a time of UTC, or ms since the Unix epoch; the first event when absent',
  ),
  to: optional(instant).describe('end, excluded; after the last event when absent'),
  intervalType: optional(
    z
      .string()
      .toUpperCase()
      .pipe(z.enum(['DAILY', 'HOURLY'], 'must be DAILY or HOURLY')),
  ).describe('days or hours of UTC; DAILY when absent. The first and the last may be cut by `from` and `to`'),
  predicates: optional(list(object({ key: text(10_000, 1), query: text(10_000, 1) }), predicatesMax)).describe(
    'conditions in SQL on the columns of the model, each with the name of its series; one series "all" when empty',
  ),
  version: optional(text(1_000)).describe('only this version; all versions when absent'),
}

/** The column of a read, and where it is found. */
export const sources = {
  model_input_features: 'feature',
  model_output_features: 'prediction',
  model_labels: 'label',
} as const satisfies Record<string, ValuePart>

export const sourceField = optional(
  z.enum(Object.keys(sources) as (keyof typeof sources)[], `must be one of ${Object.keys(sources).join(', ')}`),
).describe('model_input_features when absent')

const x = z.string().describe('the start of the hour or day')
const y = z.number().nullable()
export const points = z.array(z.object({ x, y }))

/** One series for each condition. */
export const seriesAnswer = z.object({ data: z.array(z.object({ predicateKey: z.string(), data: points })) })

type RangeQuery = {
  from?: number | undefined
  to?: number | undefined
  intervalType?: keyof typeof intervals | undefined
  version?: string | undefined
}

/** The events of a read, their hours or days, and the start of each. */
export type ReadRange = { scope: EventScope; windows: Windows; starts: string[] }

/** @throws HttpError that names the field */
export async function findRange(
  reader: EventReader,
  modelId: bigint,
  { from, to, intervalType = 'DAILY', version }: RangeQuery,
  windowsMax = 1_000,
): Promise<ReadRange> {
  const intervalMs = intervals[intervalType]
  const whole: EventScope = { modelId, kind: 'EVENTS', version, from, to }
  const extent = from === undefined || to === undefined ? await countEvents(reader, whole) : undefined
  const isEmpty = !extent || extent.events === 0
  const end = to ?? (isEmpty ? (from ?? Date.now()) + 1 : extent.lastAt + 1)
  const start = from ?? (isEmpty ? end - 1 : extent.firstAt)
  if (start >= end) throw new HttpError('badRequest', 'to: must be later than from')
  const windows = { from: Math.floor(start / intervalMs) * intervalMs, to: end, intervalMs }
  const count = countWindows(windows)
  if (count > windowsMax) {
    throw new HttpError(
      'badRequest',
      `intervalType: makes more than ${windowsMax} intervals: ask for less time, or for days`,
    )
  }
  const starts = Array.from({ length: count }, (_, at) => new Date(boundsOf(windows, at).from).toISOString())
  return { scope: { ...whole, from: start, to: end }, windows, starts }
}

/** A series: `toY` gives the value of each hour or day. */
export const toPoints = ({ starts }: ReadRange, toY: (at: number) => number | null | undefined) =>
  starts.map((x, at) => ({ x, y: toY(at) ?? null }))
