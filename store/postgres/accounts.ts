import { createHash, randomBytes } from 'node:crypto'
import { crc32 } from 'node:zlib'
import type { GivenLimits } from '../limits.ts'
import type { Database, Queries } from './database.ts'

/** Who a key belongs to. */
export type Account = {
  keyId: string
  userId: string
  userName: string
  organizationId: string
  isAdmin: boolean
  defaultWorkspaceName: string | null
  /** What was set for the key. */
  limits: GivenLimits
}

const keyPrefix = 'svc_'
const shownCharacters = 12

/** A new API key: 256 random bits behind a prefix that scanners can find, and a checksum that tells a typo. */
export function createApiKey(): string {
  const secret = randomBytes(32).toString('hex')
  const checksum = crc32(secret).toString(16).padStart(8, '0')
  return `${keyPrefix}${secret}${checksum}`
}

/** What is stored of a key. */
function toKeyHash(key: string): Buffer {
  return createHash('sha256').update(key).digest()
}

/** Who a key, given by its SHA-256 in hex, belongs to; undefined when it is unknown or revoked. */
export async function findAccount(database: Queries, keyHash: string): Promise<Account | undefined> {
  return await database.row<Account>(
    `SELECT k.id AS "keyId", u.id AS "userId", u.user_name AS "userName", u.organization_id AS "organizationId",
       u.is_admin AS "isAdmin", w.name AS "defaultWorkspaceName", k.limits
     FROM api_keys k JOIN users u ON u.id = k.user_id LEFT JOIN workspaces w ON w.id = u.default_workspace_id
     WHERE k.key_hash = decode($1, 'hex') AND k.revoked_at IS NULL`,
    [keyHash],
  )
}

type NewUser = { organizationName: string; userName: string; isAdmin: boolean; workspaceName: string }

/**
 * Makes a user with a workspace of the given name, and the organization when it is new. All three are found again when
 * they exist.
 */
export async function ensureUser(queries: Queries, user: NewUser): Promise<{ userId: string; workspaceId: string }> {
  const organization = await insertOrFind(
    queries,
    'INSERT INTO organizations (name) VALUES ($1) ON CONFLICT DO NOTHING RETURNING id',
    'SELECT id FROM organizations WHERE name = $1',
    [user.organizationName],
  )
  const workspaceId = await insertOrFind(
    queries,
    'INSERT INTO workspaces (organization_id, name) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING id',
    'SELECT id FROM workspaces WHERE organization_id = $1 AND name = $2',
    [organization, user.workspaceName],
  )
  const found = await queries.row<{ id: string }>('SELECT id FROM users WHERE user_name = $1', [user.userName])
  const created =
    found ??
    (await queries.row<{ id: string }>(
      `INSERT INTO users (organization_id, user_name, is_admin, default_workspace_id) VALUES ($1, $2, $3, $4) RETURNING id`,
      [organization, user.userName, user.isAdmin, workspaceId],
    ))
  const userId = (created as { id: string }).id
  await queries.row(
    `INSERT INTO workspace_members (workspace_id, user_id, is_owner) VALUES ($1, $2, true) ON CONFLICT DO NOTHING`,
    [workspaceId, userId],
  )
  return { userId, workspaceId }
}

async function insertOrFind(queries: Queries, insert: string, find: string, values: unknown[]): Promise<string> {
  const row = (await queries.row<{ id: string }>(insert, values)) ?? (await queries.row<{ id: string }>(find, values))
  return (row as { id: string }).id
}

/** Registers a key for a user; a key that is registered already stays as it is. */
export async function insertApiKey(queries: Queries, userId: string, key: string): Promise<void> {
  await queries.row(
    `INSERT INTO api_keys (user_id, key_hash, shown_prefix) VALUES ($1, $2, $3) ON CONFLICT (key_hash) DO NOTHING`,
    [userId, toKeyHash(key), key.slice(0, Math.min(shownCharacters, key.length / 2))],
  )
}

/** A key as it may be shown. */
export type ListedKey = { keyId: string; shownPrefix: string; userName: string; createdAtMs: number }

/** The keys of an organization that work, oldest first. */
export async function listKeys(queries: Queries, organizationId: string): Promise<ListedKey[]> {
  return await queries.rows<ListedKey>(
    `SELECT k.id AS "keyId", k.shown_prefix AS "shownPrefix", u.user_name AS "userName",
       (extract(epoch FROM k.created_at) * 1000)::float8 AS "createdAtMs"
     FROM api_keys k JOIN users u ON u.id = k.user_id
     WHERE u.organization_id = $1 AND k.revoked_at IS NULL ORDER BY k.created_at, k.id`,
    [organizationId],
  )
}

/** True when the user has a key that works. */
async function hasApiKey(queries: Queries, userId: string): Promise<boolean> {
  const row = await queries.row('SELECT 1 FROM api_keys WHERE user_id = $1 AND revoked_at IS NULL LIMIT 1', [userId])
  return row !== undefined
}

/**
 * Makes what a first start needs: the organization, an admin, the workspace `default` and a key. Answers a key only when
 * it was made now, for it cannot be shown again.
 *
 * @param givenKey the first key as a setting gives it; added when it is not yet there
 */
export async function bootstrap(database: Database, givenKey: string | undefined): Promise<{ newKey?: string }> {
  return await database.transaction(async (queries) => {
    // Two processes that start at once must not make two admins' keys.
    await queries.row('SELECT pg_advisory_xact_lock(7392002)')
    const { userId } = await ensureUser(queries, {
      organizationName: 'default',
      userName: 'admin',
      isAdmin: true,
      workspaceName: 'default',
    })
    if (givenKey !== undefined) {
      await insertApiKey(queries, userId, givenKey)
      return {}
    }
    if (await hasApiKey(queries, userId)) return {}
    const newKey = createApiKey()
    await insertApiKey(queries, userId, newKey)
    return { newKey }
  })
}
