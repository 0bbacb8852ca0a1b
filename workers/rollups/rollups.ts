import type { Logger } from 'pino'
import { repeat } from '../../runtime/poll.ts'
import type { ClickHouse } from '../../store/clickhouse/connection.ts'
import {
  type RollupLimits,
  rollUp,
  rollupLimits,
  sweepRollups,
} from '../../store/clickhouse/monitoring/rollups/build.ts'
import { createChanges } from '../../store/clickhouse/monitoring/rollups/changes.ts'
import type { Database } from '../../store/postgres/database.ts'

const lookEveryMs = 30_000
/** One worker makes rollups at a time: two would do the same work. */
const lock = 7_392_003

type Settings = {
  database: Database
  clickhouse: ClickHouse
  log: Logger
  limits?: RollupLimits
  everyMs?: number
}

/**
 * Sums up what models report, in the background, for as long as the worker runs: of those models that something came of.
 * Reads are exact without it, and slow.
 */
export function startRollups({ database, clickhouse, log, limits = rollupLimits, everyMs = lookEveryMs }: Settings) {
  const changed = createChanges(clickhouse, limits.settledMs)
  const stop = new AbortController()
  const looking = repeat({
    everyMs,
    work: () =>
      database.transaction(async (queries) => {
        const row = await queries.row<{ isHeld: boolean }>('SELECT pg_try_advisory_xact_lock($1) AS "isHeld"', [lock])
        if (!row?.isHeld || stop.signal.aborted) return
        await sweepRollups(clickhouse)
        for (const model of await changed.list()) {
          if (stop.signal.aborted) return
          await rollUp(clickhouse, model, limits, stop.signal)
          changed.done(model)
        }
      }),
    onError: (error) => log.warn({ err: error }, 'events could not be summed up; it will be tried again'),
  })
  return {
    async close() {
      stop.abort()
      await looking.close()
    },
  }
}
