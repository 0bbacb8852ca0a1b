import type { tombstonesTable } from '../../store/clickhouse/monitoring/tables.ts'
import type { Queries } from '../../store/postgres/database.ts'
import { deleteUntoldTombstones, listUntoldTombstones } from '../../store/postgres/monitoring/event-claims.ts'
import type { Committer } from '../committer.ts'

type Settings = {
  queries: Queries
  committer: Committer<typeof tombstonesTable>
  everyMs: number
  onError(error: unknown): void
}

const tombstonesPerBlock = 1_000

/**
 * A tombstone marks the number of an event whose prediction id was taken over (see `event-claims.ts`), so that reads leave
 * its rows out. Postgres has them first; this writes them to ClickHouse: at once when this process took ids over, and
 * every `everyMs` for processes that were killed before they could. Writing one twice does no harm.
 */
export function createTombstones({ queries, committer, everyMs, onError }: Settings) {
  let flushing: Promise<void> | undefined
  let isDue = false
  const timer = setInterval(flush, everyMs)
  timer.unref()

  function flush() {
    isDue = true
    flushing ??= flushAll()
      .catch(onError)
      .finally(() => {
        flushing = undefined
      })
  }

  async function flushAll() {
    while (isDue) {
      isDue = false
      const tombstones = await listUntoldTombstones(queries, tombstonesPerBlock)
      if (tombstones.length === 0) continue
      await committer.commit(Date.now(), (block) => {
        for (const { claim, place, modelId, kind } of tombstones) {
          block.columns.model_id.push(modelId)
          block.columns.kind.push(kind)
          block.columns.claim.push(claim)
          block.columns.place.push(place)
          block.endRow()
        }
      })
      await deleteUntoldTombstones(queries, tombstones)
      if (tombstones.length === tombstonesPerBlock) isDue = true
    }
  }

  return {
    flush,
    async close() {
      clearInterval(timer)
      await flushing
    },
  }
}
