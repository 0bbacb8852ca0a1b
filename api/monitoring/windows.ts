import { z } from 'zod'
import { int64, optional } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { countEvents } from '../../store/clickhouse/monitoring/event-counts.ts'
import type { EventReader } from '../../store/clickhouse/monitoring/reader.ts'
import { countWindows, type EventScope, type Windows } from '../../store/clickhouse/monitoring/scope.ts'

/** The time of a read, and its windows. */
export const windowFields = {
  from: optional(int64).describe('start, ms since the Unix epoch, included; the first event when absent'),
  to: optional(int64).describe('end, ms since the Unix epoch, excluded; after the last event when absent'),
  interval: optional(int64).describe('the length of a window in ms; one window when absent'),
}

/** The bounds of a window in an answer. */
export const windowAnswer = {
  from: z.int().describe('ms since the Unix epoch'),
  to: z.int().describe('ms since the Unix epoch, excluded'),
}

type WindowQuery = { from?: number | bigint; to?: number | bigint; interval?: number | bigint }

/**
 * The windows of a query. Without `from` or `to` they span its events; undefined if there are none then.
 *
 * @throws HttpError that names the field
 */
export async function findWindows(
  eventReader: EventReader,
  scope: EventScope,
  query: WindowQuery,
  windowsMax: number,
): Promise<Windows | undefined> {
  const interval = query.interval === undefined ? undefined : Number(query.interval)
  if (interval !== undefined && !(interval >= 1)) throw new HttpError('badRequest', 'interval: must be 1 ms or more')
  let [from, to] = [query.from, query.to].map((it) => (it === undefined ? undefined : Number(it)))
  let events: number | undefined
  if (from === undefined || to === undefined) {
    const extent = await countEvents(eventReader, { ...scope, from, to })
    if (extent.events === 0) return undefined
    events = extent.events
    // At multiples of the interval, so that windows stay the same when events are added.
    from ??= interval === undefined ? extent.firstAt : Math.floor(extent.firstAt / interval) * interval
    to ??= extent.lastAt + 1
  }
  if (from >= to) throw new HttpError('badRequest', 'to: must be later than from')
  const windows = { from, to, intervalMs: interval ?? to - from, events }
  if (countWindows(windows) > windowsMax) {
    throw new HttpError(
      'badRequest',
      `interval: makes more than ${windowsMax} windows: send a longer interval, or from and to`,
    )
  }
  return windows
}

/** The bounds of the window of an index. */
export function boundsOf({ from, to, intervalMs }: Windows, at: number): { from: number; to: number } {
  return { from: from + at * intervalMs, to: Math.min(to, from + (at + 1) * intervalMs) }
}
