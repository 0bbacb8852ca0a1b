import type { Database } from '../database.ts'
import { toKeyHash } from './api-key.ts'
import { type Actor, administer } from './audit.ts'
import { insertNewKey, type KeyFields, listOwnKeys, type NewKey, revokeKeys } from './keys.ts'
import { findUser, type UserReference } from './users.ts'

/** Admin actions on keys, each with its entry in the audit log. */

/** Adds a key; undefined when there is no such user. */
export async function addKey(
  database: Database,
  actor: Actor,
  reference: UserReference,
  fields: KeyFields = {},
): Promise<NewKey | undefined> {
  return await administer(database, actor, async (queries, note) => {
    const user = await findUser(queries, actor.organizationId, reference)
    if (!user) return undefined
    const key = await insertNewKey(queries, user.userId, { ...fields, createdBy: actor.userName })
    await note('key.created', reference.userName, { keyId: key.keyId, ...toDetails(fields) })
    return key
  })
}

/** Replaces all keys of the user by a new one; undefined when there is no such user. */
export async function rotateKeys(
  database: Database,
  actor: Actor,
  reference: UserReference,
  fields: KeyFields = {},
): Promise<NewKey | undefined> {
  return await administer(database, actor, async (queries, note) => {
    const user = await findUser(queries, actor.organizationId, reference)
    if (!user) return undefined
    const revoked = await revokeKeys(queries, user.userId)
    const key = await insertNewKey(queries, user.userId, { ...fields, createdBy: actor.userName })
    await note('key.rotated', reference.userName, { keyId: key.keyId, revokedKeyIds: revoked, ...toDetails(fields) })
    return key
  })
}

/** Revokes one key of a user, given in clear text; says which of the two is unknown. */
export async function revokeKey(
  database: Database,
  actor: Actor,
  reference: UserReference,
  key: string,
): Promise<'revoked' | 'userUnknown' | 'keyUnknown'> {
  return await administer(database, actor, async (queries, note) => {
    const user = await findUser(queries, actor.organizationId, reference)
    if (!user) return 'userUnknown'
    const row = await queries.row<{ id: string }>(
      `UPDATE api_keys SET revoked_at = now() WHERE user_id = $1 AND key_hash = $2 AND revoked_at IS NULL RETURNING id`,
      [user.userId, toKeyHash(key)],
    )
    if (!row) return 'keyUnknown'
    await note('key.revoked', reference.userName, { keyId: row.id })
    return 'revoked'
  })
}

/** Revokes a key of the organization by its id; false when it has no such valid key. */
export async function revokeKeyById(database: Database, actor: Actor, keyId: string): Promise<boolean> {
  return await administer(database, actor, async (queries, note) => {
    const row = await queries.row<{ userName: string }>(
      `UPDATE api_keys k SET revoked_at = now() FROM users u
       WHERE u.id = k.user_id AND u.organization_id = $1 AND k.id::text = $2 AND k.revoked_at IS NULL
       RETURNING u.user_name AS "userName"`,
      [actor.organizationId, keyId],
    )
    if (!row) return false
    await note('key.revoked', row.userName, { keyId })
    return true
  })
}

type Owner = Actor & { userId: string }

/** Adds a key for the actor; undefined when there are `keysMax` already. */
export async function addOwnKey(
  database: Database,
  owner: Owner,
  fields: KeyFields,
  keysMax: number,
): Promise<NewKey | undefined> {
  return await administer(database, owner, async (queries, note) => {
    if ((await listOwnKeys(queries, owner.userId)).length >= keysMax) return undefined
    const key = await insertNewKey(queries, owner.userId, { ...fields, createdBy: owner.userName })
    await note('key.created', owner.userName, { keyId: key.keyId, ...toDetails(fields) })
    return key
  })
}

/** Revokes a key of the actor by its id, with the sessions that it opened; false when the actor has no such valid key. */
export async function revokeOwnKey(database: Database, owner: Owner, keyId: string): Promise<boolean> {
  return await administer(database, owner, async (queries, note) => {
    const row = await queries.row(
      'UPDATE api_keys SET revoked_at = now() WHERE user_id = $1 AND id::text = $2 AND revoked_at IS NULL RETURNING id',
      [owner.userId, keyId],
    )
    if (!row) return false
    await note('key.revoked', owner.userName, { keyId })
    return true
  })
}

/** What the audit log tells of a key that may do less than its user. */
function toDetails({ scope = 'all', workspaceId, projectId, expiresAtMs }: KeyFields) {
  return {
    ...(scope !== 'all' && { scope }),
    ...(workspaceId !== undefined && { workspaceId }),
    ...(projectId !== undefined && { projectId }),
    ...(expiresAtMs !== undefined && { expiresAt: new Date(expiresAtMs).toISOString() }),
  }
}
