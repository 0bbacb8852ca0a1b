import type { GivenLimits } from '../../limits.ts'
import type { Database, Queries } from '../database.ts'
import { type Actor, insertAudit } from './audit.ts'
import { insertApiKey, insertNewKey, joinedPlace } from './keys.ts'
import type { KeyScope, UserKind } from './visibility.ts'

/** The owner of a key. */
export type Account = {
  keyId: string
  userId: string
  /** What the rules of `visibility.ts` know the caller by: the user, or a key that may do less than its user. */
  viewerId: string
  /** What the key may do of what its user may. */
  scope: KeyScope
  /** The only workspace or project that the key is for. */
  place: KeyPlace | null
  /** When the key ends; ms since the Unix epoch. */
  keyExpiresAtMs: number | null
  userName: string
  kind: UserKind
  organizationId: string
  isAdmin: boolean
  /** Reads everything of the organization, and changes nothing. */
  isAuditor: boolean
  /** True for an admin of the first organization, who also looks after the service itself. */
  isOperator: boolean
  defaultWorkspaceName: string | null
  /** The limits of the key itself. */
  limits: GivenLimits
}

/** `projectName` is absent for a key of a whole workspace. */
export type KeyPlace = { workspaceId: string; workspaceName: string; projectName?: string }

/** The organization that the first start makes. */
export const firstOrganization = 'default'

/** SQL: whether the user `u` looks after the service. */
const isOperator = `(u.is_admin AND EXISTS (
  SELECT 1 FROM organizations o WHERE o.id = u.organization_id AND o.name = '${firstOrganization}'))`

/**
 * SQL: what an account has of its user `u`, the default workspace `w` of that user and the key `k`, which a session that a
 * sign-in link opened has not. A key of one place has its workspace as the default one.
 */
export const accountColumns = `u.id AS "userId", u.user_name AS "userName", u.kind, u.organization_id AS "organizationId",
  u.is_admin AS "isAdmin", u.is_auditor AS "isAuditor", ${isOperator} AS "isOperator",
  coalesce(kw.name, w.name) AS "defaultWorkspaceName", coalesce(k.limits, '{}') AS limits, coalesce(k.scope, 'all') AS scope,
  CASE WHEN k.scope <> 'all' OR kw.id IS NOT NULL THEN k.id ELSE u.id END AS "viewerId",
  CASE WHEN kp.id IS NOT NULL THEN json_build_object('workspaceId', kw.id, 'workspaceName', kw.name, 'projectName', kp.name)
    WHEN kw.id IS NOT NULL THEN json_build_object('workspaceId', kw.id, 'workspaceName', kw.name) END AS place,
  (extract(epoch FROM k.expires_at) * 1000)::float8 AS "keyExpiresAtMs"`

/**
 * The owner of a key, by its SHA-256 in hex; undefined when the key is unknown or revoked. That of a key that has ended is found
 * too: `keyExpiresAtMs` tells.
 */
export async function findAccount(database: Queries, keyHash: string): Promise<Account | undefined> {
  return await database.row<Account>(
    `SELECT k.id AS "keyId", ${accountColumns} FROM api_keys k JOIN users u ON u.id = k.user_id ${joinedPlace}
     WHERE k.key_hash = decode($1, 'hex') AND k.revoked_at IS NULL AND u.deleted_at IS NULL
       AND u.suspended_at IS NULL`,
    [keyHash],
    'account by key',
  )
}

type EnsuredUser = { userId: string; organizationId: string; workspaceId: string }

type NewUser = { organizationName: string; userName: string; isAdmin: boolean; workspaceName: string }

