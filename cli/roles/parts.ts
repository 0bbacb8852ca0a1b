import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import type { SignsOfLife } from '../../http/signs-of-life.ts'
import type { Counters } from '../../http/throttle/counters.ts'
import type { Throttle } from '../../http/throttle/throttle.ts'
import type { Tracing } from '../../http/tracing.ts'
import type { ClickHouse } from '../../store/clickhouse/connection.ts'
import type { Closers } from '../../store/closers.ts'
import type { Database } from '../../store/postgres/database.ts'
import type { Secrets } from '../../store/postgres/secrets.ts'
import type { QueueBackend } from '../../store/queue/queue-backend.ts'
import type { Settings, StoreUrls } from '../settings.ts'

/** What every role is given. Each pushes its closers, and leaves what it was given open. */
export type Parts = {
  stores: StoreUrls
  settings: Settings
  database: Database
  clickhouse: ClickHouse
  backend: QueueBackend
  secrets: Secrets | undefined
  figures: Registry
  tracing: Tracing | undefined
  closers: Closers
  log: Logger
  onStoreFault(store: string): (error: unknown) => void
  /** Has a fault of the queue name the store and its address. */
  nameQueueFault<T>(work: Promise<T>): Promise<T>
}

/** What a role with routes is given as well. */
export type RouteParts = Parts & { signs: SignsOfLife; throttle: Throttle; counters: Counters }
