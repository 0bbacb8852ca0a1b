import { type Actor, administer } from '../accounts/audit.ts'
import type { Database, Queries } from '../database.ts'
import { createNotes, type Notes, toProviderActor } from './notes.ts'

/** How an identity ends: its sessions are deleted, and the keys of its user do not work until it signs in again. */

type Ended = { userId: string; userName: string; organizationId: string; provider: string }

const named = `u.id AS "userId", u.user_name AS "userName", u.organization_id AS "organizationId", i.provider`

/** The provider says that the person is no more one of its users, or may not use this service. */
export async function endIdentity(queries: Queries, notes: Notes, identityId: string, reason: string): Promise<void> {
  const ended = await queries.row<Ended>(
    `UPDATE identities i SET ended_at = now(), check_at = NULL, tokens = NULL FROM users u
     WHERE i.id = $1 AND u.id = i.user_id AND i.ended_at IS NULL RETURNING ${named}`,
    [identityId],
  )
  if (ended) await suspend(queries, notes, ended, reason)
}

/** Ends what no provider has confirmed in time: sessions, and the keys of users. */
export async function endUnconfirmed(database: Database): Promise<void> {
  const reason = 'not confirmed'
  await database.transaction(async (queries) => {
    const notes = createNotes()
    const sessions = await queries.rows<Ended & { sessionId: string }>(
      `DELETE FROM sessions s USING identities i JOIN users u ON u.id = i.user_id
       WHERE i.id = s.identity_id AND i.sessions_until < now() RETURNING s.id AS "sessionId", ${named}`,
    )
    for (const { sessionId, userName, organizationId, provider } of sessions) {
      const note = notes.by(toProviderActor(organizationId, provider), provider)
      note('session.ended', userName, { sessionId, reason })
    }
    const users = await queries.rows<Ended>(
      `UPDATE identities i SET ended_at = now(), check_at = NULL, tokens = NULL FROM users u
       WHERE u.id = i.user_id AND i.ended_at IS NULL AND i.keys_until < now() RETURNING ${named}`,
    )
    for (const ended of users) await suspend(queries, notes, ended, reason)
    await notes.insertAll(queries)
  })
}

/** Forgets who the removed users of a name were at their providers, so that they may sign in anew; false when there are none. */
export async function forgetRemoved(database: Database, actor: Actor, userName: string): Promise<boolean> {
  return await administer(database, actor, async (queries, note) => {
    const forgotten = await queries.rows<{ provider: string }>(
      `DELETE FROM identities i USING users u WHERE u.id = i.user_id AND u.organization_id = $1 AND u.user_name = $2
         AND u.deleted_at IS NOT NULL RETURNING i.provider`,
      [actor.organizationId, userName],
    )
    for (const { provider } of forgotten) await note('identity.forgotten', userName, { provider })
    return forgotten.length > 0
  })
}

async function suspend(queries: Queries, notes: Notes, ended: Ended, reason: string) {
  const { userId, userName, organizationId, provider } = ended
  await queries.row('DELETE FROM sessions WHERE user_id = $1', [userId])
  await queries.row('DELETE FROM sign_in_links WHERE user_id = $1', [userId])
  const row = await queries.row(
    'UPDATE users SET suspended_at = now() WHERE id = $1 AND suspended_at IS NULL AND deleted_at IS NULL RETURNING id',
    [userId],
  )
  if (row) notes.by(toProviderActor(organizationId, provider), provider)('user.suspended', userName, { reason })
}
