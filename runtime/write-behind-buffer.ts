type Settings<Entry> = {
  /** What entries are merged by. */
  idOf(entry: Entry): string | bigint
  /** Takes `more` into the entry that is there. */
  merge(entry: Entry, more: Entry): void
  /** Keeps many entries in one statement. */
  write(entries: Entry[]): Promise<void>
  everyMs: number
  onError(error: unknown): void
}

/**
 * Gathers entries in memory and writes them once in `everyMs`, merged by what they are about: a thousand small facts a
 * second become one statement. What could not be written is kept for the next time; there is one entry for each thing it
 * is about, so they stay few.
 */
export function createWriteBehindBuffer<Entry>({ idOf, merge, write, everyMs, onError }: Settings<Entry>) {
  let entries = new Map<string | bigint, Entry>()
  let writing: Promise<void> | undefined
  const timer = setInterval(() => {
    writing ??= flush().finally(() => {
      writing = undefined
    })
  }, everyMs)
  timer.unref()

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
    /** Writes what is left, once. */
    async close() {
      clearInterval(timer)
      await writing
      await flush()
    },
  }
}
