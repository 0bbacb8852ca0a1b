import type { Route } from '../../http/route.ts'
import { createIngest } from '../../ingest/ingest.ts'
import type { RouteParts } from './parts.ts'

/** Takes writes of the stream and monitoring events, and puts them into the queue. */
export async function openIngest(parts: RouteParts): Promise<Route[]> {
  const { settings, database, clickhouse, backend, heartbeats, throttle, counters } = parts
  const { metricsRegistry, tracing, closers, onStoreError, nameQueueError } = parts
  const ingest = await nameQueueError(
    createIngest({
      queries: database,
      clickhouse,
      backend,
      heartbeats,
      throttle,
      counters,
      seriesLimits: settings.seriesLimits,
      onClickHouseError: onStoreError('clickhouse'),
      onPostgresError: onStoreError('postgres'),
      commitWaitMs: settings.commitWaitMs,
      eventLeaseMs: settings.eventLeaseMs,
      queueMax: settings.queueMax,
      metricsRegistry,
      tracing,
    }),
  )
  closers.push(() => ingest.close())
  return ingest.routes.map((it) => ({ ...it, tier: 'ingest' as const }))
}
