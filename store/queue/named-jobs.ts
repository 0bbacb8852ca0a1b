import type { Queue, QueueOptions, Worker } from 'bullmq'
import { closeInTime, streams } from './bullmq.ts'
import type { NamedJobs } from './queue.ts'

export type NamedJob = { name: string }

// BullMQ takes no second job of an id while the first is there. If a killed worker left one behind, its name could never be
// requested again. So ids change after a while.
const jobIdLifetimeMs = 10_000

// Those who request jobs look again and again for what is due: the queue repeats none of them.
export const namedJobOptions: Omit<QueueOptions, 'connection'> = {
  defaultJobOptions: { attempts: 1, removeOnComplete: true, removeOnFail: true },
  streams,
}

/** Takes jobs from when it resolves; see `startProducer` for why it waits. */
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
      // The name and the id stand in the store: processes of an older version must find the same.
      const toJob = (name: string) => ({ name: 'errand', data: { name }, opts: { jobId: `errand-${name}-${period}` } })
      await queue.addBulk(names.map(toJob))
    },
    async close() {
      await closeInTime(worker)
      await closeInTime(queue)
    },
  }
}
