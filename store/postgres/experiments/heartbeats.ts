import { createGatherer } from '../../../runtime/write-behind-buffer.ts'
import type { Sign } from './experiments.ts'

type Settings = {
  /** Keeps the signs of many experiments in one statement. */
  write(signs: Sign[]): Promise<void>
  everyMs: number
  onError(error: unknown): void
}

/** Gathers what experiments did and when. */
export function createSignsOfLife(settings: Settings) {
  const signs = createGatherer<Sign>({ ...settings, idOf: (it) => it.experimentId, merge })
  return {
    /** The experiment logged something. */
    active(experimentId: bigint, atMs: number) {
      signs.add({ experimentId, activeAtMs: atMs })
    },

    /** The experiment says that it runs. */
    alive(experimentId: bigint, atMs: number) {
      signs.add({ experimentId, activeAtMs: atMs, aliveAtMs: atMs })
    },

    /** Writes what is left, once. */
    close: signs.close,
  }
}

function merge(known: Sign, newer: Sign) {
  known.activeAtMs = Math.max(known.activeAtMs, newer.activeAtMs)
  if (newer.aliveAtMs !== undefined) known.aliveAtMs = Math.max(known.aliveAtMs ?? 0, newer.aliveAtMs)
}

export type SignsOfLife = ReturnType<typeof createSignsOfLife>
