import { waitAtMost } from '../../runtime/timeout.ts'

/** No number of attempts or stalls drops a job: it ends only when its block is stored or quarantined. */
export const unlimited = 2 ** 31 - 1

// BullMQ writes a stream of events that we do not read: keep it short.
export const streams = { events: { maxLen: 100 } }

export const workerOptions = {
  autorun: false,
  // When a worker dies, another takes its jobs after about the sum of these two.
  lockDuration: 6_000,
  stalledInterval: 3_000,
  maxStalledCount: unlimited,
  drainDelay: 5,
  // The delay after an outage of the queue; the default would cause a lag of 15 s.
  runRetryDelay: 1_000,
}

/** Well below SVC_DRAIN_SECONDS (25 s). */
const closeWaitMs = 8_000

/**
 * Closes a queue or a worker of BullMQ, whose close waits forever for an answer that was lost with its connection. Another
 * worker repeats a job that was not completed by then, and reads merge its rows.
 */
export function closeInTime(it: { close(): Promise<void> }): Promise<void> {
  return waitAtMost(it.close(), closeWaitMs)
}
