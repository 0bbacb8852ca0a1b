import { Counter, Histogram, type Registry } from 'prom-client'
import type { Route } from '../http/route.ts'
import { createBatchLoader } from '../runtime/batch-loader.ts'
import type { Tracing } from '../runtime/tracing.ts'
import type { ClickHouse } from '../store/clickhouse/connection.ts'
import { countPointsBySeries, countSeries } from '../store/clickhouse/points/series-counts.ts'
import type { Database } from '../store/postgres/database.ts'
import { findWritableExperiments } from '../store/postgres/experiments/experiments.ts'
import type { Heartbeats } from '../store/postgres/experiments/heartbeats.ts'
import { addIngestionErrors } from '../store/postgres/monitoring/ingestion-errors.ts'
import { upsertReferenceSet } from '../store/postgres/monitoring/reference-sets.ts'
import type { QueueBackend } from '../store/queue/queue.ts'
import { openQueueMetrics } from '../store/queue/queue-metrics.ts'
import { type QueueName, queues } from '../store/queue/queues.ts'
import type { Counters } from '../throttle/counters.ts'
import type { Throttle } from '../throttle/throttle.ts'
import { createBlockTrace } from './block-trace.ts'
import { createCommitter, type QueueMax } from './committer.ts'
import { createExperimentCheck } from './experiments.ts'
import { createClaimBatches } from './monitoring/claim-batches.ts'
import { createCsvRoutes } from './monitoring/csv/upload.ts'
import { createErrorLog } from './monitoring/error-log.ts'
import { createModelCheck } from './monitoring/models.ts'
import { createMonitoringRoutes } from './monitoring/routes.ts'
import { createTombstones } from './monitoring/tombstones.ts'
import { createSeriesLimits, type SeriesLimits } from './points/series-limits.ts'
import { createIngestRoutes } from './routes.ts'

type Settings = {
  queries: Database
  clickhouse: ClickHouse
  backend: QueueBackend
  heartbeats: Heartbeats
  throttle: Throttle
  counters: Counters
  seriesLimits: SeriesLimits
  onClickHouseError(error: unknown): void
  onPostgresError(error: unknown): void
  commitWaitMs: number
  /** A claim on a prediction id that is open for longer is stale: another request may take it over. */
  eventLeaseMs: number
  queueMax: QueueMax
  metricsRegistry: Registry
  tracing?: Tracing
}

export type Ingest = {
  routes: Route[]
  /** Commits all open blocks. Call it when no more requests come in. */
  close(): Promise<void>
}

const rowsMax = 65_536
const bytesMax = 4 * 1024 * 1024
const pendingBytesMax = 128 * 1024 * 1024
const tombstonesEveryMs = 5_000

/** The write tier: its routes, with one committer for each data type. */
export async function createIngest(settings: Settings): Promise<Ingest> {
  const { queries, clickhouse, backend, heartbeats, throttle, counters, metricsRegistry, tracing } = settings
  const count = createCounts(metricsRegistry)
  const queue = openQueueMetrics(metricsRegistry)
  queue.blocksMax.set(settings.queueMax.blocks)

  async function openCommitter<Name extends QueueName>(name: Name) {
    const { table } = queues[name]
    return createCommitter({
      table,
      producer: await backend.openProducer(name),
      waitMs: settings.commitWaitMs,
      rowsMax,
      bytesMax,
      pendingBytesMax,
      queueMax: settings.queueMax,
      trace: tracing && createBlockTrace(tracing, name),
      onClosed({ bytes, commitMs }) {
        count.blocks.inc({ table: table.name })
        count.bytes.inc({ table: table.name }, bytes)
        count.commits.observe({ table: table.name }, commitMs / 1000)
      },
      onLoad({ blocks, memoryShare }) {
        queue.depth.set({ queue: name }, blocks)
        queue.memoryShare.set(memoryShare)
      },
    })
  }

  const committers = {
    metrics: await openCommitter('metrics'),
    metricChunks: await openCommitter('metricChunks'),
    systemMetrics: await openCommitter('systemMetrics'),
    output: await openCommitter('output'),
    events: await openCommitter('events'),
    eventValues: await openCommitter('eventValues'),
    eventValueChunks: await openCommitter('eventValueChunks'),
    voidedEvents: await openCommitter('voidedEvents'),
  }
  const accepted = {
    metrics: count.rows.labels('metrics'),
    systemMetrics: count.rows.labels('systemMetrics'),
    output: count.rows.labels('output'),
    events: count.rows.labels('events'),
  }
  const tombstones = createTombstones({
    queries,
    committer: committers.voidedEvents,
    everyMs: tombstonesEveryMs,
    onError: settings.onPostgresError,
  })
  const errorLog = createErrorLog({
    write: (errors) => addIngestionErrors(queries, errors),
    onError: settings.onPostgresError,
  })
  const monitoringDeps = {
    models: createModelCheck(queries),
    throttle,
    claimBatches: createClaimBatches({
      queries,
      committers,
      waitMs: settings.commitWaitMs,
      leaseMs: settings.eventLeaseMs,
      onTakenOver: tombstones.flush,
      onError: settings.onPostgresError,
    }),
    counters,
    errorLog,
    onAccepted: (events: number) => accepted.events.inc(events),
  }
  const monitoring = [
    ...createMonitoringRoutes(monitoringDeps),
    ...createCsvRoutes({
      ...monitoringDeps,
      noteReference: (set) => upsertReferenceSet(queries, { ...set, uploadedAtMs: Date.now() }),
    }),
  ]
  const routes = createIngestRoutes({
    database: queries,
    findExperiment: createExperimentCheck((viewerId, keys) => findWritableExperiments(queries, viewerId, keys)),
    throttle,
    limitSeries: createSeriesLimits({
      findTotals: createBatchLoader((ids: bigint[]) => countSeries(clickhouse, ids)),
      findPointsBySeries: (id) => countPointsBySeries(clickhouse, id),
      onError: settings.onClickHouseError,
      defaults: settings.seriesLimits,
      now: () => performance.now(),
    }),
    committers,
    heartbeats,
    counters,
    startMs: Date.now(),
    onAccepted: (type, rows) => accepted[type].inc(rows),
  })
  return {
    routes: [...routes, ...monitoring],
    async close() {
      await Promise.all([tombstones.close(), errorLog.close()])
      await Promise.all(Object.values(committers).map((it) => it.close()))
    },
  }
}

function createCounts(metricsRegistry: Registry) {
  const registers = [metricsRegistry]
  const labelNames = ['table'] as const
  return {
    rows: new Counter({
      name: 'svc_rows_accepted_total',
      help: 'Rows acknowledged to clients',
      labelNames: ['type'] as const,
      registers,
    }),
    blocks: new Counter({ name: 'svc_blocks_queued_total', help: 'Blocks put into the queue', labelNames, registers }),
    bytes: new Counter({
      name: 'svc_block_bytes_queued_total',
      help: 'Compressed bytes put into the queue',
      labelNames,
      registers,
    }),
    commits: new Histogram({
      name: 'svc_commit_seconds',
      help: 'From closing a block until the queue has it',
      labelNames,
      registers,
      buckets: [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3],
    }),
  }
}
