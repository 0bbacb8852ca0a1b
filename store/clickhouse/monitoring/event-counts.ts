import { windowIndex } from './expressions.ts'
import type { EventReader } from './reader.ts'
import type { Catalog } from './rollups/catalog.ts'
import { countWindows, type EventScope, inWindows, type Windows } from './scope.ts'
import { countedEvents } from './source.ts'
import { type EventKind, eventKinds } from './tables.ts'

export type EventCount = { events: number; firstAt: number; lastAt: number; lastReceivedAt: number }

/** The number of events, and their time range (ms since the Unix epoch). */
export async function countEvents(
  reader: EventReader,
  scope: EventScope,
  known?: Catalog | undefined,
): Promise<EventCount> {
  const catalog = known ?? (await reader.findCatalog(scope))
  const [row] = await reader.read<Record<'events' | 'first' | 'last' | 'received', string>>(
    [countedEvents(scope, catalog)],
    ([rows]) =>
      `SELECT sum(weight) AS events, min(timestamp) AS first, max(latest) AS last, max(received) AS received FROM ${rows}`,
  )
  return {
    events: Number(row?.events),
    firstAt: Number(row?.first),
    lastAt: Number(row?.last),
    lastReceivedAt: Number(row?.received),
  }
}

/** How many events each window has. */
export async function countEventsOfWindows(
  reader: EventReader,
  scope: EventScope,
  windows: Windows,
): Promise<number[]> {
  if (windows.events !== undefined && countWindows(windows) === 1) return [windows.events]
  const catalog = await reader.findCatalog(scope)
  const rows = await reader.read<{ w: number; events: string }>(
    [countedEvents(inWindows(scope, windows), catalog, windows)],
    ([events]) => `SELECT ${windowIndex(windows)} AS w, sum(weight) AS events FROM ${events} GROUP BY w`,
  )
  const counts = Array<number>(countWindows(windows)).fill(0)
  for (const { w, events } of rows) counts[w] = Number(events)
  return counts
}

/** The number of events of one version and kind within an interval that begins at `startMs`. */
export type IntervalCount = { startMs: number; version: string; kind: number; events: number }

/**
 * Counts the events of every kind over time. Intervals begin at multiples of their width since the Unix epoch; empty ones are
 * left out.
 */
export async function countEventsOverTime(
  reader: EventReader,
  { from, to, ...rest }: Omit<EventScope, 'kind'> & { from: number; to: number },
  intervalMs: number,
): Promise<IntervalCount[]> {
  const windows = { from: Math.floor(from / intervalMs) * intervalMs, to, intervalMs }
  const counted = await Promise.all(
    (Object.keys(eventKinds) as EventKind[]).map(async (kind) => {
      const scope = { ...rest, kind, from, to }
      const catalog = await reader.findCatalog(scope)
      const rows = await reader.read<{ w: number; version: string; events: string }>(
        [countedEvents(scope, catalog, windows)],
        ([events]) =>
          `SELECT ${windowIndex(windows)} AS w, version, sum(weight) AS events FROM ${events} GROUP BY w, version`,
      )
      return rows.map(({ w, version, events }) => ({
        startMs: windows.from + Number(w) * intervalMs,
        version,
        kind: eventKinds[kind],
        events: Number(events),
      }))
    }),
  )
  return counted
    .flat()
    .toSorted(
      (a, b) => a.startMs - b.startMs || (a.version < b.version ? -1 : a.version > b.version ? 1 : a.kind - b.kind),
    )
}
