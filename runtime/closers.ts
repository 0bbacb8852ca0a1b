/**
 * Collects closers and calls them in reverse order: all of them, even if one fails.
 */
export function createClosers() {
  const closers: (() => Promise<unknown>)[] = []
  return {
    push(close: () => Promise<unknown>) {
      closers.push(close)
    },
    async closeAll() {
      const errors: unknown[] = []
      for (const close of closers.splice(0).toReversed()) {
        await close().catch((error: unknown) => errors.push(error))
      }
      if (errors.length > 0) throw new AggregateError(errors, 'not everything could be closed')
    },
  }
}

export type Closers = ReturnType<typeof createClosers>
