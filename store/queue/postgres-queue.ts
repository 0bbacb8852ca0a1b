import { createPostgresBackend, Queue, runMigrations, Worker } from 'bullmq'
import type pg from 'pg'
import { createClosers } from '../../runtime/closers.ts'
import {
  blocksLookedAtMax,
  consumerOptions,
  type JobData,
  producerOptions,
  readJobs,
  startConsumer,
  startProducer,
  toBlock,
} from './block-jobs.ts'
import { streams, workerOptions } from './bullmq.ts'
import { type NamedJob, namedJobOptions, startNamedJobs } from './named-jobs.ts'
import { openPool } from './postgres-pool.ts'
import type { QueueBackend, QueueSettings } from './queue.ts'
import { queueNames } from './queues.ts'

/** Each consumer holds one connection to listen for new jobs; all of them share the others. */
const consumingConnectionsMax = queueNames.length + 6

/** Makes BullMQ's tables in Postgres. Safe to repeat. */
export async function migrateQueue(postgresUrl: string): Promise<void> {
  const pool = openPool(postgresUrl, 1, () => undefined)
  const client = await pool.connect()
  try {
    await runMigrations(client)
  } finally {
    client.release()
    await pool.end()
  }
}

export function openPostgresQueue({ postgresUrl, onError }: QueueSettings): QueueBackend {
  const closers = createClosers()
  const producing = openPool(postgresUrl, 8, onError)
  // Every queue adds a listener.
  producing.setMaxListeners(0)
  closers.push(() => producing.end())
  let shared: pg.Pool | undefined
  /** One pool for all consumers of this process: with one each, a few processes would use up max_connections. */
  function shareConsumingPool(): pg.Pool {
    if (shared) return shared
    const pool = openPool(postgresUrl, consumingConnectionsMax, onError)
    pool.setMaxListeners(0)
    closers.push(() => pool.end())
    shared = pool
    return pool
  }
  /** By SQL: on Postgres BullMQ always lists the newest jobs first, so the oldest is at the end of a long list. */
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
  async function findOldestAdded({ name }: Queue<JobData>): Promise<number | undefined> {
    const answer = await producing.query<{ blocks: number; ms: number | null }>(
      `SELECT count(*)::int AS blocks, min(added_at_ms)::float8 AS ms FROM (SELECT added_at_ms FROM job
         WHERE queue = $1 AND state IN ('waiting', 'active', 'delayed') LIMIT $2) AS found`,
      [name, blocksLookedAtMax + 1],
    )
    const { blocks = 0, ms = null } = answer.rows[0] ?? {}
    return blocks > blocksLookedAtMax ? undefined : (ms ?? Number.POSITIVE_INFINITY)
  }
  // BullMQ's constructors take the backend as a last argument, which its types lack.
  const backend = createPostgresBackend as never

  return {
    kind: 'postgres',
    openProducer(name) {
      const queue = new Queue<JobData>(name, { connection: producing as never, ...producerOptions }, backend)
      return startProducer({
        queue,
        memory: async () => ({ share: 0, max: 0 }),
        findOldest,
        findOldestAdded,
        onError,
        closers,
      })
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
    async openNamedJobs({ queue: name, jobsAtOnce, run, onError }) {
      const consuming = openPool(postgresUrl, 4, onError)
      closers.push(() => consuming.end())
      const queue = new Queue<NamedJob>(name, { connection: producing as never, ...namedJobOptions }, backend)
      const worker = new Worker<NamedJob>(
        name,
        (job) => run(job.data.name),
        { connection: consuming as never, concurrency: jobsAtOnce, ...workerOptions },
        backend,
      )
      return startNamedJobs(queue, worker, onError)
    },
    async *readBlocks(name) {
      const queue = new Queue<JobData>(name, { connection: producing as never, streams }, backend)
      try {
        // BullMQ reads each state separately, and a job may change its state between two reads.
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
