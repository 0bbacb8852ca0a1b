type Settings = { everyMs: number; work(): Promise<void>; onError(error: unknown): void }

/** Does something again and again, never twice at once. `close` waits for what is under way. */
export function repeat({ everyMs, work, onError }: Settings): { close(): Promise<void> } {
  let working: Promise<void> | undefined
  const timer = setInterval(() => {
    working ??= work()
      .catch(onError)
      .finally(() => {
        working = undefined
      })
  }, everyMs)
  timer.unref()
  return {
    async close() {
      clearInterval(timer)
      await working
    },
  }
}
