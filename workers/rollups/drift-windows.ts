import { countEvents } from '../../store/clickhouse/monitoring/event-counts.ts'
import type { EventReader } from '../../store/clickhouse/monitoring/reader.ts'
import type { ModelEvents } from '../../store/clickhouse/monitoring/scope.ts'
import { storeDriftMap } from '../../store/monitoring/drift-map.ts'
import { findReference } from '../../store/monitoring/reference.ts'
import type { Queries } from '../../store/postgres/database.ts'
import { findModelPlace } from '../../store/postgres/monitoring/models.ts'

const dayMs = 86_400_000
const daysMax = 90

/**
 * Stores the drift of the last days (UTC) of a model that has a reference, so that its map needs no event. Resolves with how
 * many were stored; most are there from the last time.
 */
export async function storeDriftOfDays(
  { queries, eventReader: reader }: { queries: Queries; eventReader: EventReader },
  { modelId }: Pick<ModelEvents, 'modelId'>,
  stop?: AbortSignal,
): Promise<number> {
  const place = await findModelPlace(queries, modelId)
  if (!place) return 0
  const wanted = { ...place, modelVersion: undefined, datasetName: undefined }
  const reference = await findReference({ queries, reader }, wanted)
  const current = { modelId, kind: 'EVENTS' } as const
  const { events, firstAt, lastAt } = await countEvents(reader, current)
  if (!reference || events === 0) return 0
  const to = (Math.floor(lastAt / dayMs) + 1) * dayMs
  const windows = { from: Math.max(Math.floor(firstAt / dayMs) * dayMs, to - daysMax * dayMs), to, intervalMs: dayMs }
  return await storeDriftMap({ queries, reader }, { reference, current, windows }, stop)
}
