import type { DataType } from '../../store/limits.ts'
import type { CountedMore, Throttled } from '../../store/postgres/counters.ts'
import { createGatherer } from '../gather.ts'

type Settings = {
  writeCounts(counted: CountedMore[]): Promise<void>
  writeThrottled(throttled: Throttled[]): Promise<void>
  onError(error: unknown): void
}

const countsEveryMs = 2_000
/** Changes of state are readable within 2 s. */
const throttledEveryMs = 1_000

/** Counts per experiment and data type what was accepted and what a limit kept out, and remembers why. */
export function createCounters({ writeCounts, writeThrottled, onError }: Settings) {
  const counts = createGatherer<CountedMore>({
    idOf: (it) => `${it.experimentId} ${it.type}`,
    merge(known, more) {
      known.accepted += more.accepted
      known.throttled += more.throttled
    },
    write: writeCounts,
    everyMs: countsEveryMs,
    onError,
  })
  const reasons = createGatherer<Throttled>({
    idOf: (it) => `${it.experimentId} ${it.reason}`,
    merge(known, newer) {
      known.lastAtMs = Math.max(known.lastAtMs, newer.lastAtMs)
    },
    write: writeThrottled,
    everyMs: throttledEveryMs,
    onError,
  })

  return {
    /** So much was acknowledged. */
    accepted(type: DataType, experimentId: bigint, count: number) {
      counts.add({ experimentId, type, accepted: count, throttled: 0 })
    },

    /**
     * So much was refused or dropped because of a limit.
     *
     * @param reason which limit, for the people who look at the experiment
     */
    throttled(type: DataType, experimentId: bigint, count: number, reason: string) {
      counts.add({ experimentId, type, accepted: 0, throttled: count })
      reasons.add({ experimentId, reason, lastAtMs: Date.now() })
    },

    /** Writes what is left, once. */
    async close() {
      await Promise.all([counts.close(), reasons.close()])
    },
  }
}

export type Counters = ReturnType<typeof createCounters>
