import type { Queries } from '../database.ts'
import type { Note } from './notes.ts'

/**
 * What the groups of an identity provider give. What they gave they take away; a membership or a right that somebody gave by hand
 * stays, except that a role which a group raises belongs to the groups from then on.
 */

/** The roles in a workspace that a group can give, the least one first. A new role is one more line. */
export const workspaceRoles = {
  member: { isOwner: false },
  owner: { isOwner: true },
} as const

/** The rights in the organization that a group can give. */
export const organizationRoles = ['admin'] as const

export type WorkspaceRole = keyof typeof workspaceRoles
type OrganizationRole = (typeof organizationRoles)[number]

/** A row of the table in the settings: what one group gives. */
export type GroupRole = { group: string } & (
  | { workspace: string; role: WorkspaceRole; organizationRole?: undefined }
  | { organizationRole: OrganizationRole; workspace?: undefined; role?: undefined }
)

type Person = { userId: string; userName: string; organizationId: string; isAdmin: boolean; isAdminByGroups: boolean }

const ranks = Object.keys(workspaceRoles)
const isHigher = (role: WorkspaceRole, than: WorkspaceRole) => ranks.indexOf(role) > ranks.indexOf(than)

/** The highest role in each workspace, in the order of the table. */
export function toWorkspaceRoles(groups: string[], table: GroupRole[]): Map<string, WorkspaceRole> {
  const found = new Map<string, WorkspaceRole>()
  for (const { group, workspace, role } of table) {
    if (workspace === undefined || !groups.includes(group)) continue
    const known = found.get(workspace)
    if (known === undefined || isHigher(role, known)) found.set(workspace, role)
  }
  return found
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
  const roles = toWorkspaceRoles(groups, table)
  for (const [workspaceName, role] of roles) {
    await ensureWorkspace(queries, organizationId, workspaceName)
    const { isOwner } = workspaceRoles[role]
    const changed = await queries.row(
      `INSERT INTO workspace_members AS m (workspace_id, user_id, is_owner, is_by_groups)
       SELECT id, $3, $4, true FROM workspaces WHERE organization_id = $1 AND name = $2
       ON CONFLICT (workspace_id, user_id) DO UPDATE SET is_owner = excluded.is_owner, is_by_groups = true
         WHERE m.is_owner <> excluded.is_owner AND (m.is_by_groups OR excluded.is_owner) RETURNING user_id`,
      [organizationId, workspaceName, userId, isOwner],
    )
    if (changed) note('workspace-member.set', userName, { workspaceName, admin: isOwner })
  }
  const lost = await queries.rows<{ workspaceName: string }>(
    `DELETE FROM workspace_members m USING workspaces w
     WHERE w.id = m.workspace_id AND m.user_id = $1 AND m.is_by_groups AND NOT (w.name = ANY($2))
     RETURNING w.name AS "workspaceName"`,
    [userId, [...roles.keys()]],
  )
  for (const { workspaceName } of lost) note('workspace-member.removed', userName, { workspaceName })
  await applyAdmin(queries, note, person, groups, table)
}

async function applyAdmin(queries: Queries, note: Note, person: Person, groups: string[], table: GroupRole[]) {
  const { userId, userName, isAdmin, isAdminByGroups } = person
  const isWanted = table.some((it) => it.organizationRole === 'admin' && groups.includes(it.group))
  // An admin by hand stays one.
  if (isWanted === isAdmin || (isAdmin && !isAdminByGroups)) return
  await queries.row('UPDATE users SET is_admin = $2, is_admin_by_groups = $2 WHERE id = $1', [userId, isWanted])
  note('user.changed', userName, { isAdmin: isWanted })
}

async function ensureWorkspace(queries: Queries, organizationId: string, name: string) {
  await queries.row('INSERT INTO workspaces (organization_id, name) VALUES ($1, $2) ON CONFLICT DO NOTHING', [
    organizationId,
    name,
  ])
}
