import type { Queue, QueueOptions, Worker } from 'bullmq'
import { closeInTime, streams } from './bullmq.ts'
import type { NamedJobs } from './queue.ts'

export type NamedJob = { name: string }

// BullMQ accepts no second job with the id of an existing one. A job left behind by a killed worker would block its name forever,
// so ids change after a while.
const jobIdLifetimeMs = 10_000

// Callers request due jobs again and again, so the queue does not retry them.
export const namedJobOptions: Omit<QueueOptions, 'connection'> = {
  defaultJobOptions: { attempts: 1, removeOnComplete: true, removeOnFail: true },
  streams,
}

/** Takes jobs once it has resolved; see `startProducer`. */
export async function startNamedJobs(
  queue: Queue<NamedJob>,
  worker: Worker<NamedJob>,
  onError: (error: Error) => void,
): Promise<NamedJobs> {
  queue.on('error', onError)
  worker.on('error', onError)
  await Promise.all([queue.waitUntilReady(), worker.waitUntilReady()])
  worker.run().catch(onError)
  return {
    async request(names) {
      const period = Math.floor(Date.now() / jobIdLifetimeMs)
      // Name and id are stored: processes of an older version must find the same ones.
      const toJob = (name: string) => ({ name: 'errand', data: { name }, opts: { jobId: `errand-${name}-${period}` } })
      await queue.addBulk(names.map(toJob))
    },
    async close() {
      await closeInTime(worker)
      await closeInTime(queue)
    },
  }
}
