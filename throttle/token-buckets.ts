import { createLruCache } from '../runtime/lru-cache.ts'

/** What is missing for a request to be admitted. */
export type Shortage = {
  /** Tokens in the bucket. */
  remaining: number
  retryAfterMs: number
}

/** Token buckets by id. Each fills at its rate and holds a minute's worth. */
export type TokenBuckets = {
  /**
   * Takes `count` tokens, or takes none and returns the shortage. Synchronous when possible: most requests need no promise.
   * A full bucket admits more than it holds, or else such a request could never succeed; it then fills from below zero.
   */
  take(id: string, perMinute: number, count: number): Shortage | undefined | Promise<Shortage | undefined>
  /** Gives back the tokens of a request that was rejected afterwards. */
  giveBack(id: string, count: number): void
}

type Bucket = { tokens: number; filledAtMs: number }

const bucketsMax = 200_000

/** Buckets in the memory of this process. */
export function createLocalBuckets(now: () => number) {
  // An evicted bucket comes back full: it admits too much rather than too little.
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

/** The shortage of a bucket for `count` tokens. */
export function toShortage(remaining: number, perMinute: number, count: number): Shortage {
  const missing = Math.min(count, perMinute) - remaining
  return { remaining, retryAfterMs: (missing * 60_000) / perMinute }
}
