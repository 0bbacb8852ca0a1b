import { createLruCache } from '../runtime/lru-cache.ts'

/** What is missing for a request to be admitted. */
export type Shortage = {
  /** Tokens that are there. */
  remaining: number
  retryAfterMs: number
}

/** Buckets of tokens by name. Each fills at its rate and holds a minute's worth. */
export type TokenBuckets = {
  /**
   * Takes `count` tokens, or none and tells what is missing. Answers at once when it can: most requests need no promise.
   * More than a bucket holds is let in when the bucket is full, and the debt is paid off before the next: else it could
   * never be sent.
   */
  take(id: string, perMinute: number, count: number): Shortage | undefined | Promise<Shortage | undefined>
  /** Puts back what was taken for a request that was then refused. */
  giveBack(id: string, count: number): void
}

type Bucket = { tokens: number; filledAtMs: number }

const bucketsMax = 200_000

/** Buckets in the memory of this process. */
export function createLocalBuckets(now: () => number) {
  // A bucket that is forgotten because others are busier comes back full: it errs towards accepting.
  const buckets = createLruCache<Bucket>(bucketsMax)

  function fill(id: string, perMinute: number): Bucket {
    const at = now()
    let bucket = buckets.get(id)
    if (!bucket) {
      bucket = { tokens: perMinute, filledAtMs: at }
      buckets.set(id, bucket)
    }
    bucket.tokens = Math.min(perMinute, bucket.tokens + ((at - bucket.filledAtMs) * perMinute) / 60_000)
    bucket.filledAtMs = at
    return bucket
  }

  return {
    take(id: string, perMinute: number, count: number): Shortage | undefined {
      const bucket = fill(id, perMinute)
      if (bucket.tokens < Math.min(count, perMinute)) return toShortage(bucket.tokens, perMinute, count)
      bucket.tokens -= count
      return undefined
    },

    giveBack(id: string, count: number) {
      const bucket = buckets.get(id)
      if (bucket) bucket.tokens += count
    },
  } satisfies TokenBuckets
}

/** What is missing in a bucket for `count` tokens, and how long until it has them. */
export function toShortage(remaining: number, perMinute: number, count: number): Shortage {
  const missing = Math.min(count, perMinute) - remaining
  return { remaining, retryAfterMs: (missing * 60_000) / perMinute }
}