/** Creates a user, a workspace of the given name and the organization. Those that exist are returned unchanged. */
export async function ensureUser(queries: Queries, user: NewUser): Promise<EnsuredUser> {
  const organizationId = await insertOrFind(
    queries,
    'INSERT INTO organizations (name) VALUES ($1) ON CONFLICT DO NOTHING RETURNING id',
    'SELECT id FROM organizations WHERE name = $1',
    [user.organizationName],
  )
  const workspaceId = await insertOrFind(
    queries,
    'INSERT INTO workspaces (organization_id, name) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING id',
    'SELECT id FROM workspaces WHERE organization_id = $1 AND name = $2',
    [organizationId, user.workspaceName],
  )
  const found = await queries.row<{ id: string }>(
    'SELECT id FROM users WHERE organization_id = $1 AND user_name = $2 AND deleted_at IS NULL',
    [organizationId, user.userName],
  )
  const created =
    found ??
    (await queries.row<{ id: string }>(
      `INSERT INTO users (organization_id, user_name, is_admin, default_workspace_id) VALUES ($1, $2, $3, $4) RETURNING id`,
      [organizationId, user.userName, user.isAdmin, workspaceId],
    ))
  const userId = (created as { id: string }).id
  await queries.row(
    `INSERT INTO workspace_members (workspace_id, user_id, role) VALUES ($1, $2, 'owner') ON CONFLICT DO NOTHING`,
    [workspaceId, userId],
  )
  return { userId, organizationId, workspaceId }
}

async function insertOrFind(queries: Queries, insert: string, find: string, values: unknown[]): Promise<string> {
  const row = (await queries.row<{ id: string }>(insert, values)) ?? (await queries.row<{ id: string }>(find, values))
  return (row as { id: string }).id
}

/** The actor of what a start creates, in the audit log. */
const starter = 'svc'

/**
 * Creates what a first start needs: the organization, an admin, the workspace `default` and a key. Returns the key only if
 * it was created now, for it cannot be shown again. A later start creates a key when no admin has a valid one.
 *
 * @param givenKey the first key from the settings; registered unless it exists
 */
export async function bootstrap(database: Database, givenKey: string | undefined): Promise<{ newKey?: string }> {
  return await database.transaction(async (queries) => {
    // Two processes that start at once must not create two keys.
    await queries.row('SELECT pg_advisory_xact_lock(7392002)')
    if (givenKey === undefined && (await hasAdminWithKey(queries))) return {}
    const admin = (await findFirstAdmin(queries, firstOrganization)) ?? (await ensureFirstAdmin(queries))
    const actor: Actor = { organizationId: admin.organizationId, userName: starter }
    if (givenKey !== undefined) {
      const made = await insertApiKey(queries, admin.userId, givenKey, { createdBy: starter })
      if (made) await insertAudit(queries, actor, 'key.created', admin.userName, { keyId: made.keyId })
      return {}
    }
    const { apiKey, keyId } = await insertNewKey(queries, admin.userId, { createdBy: starter })
    await insertAudit(queries, actor, 'key.created', admin.userName, { keyId })
    return { newKey: apiKey }
  })
}

type Admin = { userId: string; userName: string; organizationId: string }

const liveAdmins = `FROM users u JOIN organizations o ON o.id = u.organization_id
  WHERE o.name = $1 AND u.is_admin AND u.deleted_at IS NULL`

async function hasAdminWithKey(queries: Queries): Promise<boolean> {
  const row = await queries.row(
    `SELECT 1 ${liveAdmins} AND EXISTS (SELECT 1 FROM api_keys k WHERE k.user_id = u.id AND k.revoked_at IS NULL
       AND (k.expires_at IS NULL OR k.expires_at > now())) LIMIT 1`,
    [firstOrganization],
  )
  return row !== undefined
}

/** The admin of an organization who has been there the longest. */
export async function findFirstAdmin(queries: Queries, organizationName: string): Promise<Admin | undefined> {
  return await queries.row<Admin>(
    `SELECT u.id AS "userId", u.user_name AS "userName", u.organization_id AS "organizationId" ${liveAdmins}
     ORDER BY u.created_at, u.id LIMIT 1`,
    [organizationName],
  )
}

async function ensureFirstAdmin(queries: Queries): Promise<Admin> {
  const user = { organizationName: firstOrganization, userName: 'admin', isAdmin: true, workspaceName: 'default' }
  const { userId, organizationId } = await ensureUser(queries, user)
  await insertAudit(queries, { organizationId, userName: starter }, 'user.created', user.userName, { isAdmin: true })
  return { userId, userName: user.userName, organizationId }
}
