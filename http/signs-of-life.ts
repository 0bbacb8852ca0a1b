import type { Sign } from '../store/postgres/experiments.ts'

type Settings = {
  /** Keeps the signs of many experiments in one statement. */
  write(signs: Sign[]): Promise<void>
  everyMs: number
  onError(error: unknown): void
}

/**
 * Gathers what experiments did and when, and writes it once in `everyMs`, so that a thousand keep-alives a second are
 * one statement. Signs that could not be written are kept for the next time: each experiment has one, so they stay few.
 */
export function createSignsOfLife({ write, everyMs, onError }: Settings) {
  let signs = new Map<bigint, Sign>()
  let writing: Promise<void> | undefined
  const timer = setInterval(() => {
    writing ??= flush().finally(() => {
      writing = undefined
    })
  }, everyMs)
  timer.unref()

  function merge(sign: Sign) {
    const known = signs.get(sign.experimentId)
    if (!known) {
      signs.set(sign.experimentId, sign)
      return
    }
    known.activeAtMs = Math.max(known.activeAtMs, sign.activeAtMs)
    if (sign.aliveAtMs !== undefined) known.aliveAtMs = Math.max(known.aliveAtMs ?? 0, sign.aliveAtMs)
  }

  async function flush() {
    if (signs.size === 0) return
    const batch = signs
    signs = new Map()
    try {
      await write([...batch.values()])
    } catch (error) {
      for (const sign of batch.values()) merge(sign)
      onError(error)
    }
  }

  return {
    /** The experiment logged something. */
    active(experimentId: bigint, atMs: number) {
      merge({ experimentId, activeAtMs: atMs })
    },

    /** The experiment says that it runs. */
    alive(experimentId: bigint, atMs: number) {
      merge({ experimentId, activeAtMs: atMs, aliveAtMs: atMs })
    },

    /** Writes what is left, once. */
    async close() {
      clearInterval(timer)
      await writing
      await flush()
    },
  }
}

export type SignsOfLife = ReturnType<typeof createSignsOfLife>
