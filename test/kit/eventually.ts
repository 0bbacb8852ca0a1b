import { setTimeout as sleep } from 'node:timers/promises'

const waitMsMax = 30_000
const pauseMsDefault = 25

/** Retries `attempt` until it no longer throws and returns its result; throws its last error after `withinMs`. */
export async function eventually<T>(
  attempt: () => Promise<T> | T,
  withinMs = waitMsMax,
  pauseMs = pauseMsDefault,
): Promise<T> {
  const deadline = performance.now() + withinMs
  for (;;) {
    try {
      return await attempt()
    } catch (error) {
      if (performance.now() > deadline) throw error
      await sleep(pauseMs)
    }
  }
}
