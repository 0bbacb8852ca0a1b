import { setTimeout as sleep } from 'node:timers/promises'

/** Tests share two cores with each other: a service may wait for half a minute until it gets one. */
const waitMsMax = 60_000
const pauseMsDefault = 25

/** Retries `attempt` until it no longer throws and returns its result; throws its last error after `withinMs`. */
export async function eventually<T>(
  attempt: () => Promise<T> | T,
  withinMs = waitMsMax,
  pauseMs = pauseMsDefault,
): Promise<T> {
  const start = performance.now()
  for (;;) {
    try {
      return await attempt()
    } catch (error) {
      const waitedMs = performance.now() - start
      if (waitedMs > withinMs) throw error
      // What takes long is asked for less often: a read costs the service and its stores some ten milliseconds of CPU.
      await sleep(Math.max(pauseMs, Math.min(waitedMs / 10, 100)))
    }
  }
}
