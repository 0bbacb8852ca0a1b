import { createPostgresBackend, type JobType, Queue, type QueueOptions, runMigrations, Worker } from 'bullmq'
import pg from 'pg'
import { type Closers, createClosers } from '../../runtime/closers.ts'
import { connectRedis, isCluster, type RedisConnection } from '../redis/connect.ts'
import {
  checkRedis,
  defaultReplicas,
  findRedisWeakness,
  readMemoryShare,
  waitForReplicas,
} from '../redis/durability.ts'
import { toHashTag } from '../redis/slots.ts'
import { type QueueName, queueNames } from './queues.ts'

/**
 * The queue between ingest and the workers: BullMQ on Redis, or on Postgres where there is no Redis. A job carries one
 * block: rows encoded for ClickHouse and compressed, which nobody opens on the way.
 */
export type Block = {
  rows: number
  /** When the first of its rows was accepted, in ms since the Unix epoch. */
  receivedMs: number
  /** One zstd frame. */
  bytes: Buffer
  /** Where the traces of its requests go on, as `traceparent` says it; absent when none of them is traced. */
  trace?: string
}

type JobData = { rows: number; receivedMs: number; block: string; trace?: string }

export type Producer = {
  /** Resolves once the queue has the block; rejects when it may not have it. */
  add(block: Block): Promise<void>
  load(): Promise<QueueLoad>
  /** When the oldest block that is not stored yet was accepted, in ms since the Unix epoch; undefined when there is none. */
  oldestReceivedMs(): Promise<number | undefined>
}

export type QueueLoad = {
  /** Blocks that wait or are being worked on. */
  blocks: number
  /** The share of the memory it may use that Redis uses; 0 where the queue is on disk. */
  memoryShare: number
}

/** Things to be done, each by a name. */
type Jobs = {
  /**
   * Has each done once more, unless it waits to be done, or is being done, since a request of the last seconds. One that
   * was requested before that may still be under way: what must not be done twice at once, `run` sees to.
   */
  request(names: string[]): Promise<void>
  /** Begins no more and waits for those under way. */
  close(): Promise<void>
}

type JobSettings = {
  queue: string
  /** How many this process does at once. */
  atOnce: number
  /** It is over when this resolves or rejects; it is done again when the process is killed. */
  run(name: string): Promise<void>
  onError(error: Error): void
}

type Consumer = {
  /** Takes no more jobs and waits for those at work. */
  close(): Promise<void>
}

type ConsumerSettings = {
  name: QueueName
  jobsAtOnce: number
  /** Stores the block. The job is completed when it resolves, and repeated when it rejects. */
  store(block: Block): Promise<void>
  onError(error: Error): void
}

export type QueueBackend = {
  kind: 'redis' | 'postgres'
  openProducer(name: QueueName): Promise<Producer>
  openConsumer(settings: ConsumerSettings): Promise<Consumer>
  openJobs(settings: JobSettings): Promise<Jobs>
  /**
   * The blocks that are in a queue at the moment of the call and are not stored yet when they are looked at; some that are
   * stored by then may be among them.
   */
  readBlocks(name: QueueName): AsyncIterable<Block>
  /** Takes all blocks out of a queue, for good. */
  discardBlocks(name: QueueName): Promise<void>
  /** Resolves when the queue can be used and will keep what it is given; rejects with what to change. */
  check(): Promise<void>
  /** What would make the queue keep more than it does; undefined when there is nothing. */
  findWeakness(): Promise<string | undefined>
  close(): Promise<void>
}

type Settings = {
  redisUrl: string | undefined
  postgresUrl: string
  /** Lets several deployments share one Redis. */
  prefix: string
  /** Into how many parts each queue of the stream is divided, for the masters of a Redis Cluster. */
  shards?: number | undefined
  /** On how many replicas of Redis a block is before it is taken for kept; see `store/redis/durability.ts`. */
  replicas?: number | undefined
  onError(error: Error): void
}

/** Longest wait for the queue to take a block before the request is refused. */
const commandWaitMs = 5_000
const connectWaitMs = 3_000
const replicasWaitMs = 2_000
/** How long a part of a queue that refused a block is asked last. */
const avoidedMs = 10_000
/** ioredis alone would wait longer each time: writes would be refused for seconds after Redis is back. */
const reconnectAfterMs = 200
/** Well below the time that a stopping process has (SVC_DRAIN_SECONDS, 25 s). */
const closeWaitMs = 8_000

/** Each consumer keeps one to be told of new jobs; the others are for what all of them ask. */
const consumingConnectionsMax = queueNames.length + 6

