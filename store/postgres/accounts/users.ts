import type { Database, Queries } from '../database.ts'
import { type Actor, administer } from './audit.ts'
import { revokeKeys } from './keys.ts'
import type { Activity } from './last-seen.ts'
import type { Role, UserKind } from './visibility.ts'

/** How an admin names a person, or a service account. */
export type UserReference = { userName: string; isService: boolean }

type FoundUser = { userId: string; isAdmin: boolean }

/** A user of the organization that was not removed. */
export async function findUser(
  queries: Queries,
  organizationId: string,
  { userName, isService }: UserReference,
): Promise<FoundUser | undefined> {
  return await queries.row<FoundUser>(
    `SELECT id AS "userId", is_admin AS "isAdmin" FROM users
     WHERE organization_id = $1 AND user_name = $2 AND (kind <> 'person') = $3 AND deleted_at IS NULL`,
    [organizationId, userName, isService],
  )
}

/** An admin manages the organization and all of its workspaces; an auditor reads everything, and changes nothing. */
export const organizationRoles = ['member', 'auditor', 'admin'] as const
export type OrganizationRole = (typeof organizationRoles)[number]

type NewUser = { userName: string; role: OrganizationRole; workspaceName: string | undefined }

/**
 * Creates a person. A given workspace becomes the default one; the person owns it if it is created now, and else becomes a
 * member. Without a given workspace, one of the person's name is created. Fails with a unique violation when the user name
 * is taken.
 *
 * @returns undefined when no workspace was given and the person's name is taken as a workspace name
 */
export async function insertUser(
  database: Database,
  actor: Actor,
  user: NewUser,
): Promise<{ userId: string; defaultWorkspaceName: string } | undefined> {
  const { organizationId } = actor
  const { role } = user
  const defaultWorkspaceName = user.workspaceName ?? user.userName
  return await administer(database, actor, async (queries, note) => {
    const made = await queries.row<{ id: string }>(
      'INSERT INTO workspaces (organization_id, name) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING id',
      [organizationId, defaultWorkspaceName],
    )
    const taken = await queries.row(
      'SELECT 1 FROM users WHERE organization_id = $1 AND user_name = $2 AND deleted_at IS NULL',
      [organizationId, user.userName],
    )
    if (!made && user.workspaceName === undefined && !taken) return undefined
    const row = await queries.row<{ userId: string }>(
      `INSERT INTO users (organization_id, user_name, is_admin, is_auditor, created_by, default_workspace_id)
       SELECT $1, $2, $3, $4, $5, id FROM workspaces WHERE organization_id = $1 AND name = $6 RETURNING id AS "userId"`,
      [organizationId, user.userName, role === 'admin', role === 'auditor', actor.userName, defaultWorkspaceName],
    )
    const { userId } = row as { userId: string }
    await queries.row(
      `INSERT INTO workspace_members (workspace_id, user_id, role)
       SELECT id, $3, $4 FROM workspaces WHERE organization_id = $1 AND name = $2`,
      [organizationId, defaultWorkspaceName, userId, made ? 'owner' : 'editor'],
    )
    await note('user.created', user.userName, { role, defaultWorkspaceName })
    return { userId, defaultWorkspaceName }
  })
}

/** Why a user was not changed. */
type Obstacle = 'unknown' | 'lastAdmin'

/** Gives a person a role in the organization, instead of the old one. An organization keeps at least one admin. */
export async function setOrganizationRole(
  database: Database,
  actor: Actor,
  userName: string,
  role: OrganizationRole,
): Promise<'done' | Obstacle> {
  return await administer(database, actor, async (queries, note) => {
    const user = await findUser(queries, actor.organizationId, { userName, isService: false })
    if (!user) return 'unknown'
    if (user.isAdmin && role !== 'admin' && !(await hasOtherAdmin(queries, actor, user))) return 'lastAdmin'
    await storeOrganizationRole(queries, user.userId, role, { isByGroups: false })
    await note('user.changed', userName, { role })
    return 'done'
  })
}

/** What groups gave they take away; what somebody gave by hand stays. */
export async function storeOrganizationRole(
  queries: Queries,
  userId: string,
  role: OrganizationRole,
  { isByGroups }: { isByGroups: boolean },
): Promise<void> {
  await queries.row('UPDATE users SET is_admin = $2, is_auditor = $3, is_role_by_groups = $4 WHERE id = $1', [
    userId,
    role === 'admin',
    role === 'auditor',
    isByGroups,
  ])
}

/**
 * Removes a user with all keys; what the user created keeps the name. Workspaces without another owner go to the acting
 * admin, or else to the first admin.
 */
