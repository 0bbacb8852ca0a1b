import type { Queries } from '../database.ts'
import { describeEnd } from '../runs/fields.ts'

/** A run that a rule looks at. */
export type WatchedRun = {
  id: bigint
  key: string
  name: string
  /** It began before the window, and says that it still runs. */
  isExpected: boolean
}

type Wanted = { experimentId: bigint | null; projectId: string | null; fromMs: number; toMs: number }

const isWatched = `(e.id = $1 OR e.project_id = $2) AND e.deleted_at IS NULL AND NOT e.archived`

/** The runs of a project that gave a sign of life within the window or after it. A single run is watched until it ends. */
export async function listWatchedRuns(queries: Queries, wanted: Wanted): Promise<WatchedRun[]> {
  return await queries.rows<WatchedRun>(
    `SELECT e.id, e.key, e.name, coalesce(e.id = $1, e.start_time_ms <= $3
       AND (e.alive_at_ms >= $3 OR e.reported_status IS NOT NULL)) AS "isExpected"
     FROM experiments e WHERE ${isWatched} AND (e.end_time_ms IS NULL OR e.end_time_ms > $3)
       AND (e.id = $1 OR (e.active_at_ms >= $3 AND e.start_time_ms < $4)) ORDER BY e.id`,
    [wanted.experimentId, wanted.projectId, wanted.fromMs, wanted.toMs],
  )
}

/** The runs of a rule that crashed within the window, or were known to be lost in it. */
export async function listCrashedRuns(
  queries: Queries,
  { experimentId, projectId, fromMs, toMs, nowMs }: Wanted & { nowMs: number },
): Promise<Pick<WatchedRun, 'id' | 'key' | 'name'>[]> {
  const { kind, at } = describeEnd('$5::bigint')
  return await queries.rows(
    `SELECT e.id, e.key, e.name FROM experiments e
     WHERE ${isWatched} AND ${kind} IN ('crashed', 'lost') AND ${at} >= $3 AND ${at} < $4 ORDER BY e.id`,
    [experimentId, projectId, fromMs, toMs, nowMs],
  )
}
