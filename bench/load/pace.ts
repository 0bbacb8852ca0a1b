/**
 * A rate limiter for the load: calls `send` callbacks evenly, in order, at a fixed rate. Unused capacity is kept only up to
 * a small burst, so a pause is not followed by a large one.
 */
export type Pace = {
  whenDue(send: () => void): void
  /** Stops limiting: all waiting and later callbacks run at once. */
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
