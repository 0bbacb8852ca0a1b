import { setTimeout as sleep } from 'node:timers/promises'

const waitMsMax = 30_000
const pauseMsDefault = 25

/** Tries until `attempt` no longer throws, and answers what it answered; after `withinMs` its last error is thrown. */
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
