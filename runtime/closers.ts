/**
 * Remembers how to close what was opened, and closes it in reverse. Every closer is tried, also when one fails.
 */
export function createClosers() {
  const closers: (() => Promise<unknown>)[] = []
  return {
    push(close: () => Promise<unknown>) {
      closers.push(close)
    },
    async closeAll() {
      const faults: unknown[] = []
      for (const close of closers.splice(0).toReversed()) {
        await close().catch((error: unknown) => faults.push(error))
      }
      if (faults.length > 0) throw new AggregateError(faults, 'not everything could be closed')
    },
  }
}

export type Closers = ReturnType<typeof createClosers>
