/** How long answers took, without keeping each: counts in buckets that are 2 % apart. */
const bucketRatio = Math.log(1.02)
const leastMs = 0.01

export function createLatencies() {
  const counts: number[] = []
  let inAll = 0
  return {
    record(ms: number) {
      const bucket = Math.max(0, Math.round(Math.log(ms / leastMs) / bucketRatio))
      counts[bucket] = (counts[bucket] ?? 0) + 1
      inAll++
    },
    /** The time within which this share was answered; NaN when there was no answer at all. */
    quantileMs(share: number): number {
      let left = inAll * share
      for (const [bucket, count] of counts.entries()) {
        left -= count ?? 0
        if (count && left <= 0) return leastMs * Math.exp(bucket * bucketRatio)
      }
      return Number.NaN
    },
  }
}
