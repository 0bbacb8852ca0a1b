import { eventsTable, eventValuesTable, tombstonesTable } from '../clickhouse/monitoring/tables.ts'
import { valueChunksTable } from '../clickhouse/monitoring/value-chunks.ts'
import { chunkBlocks } from '../clickhouse/points/chunks.ts'
import { outputLinesTable, pointsTable, systemPointsTable } from '../clickhouse/points/tables.ts'

/** From this rate on, inserts wait longer, so that they are fewer and larger. A row of chunks has many points or values. */
const busyRowsPerSecond = 15_000
const busyChunksPerSecond = busyRowsPerSecond / 20
const busyValueChunksPerSecond = busyRowsPerSecond / 150

/**
 * The queues of the stream: one for each data type, so that one type never starves another. `jobsAtOnce` is how many
 * blocks one worker process holds in memory; they are inserted together, once they have `rowsMax` rows or have waited. An event
 * has a row for each value: small inserts of these are merged again and again.
 */
export const queues = {
  metrics: { table: pointsTable, jobsAtOnce: 256, rowsMax: 100_000, busyRowsPerSecond },
  /** Metrics too, where a request has many points of each series. A row has all of them. */
  metricChunks: { table: chunkBlocks, jobsAtOnce: 256, rowsMax: 100_000, busyRowsPerSecond: busyChunksPerSecond },
  systemMetrics: { table: systemPointsTable, jobsAtOnce: 64, rowsMax: 100_000, busyRowsPerSecond },
  output: { table: outputLinesTable, jobsAtOnce: 64, rowsMax: 100_000, busyRowsPerSecond },
  events: { table: eventsTable, jobsAtOnce: 64, rowsMax: 100_000, busyRowsPerSecond: busyRowsPerSecond / 5 },
  eventValues: { table: eventValuesTable, jobsAtOnce: 64, rowsMax: 500_000, busyRowsPerSecond },
  /** Values too, where a batch has many events of a model. A row has those of one name. */
  eventValueChunks: {
    table: valueChunksTable,
    jobsAtOnce: 64,
    rowsMax: 100_000,
    busyRowsPerSecond: busyValueChunksPerSecond,
  },
  voidedEvents: { table: tombstonesTable, jobsAtOnce: 16, rowsMax: 100_000, busyRowsPerSecond },
} as const

export type QueueName = keyof typeof queues

export const queueNames = Object.keys(queues) as QueueName[]

/** The queues that have what is logged as a type: a batch of metrics goes through one of two. */
export const queuesOf = (name: QueueName): QueueName[] => (name === 'metrics' ? ['metrics', 'metricChunks'] : [name])
