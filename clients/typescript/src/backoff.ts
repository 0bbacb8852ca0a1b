const firstMs = 250
const longestMs = 30_000

/** Twice as long each time, up to half a minute, of which up to a half is chance: or else all come back at once. */
export function createBackoff() {
  let attempts = 0
  return {
    /** What the service asks for is the least. */
    nextMs(retryAfterMs?: number): number {
      const jittered = Math.min(longestMs, firstMs * 2 ** Math.min(attempts++, 20)) * (0.5 + Math.random() / 2)
      return retryAfterMs === undefined ? jittered : retryAfterMs + Math.min(jittered, 1_000)
    },
    reset() {
      attempts = 0
    },
  }
}
