import { repeat } from './poll.ts'

type Settings<Entry> = {
  /** Entries with the same id are merged. */
  idOf(entry: Entry): string | bigint
  /** Merges `more` into `entry`. */
  merge(entry: Entry, more: Entry): void
  /** Stores many entries in one statement. */
  write(entries: Entry[]): Promise<void>
  everyMs: number
  onError(error: unknown): void
}

/**
 * Keeps entries in memory and writes them every `everyMs`, merged by id: a thousand small facts a second become one
 * statement. Entries that could not be written are kept for the next write. There is one per id, so they stay few.
 */
export function createWriteBehindBuffer<Entry>({ idOf, merge, write, everyMs, onError }: Settings<Entry>) {
  let entries = new Map<string | bigint, Entry>()
  const writing = repeat({ everyMs, work: flush, onError })

  function add(entry: Entry) {
    const id = idOf(entry)
    const known = entries.get(id)
    if (known) merge(known, entry)
    else entries.set(id, entry)
  }

  async function flush() {
    if (entries.size === 0) return
    const batch = entries
    entries = new Map()
    try {
      await write([...batch.values()])
    } catch (error) {
      for (const entry of batch.values()) add(entry)
      onError(error)
    }
  }

  return {
    add,
    /** Writes the remaining entries, once. */
    async close() {
      await writing.close()
      await flush()
    },
  }
}
