import type { Logger } from 'pino'
import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import { type ClickHouse, isPermanent } from '../store/clickhouse/connection.ts'
import type { QueueBackend } from '../store/queue/queue-backend.ts'
import { type QueueName, queueNames, queues } from '../store/queue/queues.ts'
import { createBatcher } from './batcher.ts'

type Settings = {
  backend: QueueBackend
  clickhouse: ClickHouse
  figures: Registry
  log: Logger
}

const rowsMax = 100_000
const bytesMax = 16 * 1024 * 1024
const gapMs = 150

/**
 * Moves blocks from every queue into ClickHouse. `close` takes no more jobs, stores those at work, and gives back to the
 * queue what cannot be stored now.
 */
export function startWorker({ backend, clickhouse, figures, log }: Settings): { close(): Promise<void> } {
  const count = createCounts(figures)
  const lines = queueNames.map((name) => startLine(name, { backend, clickhouse, log, count }))
  return {
    async close() {
      await Promise.all(lines.map((it) => it.close()))
    },
  }
}

type LineSettings = Pick<Settings, 'backend' | 'clickhouse' | 'log'> & { count: ReturnType<typeof createCounts> }

function startLine(name: QueueName, { backend, clickhouse, log, count }: LineSettings) {
  const { table, jobsAtOnce } = queues[name]
  const batcher = createBatcher({
    insert: (blocks, token) => clickhouse.insertBlocks(table.name, blocks, token),
    isPermanent,
    rowsMax,
    bytesMax,
    blocksMax: jobsAtOnce,
    gapMs,
    onStored({ rows, oldestReceivedMs, insertMs }) {
      count.rows.inc({ table: table.name }, rows)
      count.inserts.observe({ table: table.name }, insertMs / 1000)
      count.lag.set({ table: table.name }, (Date.now() - oldestReceivedMs) / 1000)
    },
    onFault(error, what) {
      count.faults.inc({ table: table.name })
      log.warn({ err: error, table: table.name }, what)
    },
  })
  const consumer = backend.openConsumer({
    name,
    jobsAtOnce,
    store: (block) => batcher.add(block),
    onError: (error) => log.warn({ err: error, queue: name }, 'the queue reported a fault'),
  })
  return {
    async close() {
      const drained = consumer.close()
      await batcher.close()
      await drained
    },
  }
}

function createCounts(figures: Registry) {
  const labelNames = ['table'] as const
  const registers = [figures]
  return {
    rows: new Counter({ name: 'svc_rows_stored_total', help: 'Rows inserted into ClickHouse', labelNames, registers }),
    faults: new Counter({ name: 'svc_insert_faults_total', help: 'Inserts that failed', labelNames, registers }),
    lag: new Gauge({
      name: 'svc_stored_lag_seconds',
      help: 'From the acceptance of the oldest row of the last insert to its being readable',
      labelNames,
      registers,
    }),
    inserts: new Histogram({
      name: 'svc_insert_seconds',
      help: 'Duration of an insert, repetitions included',
      labelNames,
      registers,
      buckets: [0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30],
    }),
  }
}