// A worker that died is noticed after about the sum of these, and its jobs are taken by another.
const lockMs = 6_000
const stalledCheckMs = 3_000
// No count of attempts or stalls ever drops a job: only "stored" and "set aside" end it.
const unlimited = 2 ** 31 - 1
const retryDelayMs = 1_000

const defaultJobOptions: QueueOptions['defaultJobOptions'] = {
  attempts: unlimited,
  backoff: { type: 'fixed', delay: retryDelayMs },
  removeOnComplete: true,
  removeOnFail: false,
}

// BullMQ keeps a stream of events that nobody here reads: a short one costs less.
const streams = { events: { maxLen: 100 } }

/** All states of a job that is not done. */
const unfinished: JobType[] = ['wait', 'active', 'delayed', 'prioritized', 'waiting-children', 'failed']
const jobsReadAtOnce = 50

async function* readJobs(queue: Queue<JobData>, ids: string[]): AsyncGenerator<Block> {
  queue.on('error', () => undefined)
  for (let at = 0; at < ids.length; at += jobsReadAtOnce) {
    const jobs = await Promise.all(ids.slice(at, at + jobsReadAtOnce).map((id) => queue.getJob(id)))
    for (const job of jobs) if (job) yield toBlock(job.data)
  }
}

type NamedJob = { name: string }

// While a job is there no other of its id is taken: should one be left behind for good by a killed worker, its errand would
// never be done again. So ids last for a while only.
const jobIdLifetimeMs = 10_000

// Who requests errands looks again and again whether there is one: none of them is repeated by the queue.
const namedJobOptions: Omit<QueueOptions, 'connection'> = {
  defaultJobOptions: { attempts: 1, removeOnComplete: true, removeOnFail: true },
  streams,
}

const consumerOptions = {
  autorun: false,
  lockDuration: lockMs,
  stalledInterval: stalledCheckMs,
  maxStalledCount: unlimited,
  drainDelay: 5,
  // After the queue was away; the default of 15 s would show as a lag of 15 s.
  runRetryDelay: 1_000,
}

/** Opens the queue: on Redis when its address is given, else on Postgres. */
export function openQueueBackend(settings: Settings): QueueBackend {
  return settings.redisUrl === undefined ? openOnPostgres(settings) : openOnRedis(settings.redisUrl, settings)
}

/** BullMQ's own tables in Postgres. Safe to repeat. */
export async function migrateQueue(postgresUrl: string): Promise<void> {
  const pool = openPool(postgresUrl, 1)
  const client = await pool.connect()
  try {
    await runMigrations(client)
  } finally {
    client.release()
    await pool.end()
  }
}

