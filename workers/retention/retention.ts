type Settings = {
  /** Some experiments that were deleted before this time, in ms since the Unix epoch; none when all are swept. */
  listDeletedBefore(timeMs: number): Promise<bigint[]>
  /** Takes their rows out of the tables of the stream, for good. */
  deleteRows(experimentIds: bigint[]): Promise<void>
  /** Takes them and all that hangs on them out of Postgres. */
  deleteExperiments(experimentIds: bigint[]): Promise<void>
  /** Takes away what is kept for some days only. */
  deleteOld(): Promise<void>
  /** How long a deleted experiment can be restored. */
  keptForMs: number
  everyMs: number
  onError(error: unknown): void
}

/**
 * Sweeps experiments away whose time to be restored has passed. The stream goes first: should the sweep end half-way, the
 * experiment is still known as deleted, and is met again. Two workers that sweep the same ones do no harm.
 */
export function createRetention(settings: Settings) {
  let sweeping: Promise<void> | undefined
  const timer = setInterval(() => {
    sweeping ??= sweep()
      .catch(settings.onError)
      .finally(() => {
        sweeping = undefined
      })
  }, settings.everyMs)
  timer.unref()

  async function sweep() {
    await settings.deleteOld()
    for (;;) {
      const ids = await settings.listDeletedBefore(Date.now() - settings.keptForMs)
      if (ids.length === 0) return
      await settings.deleteRows(ids)
      await settings.deleteExperiments(ids)
    }
  }

  return {
    sweep,
    async close() {
      clearInterval(timer)
      await sweeping
    },
  }
}
