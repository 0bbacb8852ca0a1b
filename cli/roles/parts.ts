import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import type { CountSignIn } from '../../http/sign-in/sign-ins.ts'
import type { Closers } from '../../runtime/closers.ts'
import type { Tracing } from '../../runtime/tracing.ts'
import type { ClickHouse } from '../../store/clickhouse/connection.ts'
import type { EventReader } from '../../store/clickhouse/monitoring/reader.ts'
import type { Sandbox } from '../../store/clickhouse/monitoring/sql/sandbox.ts'
import type { Secrets } from '../../store/postgres/accounts/secrets.ts'
import type { Database } from '../../store/postgres/database.ts'
import type { Heartbeats } from '../../store/postgres/experiments/heartbeats.ts'
import type { QueueBackend } from '../../store/queue/queue.ts'
import type { Counters } from '../../throttle/counters.ts'
import type { Tenants } from '../../throttle/tenants.ts'
import type { Throttle } from '../../throttle/throttle.ts'
import type { Settings, StoreUrls } from '../settings.ts'

/** Intervals without a setting; tests use shorter ones. */
export type Intervals = {
  storeMetricsMs?: number
  liveMs?: number
  webhooksMs?: number
  /** How long a stopping worker waits for webhooks that it is sending. */
  webhooksFinishMs?: number
  identitiesMs?: number
  /** How often a worker deletes what has expired. */
  sweepMs?: number
}

/** The dependencies of every role. A role pushes closers for what it opens, and closes nothing else. */
export type Parts = {
  stores: StoreUrls
  settings: Settings
  intervals: Intervals
  database: Database
  clickhouse: ClickHouse
  tenants: Tenants
  eventReader: EventReader
  /** Undefined when callers may send no SQL. */
  sandbox: Sandbox | undefined
  backend: QueueBackend
  secrets: Secrets | undefined
  metricsRegistry: Registry
  tracing: Tracing | undefined
  closers: Closers
  log: Logger
  onStoreError(store: string): (error: unknown) => void
  /** Adds the store and its address to an error of the queue. */
  nameQueueError<T>(work: Promise<T>): Promise<T>
}

/** The further dependencies of a role with routes. */
export type RouteParts = Parts & {
  heartbeats: Heartbeats
  throttle: Throttle
  counters: Counters
  countSignIn: CountSignIn
}
