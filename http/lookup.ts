import { LRUCache } from 'lru-cache'

type Settings<Found, Context> = {
  /** Asks the store; undefined when there is no such thing. */
  find(id: string, context: Context): Promise<Found | undefined>
  /** How long an answer is used without asking again. */
  freshForMs: { found: number; absent: number }
  entriesMax: number
}

type Entry<Found> = { found: Found | undefined }

/**
 * Remembers what a store answered for a short time, so that nothing is asked for every point. While the store is away,
 * what is known goes on being used; what is not known fails with the store's error: "away" must never look like "absent".
 *
 * @returns a function that answers at once when it knows, and with a promise when it has to ask
 */
export function createLookup<Found, Context>({ find, freshForMs, entriesMax }: Settings<Found, Context>) {
  const entries = new LRUCache<string, Entry<Found>, { given: Context }>({
    max: entriesMax,
    noDeleteOnStaleGet: true,
    noDeleteOnFetchRejection: true,
    async fetchMethod(id, known, { options, context }) {
      try {
        const found = await find(id, context.given)
        options.ttl = found === undefined ? freshForMs.absent : freshForMs.found
        return { found }
      } catch (error) {
        if (known?.found === undefined) throw error
        // Soon asked again: the store may be back.
        options.ttl = freshForMs.absent
        return known
      }
    },
  })
  const toFound = (entry: Entry<Found> | undefined) => entry?.found

  return function lookUp(id: string, context: Context): Found | undefined | Promise<Found | undefined> {
    const entry = entries.get(id)
    if (entry) return entry.found
    return entries.fetch(id, { context: { given: context } }).then(toFound)
  }
}
