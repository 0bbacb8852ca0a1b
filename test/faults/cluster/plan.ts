import { createRandom } from '../../../cli/demo/random.ts'

/** A fault injected into one process. */
export type Strike = {
  /** The name of the process. */
  victim: string
  how: 'kill' | 'kill again while it restarts' | 'stop, then continue' | 'stop, then kill'
  /** How long it stays stopped, or until the second kill. */
  forMs: number
}

/** One process is struck, or two at once. */
export type Deed = { afterMs: number; strikes: Strike[] }

const pauseMs = { least: 1_000, most: 5_000 }
const restartMs = { least: 50, most: 1_500 }
/** A worker loses its job locks after 6 s; about half of the stops are longer. */
const stopMs = { least: 1_000, most: 11_000 }

/**
 * Draws an endless plan. The same seed and victims give the same plan.
 *
 * @param victims names of processes by kind; every kind is equally likely
 */
export function* drawDeeds(seed: number, victims: Map<string, string[]>): Generator<Deed, never> {
  const random = createRandom(seed)
  const one = <T>(list: readonly T[]) => list[Math.floor(random() * list.length)] as T
  const between = ({ least, most }: { least: number; most: number }) => Math.round(least + random() * (most - least))
  const kinds = [...victims.keys()]

  function drawStrike(): Strike {
    const victim = one(victims.get(one(kinds)) as string[])
    const what = random()
    // The backends of Postgres would continue while the main process is stopped.
    if (what < 0.1 && victim !== 'postgres') return { victim, how: 'stop, then continue', forMs: between(stopMs) }
    if (what < 0.15 && victim !== 'postgres') return { victim, how: 'stop, then kill', forMs: between(stopMs) }
    if (what < 0.3) return { victim, how: 'kill again while it restarts', forMs: between(restartMs) }
    return { victim, how: 'kill', forMs: 0 }
  }

  for (;;) {
    const afterMs = between(pauseMs)
    const strikes = [drawStrike()]
    const second = drawStrike()
    if (random() < 0.2 && second.victim !== strikes[0]?.victim) strikes.push(second)
    yield { afterMs, strikes }
  }
}
