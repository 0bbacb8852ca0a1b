import type { GivenLimits } from '../../limits.ts'
import type { Queries } from '../database.ts'

/** Each of these has its own limits. */
export type LimitTarget =
  | { workspaceName: string }
  | { projectId: string }
  | { workspaceName: string; projectName: string }
  | { keyId: string }

/** The row that carries a target's limits; `$1` is the organization, the values follow it. */
function toRow(target: LimitTarget): { table: string; condition: string; values: string[]; workspaceName: string } {
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

/**
 * Sets and removes limits in one statement and returns the result, with the workspace of the target; undefined when the
 * organization has no such target.
 */
export async function updateLimits(
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