function openOnRedis(
  url: string,
  { prefix, shards = 1, replicas = defaultReplicas(url), onError }: Settings,
): QueueBackend {
  const closers = createClosers()
  const connect = (options: Parameters<typeof connectRedis>[1]) => {
    const redis = connectRedis(url, { connectTimeout: connectWaitMs, retryAfterMs: reconnectAfterMs, ...options })
    redis.on('error', onError)
    closers.push(async () => redis.disconnect())
    return redis
  }
  // Refuse at once while Redis is away: a request must hear "503" now, not wait in memory for Redis to come back.
  const producing = connect({
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    commandTimeout: commandWaitMs,
    lazyConnect: true,
  })
  let connecting: Promise<void> | undefined
  /** Before the first command, which does not wait for a connection. */
  const connectOnce = () => {
    connecting ??= producing.connect().catch((error: unknown) => {
      connecting = undefined
      throw error
    })
    return connecting
  }
  const onCluster = isCluster(producing)
  /** Of a cluster: each queue in braces of its own, for its keys must be in one slot. */
  const toPrefix = (name: string, shard = 0) => (onCluster ? toHashTag(`${prefix}:${name}`, shard) : prefix)
  const toName = (name: string, shard: number) => (shard === 0 ? name : `${name}-${shard}`)
  const shardsKey = `${prefix}:queue-shards`
  /** A queue's parts, also of those that it had once, for those who look at all of its jobs. */
  async function openShards(name: QueueName): Promise<Queue<JobData>[]> {
    await connectOnce()
    const all = Math.max(shards, await noteShards(producing, shardsKey, shards))
    const connection = connect({ maxRetriesPerRequest: null })
    return Array.from(
      { length: all },
      (_, shard) => new Queue<JobData>(toName(name, shard), { connection, prefix: toPrefix(name, shard) }),
    )
  }

  return {
    kind: 'redis',
    async openProducer(name) {
      await connectOnce()
      await noteShards(producing, shardsKey, shards)
      const producers = Array.from({ length: shards }, async (_, shard) => {
        const key = toPrefix(name, shard)
        const queue = new Queue<JobData>(toName(name, shard), {
          connection: producing,
          prefix: key,
          defaultJobOptions,
          streams,
        })
        const afterAdd = () => waitForReplicas(producing, key, replicas, replicasWaitMs)
        return await startProducer({
          queue,
          afterAdd,
          memoryShare: () => readMemoryShare(producing),
          findOldest: findOldestJob,
          onError,
          closers,
        })
      })
      return spreadOver(await Promise.all(producers))
    },
    async openConsumer({ name, jobsAtOnce, store, onError }) {
      await connectOnce()
      // Of more that there once were, those may still have jobs.
      const all = Math.max(shards, await noteShards(producing, shardsKey, shards))
      const consumers = Array.from({ length: all }, (_, shard) => {
        const worker = new Worker<JobData>(toName(name, shard), (job) => store(toBlock(job.data)), {
          connection: connect({ maxRetriesPerRequest: null }),
          prefix: toPrefix(name, shard),
          concurrency: Math.ceil(jobsAtOnce / all),
          ...consumerOptions,
        })
        return startConsumer(worker, onError)
      })
      const running = await Promise.all(consumers)
      return {
        async close() {
          await Promise.all(running.map((it) => it.close()))
        },
      }
    },
    async openJobs({ queue: name, atOnce, run, onError }) {
      await connectOnce()
      const own = toPrefix(name)
      const queue = new Queue<NamedJob>(name, { connection: producing, prefix: own, ...namedJobOptions })
      const worker = new Worker<NamedJob>(name, (job) => run(job.data.name), {
        connection: connect({ maxRetriesPerRequest: null }),
        prefix: own,
        concurrency: atOnce,
        ...consumerOptions,
      })
      return startJobs(queue, worker, onError)
    },
    async *readBlocks(name) {
      for (const queue of await openShards(name)) {
        try {
          // One script reads all of a part: no job moves from one state to the other meanwhile.
          yield* readJobs(queue, await queue.getRanges(unfinished, 0, -1))
        } finally {
          await queue.close()
        }
      }
    },
    async discardBlocks(name) {
      for (const queue of await openShards(name)) await queue.obliterate({ force: true }).finally(() => queue.close())
    },
    check: () => checkRedis(url, replicas),
    findWeakness: () => findRedisWeakness(url, replicas),
    close: closers.closeAll,
  }
}

/** Remembers the most parts that a queue ever had, and answers with it. */
async function noteShards(redis: RedisConnection, key: string, shards: number): Promise<number> {
  const known = Number((await redis.get(key)) ?? 0)
  // Two that start at once with different numbers: the larger one starts again, or is started everywhere anyway.
  if (shards > known) await redis.set(key, String(shards))
  return Math.max(shards, known)
}

/**
 * A queue in several parts, which lie on different masters of a cluster: each takes its turn. What one does not take goes to
 * another; should both have it, its rows collapse with themselves.
 */
function spreadOver(producers: Producer[]): Producer {
  if (producers.length === 1) return producers[0] as Producer
  let turn = 0
  const refusedAt = producers.map(() => Number.NEGATIVE_INFINITY)
  return {
    async add(block) {
      const first = turn++ % producers.length
      const order = producers.map((_, at) => (first + at) % producers.length)
      // Those that refused lately are asked last: each of them may take its time to refuse again.
      const isAway = (at: number) => performance.now() - (refusedAt[at] as number) < avoidedMs
      const sorted = [...order.filter((it) => !isAway(it)), ...order.filter(isAway)]
      const faults: unknown[] = []
      for (const at of sorted) {
        try {
          return await (producers[at] as Producer).add(block)
        } catch (error) {
          refusedAt[at] = performance.now()
          faults.push(error)
        }
      }
      throw faults[0]
    },
    async load() {
      const asked = producers.map((it) => it.load())
      // What waits on a master that is away is not known, and goes on waiting.
      const loads = (await Promise.allSettled(asked)).flatMap((it) => (it.status === 'fulfilled' ? [it.value] : []))
      if (loads.length === 0) await asked[0]
      return {
        blocks: loads.reduce((sum, it) => sum + it.blocks, 0),
        memoryShare: Math.max(...loads.map((it) => it.memoryShare)),
      }
    },
    async oldestReceivedMs() {
      const asked = await Promise.allSettled(producers.map((it) => it.oldestReceivedMs()))
      const known = asked.flatMap((it) => (it.status === 'fulfilled' ? [it.value] : []))
      if (known.length === 0) throw (asked[0] as PromiseRejectedResult).reason
      const times = known.filter((it) => it !== undefined)
      return times.length > 0 ? Math.min(...times) : undefined
    },
  }
}

