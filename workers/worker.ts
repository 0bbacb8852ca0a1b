import type { Logger } from 'pino'
import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import { repeat } from '../runtime/poll.ts'
import type { Tracing } from '../runtime/tracing.ts'
import { type ClickHouse, isPermanent } from '../store/clickhouse/connection.ts'
import { deleteExperimentRows } from '../store/clickhouse/deletions.ts'
import { storeBlocks } from '../store/clickhouse/points/store-blocks.ts'
import { dropEarlierViews } from '../store/clickhouse/points/summaries/earlier-views.ts'
import { noteStoredForms } from '../store/form-notes.ts'
import { expireAudit } from '../store/postgres/accounts/audit-chain.ts'
import type { Database } from '../store/postgres/database.ts'
import { insertDeadLetter } from '../store/postgres/dead-letters.ts'
import { deleteExperiments, listDeletedBefore } from '../store/postgres/experiments/experiments.ts'
import { deleteOldDriftWindows } from '../store/postgres/monitoring/drift-windows.ts'
import { deleteIngestionErrors } from '../store/postgres/monitoring/ingestion-errors.ts'
import { purgeDeletedProjects } from '../store/postgres/projects/deletion.ts'
import type { QueueBackend } from '../store/queue/queue.ts'
import { type QueueName, queueNames, queues } from '../store/queue/queues.ts'
import { createBatchTrace } from './inserts/batch-trace.ts'
import { createBatcher } from './inserts/batcher.ts'
import { storeAroundPoisonRows } from './inserts/poison-rows.ts'
import { expire } from './retention/expiry.ts'
import { sweepGivenUpImports } from './retention/given-up-imports.ts'
import { createRetention } from './retention/retention.ts'

type Settings = {
  backend: QueueBackend
  /** Where dead letters are kept. */
  queries: Database
  clickhouse: ClickHouse
  /** How long a deleted experiment can be restored. */
  deletedKeptForMs: number
  /** How long entries of the audit log are kept; undefined: for ever. */
  auditKeptDays?: number | undefined
  /** How long the errors of events can be read. */
  ingestionErrorsKeptDays: number
  /** Ten minutes if absent. */
  sweepEveryMs?: number | undefined
  metricsRegistry: Registry
  tracing?: Tracing
  log: Logger
}

const bytesMax = 16 * 1024 * 1024
const gapMs = 150
const gapMsMax = 600

const dayMs = 24 * 3_600_000
const defaultSweepEveryMs = 10 * 60_000
const sweptAtOnce = 1_000

/**
 * Moves blocks from every queue into ClickHouse; rows that ClickHouse refuses for good become dead letters. Every ten minutes
 * it deletes what has expired, notes in which forms points are stored where Postgres has forgotten it, and drops views that are no longer needed. `close` takes no more jobs, stores the active ones,
 * and returns to the queue those that it cannot store now.
 */
export async function startWorker({
  backend,
  queries,
  clickhouse,
  deletedKeptForMs,
  auditKeptDays,
  ingestionErrorsKeptDays,
  sweepEveryMs = defaultSweepEveryMs,
  metricsRegistry,
  tracing,
  log,
}: Settings): Promise<{ close(): Promise<void> }> {
  const count = createCounts(metricsRegistry)
  // One by one: all at once would open a connection for each.
  const inserts = await Array.fromAsync(queueNames, (name) =>
    startInserts(name, { backend, queries, clickhouse, tracing, log, count }),
  )
  const retention = createRetention({
    deleteProjects: (timeMs) => purgeDeletedProjects(queries, timeMs),
    listDeletedBefore: (timeMs) => listDeletedBefore(queries, timeMs, sweptAtOnce),
    deleteRows: (ids) => deleteExperimentRows(clickhouse, ids),
    deleteExperiments: (ids) => deleteExperiments(queries, ids),
    async deleteOld() {
      await deleteIngestionErrors(queries, ingestionErrorsKeptDays)
      await deleteOldDriftWindows(queries, Date.now())
      if (auditKeptDays !== undefined) await expireAudit(queries, Date.now() - auditKeptDays * dayMs)
      await sweepGivenUpImports(queries, clickhouse)
      try {
        const rows = await expire({ database: queries, clickhouse })
        if (rows > 0) log.info({ rows }, 'expired rows were deleted')
      } catch (error) {
        // Deleted experiments must be swept even if this fails.
        log.warn({ err: error }, 'expired rows could not be deleted; the worker will try again')
      }
    },
    keptForMs: deletedKeptForMs,
    everyMs: sweepEveryMs,
    onError: (error) => log.warn({ err: error }, 'deleted experiments could not be swept; the worker will try again'),
  })
  const notes = repeat({
    everyMs: sweepEveryMs,
    async work() {
      const forgotten = await noteStoredForms(clickhouse, queries)
      if (forgotten === 0) return
      log.warn({ forgotten }, 'Postgres had forgotten that experiments have points; they are read again')
    },
    onError: (error) =>
      log.warn({ err: error }, 'points that Postgres has forgotten could not be looked for; the worker will try again'),
  })
  const views = repeat({
    everyMs: sweepEveryMs,
    async work() {
      if (await dropEarlierViews(clickhouse))
        log.info('the views that summarized points before workers did are dropped')
    },
    onError: (error) =>
      log.warn({ err: error }, 'views of an earlier version could not be dropped; the worker will try again'),
  })
  return {
    async close() {
      await Promise.all([retention.close(), notes.close(), views.close(), ...inserts.map((it) => it.close())])
    },
  }
}

