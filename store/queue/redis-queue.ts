import { Queue, Worker } from 'bullmq'
import { createClosers } from '../../runtime/closers.ts'
import { connectRedis, isCluster, type RedisConnection } from '../redis/connect.ts'
import { checkRedis, defaultReplicas, findRedisWeakness, readMemory, waitForReplicas } from '../redis/durability.ts'
import { toHashTag } from '../redis/slots.ts'
import {
  blocksLookedAtMax,
  consumerOptions,
  type JobData,
  producerOptions,
  readJobs,
  startConsumer,
  startProducer,
  toBlock,
  unfinished,
} from './block-jobs.ts'
import { workerOptions } from './bullmq.ts'
import { type NamedJob, namedJobOptions, startNamedJobs } from './named-jobs.ts'
import type { QueueBackend, QueueSettings } from './queue.ts'
import type { QueueName } from './queues.ts'
import { noteShards, spreadOver } from './shards.ts'

/** The longest wait for Redis before the request is refused. */
const commandWaitMs = 5_000
const connectWaitMs = 3_000
const replicasWaitMs = 2_000
/** The default of ioredis waits longer each time: writes would be refused for seconds after Redis is up again. */
const reconnectAfterMs = 200

export function openRedisQueue(
  url: string,
  { prefix, shards = 1, replicas = defaultReplicas(url), onError }: QueueSettings,
): QueueBackend {
  const closers = createClosers()
  const connect = (options: Parameters<typeof connectRedis>[1]) => {
    const redis = connectRedis(url, { connectTimeout: connectWaitMs, retryAfterMs: reconnectAfterMs, ...options })
    redis.on('error', onError)
    closers.push(async () => redis.disconnect())
    return redis
  }
  // Refuse at once while Redis is down: a request gets 503 and does not wait in memory.
  const producing = connect({
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    commandTimeout: commandWaitMs,
    lazyConnect: true,
  })
  let connecting: Promise<void> | undefined
  /** Called before the first command, which does not wait for a connection. */
  const connectOnce = () => {
    connecting ??= producing.connect().catch((error: unknown) => {
      connecting = undefined
      throw error
    })
    return connecting
  }
  const onCluster = isCluster(producing)
  /** On a cluster each queue has its own hash tag: its keys must be in one slot. */
  const toPrefix = (name: string, shard = 0) => (onCluster ? toHashTag(`${prefix}:${name}`, shard) : prefix)
  const toName = (name: string, shard: number) => (shard === 0 ? name : `${name}-${shard}`)
  const shardsKey = `${prefix}:queue-shards`
  /** All shards of a queue, including those of an earlier setting: they may still hold jobs. */
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
          ...producerOptions,
        })
        const afterAdd = () => waitForReplicas(producing, key, replicas, replicasWaitMs)
        return await startProducer({
          queue,
          afterAdd,
          memory: () => readMemory(producing),
          findOldest: findOldestJob,
          findOldestAdded: (queue) => findOldestAdded(producing, queue),
          onError,
          closers,
        })
      })
      return spreadOver(await Promise.all(producers))
    },
    async openConsumer({ name, jobsAtOnce, store, onError }) {
      await connectOnce()
      // Shards of an earlier setting may still hold jobs.
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
    async openNamedJobs({ queue: name, jobsAtOnce, run, onError }) {
      await connectOnce()
      const own = toPrefix(name)
      const queue = new Queue<NamedJob>(name, { connection: producing, prefix: own, ...namedJobOptions })
      const worker = new Worker<NamedJob>(name, (job) => run(job.data.name), {
        connection: connect({ maxRetriesPerRequest: null }),
        prefix: own,
        concurrency: jobsAtOnce,
        ...workerOptions,
      })
      return startNamedJobs(queue, worker, onError)
    },
    async *readBlocks(name) {
      for (const queue of await openShards(name)) {
        try {
          // One script reads the ids of a shard, so no job changes its state meanwhile.
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

/** Ids count the jobs up. A job whose id was given before that of one added a moment earlier makes no difference to a second. */
async function findOldestAdded(redis: RedisConnection, queue: Queue<JobData>): Promise<number | undefined> {
  // One script reads the ids, so no job changes its state meanwhile.
  const ids = await queue.getRanges(['wait', 'active', 'delayed'], 0, blocksLookedAtMax)
  if (ids.length > blocksLookedAtMax) return undefined
  for (const id of ids.toSorted((one, other) => Number(one) - Number(other))) {
    const addedMs = await redis.hget(queue.toKey(id), 'timestamp')
    // One that is gone was stored meanwhile.
    if (addedMs !== null) return Number(addedMs)
  }
  return Number.POSITIVE_INFINITY
}

/** Reads the first job of each state: jobs run in the order of arrival, except repeated ones. */
async function findOldestJob(queue: Queue<JobData>): Promise<number | undefined> {
  const states = ['active', 'waiting', 'delayed'] as const
  const jobs = await Promise.all(states.map((state) => queue.getJobs(state, 0, 0, true)))
  // A job may have been completed meanwhile.
  const times = jobs.flat().flatMap((job) => job?.data?.receivedMs ?? [])
  return times.length > 0 ? Math.min(...times) : undefined
}
