import { createLruCache } from './lru-cache.ts'

type Settings<Found, Context> = {
  /** Asks the store; undefined when there is no such thing. */
  find(id: string, context: Context): Promise<Found | undefined>
  /** How long an answer is used without asking again. */
  freshForMs: { found: number; absent: number }
  entriesMax: number
  changes?: Changes
}

/** Tells when an answer no longer holds, so that those that hold can be used for longer. */
export type Changes = {
  /** Calls back with the id of what has changed. */
  onChange(drop: (id: string) => void): void
  /** True while every change since then (ms of `performance.now`) was told, but for those of the last second. */
  coversSince(timeMs: number): boolean
}

type Entry<Found> = { found: Found | undefined; askedAtMs: number; freshUntilMs: number; hasChanged: boolean }

/** With changes told, an answer is used for this long at most: for what nobody thought of telling. */
const coveredForMs = 60_000
const never = Number.NEGATIVE_INFINITY

/**
 * Remembers what a store answered for a short time, so that nothing is asked for every point; for longer where changes are
 * told. While the store is away, what is known goes on being used, unless it is known to have changed; what is not known
 * fails with the store's error: "away" must never look like "absent".
 *
 * @returns a function that answers at once when it knows, and with a promise when it has to ask
 */
export function createReadThroughCache<Found, Context>({
  find,
  freshForMs,
  entriesMax,
  changes,
}: Settings<Found, Context>) {
  let changesTold = 0
  const entries = createLruCache<Entry<Found>>(entriesMax)
  /** One question about a thing at any time. */
  const asking = new Map<string, Promise<Found | undefined>>()

  async function ask(id: string, context: Context): Promise<Found | undefined> {
    const askedAtMs = performance.now()
    const toldBefore = changesTold
    try {
      const found = await find(id, context)
      const freshMs = found === undefined ? freshForMs.absent : freshForMs.found
      // A change that was told meanwhile may be of this, and later than what was read: then it is asked again.
      const isStill = changesTold === toldBefore
      const freshUntilMs = isStill ? askedAtMs + freshMs : never
      entries.set(id, { found, askedAtMs: isStill ? askedAtMs : never, freshUntilMs, hasChanged: false })
      return found
    } catch (error) {
      const known = entries.peek(id)
      if (known?.found === undefined || known.hasChanged) throw error
      // Soon asked again: the store may be back.
      entries.set(id, { ...known, freshUntilMs: performance.now() + freshForMs.absent })
      return known.found
    } finally {
      asking.delete(id)
    }
  }

  changes?.onChange((id) => {
    changesTold++
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
