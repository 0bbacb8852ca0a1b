export type Wait = {
  /** When to give up, by `performance.now()`; undefined: never. */
  untilMs: number | undefined
  signal: AbortSignal | undefined
}

/** It was not its turn in time, or too many wait. */
export class NoPlace extends Error {
  override name = 'NoPlace'
  laneId: string | undefined
}

/** More would take memory, and wait for longer than a client does. Those that never give up have begun to answer: they are let in. */
const waitingMaxDefault = 200

type Give = (taken: number) => void

export type Places = ReturnType<typeof createPlaces>

/** Places that are taken and given back. Who finds none waits; a free one goes to each id in turn, and to those of an id in order. */
export function createPlaces({ waitingMax = waitingMaxDefault } = {}) {
  let taken = 0
  let waiting = 0
  const queues = new Map<string, Set<Give>>()

  function join(id: string, give: Give) {
    const queue = queues.get(id) ?? new Set()
    queues.set(id, queue.add(give))
    waiting++
  }

  /** Whether it still waited. */
  function drop(id: string, give: Give): boolean {
    const queue = queues.get(id)
    if (!queue?.delete(give)) return false
    if (queue.size === 0) queues.delete(id)
    waiting--
    return true
  }

  return {
    taken: () => taken,
    waiting: () => waiting,

    /**
     * Returns how many are taken with this one.
     *
     * @throws NoPlace; the reason of the signal when that is aborted
     */
    async take(id: string, max: number, { untilMs, signal }: Wait): Promise<number> {
      signal?.throwIfAborted()
      if (taken < max && waiting === 0) return ++taken
      if (untilMs !== undefined && waiting >= waitingMax) throw new NoPlace()
      const { promise, resolve, reject } = Promise.withResolvers<number>()
      join(id, resolve)
      const giveUp = (reason: () => unknown) => () => {
        if (drop(id, resolve)) reject(reason())
      }
      const onLate = giveUp(() => new NoPlace())
      const timer = untilMs === undefined ? undefined : setTimeout(onLate, untilMs - performance.now())
      const onLeft = giveUp(() => signal?.reason)
      signal?.addEventListener('abort', onLeft, { once: true })
      try {
        return await promise
      } finally {
        clearTimeout(timer)
        signal?.removeEventListener('abort', onLeft)
      }
    },

    /** Gives a place back. The next one has it at once, so that nobody comes in between. */
    release() {
      taken--
      for (const [id, queue] of queues) {
        const [give] = queue
        if (!give) continue
        drop(id, give)
        // Its next one waits until all other ids had their turn.
        if (queue.size > 0) {
          queues.delete(id)
          queues.set(id, queue)
        }
        give(++taken)
        return
      }
    },
  }
}
