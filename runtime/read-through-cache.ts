import { createLruCache } from './lru-cache.ts'

type Settings<Found, Context> = {
  /** Reads the store; undefined if it has no entry for the id. */
  find(id: string, context: Context): Promise<Found | undefined>
  /** How long an entry is used before the store is read again. */
  freshForMs: { found: number; absent: number }
  entriesMax: number
  changes?: Changes
}

/** A feed of changes, which lets entries without a change be used for longer. */
export type Changes = {
  /** Calls back with the id of what has changed. */
  onChange(drop: (id: string) => void): void
  /** True when the feed has reported every change since then (ms of `performance.now`), except those of the last second. */
  coversSince(timeMs: number): boolean
}

type Entry<Found> = { found: Found | undefined; askedAtMs: number; freshUntilMs: number; hasChanged: boolean }

/** The longest that an entry is used with a feed of changes: the feed may not cover every kind of change. */
const coveredForMs = 60_000
const never = Number.NEGATIVE_INFINITY

/**
 * Caches what a store answers for a short time, or for longer with a feed of changes, so that no point needs a read. While the
 * store is down, entries stay in use unless they have changed. A look-up without an entry then fails with the store's error:
 * an outage must never look like "absent".
 *
 * @returns a function that answers at once from the cache, or with a promise when it reads the store
 */
export function createReadThroughCache<Found, Context>({
  find,
  freshForMs,
  entriesMax,
  changes,
}: Settings<Found, Context>) {
  let changesReported = 0
  const entries = createLruCache<Entry<Found>>(entriesMax)
  /** The read in progress for each id: there is at most one. */
  const asking = new Map<string, Promise<Found | undefined>>()

  async function ask(id: string, context: Context): Promise<Found | undefined> {
    const askedAtMs = performance.now()
    const reportedBefore = changesReported
    try {
      const found = await find(id, context)
      const freshMs = found === undefined ? freshForMs.absent : freshForMs.found
      // A change reported meanwhile may concern this id and be newer than what was read: then the next look-up reads again.
      const isUnchanged = changesReported === reportedBefore
      const freshUntilMs = isUnchanged ? askedAtMs + freshMs : never
      entries.set(id, { found, askedAtMs: isUnchanged ? askedAtMs : never, freshUntilMs, hasChanged: false })
      return found
    } catch (error) {
      const known = entries.peek(id)
      if (known?.found === undefined || known.hasChanged) throw error
      // Expires soon: the store may be up again.
      entries.set(id, { ...known, freshUntilMs: performance.now() + freshForMs.absent })
      return known.found
    } finally {
      asking.delete(id)
    }
  }

  changes?.onChange((id) => {
    changesReported++
    const entry = entries.peek(id)
    if (entry) entry.hasChanged = true
  })

  function isFresh({ hasChanged, freshUntilMs, askedAtMs }: Entry<Found>): boolean {
    if (hasChanged) return false
    const nowMs = performance.now()
    return nowMs < freshUntilMs || (nowMs < askedAtMs + coveredForMs && changes?.coversSince(askedAtMs) === true)
  }

  return function lookUp(id: string, context: Context): Found | undefined | Promise<Found | undefined> {
    const entry = entries.get(id)
    if (entry && isFresh(entry)) return entry.found
    const underWay = asking.get(id)
    if (underWay) return underWay
    const asked = ask(id, context)
    asking.set(id, asked)
    return asked
  }
}
