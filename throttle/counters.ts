import { createWriteBehindBuffer } from '../runtime/write-behind-buffer.ts'
import type { DataType, ExperimentType } from '../store/limits.ts'
import type { CountedMore, Throttled } from '../store/postgres/experiments/counters.ts'
import type { ModelCountedMore } from '../store/postgres/monitoring/models.ts'

type Settings = {
  writeCounts(counted: CountedMore[]): Promise<void>
  writeThrottled(throttled: Throttled[]): Promise<void>
  writeModelCounts(counted: ModelCountedMore[]): Promise<void>
  onError(error: unknown): void
}

const countsEveryMs = 2_000
/** Changes of state are readable within 2 s. */
const throttledEveryMs = 1_000

/**
 * Counts per experiment and data type what was accepted and what a limit kept out, and remembers why; and per monitored
 * model what became of its events.
 */
export function createCounters({ writeCounts, writeThrottled, writeModelCounts, onError }: Settings) {
  const counts = createWriteBehindBuffer<CountedMore>({
    idOf: (it) => `${it.experimentId} ${it.type}`,
    merge(known, more) {
      known.accepted += more.accepted
      known.throttled += more.throttled
    },
    write: writeCounts,
    everyMs: countsEveryMs,
    onError,
  })
  const reasons = createWriteBehindBuffer<Throttled>({
    idOf: (it) => `${it.experimentId} ${it.reason}`,
    merge(known, newer) {
      known.lastAtMs = Math.max(known.lastAtMs, newer.lastAtMs)
    },
    write: writeThrottled,
    everyMs: throttledEveryMs,
    onError,
  })

  const models = createWriteBehindBuffer<ModelCountedMore>({
    idOf: (it) => String(it.modelId),
    merge(known, more) {
      known.accepted += more.accepted
      known.duplicates += more.duplicates
      known.throttled += more.throttled
    },
    write: writeModelCounts,
    everyMs: countsEveryMs,
    onError,
  })

  return {
    /** So many events of a model were acknowledged: stored, or known already. */
    events(modelId: bigint, accepted: number, duplicates: number) {
      models.add({ modelId, accepted, duplicates, throttled: 0 })
    },

    /** So much was acknowledged. */
    accepted(type: ExperimentType, experimentId: bigint, count: number) {
      counts.add({ experimentId, type, accepted: count, throttled: 0 })
    },

    /**
     * So much was refused or dropped because of a limit.
     *
     * @param id of the experiment, or for events of the model
     * @param reason which limit, for the people who look at the experiment
     */
    throttled(type: DataType, id: bigint, count: number, reason: string) {
      if (type === 'events') return models.add({ modelId: id, accepted: 0, duplicates: 0, throttled: count })
      const experimentId = id
      counts.add({ experimentId, type, accepted: 0, throttled: count })
      reasons.add({ experimentId, reason, lastAtMs: Date.now() })
    },

    /** Writes what is left, once. */
    async close() {
      await Promise.all([counts.close(), reasons.close(), models.close()])
    },
  }
}

export type Counters = ReturnType<typeof createCounters>