export async function removeUser(
  database: Database,
  actor: Actor,
  reference: UserReference,
): Promise<'done' | Obstacle> {
  return await administer(database, actor, async (queries, note) => {
    const user = await findUser(queries, actor.organizationId, reference)
    if (!user) return 'unknown'
    if (user.isAdmin && !(await hasOtherAdmin(queries, actor, user))) return 'lastAdmin'
    const revokedKeyIds = await revokeKeys(queries, user.userId)
    await queries.row('UPDATE users SET deleted_at = now(), is_admin = false, is_auditor = false WHERE id = $1', [
      user.userId,
    ])
    const inherited = await queries.rows<{ workspaceName: string; heir: string }>(
      `WITH inherited AS (
         INSERT INTO workspace_members AS m (workspace_id, user_id, role)
         SELECT own.workspace_id, heir.id, 'owner' FROM workspace_members own,
           (SELECT id FROM users WHERE organization_id = $2 AND is_admin AND deleted_at IS NULL
            ORDER BY user_name = $3 DESC, created_at, id LIMIT 1) heir
         WHERE own.user_id = $1 AND own.role = 'owner' AND NOT EXISTS (SELECT 1 FROM workspace_members other
           WHERE other.workspace_id = own.workspace_id AND other.role = 'owner' AND other.user_id <> $1)
         ON CONFLICT (workspace_id, user_id) DO UPDATE SET role = 'owner' RETURNING workspace_id, user_id)
       SELECT w.name AS "workspaceName", u.user_name AS heir FROM inherited
       JOIN workspaces w ON w.id = inherited.workspace_id JOIN users u ON u.id = inherited.user_id ORDER BY w.name`,
      [user.userId, actor.organizationId, actor.userName],
    )
    await queries.row('DELETE FROM workspace_members WHERE user_id = $1', [user.userId])
    await note(reference.isService ? 'service-account.removed' : 'user.removed', reference.userName, { revokedKeyIds })
    for (const { heir, workspaceName } of inherited) {
      await note('workspace-member.set', heir, { workspaceName, role: 'owner' })
    }
    return 'done'
  })
}

async function hasOtherAdmin(queries: Queries, { organizationId }: Actor, { userId }: FoundUser): Promise<boolean> {
  const row = await queries.row(
    'SELECT 1 FROM users WHERE organization_id = $1 AND is_admin AND deleted_at IS NULL AND id <> $2 LIMIT 1',
    [organizationId, userId],
  )
  return row !== undefined
}

/** The name of each kind of user in lists. */
export const shownKinds = {
  person: 'user',
  'global service': 'service account',
  'restricted service': 'service account',
} as const

export type ListedUser = {
  userName: string
  kind: UserKind
  role: OrganizationRole
  /** Of a service account for all of the organization: its role in each workspace. */
  workspaceRole: Role | null
  defaultWorkspaceName: string | null
  /** Of a restricted service account. */
  authorizedWorkspaces: string[] | null
  /** Where the person signs in without a key; null when nowhere. */
  provider: string | null
  /** True when that provider does not confirm the person any more: nothing of the user works until the next sign-in. */
  isSuspended: boolean
  createdAtMs: number
  lastActiveAtMs: bigint | null
}

/** The people and service accounts of an organization, by name. */
export async function listUsers(queries: Queries, organizationId: string): Promise<ListedUser[]> {
  return await queries.rows<ListedUser>(
    `SELECT u.user_name AS "userName", u.kind, w.name AS "defaultWorkspaceName",
       CASE WHEN u.is_admin THEN 'admin' WHEN u.is_auditor THEN 'auditor' ELSE 'member' END AS role,
       CASE WHEN u.kind = 'global service' THEN coalesce(u.workspace_role, 'editor') END AS "workspaceRole",
       CASE WHEN u.kind = 'restricted service' THEN ARRAY(SELECT mw.name FROM workspace_members m
         JOIN workspaces mw ON mw.id = m.workspace_id WHERE m.user_id = u.id ORDER BY mw.name) END
         AS "authorizedWorkspaces",
       (SELECT max(i.provider) FROM identities i WHERE i.user_id = u.id) AS provider,
       u.suspended_at IS NOT NULL AS "isSuspended",
       (extract(epoch FROM u.created_at) * 1000)::float8 AS "createdAtMs", u.last_active_at_ms AS "lastActiveAtMs"
     FROM users u LEFT JOIN workspaces w ON w.id = u.default_workspace_id
     WHERE u.organization_id = $1 AND u.deleted_at IS NULL ORDER BY u.user_name`,
    [organizationId],
  )
}

/** An organization by its name. */
export async function findOrganization(
  queries: Queries,
  name: string,
): Promise<{ organizationId: string } | undefined> {
  return await queries.row('SELECT id AS "organizationId" FROM organizations WHERE name = $1', [name])
}

export async function listOrganizations(queries: Queries): Promise<{ organizationId: string; name: string }[]> {
  return await queries.rows('SELECT id AS "organizationId", name FROM organizations ORDER BY name')
}

export async function findOrganizationName(queries: Queries, organizationId: string): Promise<string> {
  const row = await queries.row<{ name: string }>('SELECT name FROM organizations WHERE id = $1', [organizationId])
  return (row as { name: string }).name
}

/** Stores the last activity of many users in one statement; a time never goes back. */
export async function updateActivity(queries: Queries, activities: Activity[]): Promise<void> {
  // Rows are locked in one order, or else processes that update the same users deadlock.
  await queries.row(
    `WITH active AS (
       SELECT u.id, s.at FROM users u JOIN unnest($1::uuid[], $2::bigint[]) AS s(id, at) ON s.id = u.id
       WHERE u.last_active_at_ms IS NULL OR u.last_active_at_ms < s.at ORDER BY u.id FOR NO KEY UPDATE OF u)
     UPDATE users u SET last_active_at_ms = active.at FROM active WHERE u.id = active.id`,
    [activities.map((it) => it.id), activities.map((it) => it.atMs)],
  )
}
