import { eventsTable, eventValuesTable, tombstonesTable } from '../clickhouse/monitoring/tables.ts'
import { valueChunksTable } from '../clickhouse/monitoring/value-chunks.ts'
import { chunkBlocks } from '../clickhouse/points/chunks.ts'
import { outputLinesTable, pointsTable, systemPointsTable } from '../clickhouse/points/tables.ts'

/**
 * The queues of the stream: one for each data type, so that one type never starves another. `jobsAtOnce` is how many
 * blocks one worker process holds in memory; they are inserted together, once they have `rowsMax` rows or have waited. An event
 * has a row for each value: small inserts of these are merged again and again.
 */
export const queues = {
  metrics: { table: pointsTable, jobsAtOnce: 256, rowsMax: 100_000 },
  /** Metrics too, where a request has many points of each series. A row has all of them. */
  metricChunks: { table: chunkBlocks, jobsAtOnce: 256, rowsMax: 100_000 },
  systemMetrics: { table: systemPointsTable, jobsAtOnce: 64, rowsMax: 100_000 },
  output: { table: outputLinesTable, jobsAtOnce: 64, rowsMax: 100_000 },
  events: { table: eventsTable, jobsAtOnce: 64, rowsMax: 100_000 },
  eventValues: { table: eventValuesTable, jobsAtOnce: 64, rowsMax: 500_000 },
  /** Values too, where a batch has many events of a model. A row has those of one name. */
  eventValueChunks: {
    table: valueChunksTable,
    jobsAtOnce: 64,
    rowsMax: 100_000,
  },
  voidedEvents: { table: tombstonesTable, jobsAtOnce: 16, rowsMax: 100_000 },
} as const

export type QueueName = keyof typeof queues

export const queueNames = Object.keys(queues) as QueueName[]

/** The queues that have what is logged as a type: a batch of metrics goes through one of two. */
export const queuesOf = (name: QueueName): QueueName[] => (name === 'metrics' ? ['metrics', 'metricChunks'] : [name])
