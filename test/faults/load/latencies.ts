/** A histogram of latencies, with buckets 2 % apart. */
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
    /** A quantile, `share` from 0 to 1; NaN without any answer. */
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
