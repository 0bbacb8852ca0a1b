import type { DataType, GivenLimits } from '../../limits.ts'
import type { Queries } from '../database.ts'
import { inLastMinute, minuteNow } from '../experiments/counters.ts'

type Asked = { workspaceId: string; limit: number }

/** What an experiment, or a monitored model, sends now. */
export type Usage = {
  type: DataType
  /** The id, the key and the project of an experiment; null for a model. */
  experimentId: bigint | null
  experimentKey: string | null
  projectName: string | null
  name: string
  /** About what was accepted in the last 60 s: points, lines, values, calls or events. */
  lastMinute: number
  /** Those set for the project. */
  projectLimits: GivenLimits
}

/** For each data type those of a workspace that send the most now, the most first. */
export async function listUsage(queries: Queries, { workspaceId, limit }: Asked): Promise<Usage[]> {
  return await queries.rows<Usage>(
    `WITH recent AS (
       SELECT c.data_type AS type, e.id AS "experimentId", e.key AS "experimentKey", p.name AS "projectName", e.name,
         ${inLastMinute} AS "lastMinute", p.limits AS "projectLimits"
       FROM experiment_counters c JOIN experiments e ON e.id = c.experiment_id JOIN projects p ON p.id = e.project_id
       WHERE c.minute >= ${minuteNow} - 1 AND p.workspace_id = $1
       UNION ALL
       SELECT 'events', NULL, NULL, NULL, m.name, ${inLastMinute}, '{}'
       FROM monitored_model_counters c JOIN monitored_models m ON m.id = c.model_id
       WHERE c.minute >= ${minuteNow} - 1 AND m.workspace_id = $1),
     ranked AS (SELECT *, row_number() OVER (PARTITION BY type ORDER BY "lastMinute" DESC, name) AS place FROM recent
       WHERE "lastMinute" > 0)
     SELECT type, "experimentId", "experimentKey", "projectName", name, "lastMinute", "projectLimits" FROM ranked
     WHERE place <= $2 ORDER BY type, place`,
    [workspaceId, limit],
  )
}

/** An experiment that a limit has rejected or dropped something of. */
export type Held = { experimentKey: string; projectName: string; name: string; reason: string; lastAtMs: bigint }

/** The experiments of a workspace that were throttled since a time, the latest first. */
export async function listHeld(
  queries: Queries,
  { workspaceId, limit, sinceMs }: Asked & { sinceMs: number },
): Promise<Held[]> {
  return await queries.rows<Held>(
    `SELECT e.key AS "experimentKey", p.name AS "projectName", e.name, t.reason,
       t.last_at_ms AS "lastAtMs"
     FROM experiment_throttles t JOIN experiments e ON e.id = t.experiment_id JOIN projects p ON p.id = e.project_id
     WHERE p.workspace_id = $1 AND t.last_at_ms >= $2 ORDER BY t.last_at_ms DESC, e.id LIMIT $3`,
    [workspaceId, sinceMs, limit],
  )
}
