import { windowIndex } from './expressions.ts'
import type { EventReader } from './reader.ts'
import { type Catalog, findCatalog } from './rollups/catalog.ts'
import { countWindows, type EventScope, inWindows, type Windows } from './scope.ts'
import { countedEvents } from './source.ts'

export type EventCount = { events: number; firstAt: number; lastAt: number; lastReceivedAt: number }

/** The number of events, and their time range (ms since the Unix epoch). */
export async function countEvents(
  reader: EventReader,
  scope: EventScope,
  known?: Catalog | undefined,
): Promise<EventCount> {
  const catalog = known ?? (await findCatalog(reader.clickhouse, scope))
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
  const catalog = await findCatalog(reader.clickhouse, scope)
  const rows = await reader.read<{ w: number; events: string }>(
    [countedEvents(inWindows(scope, windows), catalog, windows)],
    ([events]) => `SELECT ${windowIndex(windows)} AS w, sum(weight) AS events FROM ${events} GROUP BY w`,
  )
  const counts = Array<number>(countWindows(windows)).fill(0)
  for (const { w, events } of rows) counts[w] = Number(events)
  return counts
}
