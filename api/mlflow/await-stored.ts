import { setTimeout as sleep } from 'node:timers/promises'

/**
 * Scripts for MLflow read what they have just logged. A point is acknowledged when the queue has it, and read when it is stored: a
 * moment later. So a read of points first waits until every block that was queued before it is stored.
 */
const waitMsMax = 2_000
const pauseMs = 20

/** @param oldestQueuedMs when the oldest block that is not stored yet was accepted; undefined when there is none */
export function createAwaitStored(oldestQueuedMs: () => Promise<number | undefined>) {
  /** Resolves after two seconds too: what a queue that is behind has of this run is read later. */
  return async function awaitStored(): Promise<void> {
    const startMs = Date.now()
    for (;;) {
      const oldest = await oldestQueuedMs()
      if (oldest === undefined || oldest > startMs || Date.now() - startMs > waitMsMax) return
      await sleep(pauseMs)
    }
  }
}

export type AwaitStored = ReturnType<typeof createAwaitStored>
