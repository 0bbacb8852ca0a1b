import type { Secrets } from '../accounts/secrets.ts'
import type { Database, Queries } from '../database.ts'
import { endIdentity } from './endings.ts'
import type { Policy } from './identities.ts'
import { createNotes, toProviderActor } from './notes.ts'

/**
 * Asking providers again. What they are asked with is stored encrypted. A process claims the identities that are due, so each is
 * asked about by one process at a time; what it finds counts only if the person has not signed in anew meanwhile.
 */
export type DueIdentity = {
  identityId: string
  provider: string
  subject: string
  organizationId: string
  /** Encrypted. */
  tokens: Buffer
}

const placeOf = (identityId: string) => ['identities', identityId, 'tokens']

/** Stores what to ask a provider with, and when. */
export async function storeTokens(
  { database, secrets }: { database: Database; secrets: Secrets },
  { identityId, organizationId }: Pick<DueIdentity, 'identityId' | 'organizationId'>,
  { tokens, checkInMs, replaced }: { tokens: string; checkInMs: number; replaced?: Buffer },
): Promise<void> {
  const [encrypted] = await database.transaction((queries) =>
    secrets.encryptTexts(queries, organizationId, [{ place: placeOf(identityId), value: tokens }]),
  )
  await database.row(
    `UPDATE identities SET tokens = $2, check_at = now() + $3 * interval '1 ms'
     WHERE id = $1 AND ended_at IS NULL AND ($4::bytea IS NULL OR tokens = $4)`,
    [identityId, encrypted, checkInMs, replaced ?? null],
  )
}

export async function readTokens(
  secrets: Secrets,
  { identityId, organizationId, tokens }: DueIdentity,
): Promise<string> {
  const [text] = await secrets.decryptTexts(organizationId, [{ place: placeOf(identityId), value: tokens }])
  return text as string
}

/** Claims identities that are due, of people with a session or a key. They are due again after the lease. */
export async function claimDueIdentities(
  queries: Queries,
  { providers, limit, leaseMs }: { providers: string[]; limit: number; leaseMs: number },
): Promise<DueIdentity[]> {
  return await queries.rows<DueIdentity>(
    `UPDATE identities i SET check_at = now() + $3 * interval '1 ms' FROM users u
     WHERE u.id = i.user_id AND i.id IN (
       SELECT d.id FROM identities d JOIN users p ON p.id = d.user_id
       WHERE d.check_at <= now() AND d.provider = ANY($1) AND d.tokens IS NOT NULL AND p.deleted_at IS NULL
         AND (EXISTS (SELECT FROM sessions s WHERE s.user_id = p.id)
           OR EXISTS (SELECT FROM api_keys k WHERE k.user_id = p.id AND k.revoked_at IS NULL))
       ORDER BY d.check_at LIMIT $2 FOR UPDATE OF d SKIP LOCKED)
     RETURNING i.id AS "identityId", i.provider, i.subject, u.organization_id AS "organizationId", i.tokens`,
    [providers, limit, leaseMs],
  )
}

/** The provider did not answer: it is asked again after the usual time. */
export async function askAgain(
  queries: Queries,
  { identityId, tokens }: DueIdentity,
  checkInMs: number,
): Promise<void> {
  await queries.row(`UPDATE identities SET check_at = now() + $3 * interval '1 ms' WHERE id = $1 AND tokens = $2`, [
    identityId,
    tokens,
    checkInMs,
  ])
}

/** The provider has said that the person is still there, and no more. */
export async function confirmIdentity(queries: Queries, identityId: string, policy: Policy): Promise<void> {
  await queries.row(
    `UPDATE identities SET confirmed_at = now(), sessions_until = now() + $2 * interval '1 ms',
       keys_until = now() + $3 * interval '1 ms' WHERE id = $1 AND ended_at IS NULL`,
    [identityId, policy.sessionMsMax, policy.keyMsMax],
  )
}

/** The provider knows the person no more: nothing of the person works until the next sign-in. */
export async function endAsked(database: Database, asked: DueIdentity, reason: string): Promise<void> {
  await database.transaction(async (queries) => {
    if (!(await isAsked(queries, asked))) return
    const notes = createNotes()
    await endIdentity(queries, notes, asked.identityId, reason)
    await notes.insertAll(queries)
  })
}

/** The person's session at the provider is over: sessions here end with it, and keys go on until they are too old. */
export async function endAskedSessions(database: Database, asked: DueIdentity): Promise<void> {
  await database.transaction(async (queries) => {
    if (!(await isAsked(queries, asked))) return
    await forgetTokens(queries, asked.identityId)
    const ended = await queries.rows<{ sessionId: string; userName: string }>(
      `DELETE FROM sessions s USING users u WHERE s.identity_id = $1 AND u.id = s.user_id
       RETURNING s.id AS "sessionId", u.user_name AS "userName"`,
      [asked.identityId],
    )
    const notes = createNotes()
    const note = notes.by(toProviderActor(asked.organizationId, asked.provider), asked.provider)
    for (const { sessionId, userName } of ended) note('session.ended', userName, { sessionId, reason: 'ended there' })
    await notes.insertAll(queries)
  })
}

/** There is nothing to ask with any more. */
export async function forgetTokens(queries: Queries, identityId: string): Promise<void> {
  await queries.row('UPDATE identities SET tokens = NULL, check_at = NULL WHERE id = $1', [identityId])
}

async function isAsked(queries: Queries, { identityId, tokens }: DueIdentity): Promise<boolean> {
  const row = await queries.row('SELECT FROM identities WHERE id = $1 AND tokens = $2 FOR UPDATE', [identityId, tokens])
  return row !== undefined
}
