import type { Database, Queries } from '../database.ts'

/** The administrative actions in the audit log. */
export const acts = [
  'user.created',
  'user.changed',
  'user.removed',
  'user.suspended',
  'user.restored',
  'identity.linked',
  'identity.forgotten',
  'service-account.created',
  'service-account.removed',
  'key.created',
  'key.revoked',
  'key.rotated',
  'session.opened',
  'session.ended',
  'sign-in-link.made',
  'secret.set',
  'secret.allowed',
  'secret.deleted',
  'secrets.rewrapped',
  'limits.set',
  'retention.set',
  'workspace-member.set',
  'workspace-member.removed',
  'webhooks.set',
  'webhook.enabled',
  'webhook.deleted',
  'webhook-secret.made',
  'project.imported',
  'dead-letter.replayed',
  'dead-letter.discarded',
  'segment.created',
  'segment.deleted',
  'audit.expired',
] as const

export type Act = (typeof acts)[number]

/** The caller of an administrative action. The key, session or identity must still be valid when the action begins. */
export type Actor = {
  organizationId: string
  userName: string
  keyId?: string
  isAdmin?: boolean
  session?: { id: string }
  identity?: { id: string }
}

/** The key or the admin right of the actor was revoked after the request passed the key check. */
export class ActorChanged extends Error {
  readonly isKnown: boolean

  constructor(isKnown: boolean) {
    super(isKnown ? 'the actor is no longer an admin' : 'the key of the actor was revoked')
    this.isKnown = isKnown
  }
}

type Details = Record<string, unknown>

/**
 * Adds an entry. Keys and secrets never appear in it: `details` names them by id or by name. Postgres puts it at the end of the
 * organization's chain, which is locked until the transaction ends: nothing that may wait for another lock comes after it.
 */
export async function insertAudit(
  queries: Queries,
  actor: Actor,
  act: Act,
  subject: string,
  details: Details = {},
): Promise<void> {
  await queries.row(
    'INSERT INTO audit_log (organization_id, actor, act, subject, details) VALUES ($1, $2, $3, $4, $5)',
    [actor.organizationId, actor.userName, act, subject, JSON.stringify(details)],
  )
}

/** Adds an entry when the work has ended. */
type Note = (act: Act, subject: string, details?: Details) => Promise<void>

/**
 * Runs an administrative action and adds its audit entries in one transaction. Actions of one organization are serialized,
 * so the second of two conflicting actions sees the result of the first, including a change of its own rights.
 *
 * @throws ActorChanged
 */
export async function administer<T>(
  database: Database,
  actor: Actor,
  work: (queries: Queries, note: Note) => Promise<T>,
): Promise<T> {
  return await database.transaction(async (queries) => {
    await queries.row('SELECT 1 FROM organizations WHERE id = $1 FOR NO KEY UPDATE', [actor.organizationId])
    await checkActor(queries, actor)
    const notes: Parameters<Note>[] = []
    const result = await work(queries, async (...entry) => void notes.push(entry))
    for (const entry of notes) await insertAudit(queries, actor, ...entry)
    return result
  })
}

const findByKey = `SELECT u.is_admin AS "isAdmin" FROM api_keys k JOIN users u ON u.id = k.user_id
  WHERE k.id = $1 AND k.revoked_at IS NULL AND u.deleted_at IS NULL AND u.suspended_at IS NULL
    AND (k.expires_at IS NULL OR k.expires_at > now())`
const findBySession = `SELECT u.is_admin AS "isAdmin" FROM sessions s JOIN users u ON u.id = s.user_id
  LEFT JOIN api_keys k ON k.id = s.key_id
  WHERE s.id = $1 AND s.expires_at > now() AND k.revoked_at IS NULL AND u.deleted_at IS NULL AND u.suspended_at IS NULL
    AND (k.expires_at IS NULL OR k.expires_at > now())`
const findByIdentity = `SELECT u.is_admin AS "isAdmin" FROM identities i JOIN users u ON u.id = i.user_id
  WHERE i.id = $1 AND u.deleted_at IS NULL AND u.suspended_at IS NULL`

async function checkActor(queries: Queries, actor: Actor) {
  if (actor.keyId === undefined) return
  const row = await findActor(queries, actor)
  if (!row || (actor.isAdmin && !row.isAdmin)) throw new ActorChanged(row !== undefined)
}

/** Undefined when the key, session or identity of the actor is no longer valid. */
export async function findActor(
  queries: Queries,
  { keyId, session, identity }: Actor,
): Promise<{ isAdmin: boolean } | undefined> {
  const [sql, id] = session
    ? [findBySession, session.id]
    : identity
      ? [findByIdentity, identity.id]
      : [findByKey, keyId]
  return await queries.row<{ isAdmin: boolean }>(sql, [id])
}

export type AuditEntry = {
  id: bigint
  atMs: number
  actor: string
  act: Act
  subject: string
  details: Details
}

/** Which entries; absent filters match every one. */
export type AuditFilter = {
  /** Who did it. */
  userName?: string | undefined
  act?: Act | undefined
  /** The workspace that it was about. */
  workspaceName?: string | undefined
  /** Inclusive; ms since the Unix epoch, as `toMs`. */
  fromMs?: number | undefined
  /** Exclusive. */
  toMs?: number | undefined
}

/** SQL: the workspace that an entry is about, as in the index of it. */
const workspaceOf = `coalesce(details->>'workspaceName',
  details->>'defaultWorkspaceName', CASE WHEN act LIKE 'webhook%' THEN subject END)`

type Asked = AuditFilter & {
  organizationId: string
  /** The entry after which to begin; without it, at the newest one. */
  beforeId: bigint | undefined
  limit: number
}

/** Entries of an organization, newest first. Each combination of filters is read by an index, in the order of its answer. */
export async function listAudit(queries: Queries, asked: Asked): Promise<AuditEntry[]> {
  const values: unknown[] = [asked.organizationId, asked.limit]
  const conditions = ['organization_id = $1']
  const add = (value: unknown, toCondition: (parameter: string) => string) => {
    if (value !== undefined) conditions.push(toCondition(`$${values.push(value)}`))
  }
  add(asked.userName, (it) => `actor = ${it}`)
  add(asked.act, (it) => `act = ${it}`)
  add(asked.workspaceName, (it) => `${workspaceOf} = ${it}`)
  add(asked.fromMs, (it) => `at >= to_timestamp(${it}::float8 / 1000)`)
  add(asked.toMs, (it) => `at < to_timestamp(${it}::float8 / 1000)`)
  add(asked.beforeId, (it) => `(at, id) < (SELECT at, id FROM audit_log WHERE organization_id = $1 AND id = ${it})`)
  return await queries.rows<AuditEntry>(
    `SELECT id, (extract(epoch FROM at) * 1000)::float8 AS "atMs", actor, act, subject, details FROM audit_log
     WHERE ${conditions.join(' AND ')} ORDER BY at DESC, id DESC LIMIT $2`,
    values,
  )
}
