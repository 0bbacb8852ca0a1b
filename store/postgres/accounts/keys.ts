import type { GivenLimits } from '../../limits.ts'
import type { Queries } from '../database.ts'
import { createApiKey, toKeyHash, toShownPrefix } from './api-key.ts'
import type { UserKind } from './visibility.ts'

/** A new key in clear text, shown this once. */
export type NewKey = { apiKey: string; keyId: string; createdAtMs: number }

/** Registers a key for a user; undefined when it is registered already, which changes nothing. */
export async function insertApiKey(
  queries: Queries,
  userId: string,
  key: string,
  name?: string,
): Promise<Omit<NewKey, 'apiKey'> | undefined> {
  return await queries.row(
    `INSERT INTO api_keys (user_id, key_hash, shown_prefix, name) VALUES ($1, $2, $3, $4) ON CONFLICT (key_hash) DO NOTHING
     RETURNING id AS "keyId", (extract(epoch FROM created_at) * 1000)::float8 AS "createdAtMs"`,
    [userId, toKeyHash(key), toShownPrefix(key), name ?? null],
  )
}

/** Creates a key for a user. */
export async function insertNewKey(queries: Queries, userId: string, name?: string): Promise<NewKey> {
  const apiKey = createApiKey()
  const made = await insertApiKey(queries, userId, apiKey, name)
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

/** A key without its secret part. */
export type ListedKey = OwnKey & { userName: string; kind: UserKind; limits: GivenLimits }

/** The valid keys of an organization, oldest first. */
export async function listKeys(queries: Queries, organizationId: string): Promise<ListedKey[]> {
  return await queries.rows<ListedKey>(
    `SELECT k.id AS "keyId", k.shown_prefix AS "shownPrefix", k.name, u.user_name AS "userName", u.kind, k.limits,
       (extract(epoch FROM k.created_at) * 1000)::float8 AS "createdAtMs"
     FROM api_keys k JOIN users u ON u.id = k.user_id
     WHERE u.organization_id = $1 AND k.revoked_at IS NULL ORDER BY k.created_at, k.id`,
    [organizationId],
  )
}

/** A key as its owner sees it. */
export type OwnKey = { keyId: string; shownPrefix: string; name: string | null; createdAtMs: number }

/** The valid keys of a user, oldest first. */
export async function listOwnKeys(queries: Queries, userId: string): Promise<OwnKey[]> {
  return await queries.rows<OwnKey>(
    `SELECT id AS "keyId", shown_prefix AS "shownPrefix", name,
       floor(extract(epoch FROM created_at) * 1000)::float8 AS "createdAtMs"
     FROM api_keys WHERE user_id = $1 AND revoked_at IS NULL ORDER BY created_at, id`,
    [userId],
  )
}