function openOnPostgres({ postgresUrl, onError }: Settings): QueueBackend {
  const closers = createClosers()
  const producing = openPool(postgresUrl, 8)
  // Every queue listens to it.
  producing.setMaxListeners(0)
  producing.on('error', onError)
  closers.push(() => producing.end())
  let shared: pg.Pool | undefined
  /** One for all consumers of this process: with one each, a few processes would use up what Postgres lets in. */
  function shareConsumingPool(): pg.Pool {
    if (shared) return shared
    const pool = openPool(postgresUrl, consumingConnectionsMax)
    pool.on('error', onError)
    pool.setMaxListeners(0)
    closers.push(() => pool.end())
    shared = pool
    return pool
  }
  /** On Postgres BullMQ lists the newest jobs first, whatever is asked for: the oldest is at the end of a long list. */
  async function findOldest({ name }: Queue<JobData>): Promise<number | undefined> {
    const states = ['active', 'waiting', 'delayed']
    const firsts = states.map((_, at) => {
      const oldest = `SELECT (data->>'receivedMs')::float8 AS ms FROM job WHERE queue = $1 AND state = $${at + 2}::job_state`
      return `(${oldest} ORDER BY seq LIMIT 1)`
    })
    const answer = await producing.query(`SELECT min(ms) AS ms FROM (${firsts.join(' UNION ALL ')}) AS firsts`, [
      name,
      ...states,
    ])
    return answer.rows[0]?.ms ?? undefined
  }
  // BullMQ's types know classes bound to a backend; its constructors take the backend as a last argument.
  const backend = createPostgresBackend as never

  return {
    kind: 'postgres',
    openProducer(name) {
      const queue = new Queue<JobData>(name, { connection: producing as never, defaultJobOptions, streams }, backend)
      return startProducer({ queue, memoryShare: async () => 0, findOldest, onError, closers })
    },
    openConsumer({ name, jobsAtOnce, store, onError }) {
      const consuming = shareConsumingPool()
      const worker = new Worker<JobData>(
        name,
        (job) => store(toBlock(job.data)),
        { connection: consuming as never, concurrency: jobsAtOnce, ...consumerOptions },
        backend,
      )
      return startConsumer(worker, onError)
    },
    async openJobs({ queue: name, atOnce, run, onError }) {
      const consuming = openPool(postgresUrl, 4)
      consuming.on('error', onError)
      closers.push(() => consuming.end())
      const queue = new Queue<NamedJob>(name, { connection: producing as never, ...namedJobOptions }, backend)
      const worker = new Worker<NamedJob>(
        name,
        (job) => run(job.data.name),
        { connection: consuming as never, concurrency: atOnce, ...consumerOptions },
        backend,
      )
      return startJobs(queue, worker, onError)
    },
    async *readBlocks(name) {
      const queue = new Queue<JobData>(name, { connection: producing as never, streams }, backend)
      try {
        // BullMQ asks for each state apart, and a job may move between two questions.
        const { rows } = await producing.query<{ id: string }>(
          `SELECT id FROM job WHERE queue = $1 AND state <> 'completed'`,
          [name],
        )
        yield* readJobs(
          queue,
          rows.map((it) => it.id),
        )
      } finally {
        await queue.close()
      }
    },
    async discardBlocks(name) {
      const queue = new Queue<JobData>(name, { connection: producing as never, streams }, backend)
      await queue.obliterate({ force: true }).finally(() => queue.close())
    },
    async check() {
      await producing.query('SELECT 1')
    },
    findWeakness: async () => undefined,
    close: closers.closeAll,
  }
}

/** BullMQ names its tables without a schema and leaves the search path of a given pool to us. */
function openPool(postgresUrl: string, connectionsMax: number) {
  const pool = new pg.Pool({
    connectionString: postgresUrl,
    max: connectionsMax,
    options: '-c search_path=bullmq',
    connectionTimeoutMillis: connectWaitMs,
    query_timeout: commandWaitMs,
    keepAlive: true,
  })
  const { connect, query } = pool
  // Only the forms that BullMQ uses, those that answer a promise, are told apart.
  pool.connect = tellConnectionFaults(connect.bind(pool)) as typeof connect
  pool.query = tellConnectionFaults(query.bind(pool)) as typeof query
  return pool
}

