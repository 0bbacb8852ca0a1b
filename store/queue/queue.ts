import type { QueueName } from './queues.ts'

/**
 * The queue between ingest and the workers: BullMQ on Redis, or on Postgres without Redis. A job carries one block:
 * rows encoded for ClickHouse and compressed, which are not decoded on the way.
 */
export type QueueBackend = {
  kind: 'redis' | 'postgres'
  openProducer(name: QueueName): Promise<Producer>
  openConsumer(settings: ConsumerSettings): Promise<Consumer>
  openNamedJobs(settings: NamedJobSettings): Promise<NamedJobs>
  /**
   * Reads the blocks in a queue at the moment of the call, except those that leave it meanwhile. Some may be stored already.
   */
  readBlocks(name: QueueName): AsyncIterable<Block>
  /** Deletes all blocks of a queue. */
  discardBlocks(name: QueueName): Promise<void>
  /** Resolves when the queue works and is durable; rejects with advice. */
  check(): Promise<void>
  /** Advice to make the queue more durable, or undefined. */
  findWeakness(): Promise<string | undefined>
  close(): Promise<void>
}

export type Block = {
  rows: number
  /** The acceptance of its first row, in ms since the Unix epoch. */
  receivedMs: number
  /** One zstd frame. */
  bytes: Buffer
  /** The `traceparent` that continues the traces of its requests; absent if none is traced. */
  trace?: string
}

export type Producer = {
  /** Resolves once the queue has stored the block; rejects when it may not have stored it. */
  add(block: Block): Promise<void>
  load(): Promise<QueueLoad>
  count(): Promise<BlockCounts>
  /** The acceptance of the oldest queued block, in ms since the Unix epoch; undefined if the queue is empty. */
  oldestReceivedMs(): Promise<number | undefined>
  /**
   * When the oldest queued block was added, in ms since the Unix epoch, whatever its state: infinite if the queue is empty,
   * undefined if there are more than a thousand blocks.
   */
  oldestAddedMs(): Promise<number | undefined>
}

export type QueueLoad = {
  /** Blocks that wait or are being stored. */
  blocks: number
  /** The share of its memory limit that Redis uses; 0 for a queue in Postgres. */
  memoryShare: number
  /** Its memory limit in bytes; 0 for none, and for a queue in Postgres. */
  memoryMax: number
}

/** The blocks of a queue by what they do. */
export type BlockCounts = {
  waiting: number
  /** Being stored by a worker. */
  active: number
  /** Wait for another attempt, after a store did not take them. */
  delayed: number
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

/** Jobs that carry only a name. */
export type NamedJobs = {
  /**
   * Runs the job of each name, unless it was requested in the last seconds. An earlier job of the same name may still run: `run`
   * must prevent conflicts itself.
   */
  request(names: string[]): Promise<void>
  /** Starts no more jobs and waits for those in progress. */
  close(): Promise<void>
}

type NamedJobSettings = {
  queue: string
  /** The number of jobs that this process runs at once. */
  jobsAtOnce: number
  /** The job ends when this resolves or rejects. It is repeated if the process is killed. */
  run(name: string): Promise<void>
  onError(error: Error): void
}

export type QueueSettings = {
  redisUrl: string | undefined
  postgresUrl: string
  /** Lets several deployments share one Redis. */
  prefix: string
  /** The number of shards of each queue of blocks, for the masters of a Redis Cluster. */
  shards?: number | undefined
  /** The number of Redis replicas that must have a block before it is acknowledged; see `store/redis/durability.ts`. */
  replicas?: number | undefined
  onError(error: Error): void
}
