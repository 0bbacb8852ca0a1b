import type { JobType, Queue, QueueOptions, Worker } from 'bullmq'
import type { Closers } from '../../runtime/closers.ts'
import { closeInTime, streams, unlimited, workerOptions } from './bullmq.ts'
import type { Block, Consumer, Producer } from './queue.ts'

/** A block as the data of a BullMQ job. */
export type JobData = { rows: number; receivedMs: number; block: string; trace?: string }

export const producerOptions: Omit<QueueOptions, 'connection'> = {
  defaultJobOptions: {
    attempts: unlimited,
    backoff: { type: 'fixed', delay: 1_000 },
    removeOnComplete: true,
    removeOnFail: false,
  },
  streams,
}

export const consumerOptions = workerOptions

/** All states of an unfinished job. */
export const unfinished: JobType[] = ['wait', 'active', 'delayed', 'prioritized', 'waiting-children', 'failed']
const jobsReadAtOnce = 50
/** Of more blocks the oldest is not looked for: they are in no order once some were repeated. */
export const blocksLookedAtMax = 1_000

type ProducerSettings = {
  queue: Queue<JobData>
  /** What makes an added block durable. */
  afterAdd?: () => Promise<void>
  /** The memory limit of the store of the queue, and the used share of it. */
  memory: () => Promise<{ share: number; max: number }>
  findOldest: (queue: Queue<JobData>) => Promise<number | undefined>
  findOldestAdded: (queue: Queue<JobData>) => Promise<number | undefined>
  onError: (error: Error) => void
  closers: Closers
}

/**
 * Resolves when the queue is ready. BullMQ never reconnects when its first connection fails, so that error must fail the start
 * of the process.
 */
export async function startProducer({
  queue,
  afterAdd = async () => undefined,
  memory,
  findOldest,
  findOldestAdded,
  onError,
  closers,
}: ProducerSettings): Promise<Producer> {
  queue.on('error', onError)
  closers.push(() => closeInTime(queue))
  await queue.waitUntilReady()
  return {
    async add({ rows, receivedMs, bytes, trace }) {
      await queue.add('block', { rows, receivedMs, block: bytes.toString('base64'), ...(trace && { trace }) })
      await afterAdd()
    },
    async load() {
      const [blocks, { share, max }] = await Promise.all([
        queue.getJobCountByTypes('waiting', 'active', 'delayed'),
        memory(),
      ])
      return { blocks, memoryShare: share, memoryMax: max }
    },
    async count() {
      const { waiting = 0, active = 0, delayed = 0 } = await queue.getJobCounts('waiting', 'active', 'delayed')
      return { waiting, active, delayed }
    },
    oldestReceivedMs: () => findOldest(queue),
    oldestAddedMs: () => findOldestAdded(queue),
  }
}

/** Takes jobs once it has resolved; see `startProducer`. */
export async function startConsumer(worker: Worker<JobData>, onError: (error: Error) => void): Promise<Consumer> {
  worker.on('error', onError)
  await worker.waitUntilReady()
  worker.run().catch(onError)
  return { close: () => closeInTime(worker) }
}

export async function* readJobs(queue: Queue<JobData>, ids: string[]): AsyncGenerator<Block> {
  queue.on('error', () => undefined)
  for (let at = 0; at < ids.length; at += jobsReadAtOnce) {
    const jobs = await Promise.all(ids.slice(at, at + jobsReadAtOnce).map((id) => queue.getJob(id)))
    for (const job of jobs) if (job) yield toBlock(job.data)
  }
}

export function toBlock({ rows, receivedMs, block, trace }: JobData): Block {
  return { rows, receivedMs, bytes: Buffer.from(block, 'base64'), ...(trace && { trace }) }
}
