import { afterAll, beforeAll, expect, it } from 'vitest'
import { findWorkspace, setRole } from '../../../store/postgres/accounts/workspaces.ts'
import { type Database, openDatabase } from '../../../store/postgres/database.ts'
import { createUser, storesWith, uniqueName } from '../../kit/service.ts'

let database: Database
beforeAll(() => {
  database = openDatabase({ url: storesWith('postgres').postgresUrl, connectionsMax: 1, onError: () => undefined })
})
afterAll(() => database?.close())

type Member = { userId: string; workspaceId: string; organizationId: string; workspaceName: string }

async function aMember(): Promise<Member & { userName: string }> {
  const { userName, workspaceName } = await createUser(storesWith('postgres'))
  const row = await database.row<Member>(
    `SELECT u.id AS "userId", u.organization_id AS "organizationId", m.workspace_id AS "workspaceId"
     FROM users u JOIN workspace_members m ON m.user_id = u.id WHERE u.user_name = $1`,
    [userName],
  )
  return { ...(row as Member), userName, workspaceName }
}

const findRow = async ({ userId }: Member) =>
  await database.row('SELECT role, is_owner FROM workspace_members WHERE user_id = $1', [userId])

it('what a process of the previous version writes of members has a role, and the other way round', async () => {
  const { workspaceId } = await aMember()
  const other = await aMember()
  const insert = 'INSERT INTO workspace_members (workspace_id, user_id, is_owner) VALUES ($1, $2, $3)'
  await database.row('DELETE FROM workspace_members WHERE user_id = $1', [other.userId])
  await database.row(insert, [workspaceId, other.userId, false])
  expect(await findRow(other)).toEqual({ role: 'editor', is_owner: false })
  await database.row('UPDATE workspace_members SET is_owner = true WHERE user_id = $1', [other.userId])
  expect(await findRow(other)).toEqual({ role: 'owner', is_owner: true })
  expect(await setRole(database, { ...other, workspaceId, role: 'viewer' })).toBe('done')
  expect(await findRow(other)).toEqual({ role: 'viewer', is_owner: false })
  // It knows nothing of viewers: its upsert leaves them what they are.
  await database.row(
    `${insert} ON CONFLICT (workspace_id, user_id) DO UPDATE SET is_owner = workspace_members.is_owner OR excluded.is_owner`,
    [workspaceId, other.userId, false],
  )
  expect(await findRow(other)).toEqual({ role: 'viewer', is_owner: false })
})

it('a key that may do less than its user has the lower of both roles, in its place only', async () => {
  const [owner, foreign] = [await aMember(), await aMember()]
  const project = await database.row<{ id: string }>(
    'INSERT INTO projects (workspace_id, owner_id, name) VALUES ($1, $2, $3) RETURNING id',
    [owner.workspaceId, owner.userId, uniqueName('project')],
  )
  const roleOf = async (scope: string, place: { workspaceId?: string; projectId?: string }, workspaceId: string) => {
    const key = await database.row<{ id: string }>(
      `INSERT INTO api_keys (user_id, key_hash, shown_prefix, scope, workspace_id, project_id)
       VALUES ($1, sha256($2::bytea), '', $3, $4, $5) RETURNING id`,
      [owner.userId, uniqueName('key'), scope, place.workspaceId ?? null, place.projectId ?? null],
    )
    const row = await database.row('SELECT key_role($1, $2) AS own, key_role_in_project($1, $3) AS project', [
      key?.id,
      workspaceId,
      project?.id,
    ])
    return row
  }
  const { workspaceId } = owner
  expect(await roleOf('read', {}, workspaceId)).toEqual({ own: 'viewer', project: null })
  expect(await roleOf('write', {}, workspaceId)).toEqual({ own: 'editor', project: null })
  expect(await roleOf('all', { workspaceId }, workspaceId)).toEqual({ own: 'owner', project: null })
  expect(await roleOf('all', { workspaceId }, foreign.workspaceId)).toEqual({ own: null, project: null })
  expect(await roleOf('all', { workspaceId: foreign.workspaceId }, foreign.workspaceId)).toEqual({
    own: null,
    project: null,
  })
  expect(await roleOf('write', { projectId: project?.id ?? '' }, workspaceId)).toEqual({ own: null, project: 'editor' })
  await database.row(`UPDATE workspace_members SET role = 'viewer' WHERE user_id = $1`, [owner.userId])
  expect(await roleOf('write', { projectId: project?.id ?? '' }, workspaceId)).toEqual({ own: null, project: 'viewer' })
  expect(await findWorkspace(database, owner.userId, owner.workspaceName)).toMatchObject({ isWritable: false })
})
