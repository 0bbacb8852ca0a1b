import { eventsTable, eventValuesTable, tombstonesTable } from '../clickhouse/monitoring/tables.ts'
import { chunksTable } from '../clickhouse/points/chunks.ts'
import { outputLinesTable, pointsTable, systemPointsTable } from '../clickhouse/points/tables.ts'

/**
 * The queues of the stream: one for each data type, so that one type never starves another. `jobsAtOnce` is how many
 * blocks one worker process holds in memory; they are inserted together.
 */
export const queues = {
  metrics: { table: pointsTable, jobsAtOnce: 256 },
  /** Metrics too, where a request has many points of each series. */
  metricChunks: { table: chunksTable, jobsAtOnce: 256 },
  systemMetrics: { table: systemPointsTable, jobsAtOnce: 64 },
  output: { table: outputLinesTable, jobsAtOnce: 64 },
  events: { table: eventsTable, jobsAtOnce: 64 },
  eventValues: { table: eventValuesTable, jobsAtOnce: 64 },
  voidedEvents: { table: tombstonesTable, jobsAtOnce: 16 },
} as const

export type QueueName = keyof typeof queues

export const queueNames = Object.keys(queues) as QueueName[]

/** The queues that have what is logged as a type: a batch of metrics goes through one of two. */
export const queuesOf = (name: QueueName): QueueName[] => (name === 'metrics' ? ['metrics', 'metricChunks'] : [name])
