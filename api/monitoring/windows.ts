import { z } from 'zod'
import { int64, optional } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { countEvents } from '../../store/clickhouse/monitoring/event-counts.ts'
import type { EventReader } from '../../store/clickhouse/monitoring/reader.ts'
import { countWindows, type EventScope, type Windows } from '../../store/clickhouse/monitoring/scope.ts'

/** How reads say which time they are about. */
export const windowFields = {
  from: optional(int64).describe('from then on, ms since the Unix epoch; the first event when absent'),
  to: optional(int64).describe('before then; after the last event when absent'),
  interval: optional(int64).describe('the length of a window in ms; one window for all of the time when absent'),
}

/** The fields of an answer that say which window it is. */
export const windowAnswer = {
  from: z.int().describe('ms since the Unix epoch'),
  to: z.int().describe('the window ends before then'),
}

type WindowQuery = { from?: number | bigint; to?: number | bigint; interval?: number | bigint }

/**
 * The windows that a query asks for; undefined when it leaves them to the events and there is none.
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
    // Windows are the same ones tomorrow.
    from ??= interval === undefined ? extent.firstAt : Math.floor(extent.firstAt / interval) * interval
    to ??= extent.lastAt + 1
  }
  if (from >= to) throw new HttpError('badRequest', 'to: must be later than from')
  const windows = { from, to, intervalMs: interval ?? to - from, events }
  if (countWindows(windows) > windowsMax) {
    throw new HttpError(
      'badRequest',
      `interval: makes more than ${windowsMax} windows of the time asked for: send a longer one, or from and to`,
    )
  }
  return windows
}

/** When a window begins and ends. */
export function boundsOf({ from, to, intervalMs }: Windows, at: number): { from: number; to: number } {
  return { from: from + at * intervalMs, to: Math.min(to, from + (at + 1) * intervalMs) }
}
