import type { Caller } from '../route.ts'

/**
 * Lets work on larger bodies take turns: one each time around the event loop, in which smaller requests are read and answered
 * in between. Lanes go round-robin, so that a caller with many larger bodies does not delay another one's.
 */
export type Turns = {
  /** Resolves when it is the turn of this body; undefined when it is too small to wait. */
  take(lane: string, bytes: number): Promise<void> | undefined
}

/** Whose turn a request waits for: the keys of a user share one. */
export const toLane = (caller: Caller | undefined) => caller?.userId ?? ''

/** Smaller bodies take less than a millisecond. */
const turnBytesMin = 16 * 1024

export function createTurns(): Turns {
  /** In the order in which they come next. */
  const lanes = new Map<string, (() => void)[]>()
  let isUnderWay = false

  function beginNext() {
    const [next] = lanes
    isUnderWay = next !== undefined
    if (!next) return
    const [lane, [begin, ...others]] = next
    lanes.delete(lane)
    if (others.length > 0) lanes.set(lane, others)
    // Comes after the event loop has read what arrived meanwhile.
    setImmediate(beginNext)
    begin?.()
  }

  return {
    take(lane, bytes) {
      if (bytes < turnBytesMin) return undefined
      return new Promise((resolve) => {
        const waiting = lanes.get(lane)
        if (waiting) waiting.push(resolve)
        else lanes.set(lane, [resolve])
        if (isUnderWay) return
        isUnderWay = true
        setImmediate(beginNext)
      })
    },
  }
}
