import { createLruCache } from '../runtime/lru-cache.ts'

/** How many times its limit a tenant may send at most. */
const peakOfLimit = 5
/** A small machine takes that many points beside all else, so smaller tenants need not wait. */
const peakPerSecondMin = 10_000
/** Below the time-outs of clients; meanwhile a body waits in memory. */
const waitMsMax = 1_000
/** Timers are not more exact. A request that would wait for less goes on at once, and the next one waits longer. */
const waitMsMin = 2
const idsMax = 50_000

/**
 * Spreads what a tenant saved up: its bucket holds a minute's worth, and other tenants would wait while all of that is written at
 * once. Each process counts for itself.
 */
export function createPaces(now: () => number) {
  /** When those that were let through are sent, at the greatest pace. */
  const doneTimes = createLruCache<number>(idsMax)
  /** @returns how long these points are to wait, or 0 */
  return function toWaitMs(id: string, perMinute: number, count: number): number {
    const nowMs = now()
    const beginMs = Math.min(Math.max(nowMs, doneTimes.get(id) ?? nowMs), nowMs + waitMsMax)
    const tookMs = (count * 1_000) / Math.max(peakPerSecondMin, (perMinute / 60) * peakOfLimit)
    // A tenant with very many connections is let through faster: none waits for longer.
    doneTimes.set(id, beginMs + tookMs)
    return beginMs - nowMs < waitMsMin ? 0 : beginMs - nowMs
  }
}
