import type { Logger } from 'pino'
import { repeat } from '../../runtime/poll.ts'
import type { EventReader } from '../../store/clickhouse/monitoring/reader.ts'
import { type RollupLimits, rollUp, rollupLimits } from '../../store/clickhouse/monitoring/rollups/build.ts'
import { createChanges } from '../../store/clickhouse/monitoring/rollups/changes.ts'
import { sweepRollups } from '../../store/clickhouse/monitoring/rollups/drop.ts'
import type { Database } from '../../store/postgres/database.ts'
import { tryLock } from '../../store/postgres/lock.ts'
import { storeDriftOfDays } from './drift-windows.ts'

const lookEveryMs = 30_000
/** One worker makes rollups at a time: two would do the same work. */
const lock = 7_392_003

type Settings = {
  database: Database
  eventReader: EventReader
  log: Logger
  limits?: RollupLimits
  everyMs?: number
}

/**
 * Makes rollups of the events of models in the background, and stores what maps of drift need of them. Without them reads give
 * the same answers slowly.
 */
export function startRollups({ database, eventReader, log, limits = rollupLimits, everyMs = lookEveryMs }: Settings) {
  const { clickhouse } = eventReader
  const changed = createChanges(clickhouse, limits.settledMs)
  const stop = new AbortController()
  const looking = repeat({
    everyMs,
    work: () =>
      database.transaction(async (queries) => {
        if (!(await tryLock(queries, lock)) || stop.signal.aborted) return
        await sweepRollups(clickhouse)
        for (const model of await changed.list()) {
          if (stop.signal.aborted) return
          await rollUp(eventReader, model, limits, stop.signal)
          if (model.kind === 'EVENTS') await storeDriftOfDays({ queries: database, eventReader }, model, stop.signal)
          changed.done(model)
        }
      }),
    onError: (error) => log.warn({ err: error }, 'rollups could not be made; the next round tries again'),
  })
  return {
    async close() {
      stop.abort()
      await looking.close()
    },
  }
}
