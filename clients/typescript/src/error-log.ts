/** What went wrong in the background. A fault that came again before it was read is counted. */
export type LoggingError = {
  message: string
  /** When it happened last, ISO 8601. */
  timestamp: string
  count: number
  /** Prediction ids, names of metrics or files, lines of a file: the first 100. */
  affected: string[]
}

/** Where lines for people go; `console` is one. */
export type Log = { error(message: string): void; warn(message: string): void; info(message: string): void }

export type ErrorLog = ReturnType<typeof createErrorLog>

const entriesMax = 1_000
const affectedMax = 100

/** Keeps what went wrong until it is read, and says it in the log the 1st, 10th, 100th, ... time. */
export function createErrorLog(log: Log) {
  const entries = new Map<string, LoggingError>()

  return {
    add(message: string, affected: readonly string[] = [], count = 1) {
      const entry = entries.get(message) ?? { message, timestamp: '', count: 0, affected: [] }
      entries.delete(message)
      entries.set(message, entry)
      // Of what nobody reads, the oldest goes first.
      if (entries.size > entriesMax) entries.delete(entries.keys().next().value as string)
      const before = entry.count
      entry.count += count
      entry.timestamp = new Date().toISOString()
      entry.affected.push(...affected.slice(0, affectedMax - entry.affected.length))
      if (before > 0 && String(before).length === String(entry.count).length) return
      const times = entry.count === 1 ? '' : ` (${entry.count} times)`
      const named =
        affected.length === 0 ? '' : ` [${affected.slice(0, 3).join(', ')}${affected.length > 3 ? ', ...' : ''}]`
      log.error(`svc: ${message}${times}${named}`)
    },

    /** @param clear false: they can be read again */
    read(clear = true): LoggingError[] {
      const found = [...entries.values()].map((it) => ({ ...it, affected: [...it.affected] }))
      if (clear) entries.clear()
      return found
    },
  }
}
