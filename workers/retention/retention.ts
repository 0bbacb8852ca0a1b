import { repeat } from '../../runtime/poll.ts'

type Settings = {
  /** Deletes the projects that users deleted before this time (ms since the Unix epoch), for good. */
  deleteProjects(timeMs: number): Promise<void>
  /** Lists some experiments that users deleted before this time (ms since the Unix epoch); empty when all are swept. */
  listDeletedBefore(timeMs: number): Promise<bigint[]>
  /** Deletes their rows in ClickHouse, for good. */
  deleteRows(experimentIds: bigint[]): Promise<void>
  /** Deletes them in Postgres, with everything that belongs to them. */
  deleteExperiments(experimentIds: bigint[]): Promise<void>
  /** Deletes data older than the retention of its workspace. */
  deleteOld(): Promise<void>
  /** How long a deleted project or experiment can be restored. */
  keptForMs: number
  everyMs: number
  onError(error: unknown): void
}

/**
 * Deletes projects and experiments for good once they can no longer be restored. Their rows in ClickHouse go first: when a sweep ends
 * half-way, Postgres still lists the experiment, and the next sweep finds it. Two workers may sweep the same experiments.
 */
export function createRetention(settings: Settings) {
  const sweeping = repeat({ everyMs: settings.everyMs, work: sweep, onError: settings.onError })

  async function sweep() {
    await settings.deleteOld()
    const timeMs = Date.now() - settings.keptForMs
    // The projects go first, or else one might be restored while the experiments that were deleted with it are purged.
    await settings.deleteProjects(timeMs)
    for (;;) {
      const ids = await settings.listDeletedBefore(timeMs)
      if (ids.length === 0) return
      await settings.deleteRows(ids)
      await settings.deleteExperiments(ids)
    }
  }

  return {
    sweep,
    close: sweeping.close,
  }
}
