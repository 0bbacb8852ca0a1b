import type { Queries } from '../database.ts'
import { describeEnd } from '../runs/fields.ts'
import { hasProject, mayUse } from './visibility.ts'

/** What happened to the runs of a user, and what fired in the workspaces of that user. `atMs` is ms since the Unix epoch. */
export type Notification = {
  kind: 'finished' | 'crashed' | 'lost' | 'alert'
  atMs: number
  workspaceName: string
  projectName: string | null
  experimentKey: string | null
  experimentName: string | null
  modelName: string | null
  alertId: string | null
  alertName: string | null
  /** How many times an alert fired. */
  times: number
  /** Why a run crashed, as it was reported. */
  error: string | null
}

type Wanted = { userId: string; viewerId: string; fromMs: number; nowMs: number; limit: number }

/** Runs that began longer before than this are not looked at. */
const runMsMax = 90 * 24 * 3_600_000

/**
 * The newest first. A run is listed once it has reported its end, or has been silent for too long; an alert once, by its last
 * firing, or one that fires for each window would be all there is.
 */
export async function listNotifications(queries: Queries, wanted: Wanted): Promise<Notification[]> {
  const { userId, viewerId, fromMs, nowMs, limit } = wanted
  const { kind, at } = describeEnd('$3::bigint')
  return await queries.rows<Notification>(
    `SELECT * FROM (
       (SELECT ended.kind, ended.at::float8 AS "atMs", w.name AS "workspaceName", p.name AS "projectName",
          e.key AS "experimentKey", e.name AS "experimentName", NULL AS "modelName", NULL::uuid AS "alertId",
          NULL AS "alertName", 1 AS times, e.error
        FROM experiments e JOIN projects p ON p.id = e.project_id JOIN workspaces w ON w.id = p.workspace_id,
          LATERAL (SELECT ${kind} AS kind, ${at} AS at) ended
        WHERE e.user_id = $5 AND e.deleted_at IS NULL AND e.start_time_ms > $2::bigint - ${runMsMax}
          AND ended.kind IS NOT NULL AND ended.at > $2 AND ${hasProject('p', 'w')}
        ORDER BY ended.at DESC LIMIT $4)
       UNION ALL
       (SELECT 'alert', f.at::float8, w.name, p.name, e.key, e.name, r.model_name, r.id, r.name, f.times, NULL
        FROM alert_rules r JOIN workspaces w ON w.id = r.workspace_id
          CROSS JOIN LATERAL (SELECT max(fired_at_ms) AS at, count(*)::int AS times FROM alert_firings
            WHERE rule_id = r.id AND fired_at_ms > $2) f
          LEFT JOIN experiments e ON e.id = r.experiment_id
          LEFT JOIN projects p ON p.id = coalesce(r.project_id, e.project_id)
        WHERE f.times > 0 AND ${mayUse('w')} ORDER BY f.at DESC LIMIT $4)
     ) AS happened ORDER BY "atMs" DESC LIMIT $4`,
    [viewerId, fromMs, nowMs, limit, userId],
  )
}

/** Until when the user has seen what happened; 0 at first. */
export async function findSeenTo(queries: Queries, userId: string): Promise<number> {
  const row = await queries.row<{ ms: number }>(
    'SELECT seen_to_ms::float8 AS ms FROM notification_visits WHERE user_id = $1',
    [userId],
  )
  return row?.ms ?? 0
}

/** Never takes back what was seen. */
export async function setSeenTo(queries: Queries, userId: string, seenToMs: number): Promise<void> {
  await queries.row(
    `INSERT INTO notification_visits AS v (user_id, seen_to_ms) VALUES ($1, $2)
     ON CONFLICT (user_id) DO UPDATE SET seen_to_ms = greatest(v.seen_to_ms, excluded.seen_to_ms)`,
    [userId, seenToMs],
  )
}
