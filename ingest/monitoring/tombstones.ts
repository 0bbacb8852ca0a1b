import { repeat } from '../../runtime/poll.ts'
import type { tombstonesTable } from '../../store/clickhouse/monitoring/tables.ts'
import type { Queries } from '../../store/postgres/database.ts'
import { deleteUnsentTombstones, listUnsentTombstones } from '../../store/postgres/monitoring/event-claims.ts'
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
  const flushing = repeat({ everyMs, work: flushAll, onError })

  async function flushAll() {
    for (;;) {
      const tombstones = await listUnsentTombstones(queries, tombstonesPerBlock)
      if (tombstones.length === 0) return
      await committer.commit(Date.now(), tombstones.length, (block) => {
        for (const { claim, place, modelId, kind } of tombstones) {
          block.columns.model_id.push(modelId)
          block.columns.kind.push(kind)
          block.columns.claim.push(claim)
          block.columns.place.push(place)
          block.endRow()
        }
      })
      await deleteUnsentTombstones(queries, tombstones)
      if (tombstones.length < tombstonesPerBlock) return
    }
  }

  return {
    flush: () => void flushing.now(),
    close: flushing.close,
  }
}
