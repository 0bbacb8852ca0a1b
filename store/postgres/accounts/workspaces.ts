import type { GivenLimits } from '../../limits.ts'
import type { Database, Queries } from '../database.ts'
import { isWithheld, mayManage, mayUse, mayWrite, type UserKind } from './visibility.ts'

export type Workspace = { id: string; name: string; isOwner: boolean }

/** Creates a workspace owned by the user. Fails with a unique violation when the name is taken. */
export async function insertWorkspace(
  database: Database,
  workspace: { organizationId: string; userId: string; name: string; plan: string | undefined },
): Promise<Workspace> {
  return await database.transaction(async (queries) => {
    const row = await queries.row<Workspace>(
      'INSERT INTO workspaces (organization_id, name, plan) VALUES ($1, $2, $3) RETURNING id, name, true AS "isOwner"',
      [workspace.organizationId, workspace.name, workspace.plan ?? null],
    )
    const made = row as Workspace
    await queries.row('INSERT INTO workspace_members (workspace_id, user_id, is_owner) VALUES ($1, $2, true)', [
      made.id,
      workspace.userId,
    ])
    return made
  })
}

const usableWorkspaces = `SELECT w.id, w.name, coalesce(own.is_owner, false) AS "isOwner" FROM workspaces w
  LEFT JOIN workspace_members own ON own.workspace_id = w.id AND own.user_id = $1 WHERE ${mayUse('w')}`

/** The workspaces that a user may use, by name. */
export async function listWorkspaces(queries: Queries, userId: string): Promise<Workspace[]> {
  return await queries.rows<Workspace>(`${usableWorkspaces} ORDER BY w.name`, [userId])
}

/** A workspace as the admins of its organization see it. */
export type ListedWorkspace = { workspaceName: string; members: number; projects: number }

/** All workspaces of an organization, by name. */
export async function listOrganizationWorkspaces(queries: Queries, organizationId: string): Promise<ListedWorkspace[]> {
  return await queries.rows<ListedWorkspace>(
    `SELECT w.name AS "workspaceName",
       (SELECT count(*)::int FROM workspace_members m WHERE m.workspace_id = w.id) AS members,
       (SELECT count(*)::int FROM projects p WHERE p.workspace_id = w.id) AS projects
     FROM workspaces w WHERE w.organization_id = $1 ORDER BY w.name`,
    [organizationId],
  )
}

/** A workspace of an organization, whoever uses it. */
export async function findOrganizationWorkspace(
  queries: Queries,
  { organizationId, workspaceName }: { organizationId: string; workspaceName: string },
): Promise<{ id: string; limits: GivenLimits } | undefined> {
  return await queries.row('SELECT id, limits FROM workspaces WHERE organization_id = $1 AND name = $2', [
    organizationId,
    workspaceName,
  ])
}

/** A workspace by name, if the user may use it; absent and foreign look the same. */
export async function findWorkspace(queries: Queries, userId: string, name: string): Promise<Workspace | undefined> {
  return await queries.row<Workspace>(`${usableWorkspaces} AND w.name = $2`, [userId, name])
}

/** A workspace by name that a user may use or manage; absent and foreign look the same. */
export async function findManagedWorkspace(
  queries: Queries,
  userId: string,
  name: string,
): Promise<(Pick<Workspace, 'id' | 'name'> & { mayManage: boolean }) | undefined> {
  return await queries.row(
    `SELECT w.id, w.name, ${mayManage('w')} AS "mayManage" FROM workspaces w
     WHERE (${mayUse('w')} OR ${mayManage('w')}) AND w.name = $2`,
    [userId, name],
  )
}

/** Whether a user manages a workspace. */
export async function managesWorkspace(queries: Queries, userId: string, workspaceId: string): Promise<boolean> {
  const row = await queries.row(`SELECT 1 FROM workspaces w WHERE w.id = $2 AND ${mayManage('w')}`, [
    userId,
    workspaceId,
  ])
  return row !== undefined
}

/**
 * Makes a user a member, or a member an owner; an owner stays one. Service accounts are excluded: their workspaces are
 * fixed when they are created.
 *
 * @returns false when the organization has no such user
 */
export async function upsertMember(
  queries: Queries,
  member: { workspaceId: string; organizationId: string; userName: string; isOwner: boolean },
): Promise<boolean> {
  const row = await queries.row(
    `INSERT INTO workspace_members AS m (workspace_id, user_id, is_owner)
     SELECT $1, u.id, $4 FROM users u WHERE u.user_name = $3 AND u.organization_id = $2
       AND u.kind = 'person' AND u.deleted_at IS NULL
     ON CONFLICT (workspace_id, user_id) DO UPDATE SET is_owner = m.is_owner OR excluded.is_owner RETURNING user_id`,
    [member.workspaceId, member.organizationId, member.userName, member.isOwner],
  )
  return row !== undefined
}

export type Member = { userName: string; kind: UserKind; isOwner: boolean }

/** The people and restricted service accounts of a workspace: owners first, then by name. */
export async function listMembers(queries: Queries, workspaceId: string): Promise<Member[]> {
  return await queries.rows<Member>(
    `SELECT u.user_name AS "userName", u.kind, m.is_owner AS "isOwner" FROM workspace_members m
     JOIN users u ON u.id = m.user_id WHERE m.workspace_id = $1 AND u.deleted_at IS NULL
     ORDER BY m.is_owner DESC, u.user_name`,
    [workspaceId],
  )
}

/** Removes a person from a workspace, which keeps at least one owner. Call it within `administer`, or else two owners go at once. */
export async function deleteMember(
  queries: Queries,
  { workspaceId, userName }: { workspaceId: string; userName: string },
): Promise<'done' | 'unknown' | 'lastOwner'> {
  const members = await listMembers(queries, workspaceId)
  const member = members.find((it) => it.userName === userName && it.kind === 'person')
  if (!member) return 'unknown'
  if (member.isOwner && members.filter((it) => it.isOwner).length === 1) return 'lastOwner'
  await queries.row(
    `DELETE FROM workspace_members m USING users u WHERE m.workspace_id = $1 AND u.id = m.user_id AND u.user_name = $2
       AND u.deleted_at IS NULL`,
    [workspaceId, userName],
  )
  return 'done'
}

/** A workspace to write to, with its limits. `isWithheld`: the service account is restricted to other workspaces. */
export type SoughtWorkspace = { id: string; limits: GivenLimits; isWithheld: boolean }

/** A workspace to write to by name; absent and foreign look the same. */
export async function findWritableWorkspace(
  queries: Queries,
  userId: string,
  name: string,
): Promise<SoughtWorkspace | undefined> {
  return await queries.row<SoughtWorkspace>(
    `SELECT w.id, w.limits, NOT ${mayWrite('w')} AS "isWithheld" FROM workspaces w
     WHERE (${mayWrite('w')} OR ${isWithheld('w')}) AND w.name = $2`,
    [userId, name],
  )
}
