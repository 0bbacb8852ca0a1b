import { randomBytes } from 'node:crypto'
import type { Database, Queries } from '../database.ts'
import { type Account, accountColumns } from './accounts.ts'
import { toKeyHash } from './api-key.ts'
import { type Actor, administer, insertAudit } from './audit.ts'
import { joinedPlace } from './keys.ts'

/**
 * Sessions of browsers. A session has 256 random bits; only their SHA-256 is stored. It is opened with a key, and then ends
 * with the key, or with a sign-in link. Ending deletes the row, and a trigger notifies every process, as for keys.
 */

/** The account of a session. `keyId` is the key that opened it, or the session itself after a sign-in link. */
export type SessionAccount = Account & { session: { id: string; expiresAtMs: number } }

const tokenBytes = 32
/** A user's oldest sessions end when there are more. */
const sessionsMax = 100
const linkMinutes = 10
const userAgentCharactersMax = 300

const createToken = () => randomBytes(tokenBytes).toString('base64url')

const isValid = `s.expires_at > now() AND u.deleted_at IS NULL AND u.suspended_at IS NULL
  AND (s.key_id IS NULL OR k.revoked_at IS NULL) AND (k.expires_at IS NULL OR k.expires_at > now())`
const joined = 'sessions s JOIN users u ON u.id = s.user_id LEFT JOIN api_keys k ON k.id = s.key_id'
const toMs = (column: string) => `floor(extract(epoch FROM ${column}) * 1000)::float8`

/** The account of a session, by the SHA-256 of its token in hex; undefined when it has ended. */
export async function findSessionAccount(queries: Queries, tokenHash: string): Promise<SessionAccount | undefined> {
  const row = await queries.row<Account & { id: string; expiresAtMs: number }>(
    `SELECT coalesce(k.id, s.id) AS "keyId", ${accountColumns}, s.id,
       ${toMs('least(s.expires_at, k.expires_at)')} AS "expiresAtMs"
     FROM ${joined} ${joinedPlace}
     WHERE s.token_hash = decode($1, 'hex') AND ${isValid}`,
    [tokenHash],
  )
  if (!row) return undefined
  const { id, expiresAtMs, ...account } = row
  return { ...account, session: { id, expiresAtMs } }
}

type NewSession = { userId: string; keyId: string | null; userAgent: string; lastsDays: number }

/** A new session; its token is known to nobody else. */
export type OpenedSession = { token: string; sessionId: string; expiresAtMs: number }

/** Opens a session for the owner of a key. */
export async function openSession(
  database: Database,
  actor: Actor & { userId: string; keyId: string },
  session: Pick<NewSession, 'userAgent' | 'lastsDays'>,
): Promise<OpenedSession> {
  return await administer(database, actor, async (queries, note) => {
    const opened = await insertSession(queries, { ...session, userId: actor.userId, keyId: actor.keyId })
    await note('session.opened', actor.userName, { sessionId: opened.sessionId, keyId: actor.keyId })
    return opened
  })
}

/** Opens a session with a sign-in link, which is used up then; undefined when it was used, or is too old. */
export async function openSessionByLink(
  database: Database,
  token: string,
  session: Pick<NewSession, 'userAgent' | 'lastsDays'>,
): Promise<OpenedSession | undefined> {
  return await database.transaction(async (queries) => {
    const user = await queries.row<{ userId: string; userName: string; organizationId: string }>(
      `DELETE FROM sign_in_links l USING users u
       WHERE l.token_hash = $1 AND l.expires_at > now() AND u.id = l.user_id AND u.deleted_at IS NULL
       RETURNING u.id AS "userId", u.user_name AS "userName", u.organization_id AS "organizationId"`,
      [toKeyHash(token)],
    )
    if (!user) return undefined
    const opened = await insertSession(queries, { ...session, userId: user.userId, keyId: null })
    await insertAudit(queries, user, 'session.opened', user.userName, { sessionId: opened.sessionId, byLink: true })
    return opened
  })
}

