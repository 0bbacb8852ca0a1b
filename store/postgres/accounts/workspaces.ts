import type { GivenLimits } from '../../limits.ts'
import type { Database, Queries } from '../database.ts'
import { isWithheld, mayManage, mayUse, mayWrite, type Refusal, type Role, type UserKind } from './visibility.ts'

/** `isWritable`: the caller is at least an editor. */
export type Workspace = { id: string; name: string; isWritable: boolean }

/** Creates a workspace owned by the user. Fails with a unique violation when the name is taken. */
export async function insertWorkspace(
  database: Database,
  workspace: { organizationId: string; userId: string; name: string; plan: string | undefined },
): Promise<Workspace> {
  return await database.transaction(async (queries) => {
    const row = await queries.row<Workspace>(
      'INSERT INTO workspaces (organization_id, name, plan) VALUES ($1, $2, $3) RETURNING id, name, true AS "isWritable"',
      [workspace.organizationId, workspace.name, workspace.plan ?? null],
    )
    const made = row as Workspace
    await queries.row(`INSERT INTO workspace_members (workspace_id, user_id, role) VALUES ($1, $2, 'owner')`, [
      made.id,
      workspace.userId,
    ])
    return made
  })
}

const usableWorkspaces = `SELECT w.id, w.name, ${mayWrite('w')} AS "isWritable" FROM workspaces w WHERE ${mayUse('w')}`

/** The workspaces that a caller may use, by name. */
export async function listWorkspaces(queries: Queries, viewerId: string): Promise<Workspace[]> {
  return await queries.rows<Workspace>(`${usableWorkspaces} ORDER BY w.name`, [viewerId])
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

/** A workspace by name, if the caller may use it; absent and foreign look the same. */
export async function findWorkspace(queries: Queries, viewerId: string, name: string): Promise<Workspace | undefined> {
  return await queries.row<Workspace>(`${usableWorkspaces} AND w.name = $2`, [viewerId, name], 'workspace by name')
}

/** A workspace by name that a caller may use or manage; absent and foreign look the same. */
export async function findManagedWorkspace(
  queries: Queries,
  viewerId: string,
  name: string,
): Promise<(Pick<Workspace, 'id' | 'name'> & { mayManage: boolean }) | undefined> {
  return await queries.row(
    `SELECT w.id, w.name, ${mayManage('w')} AS "mayManage" FROM workspaces w
     WHERE (${mayUse('w')} OR ${mayManage('w')}) AND w.name = $2`,
    [viewerId, name],
  )
}

/** Whether a caller manages a workspace. */
export async function managesWorkspace(queries: Queries, viewerId: string, workspaceId: string): Promise<boolean> {
  const row = await queries.row(`SELECT 1 FROM workspaces w WHERE w.id = $2 AND ${mayManage('w')}`, [
    viewerId,
    workspaceId,
  ])
  return row !== undefined
}

type Membership = { workspaceId: string; organizationId: string; userName: string; role: Role }

/** The role that a user was given in a workspace; undefined for somebody who is not a member. */
export async function findRole(
  queries: Queries,
  { workspaceId, organizationId, userName }: Omit<Membership, 'role'>,
): Promise<Role | undefined> {
  const row = await queries.row<{ role: Role }>(
    `SELECT m.role FROM workspace_members m JOIN users u ON u.id = m.user_id
     WHERE m.workspace_id = $1 AND u.organization_id = $2 AND u.user_name = $3 AND u.deleted_at IS NULL`,
    [workspaceId, organizationId, userName],
  )
  return row?.role
}

/**
 * Gives a user a role in a workspace; a member gets the new one instead of the old. The workspaces of a service account are
 * fixed when it is made: only its role in these changes. Call it within `administer`.
 */
export async function setRole(
  queries: Queries,
  { workspaceId, organizationId, userName, role }: Membership,
): Promise<'done' | 'unknown' | 'lastOwner'> {
  const user = await queries.row<{ userId: string }>(
    `SELECT id AS "userId" FROM users u WHERE user_name = $2 AND organization_id = $1 AND deleted_at IS NULL
       AND (kind = 'person' OR EXISTS (SELECT 1 FROM workspace_members WHERE workspace_id = $3 AND user_id = u.id))`,
    [organizationId, userName, workspaceId],
  )
  if (!user) return 'unknown'
  if (role !== 'owner' && (await isLastOwner(queries, workspaceId, user.userId))) return 'lastOwner'
  await queries.row(
    `INSERT INTO workspace_members (workspace_id, user_id, role) VALUES ($1, $2, $3)
     ON CONFLICT (workspace_id, user_id) DO UPDATE SET role = excluded.role`,
    [workspaceId, user.userId, role],
  )
  return 'done'
}

async function isLastOwner(queries: Queries, workspaceId: string, userId: string): Promise<boolean> {
  const owners = await queries.rows<{ userId: string }>(
    `SELECT user_id AS "userId" FROM workspace_members WHERE workspace_id = $1 AND role = 'owner'`,
    [workspaceId],
  )
  return owners.length === 1 && owners[0]?.userId === userId
}

export type Member = { userName: string; kind: UserKind; role: Role }

/** The people and restricted service accounts of a workspace: owners first, then by name. */
export async function listMembers(queries: Queries, workspaceId: string): Promise<Member[]> {
  return await queries.rows<Member>(
    `SELECT u.user_name AS "userName", u.kind, m.role FROM workspace_members m
     JOIN users u ON u.id = m.user_id WHERE m.workspace_id = $1 AND u.deleted_at IS NULL
     ORDER BY m.role = 'owner' DESC, u.user_name`,
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
  if (member.role === 'owner' && members.filter((it) => it.role === 'owner').length === 1) return 'lastOwner'
  await queries.row(
    `DELETE FROM workspace_members m USING users u WHERE m.workspace_id = $1 AND u.id = m.user_id AND u.user_name = $2
       AND u.deleted_at IS NULL`,
    [workspaceId, userName],
  )
  return 'done'
}

/** A workspace to write to with its limits, or why not. */
export type SoughtWorkspace = {
  id: string
  name: string
  limits: GivenLimits
  organizationId: string
  organizationLimits: GivenLimits
  refusal: Refusal | null
}

/** A workspace to write to by name; absent and foreign look the same. */
export async function findWritableWorkspace(
  queries: Queries,
  viewerId: string,
  name: string,
): Promise<SoughtWorkspace | undefined> {
  return await queries.row<SoughtWorkspace>(
    `SELECT w.id, w.name, w.limits, o.id AS "organizationId", o.limits AS "organizationLimits",
       CASE WHEN ${mayWrite('w')} THEN NULL WHEN ${mayUse('w')} THEN 'role' ELSE 'withheld' END AS refusal
     FROM workspaces w JOIN organizations o ON o.id = w.organization_id
     WHERE (${mayUse('w')} OR ${isWithheld('w')}) AND w.name = $2`,
    [viewerId, name],
    'writable workspace by name',
  )
}
