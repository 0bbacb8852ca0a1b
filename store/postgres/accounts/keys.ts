import type { GivenLimits } from '../../limits.ts'
import type { Queries } from '../database.ts'
import { createApiKey, toKeyHash, toShownPrefix } from './api-key.ts'
import type { Activity } from './last-seen.ts'
import type { KeyScope, UserKind } from './visibility.ts'

/** A new key in clear text, shown this once. */
export type NewKey = { apiKey: string; keyId: string; createdAtMs: number }

/** What a new key is called and may do. Without a place it is for all that its user may use; without an end, until it is revoked. */
export type KeyFields = {
  name?: string | undefined
  scope?: KeyScope | undefined
  /** One of both: the only workspace, or the only project. */
  workspaceId?: string | undefined
  projectId?: string | undefined
  /** Ms since the Unix epoch. */
  expiresAtMs?: number | undefined
}

type MadeKey = KeyFields & { createdBy?: string }

/** Registers a key for a user; undefined when it is registered already, which changes nothing. */
export async function insertApiKey(
  queries: Queries,
  userId: string,
  key: string,
  { name, scope = 'all', workspaceId, projectId, expiresAtMs, createdBy }: MadeKey = {},
): Promise<Omit<NewKey, 'apiKey'> | undefined> {
  return await queries.row(
    `INSERT INTO api_keys (user_id, key_hash, shown_prefix, name, scope, workspace_id, project_id, expires_at, created_by)
     VALUES ($1, $2, $3, $4, $5, $6, $7, to_timestamp($8::float8 / 1000), $9) ON CONFLICT (key_hash) DO NOTHING
     RETURNING id AS "keyId", (extract(epoch FROM created_at) * 1000)::float8 AS "createdAtMs"`,
    [
      userId,
      toKeyHash(key),
      toShownPrefix(key),
      name ?? null,
      scope,
      workspaceId ?? null,
      projectId ?? null,
      expiresAtMs ?? null,
      createdBy ?? null,
    ],
  )
}

/** Creates a key for a user. */
export async function insertNewKey(queries: Queries, userId: string, fields: MadeKey): Promise<NewKey> {
  const apiKey = createApiKey()
  const made = await insertApiKey(queries, userId, apiKey, fields)
  return { apiKey, ...(made as Omit<NewKey, 'apiKey'>) }
}

/** Revokes all keys of a user, ends all sessions, and answers the ids of the keys. */
export async function revokeKeys(queries: Queries, userId: string): Promise<string[]> {
  // Those that sign-in links opened do not end with a key.
  await queries.row('DELETE FROM sessions WHERE user_id = $1', [userId])
  await queries.row('DELETE FROM sign_in_links WHERE user_id = $1', [userId])
  const rows = await queries.rows<{ id: string }>(
    'UPDATE api_keys SET revoked_at = now() WHERE user_id = $1 AND revoked_at IS NULL RETURNING id',
    [userId],
  )
  return rows.map((it) => it.id)
}

/** SQL: the project `kp` and the workspace `kw` that the key `k` is for. */
export const joinedPlace = `LEFT JOIN projects kp ON kp.id = k.project_id
  LEFT JOIN workspaces kw ON kw.id = coalesce(k.workspace_id, kp.workspace_id, kp.deleted_from)
  LEFT JOIN workspaces w ON w.id = u.default_workspace_id`

/** A key as its owner sees it. Times are ms since the Unix epoch. */
export type OwnKey = {
  keyId: string
  shownPrefix: string
  name: string | null
  scope: KeyScope
  workspaceName: string | null
  projectName: string | null
  createdAtMs: number
  createdBy: string | null
  /** It may have passed: then the key is refused. */
  expiresAtMs: number | null
  lastUsedAtMs: number | null
}

const keyColumns = `k.id AS "keyId", k.shown_prefix AS "shownPrefix", k.name, k.scope, kw.name AS "workspaceName",
  kp.name AS "projectName", floor(extract(epoch FROM k.created_at) * 1000)::float8 AS "createdAtMs",
  k.created_by AS "createdBy", floor(extract(epoch FROM k.expires_at) * 1000)::float8 AS "expiresAtMs",
  (SELECT used.last_used_at_ms::float8 FROM api_key_uses used WHERE used.key_id = k.id) AS "lastUsedAtMs"`

const joinedUser = `FROM api_keys k JOIN users u ON u.id = k.user_id ${joinedPlace}`

/** A key without its secret part. */
export type ListedKey = OwnKey & { userName: string; kind: UserKind; limits: GivenLimits }

/** The keys of an organization that are not revoked, oldest first. */
export async function listKeys(queries: Queries, organizationId: string): Promise<ListedKey[]> {
  return await queries.rows<ListedKey>(
    `SELECT ${keyColumns}, u.user_name AS "userName", u.kind, k.limits ${joinedUser}
     WHERE u.organization_id = $1 AND k.revoked_at IS NULL ORDER BY k.created_at, k.id`,
    [organizationId],
  )
}

/** The keys of a user that are not revoked, oldest first. */
export async function listOwnKeys(queries: Queries, userId: string): Promise<OwnKey[]> {
  return await queries.rows<OwnKey>(
    `SELECT ${keyColumns} ${joinedUser} WHERE k.user_id = $1 AND k.revoked_at IS NULL ORDER BY k.created_at, k.id`,
    [userId],
  )
}

/** A workspace, or a project in it, of an organization: where a key is to be of use. Undefined when there is none. */
export async function findKeyPlace(
  queries: Queries,
  organizationId: string,
  { workspaceName, projectName }: { workspaceName: string; projectName?: string | undefined },
): Promise<Pick<KeyFields, 'workspaceId' | 'projectId'> | undefined> {
  const row = await queries.row<{ workspaceId: string; projectId: string | null }>(
    `SELECT w.id AS "workspaceId", p.id AS "projectId" FROM workspaces w
     LEFT JOIN projects p ON p.workspace_id = w.id AND p.name = $3 WHERE w.organization_id = $1 AND w.name = $2`,
    [organizationId, workspaceName, projectName ?? null],
  )
  if (!row) return undefined
  if (projectName === undefined) return { workspaceId: row.workspaceId }
  return row.projectId === null ? undefined : { projectId: row.projectId }
}

/** Stores the last use of many keys in one statement; a time never goes back. Ids of sessions, which are no keys, are left out. */
export async function updateKeyUses(queries: Queries, uses: Activity[]): Promise<void> {
  // Rows are locked in one order, or else processes that update the same keys deadlock.
  await queries.row(
    `INSERT INTO api_key_uses (key_id, last_used_at_ms)
     SELECT k.id, s.at FROM api_keys k JOIN unnest($1::uuid[], $2::bigint[]) AS s(id, at) ON s.id = k.id ORDER BY k.id
     ON CONFLICT (key_id) DO UPDATE SET last_used_at_ms = greatest(api_key_uses.last_used_at_ms, excluded.last_used_at_ms)`,
    [uses.map((it) => it.id), uses.map((it) => it.atMs)],
  )
}
