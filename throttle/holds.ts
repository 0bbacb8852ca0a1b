import { createLruCache } from '../runtime/lru-cache.ts'

/**
 * Slows a client that never waits down to a few requests a second, and stays below the time-outs of proxies. Up to twice as long,
 * so that its connections do not all come again at the same moment.
 */
const holdMs = 500
const idsMax = 50_000

/** For how long refusals are held back: those of a client that comes again before its `Retry-After`, as refusing takes CPU time, too. */
export function createHolds(now: () => number, random: () => number = Math.random) {
  /** The end of the latest `Retry-After` that was answered. */
  const retryTimes = createLruCache<number>(idsMax)
  /** @param id what has too much, such as a bucket or a tenant's limit */
  return function toHoldMs(id: string, retryAfterMs: number): number {
    const retryAtMs = retryTimes.get(id) ?? Number.NEGATIVE_INFINITY
    retryTimes.set(id, Math.max(retryAtMs, now() + retryAfterMs))
    return now() < retryAtMs ? holdMs * (1 + random()) : 0
  }
}