/**
 * BullMQ waits before it tries again only after errors with the code ECONNREFUSED; after any other it tries again at
 * once, in a loop that lets nothing else run when the error comes without waiting. All that means "Postgres is away"
 * gets that code.
 */
function tellConnectionFaults(run: (...args: never[]) => unknown) {
  return (...args: never[]) => {
    const result = run(...args)
    if (!(result instanceof Promise)) return result
    return result.catch((error: unknown) => {
      if (error instanceof Error && meansAway(error)) Object.assign(error, { code: 'ECONNREFUSED' })
      throw error
    })
  }
}

/** Time-outs of the pool have no code; SQLSTATE classes 08, 53 and 57P are connection, resources and shutdown. */
function meansAway(error: Error): boolean {
  if (!('code' in error)) return true
  return typeof error.code === 'string' && /^(E[A-Z]+|(08|53)...|57P..)$/.test(error.code)
}

/**
 * Resolves when the queue can be used. BullMQ remembers a first connection that failed for ever, so one that does fails
 * the start of the process instead.
 */
async function startProducer({
  queue,
  afterAdd = async () => undefined,
  memoryShare,
  findOldest,
  onError,
  closers,
}: {
  queue: Queue<JobData>
  /** What must be done before a block is kept. */
  afterAdd?: () => Promise<void>
  memoryShare: () => Promise<number>
  findOldest: (queue: Queue<JobData>) => Promise<number | undefined>
  onError: (error: Error) => void
  closers: Closers
}): Promise<Producer> {
  queue.on('error', onError)
  closers.push(() => waitAtMost(queue.close()))
  await queue.waitUntilReady()
  return {
    async add({ rows, receivedMs, bytes, trace }) {
      await queue.add('block', { rows, receivedMs, block: bytes.toString('base64'), ...(trace && { trace }) })
      await afterAdd()
    },
    async load() {
      const [blocks, share] = await Promise.all([
        queue.getJobCountByTypes('waiting', 'active', 'delayed'),
        memoryShare(),
      ])
      return { blocks, memoryShare: share }
    },
    oldestReceivedMs: () => findOldest(queue),
  }
}

/** The first of each state: they are worked on in the order they came, but for those that are to be repeated. */
async function findOldestJob(queue: Queue<JobData>): Promise<number | undefined> {
  const states = ['active', 'waiting', 'delayed'] as const
  const jobs = await Promise.all(states.map((state) => queue.getJobs(state, 0, 0, true)))
  // One that is done meanwhile is there no more.
  const times = jobs.flat().flatMap((job) => job?.data?.receivedMs ?? [])
  return times.length > 0 ? Math.min(...times) : undefined
}

/** Takes jobs from when it resolves; see `startProducer` for why it waits. */
async function startConsumer(worker: Worker<JobData>, onError: (error: Error) => void): Promise<Consumer> {
  worker.on('error', onError)
  await worker.waitUntilReady()
  worker.run().catch(onError)
  return { close: () => waitAtMost(worker.close()) }
}

/** See `startProducer` for why it waits. */
async function startJobs(
  queue: Queue<NamedJob>,
  worker: Worker<NamedJob>,
  onError: (error: Error) => void,
): Promise<Jobs> {
  queue.on('error', onError)
  worker.on('error', onError)
  await Promise.all([queue.waitUntilReady(), worker.waitUntilReady()])
  worker.run().catch(onError)
  return {
    async request(names) {
      const period = Math.floor(Date.now() / jobIdLifetimeMs)
      const toJob = (name: string) => ({ name: 'errand', data: { name }, opts: { jobId: `errand-${name}-${period}` } })
      await queue.addBulk(names.map(toJob))
    },
    async close() {
      await waitAtMost(worker.close())
      await waitAtMost(queue.close())
    },
  }
}

/**
 * BullMQ's close waits without end for an answer that was lost with its connection. A job that was not completed by then
 * is taken up by another worker, and its rows collapse with themselves.
 */
async function waitAtMost(closed: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise((resolve) => {
    timer = setTimeout(resolve, closeWaitMs)
  })
  await Promise.race([closed, late]).finally(() => clearTimeout(timer))
}

function toBlock({ rows, receivedMs, block, trace }: JobData): Block {
  return { rows, receivedMs, bytes: Buffer.from(block, 'base64'), ...(trace && { trace }) }
}