type InsertSettings = Pick<Settings, 'backend' | 'queries' | 'clickhouse' | 'tracing' | 'log'> & {
  count: ReturnType<typeof createCounts>
}

async function startInserts(name: QueueName, { backend, queries, clickhouse, tracing, log, count }: InsertSettings) {
  const { table, jobsAtOnce, rowsMax } = queues[name]
  const trace = tracing && createBatchTrace(tracing, name, table.name)
  const insertUntraced = (blocks: Buffer[]) => storeBlocks(clickhouse, table, blocks)
  const insert = trace ? (blocks: Buffer[]) => trace.insert(() => insertUntraced(blocks)) : insertUntraced
  const batcher = createBatcher({
    insert,
    around: trace?.batch,
    isPermanent,
    storeAround: (block, insertError) =>
      storeAroundPoisonRows(block, insertError, {
        insert,
        isPermanent,
        async quarantine(poison, reason) {
          await insertDeadLetter(queries, { queue: name, ...poison, reason })
          count.deadRows.inc({ table: table.name }, poison.rows)
          log.error(
            { table: table.name, rows: poison.rows, reason },
            'ClickHouse refused rows for good; they are dead letters now',
          )
        },
      }),
    rowsMax,
    bytesMax,
    blocksMax: jobsAtOnce,
    gapMs,
    gapMsMax,
    onStored({ rows, oldestReceivedMs, insertMs }) {
      count.rows.inc({ table: table.name }, rows)
      count.inserts.observe({ table: table.name }, insertMs / 1000)
      count.batchRows.observe({ table: table.name }, rows)
      count.lag.set({ table: table.name }, (Date.now() - oldestReceivedMs) / 1000)
    },
    onError(error, what) {
      count.errors.inc({ table: table.name })
      log.warn({ err: error, table: table.name }, what)
    },
  })
  const consumer = await backend.openConsumer({
    name,
    jobsAtOnce,
    store: trace ? (block) => trace.job(block, batcher.add) : batcher.add,
    onError: (error) => log.warn({ err: error, queue: name }, 'the queue reported an error'),
  })
  return {
    async close() {
      const drained = consumer.close()
      await batcher.close()
      await drained
    },
  }
}

function createCounts(metricsRegistry: Registry) {
  const labelNames = ['table'] as const
  const registers = [metricsRegistry]
  return {
    rows: new Counter({
      name: 'svc_rows_stored_total',
      help: 'Rows inserted into ClickHouse; a chunk of points or values is one',
      labelNames,
      registers,
    }),
    deadRows: new Counter({
      name: 'svc_rows_set_aside_total',
      help: 'Rows that ClickHouse refused for good, kept as dead letters',
      labelNames,
      registers,
    }),
    errors: new Counter({ name: 'svc_insert_faults_total', help: 'Inserts that failed', labelNames, registers }),
    lag: new Gauge({
      name: 'svc_stored_lag_seconds',
      help: 'From the acceptance of the oldest row of the last insert until it is readable',
      labelNames,
      registers,
    }),
    batchRows: new Histogram({
      name: 'svc_insert_rows',
      help: 'Rows of an insert',
      labelNames,
      registers,
      buckets: [1, 10, 100, 1_000, 10_000, 30_000, 100_000],
    }),
    inserts: new Histogram({
      name: 'svc_insert_seconds',
      help: 'Duration of an insert, including retries',
      labelNames,
      registers,
      buckets: [0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30],
    }),
  }
}
