import type { QueueName } from './queues.ts'

/**
 * The queue between ingest and the workers: BullMQ on Redis, or on Postgres where there is no Redis. A job carries one
 * block: rows encoded for ClickHouse and compressed, which nobody opens on the way.
 */
export type QueueBackend = {
  kind: 'redis' | 'postgres'
  openProducer(name: QueueName): Promise<Producer>
  openConsumer(settings: ConsumerSettings): Promise<Consumer>
  openNamedJobs(settings: NamedJobSettings): Promise<NamedJobs>
  /**
   * Reads the blocks that are in a queue at the moment of the call and still are when they are read. Some may be stored
   * already.
   */
  readBlocks(name: QueueName): AsyncIterable<Block>
  /** Takes all blocks out of a queue, for good. */
  discardBlocks(name: QueueName): Promise<void>
  /** Resolves when the queue works and is durable; rejects with what to change. */
  check(): Promise<void>
  /** What would make the queue more durable; undefined when there is nothing. */
  findWeakness(): Promise<string | undefined>
  close(): Promise<void>
}

export type Block = {
  rows: number
  /** When the first of its rows was accepted, in ms since the Unix epoch. */
  receivedMs: number
  /** One zstd frame. */
  bytes: Buffer
  /** The `traceparent` under which the traces of its requests go on; absent when none of them is traced. */
  trace?: string
}

export type Producer = {
  /** Resolves once the queue has stored the block; rejects when it may not have. */
  add(block: Block): Promise<void>
  load(): Promise<QueueLoad>
  /** When the oldest block that is not stored yet was accepted, in ms since the Unix epoch; undefined when there is none. */
  oldestReceivedMs(): Promise<number | undefined>
}

export type QueueLoad = {
  /** Blocks that wait or are being stored. */
  blocks: number
  /** The share of its memory limit that Redis uses; 0 where the queue is on disk. */
  memoryShare: number
}

export type Consumer = {
  /** Takes no more jobs and waits for those in progress. */
  close(): Promise<void>
}

type ConsumerSettings = {
  name: QueueName
  jobsAtOnce: number
  /** Stores the block. The job is completed when it resolves, and repeated when it rejects. */
  store(block: Block): Promise<void>
  onError(error: Error): void
}

/** Jobs that carry a name and nothing else. */
export type NamedJobs = {
  /**
   * Runs the job of each name once more, unless the same was requested in the last seconds. A job of the same name that was
   * requested earlier may still run: `run` must keep the two apart where that matters.
   */
  request(names: string[]): Promise<void>
  /** Starts no more jobs and waits for those in progress. */
  close(): Promise<void>
}

type NamedJobSettings = {
  queue: string
  /** How many this process runs at once. */
  jobsAtOnce: number
  /** The job is over when this resolves or rejects. It runs again when the process is killed. */
  run(name: string): Promise<void>
  onError(error: Error): void
}

export type QueueSettings = {
  redisUrl: string | undefined
  postgresUrl: string
  /** Lets several deployments share one Redis. */
  prefix: string
  /** Into how many shards each queue of blocks is divided, for the masters of a Redis Cluster. */
  shards?: number | undefined
  /** On how many replicas of Redis a block must be before it is acknowledged; see `store/redis/durability.ts`. */
  replicas?: number | undefined
  onError(error: Error): void
}