/** Opens a session for somebody whom a provider has signed in. It ends with the identity. */
export async function openSessionOfIdentity(
  database: Database,
  { identityId, provider, ...user }: { identityId: string; provider: string; userId: string } & Actor,
  session: Pick<NewSession, 'userAgent' | 'lastsDays'>,
  encryptIdToken: (queries: Queries, sessionId: string) => Promise<Buffer | null>,
): Promise<OpenedSession> {
  return await database.transaction(async (queries) => {
    const opened = await insertSession(queries, { ...session, userId: user.userId, keyId: null })
    const { sessionId } = opened
    await queries.row('UPDATE sessions SET identity_id = $2, id_token = $3 WHERE id = $1', [
      sessionId,
      identityId,
      await encryptIdToken(queries, sessionId),
    ])
    await insertAudit(queries, user, 'session.opened', user.userName, { sessionId, provider })
    return opened
  })
}

type SessionIdentity = {
  identityId: string
  provider: string
  subject: string
  /** Encrypted, as are the tokens. */
  idToken: Buffer | null
  tokens: Buffer | null
  /** False when the person has signed in elsewhere too. */
  isOnlyOne: boolean
}

/** The identity of a session; undefined when no provider opened it. */
export async function findSessionIdentity(queries: Queries, sessionId: string): Promise<SessionIdentity | undefined> {
  return await queries.row(
    `SELECT i.id AS "identityId", i.provider, i.subject, s.id_token AS "idToken", i.tokens, NOT EXISTS (
       SELECT FROM sessions o WHERE o.identity_id = i.id AND o.id <> s.id) AS "isOnlyOne"
     FROM sessions s JOIN identities i ON i.id = s.identity_id WHERE s.id = $1`,
    [sessionId],
  )
}

async function insertSession(queries: Queries, { userId, keyId, userAgent, lastsDays }: NewSession) {
  const token = createToken()
  await queries.row('DELETE FROM sessions WHERE expires_at < now()')
  const row = await queries.row<Omit<OpenedSession, 'token'>>(
    `INSERT INTO sessions (user_id, key_id, token_hash, user_agent, expires_at)
     VALUES ($1, $2, $3, $4, now() + make_interval(days => $5))
     RETURNING id AS "sessionId", ${toMs('expires_at')} AS "expiresAtMs"`,
    [userId, keyId, toKeyHash(token), userAgent.slice(0, userAgentCharactersMax), lastsDays],
  )
  await queries.row(
    `DELETE FROM sessions WHERE id IN (
       SELECT id FROM sessions WHERE user_id = $1 ORDER BY created_at DESC, id OFFSET ${sessionsMax})`,
    [userId],
  )
  return { token, ...(row as Omit<OpenedSession, 'token'>) }
}

export type ListedSession = {
  sessionId: string
  userAgent: string
  createdAtMs: number
  expiresAtMs: number
  /** The beginning of the key that opened it; null when none did. */
  shownPrefix: string | null
  /** The provider that opened it; null when none did. */
  provider: string | null
}

/** The sessions of a user, newest first. */
export async function listSessions(queries: Queries, userId: string): Promise<ListedSession[]> {
  return await queries.rows<ListedSession>(
    `SELECT s.id AS "sessionId", s.user_agent AS "userAgent", ${toMs('s.created_at')} AS "createdAtMs",
       ${toMs('s.expires_at')} AS "expiresAtMs", k.shown_prefix AS "shownPrefix", i.provider
     FROM ${joined} LEFT JOIN identities i ON i.id = s.identity_id WHERE s.user_id = $1 AND ${isValid} ORDER BY s.created_at DESC, s.id`,
    [userId],
  )
}

/** Ends a session of the actor; false when there is none of this id. */
export async function endSession(
  database: Database,
  actor: Actor & { userId: string },
  sessionId: string,
): Promise<boolean> {
  return await administer(database, actor, async (queries, note) => {
    const row = await queries.row('DELETE FROM sessions WHERE user_id = $1 AND id::text = $2 RETURNING id', [
      actor.userId,
      sessionId,
    ])
    if (!row) return false
    await note('session.ended', actor.userName, { sessionId })
    return true
  })
}

/** Makes a link's token for a user: it opens one session within ten minutes. */
export async function insertSignInLink(
  queries: Queries,
  actor: Actor,
  user: { userId: string; userName: string },
): Promise<string> {
  const token = createToken()
  await queries.row('DELETE FROM sign_in_links WHERE expires_at < now()')
  await queries.row(
    `INSERT INTO sign_in_links (token_hash, user_id, expires_at) VALUES ($1, $2, now() + interval '${linkMinutes} minutes')`,
    [toKeyHash(token), user.userId],
  )
  await insertAudit(queries, actor, 'sign-in-link.made', user.userName)
  return token
}
