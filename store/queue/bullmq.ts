import { waitAtMost } from '../../runtime/timeout.ts'

/** No number of attempts or stalls drops a job: it ends only when its block is stored or quarantined. */
export const unlimited = 2 ** 31 - 1

// BullMQ keeps a stream of events that nobody here reads: a short one costs less.
export const streams = { events: { maxLen: 100 } }

export const workerOptions = {
  autorun: false,
  // When a worker dies, another takes its jobs after about the sum of these two.
  lockDuration: 6_000,
  stalledInterval: 3_000,
  maxStalledCount: unlimited,
  drainDelay: 5,
  // After the queue was away; the default of 15 s would show as a lag of 15 s.
  runRetryDelay: 1_000,
}

/** Well below the time that a stopping process has (SVC_DRAIN_SECONDS, 25 s). */
const closeWaitMs = 8_000

/**
 * Closes a queue or a worker of BullMQ, whose close waits forever for an answer that was lost with its connection. Another
 * worker takes a job that was not completed by then, and its rows collapse.
 */
export function closeInTime(it: { close(): Promise<void> }): Promise<void> {
  return waitAtMost(it.close(), closeWaitMs)
}
