import { createWriteBehindBuffer } from '../../../runtime/write-behind-buffer.ts'
import type { Heartbeat } from './experiments.ts'

/** The keep-alive interval of a live experiment. */
export const beatMs = 10_000
/** An experiment counts as running for this long after its last keep-alive: one interval, and one of grace. */
const aliveForMs = 2 * beatMs

/** A run that gave a sign of life after it is running. */
export const toAliveSince = (nowMs: number) => nowMs - aliveForMs

type Settings = {
  /** Stores the heartbeats of many experiments in one statement. */
  write(heartbeats: Heartbeat[]): Promise<void>
  everyMs: number
  onError(error: unknown): void
}

/** A write-behind buffer of heartbeats. */
export function createHeartbeats(settings: Settings) {
  const heartbeats = createWriteBehindBuffer<Heartbeat>({ ...settings, idOf: (it) => it.experimentId, merge })
  return {
    /** The experiment logged something. */
    active(experimentId: bigint, atMs: number) {
      heartbeats.add({ experimentId, activeAtMs: atMs })
    },

    /** The experiment says that it runs. */
    alive(experimentId: bigint, atMs: number) {
      heartbeats.add({ experimentId, activeAtMs: atMs, aliveAtMs: atMs })
    },

    /** Writes what is left, once. */
    close: heartbeats.close,
  }
}

function merge(known: Heartbeat, newer: Heartbeat) {
  known.activeAtMs = Math.max(known.activeAtMs, newer.activeAtMs)
  if (newer.aliveAtMs !== undefined) known.aliveAtMs = Math.max(known.aliveAtMs ?? 0, newer.aliveAtMs)
}

export type Heartbeats = ReturnType<typeof createHeartbeats>
