import type { RetentionDays, RetentionType } from '../../retention.ts'
import type { Queries } from '../database.ts'

type Workspace = { organizationId: string; workspaceName: string }

const ofWorkspace = 'organization_id = $1 AND name = $2'

/** The retention days of a workspace; undefined when the organization has no such workspace. */
export async function findRetentionDays(queries: Queries, it: Workspace): Promise<RetentionDays | undefined> {
  const row = await queries.row<{ days: RetentionDays }>(
    `SELECT kept_days AS days FROM workspaces WHERE ${ofWorkspace}`,
    [it.organizationId, it.workspaceName],
  )
  return row?.days
}

/** Sets some and unsets others in one statement, and answers the result. */
export async function updateRetentionDays(
  queries: Queries,
  it: Workspace,
  changes: { set: RetentionDays; unset: string[] },
): Promise<RetentionDays | undefined> {
  const row = await queries.row<{ days: RetentionDays }>(
    `UPDATE workspaces SET kept_days = (kept_days || $3::jsonb) - $4::text[] WHERE ${ofWorkspace}
     RETURNING kept_days AS days`,
    [it.organizationId, it.workspaceName, JSON.stringify(changes.set), changes.unset],
  )
  return row?.days
}

export type Retained = { workspaceId: string; days: RetentionDays }

/** The workspaces with any retention. */
export async function listRetained(queries: Queries): Promise<Retained[]> {
  return await queries.rows(`SELECT id AS "workspaceId", kept_days AS days FROM workspaces WHERE kept_days <> '{}'`)
}

/** The workspace of each experiment that is in one of the given workspaces. */
export async function findWorkspacesOf(
  queries: Queries,
  experimentIds: bigint[],
  workspaceIds: string[],
): Promise<Map<bigint, string>> {
  const rows = await queries.rows<{ id: bigint; workspaceId: string }>(
    `SELECT e.id, p.workspace_id AS "workspaceId" FROM experiments e JOIN projects p ON p.id = e.project_id
     WHERE e.id = ANY($1::bigint[]) AND p.workspace_id = ANY($2::uuid[])`,
    [`{${experimentIds.join()}}`, workspaceIds],
  )
  return new Map(rows.map((it) => [it.id, it.workspaceId]))
}

/** All experiments of a workspace. */
export async function listExperimentsOf(queries: Queries, workspaceId: string): Promise<bigint[]> {
  const rows = await queries.rows<{ id: bigint }>(
    'SELECT e.id FROM experiments e JOIN projects p ON p.id = e.project_id WHERE p.workspace_id = $1 ORDER BY e.id',
    [workspaceId],
  )
  return rows.map((it) => it.id)
}

export async function listModelsOf(queries: Queries, workspaceId: string): Promise<bigint[]> {
  const rows = await queries.rows<{ id: bigint }>(
    'SELECT id FROM monitored_models WHERE workspace_id = $1 ORDER BY id',
    [workspaceId],
  )
  return rows.map((it) => it.id)
}

type Sweep = { workspaceId: string; type: RetentionType; upToMs: number }

/**
 * Starts a sweep that deletes everything up to a time. Returns `done` if an earlier sweep has deleted it already, `again`
 * if an earlier sweep was interrupted.
 */
export async function beginSweep(
  queries: Queries,
  { workspaceId, type, upToMs }: Sweep,
): Promise<'first' | 'again' | 'done'> {
  const rows = await queries.rows<{ upToMs: bigint; isDone: boolean }>(
    `SELECT up_to_ms AS "upToMs", is_done AS "isDone" FROM retention_sweeps
     WHERE workspace_id = $1 AND data_type = $2 AND (up_to_ms >= $3 OR NOT is_done)`,
    [workspaceId, type, upToMs],
  )
  if (rows.some((it) => !it.isDone)) {
    await queries.row(
      'DELETE FROM retention_sweeps WHERE workspace_id = $1 AND data_type = $2 AND NOT is_done AND up_to_ms <> $3',
      [workspaceId, type, upToMs],
    )
  } else if (rows.length > 0) return 'done'
  await queries.row(
    `INSERT INTO retention_sweeps (workspace_id, data_type, up_to_ms) VALUES ($1, $2, $3)
     ON CONFLICT (workspace_id, data_type, up_to_ms) DO UPDATE SET is_done = false`,
    [workspaceId, type, upToMs],
  )
  return rows.length > 0 ? 'again' : 'first'
}

/** Records that everything up to a time is deleted, and how many rows. */
export async function endSweep(queries: Queries, { workspaceId, type, upToMs, rows }: Sweep & { rows: number }) {
  await queries.row(
    `UPDATE retention_sweeps SET rows = rows + $4, is_done = true, swept_at = now()
     WHERE workspace_id = $1 AND data_type = $2 AND up_to_ms = $3`,
    [workspaceId, type, upToMs, rows],
  )
}

/** The sweeps of a workspace that deleted rows, newest first. */
export async function listSweeps(
  queries: Queries,
  it: Workspace,
): Promise<{ type: RetentionType; upToMs: bigint; rows: bigint; atMs: number }[]> {
  return await queries.rows(
    `SELECT data_type AS type, up_to_ms AS "upToMs", rows, (extract(epoch FROM swept_at) * 1000)::float8 AS "atMs"
     FROM retention_sweeps WHERE rows > 0 AND workspace_id = (SELECT id FROM workspaces WHERE ${ofWorkspace})
     ORDER BY swept_at DESC, data_type LIMIT 100`,
    [it.organizationId, it.workspaceName],
  )
}

/** Subtracts deleted rows from the accepted ones, or else they would count as not yet stored. */
export async function subtractFromAccepted(
  queries: Queries,
  type: RetentionType,
  counts: { experimentId: bigint; rows: number }[],
): Promise<void> {
  await queries.row(
    `UPDATE experiment_counters c SET accepted = greatest(0, c.accepted - n.rows)
     FROM unnest($1::bigint[], $2::bigint[]) AS n(experiment_id, rows)
     WHERE c.experiment_id = n.experiment_id AND c.data_type = $3`,
    [`{${counts.map((it) => it.experimentId).join()}}`, `{${counts.map((it) => it.rows).join()}}`, type],
  )
}
