type Settings = { everyMs: number; work(): Promise<void>; onError(error: unknown): void }

/**
 * Repeats work at an interval, and on demand in between. Two runs never overlap; an interval that ends during a run is
 * skipped. An error goes to `onError`, and the work is tried again at the next interval.
 */
export function repeat({ everyMs, work, onError }: Settings) {
  let running: Promise<void> | undefined
  let next: Promise<void> | undefined
  const timer = setInterval(run, everyMs)
  timer.unref()

  function run(): Promise<void> {
    running ??= work()
      .catch(onError)
      .finally(() => {
        running = undefined
      })
    return running
  }

  return {
    /**
     * Resolves after a run that began after the call: one in progress may have missed what the caller has just done. Callers
     * that wait for the same run share it. Never rejects.
     */
    now(): Promise<void> {
      next ??= (running ?? Promise.resolve()).then(() => {
        next = undefined
        return run()
      })
      return next
    },

    /** Starts no further run at an interval, and waits for those that are in progress or were asked for. */
    async close() {
      clearInterval(timer)
      await next
      await running
    },
  }
}
