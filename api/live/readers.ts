import { setTimeout as sleep } from 'node:timers/promises'
import { unavailable } from '../../http/errors.ts'

/** The events of one reader, until they are sent. */
export function createEvents() {
  const unsent: string[] = []
  let hasEnded = false
  let wake: () => void = () => undefined

  /** Resolves with false when it stays silent. */
  async function isHeard(withinMs: number): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<boolean>()
    wake = () => resolve(true)
    const timer = setTimeout(resolve, withinMs, false)
    const heard = await promise
    clearTimeout(timer)
    return heard
  }

  return {
    isEmpty: () => unsent.length === 0,

    /** `id`: where a reader goes on that has this event. */
    push(event: string, data: unknown, id?: string) {
      unsent.push(`${id === undefined ? '' : `id: ${id}\n`}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`)
      wake()
    },

    end() {
      hasEnded = true
      wake()
    },

    /** Yields events as they come, and a comment as often as `heartbeatMs` says; then the right to read is looked at, too. */
    async *read(heartbeatMs: number, mayRead: () => Promise<boolean>) {
      for (let checkedAtMs = Date.now(); !hasEnded; ) {
        const isSilent = unsent.length === 0 && !(await isHeard(heartbeatMs))
        if (isSilent) yield comment
        else if (unsent.length > 0) yield unsent.splice(0).join('')
        // Not by the clock after silence: a timer may end a millisecond early by it.
        if (!isSilent && Date.now() - checkedAtMs < heartbeatMs) continue
        if (!(await mayRead())) break
        checkedAtMs = Date.now()
      }
    },
  }
}

const comment = ':\n\n'

type Events = ReturnType<typeof createEvents>

type Settings = {
  streamsMax?: number | undefined
  /** How often a silent stream sends a comment, and how often the permission of a reader is checked. */
  heartbeatMs?: number | undefined
  /** True where nothing may be there to say at first: proxies and readers see at once that the stream is open. */
  beginsSilent?: boolean
  /** Looks for all readers, as long as there are any. @returns the pause until the next look */
  poll(): Promise<number>
  /** Runs what is of no single request. */
  outside?: (<T>(work: () => T) => T) | undefined
}

const streamsMaxDefault = 100
const heartbeatMsDefault = 15_000

/** The open streams of this process. Whoever reads, one look serves all of them. */
export function createReaders<Reader extends { events: Events }>(settings: Settings) {
  const { streamsMax = streamsMaxDefault, heartbeatMs = heartbeatMsDefault, beginsSilent = false, poll } = settings
  const { outside = (work) => work() } = settings
  const readers = new Set<Reader>()
  const closing = new AbortController()
  let polling: Promise<void> | undefined

  async function pollWhileRead() {
    while (readers.size > 0 && !closing.signal.aborted) {
      await sleep(await poll(), undefined, { signal: closing.signal }).catch(() => undefined)
    }
  }

  function end(reader: Reader) {
    readers.delete(reader)
    reader.events.end()
  }

  return {
    /** Those that have been sent everything: for others events would pile up. */
    ready: () => [...readers].filter((it) => it.events.isEmpty()),

    /**
     * Opens a stream. It ends when its events do, when `mayRead` returns false, with `leave`, and when the process stops.
     *
     * @throws HttpError `unavailable` when there are too many streams
     */
    open(toReader: () => Reader, mayRead: () => Promise<boolean>) {
      if (closing.signal.aborted) throw unavailable('This process is stopping.')
      if (readers.size >= streamsMax) throw unavailable('This process has too many streams open.', undefined, 10)
      const reader = toReader()
      readers.add(reader)
      polling ??= outside(pollWhileRead).finally(() => {
        polling = undefined
      })
      async function* events() {
        try {
          if (beginsSilent) yield comment
          yield* reader.events.read(heartbeatMs, mayRead)
        } finally {
          end(reader)
        }
      }
      return { events: events(), leave: () => end(reader) }
    },

    /** Ends all streams and rejects new ones. */
    async close() {
      closing.abort()
      for (const it of [...readers]) end(it)
      await polling
    },
  }
}
