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

const tombstonesAtOnce = 1_000

/**
 * Tells ClickHouse which numbers of events were taken over: at once when this process took some, and now and then for
 * processes that were killed before they had told. Told twice does no harm.
 */
export function createTombstones({ queries, committer, everyMs, onError }: Settings) {
  let telling: Promise<void> | undefined
  let isDue = false
  const timer = setInterval(tell, everyMs)
  timer.unref()

  function tell() {
    isDue = true
    telling ??= tellAll()
      .catch(onError)
      .finally(() => {
        telling = undefined
      })
  }

  async function tellAll() {
    while (isDue) {
      isDue = false
      const tombstones = await listUntoldTombstones(queries, tombstonesAtOnce)
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
      if (tombstones.length === tombstonesAtOnce) isDue = true
    }
  }

  return {
    tell,
    async close() {
      clearInterval(timer)
      await telling
    },
  }
}
