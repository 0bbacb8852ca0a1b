import type { Database, Queries } from '../database.ts'
import { type Actor, administer } from './audit.ts'
import { revokeKeys } from './keys.ts'
import type { UserKind } from './visibility.ts'

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

type NewUser = { userName: string; isAdmin: boolean; workspaceName: string | undefined }

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
      `INSERT INTO users (organization_id, user_name, is_admin, created_by, default_workspace_id)
       SELECT $1, $2, $3, $4, id FROM workspaces WHERE organization_id = $1 AND name = $5 RETURNING id AS "userId"`,
      [organizationId, user.userName, user.isAdmin, actor.userName, defaultWorkspaceName],
    )
    const { userId } = row as { userId: string }
    await queries.row(
      `INSERT INTO workspace_members (workspace_id, user_id, is_owner)
       SELECT id, $3, $4 FROM workspaces WHERE organization_id = $1 AND name = $2`,
      [organizationId, defaultWorkspaceName, userId, made !== undefined],
    )
    await note('user.created', user.userName, { isAdmin: user.isAdmin, defaultWorkspaceName })
    return { userId, defaultWorkspaceName }
  })
}

/** Why a user was not changed. */
type Obstacle = 'unknown' | 'lastAdmin'

/** Grants or revokes the admin right. An organization keeps at least one admin. */
export async function updateAdmin(
  database: Database,
  actor: Actor,
  userName: string,
  isAdmin: boolean,
): Promise<'done' | Obstacle> {
  return await administer(database, actor, async (queries, note) => {
    const user = await findUser(queries, actor.organizationId, { userName, isService: false })
    if (!user) return 'unknown'
    if (user.isAdmin && !isAdmin && !(await hasOtherAdmin(queries, actor, user))) return 'lastAdmin'
    await queries.row('UPDATE users SET is_admin = $2 WHERE id = $1', [user.userId, isAdmin])
    await note('user.changed', userName, { isAdmin })
    return 'done'
  })
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
    await queries.row('UPDATE users SET deleted_at = now(), is_admin = false WHERE id = $1', [user.userId])
    const inherited = await queries.rows<{ workspaceName: string; heir: string }>(
      `WITH inherited AS (
         INSERT INTO workspace_members AS m (workspace_id, user_id, is_owner)
         SELECT own.workspace_id, heir.id, true FROM workspace_members own,
           (SELECT id FROM users WHERE organization_id = $2 AND is_admin AND deleted_at IS NULL
            ORDER BY user_name = $3 DESC, created_at, id LIMIT 1) heir
         WHERE own.user_id = $1 AND own.is_owner AND NOT EXISTS (SELECT 1 FROM workspace_members other
           WHERE other.workspace_id = own.workspace_id AND other.is_owner AND other.user_id <> $1)
         ON CONFLICT (workspace_id, user_id) DO UPDATE SET is_owner = true RETURNING workspace_id, user_id)
       SELECT w.name AS "workspaceName", u.user_name AS heir FROM inherited
       JOIN workspaces w ON w.id = inherited.workspace_id JOIN users u ON u.id = inherited.user_id ORDER BY w.name`,
      [user.userId, actor.organizationId, actor.userName],
    )
    await queries.row('DELETE FROM workspace_members WHERE user_id = $1', [user.userId])
    await note(reference.isService ? 'service-account.removed' : 'user.removed', reference.userName, { revokedKeyIds })
    for (const { heir, workspaceName } of inherited) {
      await note('workspace-member.set', heir, { workspaceName, admin: true })
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
  isAdmin: boolean
  defaultWorkspaceName: string | null
  /** Of a restricted service account. */
  authorizedWorkspaces: string[] | null
  createdAtMs: number
  lastActiveAtMs: bigint | null
}

/** The people and service accounts of an organization, by name. */
export async function listUsers(queries: Queries, organizationId: string): Promise<ListedUser[]> {
  return await queries.rows<ListedUser>(
    `SELECT u.user_name AS "userName", u.kind, u.is_admin AS "isAdmin", w.name AS "defaultWorkspaceName",
       CASE WHEN u.kind = 'restricted service' THEN ARRAY(SELECT mw.name FROM workspace_members m
         JOIN workspaces mw ON mw.id = m.workspace_id WHERE m.user_id = u.id ORDER BY mw.name) END
         AS "authorizedWorkspaces",
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

/** When a user was last active. */
export type Activity = { userId: string; atMs: number }

/** Stores the last activity of many users in one statement; a time never goes back. */
export async function updateActivity(queries: Queries, activities: Activity[]): Promise<void> {
  // Rows are locked in one order, or else processes that update the same users deadlock.
  await queries.row(
    `WITH active AS (
       SELECT u.id, s.at FROM users u JOIN unnest($1::uuid[], $2::bigint[]) AS s(id, at) ON s.id = u.id
       WHERE u.last_active_at_ms IS NULL OR u.last_active_at_ms < s.at ORDER BY u.id FOR NO KEY UPDATE OF u)
     UPDATE users u SET last_active_at_ms = active.at FROM active WHERE u.id = active.id`,
    [activities.map((it) => it.userId), activities.map((it) => it.atMs)],
  )
}
