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
/** Users compare these with what they have just sent. One statement writes those of all models. */
const modelCountsEveryMs = 100
/** The throttle state of an experiment must be readable within 2 s. */
const throttledEveryMs = 1_000

/**
 * Counts what was accepted and throttled: per experiment and data type, with the reasons, and per monitored model. Writes
 * the counts to Postgres in the background.
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
    everyMs: modelCountsEveryMs,
    onError,
  })

  return {
    /** Counts acknowledged events of a model: stored ones and duplicates. */
    events(modelId: bigint, accepted: number, duplicates: number) {
      models.add({ modelId, accepted, duplicates, throttled: 0 })
    },

    /** Counts acknowledged rows of an experiment. */
    accepted(type: ExperimentType, experimentId: bigint, count: number) {
      counts.add({ experimentId, type, accepted: count, throttled: 0 })
    },

    /**
     * Counts what a limit rejected or dropped.
     *
     * @param id the id of the experiment; for events that of the model
     * @param reason names the limit, for users of the experiment
     */
    throttled(type: DataType, id: bigint, count: number, reason: string) {
      if (type === 'events') return models.add({ modelId: id, accepted: 0, duplicates: 0, throttled: count })
      const experimentId = id
      counts.add({ experimentId, type, accepted: 0, throttled: count })
      reasons.add({ experimentId, reason, lastAtMs: Date.now() })
    },

    /** Writes the remaining counts once. */
    async close() {
      await Promise.all([counts.close(), reasons.close(), models.close()])
    },
  }
}

export type Counters = ReturnType<typeof createCounters>
