/**
 * Lets so many through each second, evenly, in the order in which they asked: those who ask while none is due wait. What
 * was not asked for in time is not made up for beyond one round of the clock's hand, so a pause is not followed by a burst.
 */
export type Pace = {
  whenDue(send: () => void): void
  /** Lets all through at once that wait, and that ask from now on. */
  end(): void
}

const tickMs = 1

export function createPace(perSecond: number): Pace {
  const waiting: (() => void)[] = []
  const burstMax = Math.max(2, perSecond * 0.05)
  let due = 0
  let isOver = false
  let at = performance.now()
  const timer = setInterval(() => {
    const now = performance.now()
    due = Math.min(burstMax, due + ((now - at) / 1_000) * perSecond)
    at = now
    while (due >= 1 && waiting.length > 0) {
      due--
      waiting.shift()?.()
    }
  }, tickMs)
  return {
    whenDue(send) {
      if (isOver) send()
      else waiting.push(send)
    },
    end() {
      isOver = true
      clearInterval(timer)
      for (const send of waiting.splice(0)) send()
    },
  }
}
