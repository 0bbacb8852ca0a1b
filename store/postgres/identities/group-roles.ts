import { type OrganizationRole, organizationRoles, storeOrganizationRole } from '../accounts/users.ts'
import { type Role, roles } from '../accounts/visibility.ts'
import type { Queries } from '../database.ts'
import type { Note } from './notes.ts'

/**
 * What the groups of an identity provider give. What they gave they take away; a role that somebody gave by hand stays, except
 * that one which a group raises belongs to the groups from then on.
 */

/** A row of the table in the settings: what one group gives. */
export type GroupRole = { group: string } & (
  | { workspace: string; role: Role; organizationRole?: undefined }
  | { organizationRole: OrganizationRole; workspace?: undefined; role?: undefined }
)

export type Person = {
  userId: string
  userName: string
  organizationId: string
  organizationRole: OrganizationRole
  isRoleByGroups: boolean
}

const isHigher = <R>(ranks: readonly R[], role: R, than: R) => ranks.indexOf(role) > ranks.indexOf(than)

/** The highest role in each workspace, in the order of the table. */
export function toWorkspaceRoles(groups: string[], table: GroupRole[]): Map<string, Role> {
  const found = new Map<string, Role>()
  for (const { group, workspace, role } of table) {
    if (workspace === undefined || !groups.includes(group)) continue
    const known = found.get(workspace)
    if (known === undefined || isHigher(roles, role, known)) found.set(workspace, role)
  }
  return found
}

/** The highest role in the organization. */
function toOrganizationRole(groups: string[], table: GroupRole[]): OrganizationRole {
  const given = table.filter((it) => groups.includes(it.group)).map((it) => it.organizationRole)
  return organizationRoles.findLast((role) => given.includes(role)) ?? 'member'
}

/** Gives and takes what the groups of a person say. Call it in a transaction that has locked the organization. */
export async function applyGroups(
  queries: Queries,
  note: Note,
  person: Person,
  groups: string[],
  table: GroupRole[],
): Promise<void> {
  const { organizationId, userId, userName } = person
  const given = toWorkspaceRoles(groups, table)
  for (const [workspaceName, role] of given) {
    await ensureWorkspace(queries, organizationId, workspaceName)
    const changed = await queries.row(
      `INSERT INTO workspace_members AS m (workspace_id, user_id, role, is_by_groups)
       SELECT id, $3, $4, true FROM workspaces WHERE organization_id = $1 AND name = $2
       ON CONFLICT (workspace_id, user_id) DO UPDATE SET role = excluded.role, is_by_groups = true
         WHERE m.role <> excluded.role AND (m.is_by_groups OR excluded.role > m.role) RETURNING user_id`,
      [organizationId, workspaceName, userId, role],
    )
    if (changed) note('workspace-member.set', userName, { workspaceName, role })
  }
  const lost = await queries.rows<{ workspaceName: string }>(
    `DELETE FROM workspace_members m USING workspaces w
     WHERE w.id = m.workspace_id AND m.user_id = $1 AND m.is_by_groups AND NOT (w.name = ANY($2))
     RETURNING w.name AS "workspaceName"`,
    [userId, [...given.keys()]],
  )
  for (const { workspaceName } of lost) note('workspace-member.removed', userName, { workspaceName })
  const { organizationRole, isRoleByGroups } = person
  const role = toOrganizationRole(groups, table)
  if (role === organizationRole || !(isRoleByGroups || isHigher(organizationRoles, role, organizationRole))) return
  await storeOrganizationRole(queries, userId, role, { isByGroups: role !== 'member' })
  note('user.changed', userName, { role })
}

async function ensureWorkspace(queries: Queries, organizationId: string, name: string) {
  await queries.row('INSERT INTO workspaces (organization_id, name) VALUES ($1, $2) ON CONFLICT DO NOTHING', [
    organizationId,
    name,
  ])
}
