import type { Caller } from '../http/route.ts'
import type { ExperimentType } from '../store/limits.ts'
import type { Counters } from '../throttle/counters.ts'
import type { ChargedExperiment, Throttle } from '../throttle/throttle.ts'

type Deps = { throttle: Throttle; counters: Counters }

/**
 * Runs a write to Postgres within the rate limits of its experiment and key. It rejects the write before it begins, and counts
 * it once it is stored.
 */
export function createRateLimitedWrite({ throttle, counters }: Deps) {
  return async function rateLimitedWrite<T>(
    type: ExperimentType,
    experiment: ChargedExperiment,
    caller: Caller,
    write: () => Promise<T>,
    count = 1,
  ): Promise<T> {
    await throttle.admit(type, experiment, caller, count)
    let result: T
    try {
      result = await write()
    } catch (error) {
      throttle.giveBack({ type, experiment, keyId: caller.keyId, count })
      throw error
    }
    counters.accepted(type, experiment.id, count)
    return result
  }
}

export type RateLimitedWrite = ReturnType<typeof createRateLimitedWrite>
