import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import type { Closers } from '../../runtime/closers.ts'
import type { Tracing } from '../../runtime/tracing.ts'
import type { ClickHouse } from '../../store/clickhouse/connection.ts'
import type { EventReader } from '../../store/clickhouse/monitoring/reader.ts'
import type { Secrets } from '../../store/postgres/accounts/secrets.ts'
import type { Database } from '../../store/postgres/database.ts'
import type { Heartbeats } from '../../store/postgres/experiments/heartbeats.ts'
import type { QueueBackend } from '../../store/queue/queue.ts'
import type { Counters } from '../../throttle/counters.ts'
import type { Throttle } from '../../throttle/throttle.ts'
import type { Settings, StoreUrls } from '../settings.ts'

/** How often a role looks, where that is no setting: tests do not wait as long. */
export type Intervals = {
  storeMetricsMs?: number
  liveMs?: number
  webhooksMs?: number
  /** What a stopping worker waits for webhooks that are under way. */
  webhooksFinishMs?: number
}

/** What every role is given. Each pushes its closers, and leaves what it was given open. */
export type Parts = {
  stores: StoreUrls
  settings: Settings
  intervals: Intervals
  database: Database
  clickhouse: ClickHouse
  eventReader: EventReader
  backend: QueueBackend
  secrets: Secrets | undefined
  metricsRegistry: Registry
  tracing: Tracing | undefined
  closers: Closers
  log: Logger
  onStoreError(store: string): (error: unknown) => void
  /** Has a fault of the queue name the store and its address. */
  nameQueueError<T>(work: Promise<T>): Promise<T>
}

/** What a role with routes is given as well. */
export type RouteParts = Parts & { heartbeats: Heartbeats; throttle: Throttle; counters: Counters }
