import type { GivenLimits } from '../../limits.ts'
import type { Database, Queries } from '../database.ts'
import { inLastMinute, minuteNow } from '../experiments/counters.ts'
import { type Actor, administer } from './audit.ts'

/** Each of these has its own limits. */
export type LimitTarget =
  | { workspaceName: string }
  | { projectId: string }
  | { workspaceName: string; projectName: string }
  | { keyId: string }
  /** The organization of the caller. */
  | { organization: true }

/** The row that carries a target's limits; `$1` is the organization, the values follow it. */
function toRow(target: LimitTarget): { table: string; condition: string; values: string[]; workspaceName: string } {
  if ('organization' in target)
    return { table: 'organizations', condition: 'id = $1', values: [], workspaceName: 'NULL' }
  if ('keyId' in target) {
    return {
      table: 'api_keys',
      condition: `revoked_at IS NULL AND id::text = $2
        AND user_id IN (SELECT id FROM users WHERE organization_id = $1)`,
      values: [target.keyId],
      workspaceName: 'NULL',
    }
  }
  const ofProject = '(SELECT w.name FROM workspaces w WHERE w.id = it.workspace_id)'
  const workspaces = 'SELECT id FROM workspaces WHERE organization_id = $1'
  if ('projectId' in target) {
    return {
      table: 'projects',
      condition: `id = $2 AND workspace_id IN (${workspaces})`,
      values: [target.projectId],
      workspaceName: ofProject,
    }
  }
  if ('projectName' in target) {
    return {
      table: 'projects',
      condition: `name = $3 AND workspace_id IN (${workspaces} AND name = $2)`,
      values: [target.workspaceName, target.projectName],
      workspaceName: ofProject,
    }
  }
  return {
    table: 'workspaces',
    condition: `id IN (${workspaces} AND name = $2)`,
    values: [target.workspaceName],
    workspaceName: 'it.name',
  }
}

type Owned = { organizationId: string; target: LimitTarget }

/** The limits of a target itself; undefined when the organization has no such target. */
export async function findLimits(
  queries: Queries,
  { organizationId, target }: Owned,
): Promise<GivenLimits | undefined> {
  const { table, condition, values } = toRow(target)
  const row = await queries.row<{ limits: GivenLimits }>(`SELECT limits FROM ${table} WHERE ${condition}`, [
    organizationId,
    ...values,
  ])
  return row?.limits
}

/** Sets limits, removes those that are null, and writes it into the audit log; undefined when there is no such target. */
export async function setLimits(
  database: Database,
  actor: Actor,
  target: LimitTarget,
  limits: Record<string, number | null | undefined>,
): Promise<GivenLimits | undefined> {
  const given = Object.entries(limits)
  const set = Object.fromEntries(given.filter(([, value]) => value != null)) as GivenLimits
  const unset = given.filter(([, value]) => value === null).map(([name]) => name)
  return await administer(database, actor, async (queries, note) => {
    const updated = await updateLimits(queries, { organizationId: actor.organizationId, target }, { set, unset })
    if (!updated) return undefined
    const { workspaceName } = updated
    const details = { ...target, ...(workspaceName !== null && { workspaceName }), set, unset }
    await note('limits.set', 'organization' in target ? 'organization' : Object.values(target).join('/'), details)
    return updated.limits
  })
}

/**
 * Sets and removes limits in one statement and returns the result, with the workspace of the target; undefined when the
 * organization has no such target.
 */
async function updateLimits(
  queries: Queries,
  { organizationId, target }: Owned,
  changes: { set: GivenLimits; unset: string[] },
): Promise<{ limits: GivenLimits; workspaceName: string | null } | undefined> {
  const { table, condition, values, workspaceName } = toRow(target)
  const next = values.length + 2
  return await queries.row(
    `UPDATE ${table} AS it SET limits = (limits || $${next}::jsonb) - $${next + 1}::text[] WHERE ${condition}
     RETURNING limits, ${workspaceName} AS "workspaceName"`,
    [organizationId, ...values, JSON.stringify(changes.set), changes.unset],
  )
}

/** The limits of an organization, and of one of its workspaces; undefined when there is no such workspace. */
export async function findTenantLimits(
  queries: Queries,
  { organizationId, workspaceName }: { organizationId: string; workspaceName: string | null },
): Promise<{ workspace: GivenLimits; organization: GivenLimits } | undefined> {
  return await queries.row(
    `SELECT coalesce(w.limits, '{}') AS workspace, o.limits AS organization FROM organizations o
     LEFT JOIN workspaces w ON w.organization_id = o.id AND w.name = $2 WHERE o.id = $1 AND ($2::text IS NULL OR w.id IS NOT NULL)`,
    [organizationId, workspaceName],
  )
}

/** What a tenant has stored, and what it sent in the last minute; of a workspace, or of all of an organization. */
export async function findTenantUsage(
  queries: Queries,
  { organizationId, workspaceName }: { organizationId: string; workspaceName: string | null },
): Promise<{ experiments: number; points: number; fileBytes: number }> {
  const row = await queries.row<{ experiments: number; points: number; fileBytes: bigint }>(
    `WITH places AS (SELECT id FROM workspaces WHERE organization_id = $1 AND ($2::text IS NULL OR name = $2)),
       there AS (SELECT p.id FROM projects p WHERE p.workspace_id IN (SELECT id FROM places))
     SELECT (SELECT count(*)::int FROM experiments e WHERE e.project_id IN (SELECT id FROM there) AND e.deleted_at IS NULL) AS experiments,
       (SELECT coalesce(sum(${inLastMinute}), 0)::float8 FROM experiment_counters c JOIN experiments e ON e.id = c.experiment_id
        WHERE c.minute >= ${minuteNow} - 1 AND c.data_type IN ('metrics', 'systemMetrics', 'output')
          AND e.project_id IN (SELECT id FROM there))
       + (SELECT coalesce(sum(${inLastMinute}), 0)::float8 FROM monitored_model_counters c JOIN monitored_models m ON m.id = c.model_id
          WHERE c.minute >= ${minuteNow} - 1 AND m.workspace_id IN (SELECT id FROM places)) AS points,
       (SELECT coalesce(sum(a.size), 0)::bigint FROM assets a JOIN experiments e ON e.id = a.experiment_id
        WHERE e.project_id IN (SELECT id FROM there) AND a.object_key IS NOT NULL) AS "fileBytes"`,
    [organizationId, workspaceName],
  )
  return {
    experiments: row?.experiments ?? 0,
    points: Math.round(row?.points ?? 0),
    fileBytes: Number(row?.fileBytes ?? 0),
  }
}

export type TenantOf = { workspaceId: string } | { projectId: string }

/** The workspace of a project, or the one of this id, with its limits and those of its organization. */
export async function findTenantOf(queries: Queries, of: TenantOf) {
  const [condition, id] =
    'workspaceId' in of
      ? ['w.id = $1', of.workspaceId]
      : ['w.id = (SELECT workspace_id FROM projects WHERE id = $1)', of.projectId]
  const row = await queries.row<{
    name: string
    organizationId: string
    workspace: GivenLimits
    organization: GivenLimits
  }>(
    `SELECT w.name, o.id AS "organizationId", w.limits AS workspace, o.limits AS organization
     FROM workspaces w JOIN organizations o ON o.id = w.organization_id WHERE ${condition}`,
    [id],
  )
  if (!row) throw new Error('The workspace was deleted meanwhile.')
  return row
}
