import { type Account, accountColumns } from '../accounts/accounts.ts'
import { joinedPlace } from '../accounts/keys.ts'
import type { Database, Queries } from '../database.ts'
import { endIdentity } from './endings.ts'
import { applyGroups, type GroupRole, type Person as Member, toWorkspaceRoles } from './group-roles.ts'
import { createNotes, type Note, type Notes, toProviderActor } from './notes.ts'

/**
 * People that an identity provider, or a reverse proxy, has signed in. A person is the same one when issuer and subject are: a
 * name or a mail address never finds an account, except that a setting may let a verified address find one that an admin made.
 */

/** What a provider says of a person. */
export type Claims = {
  issuer: string
  subject: string
  userName: string
  email: string | undefined
  isEmailVerified: boolean
  groups: string[]
}

/** What the settings say of a provider. */
export type Policy = {
  /** The id of the provider. */
  provider: string
  organizationName: string
  /** Makes an account at first sight. */
  createsUsers: boolean
  /** Lets a verified mail address find an account that an admin made, and that has no identity yet. */
  linksByEmail: boolean
  /** How long sessions, and keys, work without another word from the provider. */
  sessionMsMax: number
  keyMsMax: number
  groupRoles: GroupRole[]
  /** Who is let in: people in one of these groups, or with a verified address at one of these domains. Empty lists let all in. */
  allowedGroups: string[]
  allowedEmailDomains: string[]
}

/** Why somebody is not let in. */
export type Refusal = 'unknown' | 'removed' | 'notAllowed' | 'emailNotVerified'

export type Admitted = { identityId: string; userId: string; userName: string; organizationId: string }

type Found = Member & {
  identityId: string
  isRemoved: boolean
  isSuspended: boolean
  defaultWorkspaceId: string | null
}

/** Admits a person: finds, links or makes the account, notes that the provider knows it, and gives it what its groups say. */
export async function admitIdentity(
  database: Database,
  claims: Claims,
  policy: Policy,
): Promise<Admitted | { refusal: Refusal }> {
  return await database.transaction(async (queries) => {
    const organization = await queries.row<{ id: string }>(
      'SELECT id FROM organizations WHERE name = $1 FOR NO KEY UPDATE',
      [policy.organizationName],
    )
    if (!organization) throw new Error(`there is no organization ${JSON.stringify(policy.organizationName)}`)
    const organizationId = organization.id
    const notes = createNotes()
    const note = notes.by(toProviderActor(organizationId, policy.provider), policy.provider)
    const person = await findPerson(queries, notes, note, organizationId, claims, policy)
    if ('refusal' in person) {
      await notes.insertAll(queries)
      return person
    }
    const { userId, userName } = person
    const identityId = await confirm(queries, userId, claims, policy)
    if (person.isSuspended) {
      await queries.row('UPDATE users SET suspended_at = NULL WHERE id = $1', [userId])
      note('user.restored', userName)
    }
    await applyGroups(queries, note, { ...person, organizationId }, claims.groups, policy.groupRoles)
    if (person.defaultWorkspaceId === null) await setDefaultWorkspace(queries, userId)
    await notes.insertAll(queries)
    return { identityId, userId, userName, organizationId }
  })
}

type Person = Omit<Found, 'identityId' | 'isRemoved'>

const columns = `u.id AS "userId", u.user_name AS "userName", u.organization_id AS "organizationId", u.is_role_by_groups AS "isRoleByGroups",
  CASE WHEN u.is_admin THEN 'admin' WHEN u.is_auditor THEN 'auditor' ELSE 'member' END AS "organizationRole", u.deleted_at IS NOT NULL AS "isRemoved",
  u.suspended_at IS NOT NULL AS "isSuspended", u.default_workspace_id AS "defaultWorkspaceId"`

async function findPerson(
  queries: Queries,
  notes: Notes,
  note: Note,
  organizationId: string,
  claims: Claims,
  policy: Policy,
): Promise<Person | { refusal: Refusal }> {
  const { issuer, subject } = claims
  const known = await queries.row<Found>(
    `SELECT i.id AS "identityId", ${columns} FROM identities i JOIN users u ON u.id = i.user_id
     WHERE i.issuer = $1 AND i.subject = $2`,
    [issuer, subject],
  )
  const refusal = findRefusal(claims, policy)
  if (refusal) {
    if (known) await endIdentity(queries, notes, known.identityId, 'not allowed')
    return { refusal }
  }
  if (known && !known.isRemoved) return known.organizationId === organizationId ? known : { refusal: 'unknown' }
  const linkable = policy.linksByEmail ? await findLinkable(queries, organizationId, claims) : undefined
  if (linkable) {
    if (!claims.isEmailVerified) return { refusal: 'emailNotVerified' }
    note('identity.linked', linkable.userName, { email: claims.email })
    return linkable
  }
  // Whoever an admin has removed stays so, although the provider still knows the person.
  if (known) return { refusal: 'removed' }
  if (!policy.createsUsers) return { refusal: 'unknown' }
  return await insertPerson(queries, note, organizationId, claims, policy)
}

function findRefusal({ groups, email, isEmailVerified }: Claims, policy: Policy): Refusal | undefined {
  const { allowedGroups, allowedEmailDomains } = policy
  if (allowedGroups.length > 0 && !groups.some((it) => allowedGroups.includes(it))) return 'notAllowed'
  if (allowedEmailDomains.length === 0) return undefined
  const domain = email?.toLowerCase().split('@').at(-1) ?? ''
  if (!allowedEmailDomains.includes(domain)) return 'notAllowed'
  return isEmailVerified ? undefined : 'emailNotVerified'
}

/** A person that an admin made, of this mail address: as the address, or as the name of the user. */
async function findLinkable(queries: Queries, organizationId: string, { email }: Claims): Promise<Person | undefined> {
  if (email === undefined) return undefined
  const rows = await queries.rows<Person>(
    `SELECT ${columns} FROM users u WHERE u.organization_id = $1 AND u.kind = 'person' AND u.deleted_at IS NULL
       AND lower($2) IN (lower(u.email), lower(u.user_name))
       AND NOT EXISTS (SELECT 1 FROM identities i WHERE i.user_id = u.id) LIMIT 2`,
    [organizationId, email],
  )
  return rows.length === 1 ? rows[0] : undefined
}

/** Makes an account. Its default workspace is the first that a group gives, else one of its own. */
async function insertPerson(
  queries: Queries,
  note: Note,
  organizationId: string,
  claims: Claims,
  policy: Policy,
): Promise<Person> {
  const userName = await findFreeName(queries, organizationId, claims)
  const row = await queries.row<Person>(
    `INSERT INTO users AS u (organization_id, user_name, created_by, email) VALUES ($1, $2, $3, $4) RETURNING ${columns}`,
    [organizationId, userName, toProviderActor(organizationId, policy.provider).userName, claims.email ?? null],
  )
  const person = row as Person
  note('user.created', userName, { role: 'member' })
  if (toWorkspaceRoles(claims.groups, policy.groupRoles).size > 0) return person
  const own = await queries.row<{ id: string }>(
    'INSERT INTO workspaces (organization_id, name) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING id',
    [organizationId, userName],
  )
  // Somebody else has a workspace of this name: the person makes one under another name, or is added to one.
  if (!own) return person
  await queries.row('INSERT INTO workspace_members (workspace_id, user_id, role) VALUES ($1, $2, $3)', [
    own.id,
    person.userId,
    'owner',
  ])
  return person
}

const nameCharactersMax = 100

/** The name, else the mail address, else the name with a number: a taken name is another person's. */
async function findFreeName(queries: Queries, organizationId: string, { userName, email }: Claims): Promise<string> {
  const name = userName.slice(0, nameCharactersMax)
  const isFree = async (candidate: string) =>
    !(await queries.row('SELECT 1 FROM users WHERE organization_id = $1 AND user_name = $2 AND deleted_at IS NULL', [
      organizationId,
      candidate,
    ]))
  if (await isFree(name)) return name
  if (email !== undefined && email.length <= nameCharactersMax && (await isFree(email))) return email
  for (let number = 2; ; number++) {
    const numbered = `${name.slice(0, nameCharactersMax - 8)}-${number}`
    if (await isFree(numbered)) return numbered
  }
}

async function confirm(queries: Queries, userId: string, claims: Claims, policy: Policy): Promise<string> {
  const { issuer, subject, email, groups } = claims
  const row = await queries.row<{ id: string }>(
    `INSERT INTO identities (user_id, provider, issuer, subject, email, groups, sessions_until, keys_until)
     VALUES ($1, $2, $3, $4, $5, $6, now() + $7 * interval '1 ms', now() + $8 * interval '1 ms')
     ON CONFLICT (issuer, subject) DO UPDATE SET user_id = excluded.user_id, provider = excluded.provider,
       email = excluded.email, groups = excluded.groups, confirmed_at = now(), sessions_until = excluded.sessions_until,
       keys_until = excluded.keys_until, ended_at = NULL
     RETURNING id`,
    [userId, policy.provider, issuer, subject, email ?? null, groups, policy.sessionMsMax, policy.keyMsMax],
  )
  return (row as { id: string }).id
}

async function setDefaultWorkspace(queries: Queries, userId: string) {
  await queries.row(
    `UPDATE users SET default_workspace_id = (SELECT m.workspace_id FROM workspace_members m
       JOIN workspaces w ON w.id = m.workspace_id WHERE m.user_id = $1 ORDER BY w.name LIMIT 1) WHERE id = $1`,
    [userId],
  )
}

/** The account of an identity that a proxy names in each request. `keyId` is the identity. */
export type IdentityAccount = Account & {
  identity: { id: string; email: string | null; groups: string[]; confirmedMsAgo: number }
}

/** The account of an identity; undefined when it is new, or its user was removed or suspended. */
export async function findIdentityAccount(
  queries: Queries,
  { issuer, subject }: Pick<Claims, 'issuer' | 'subject'>,
): Promise<IdentityAccount | undefined> {
  type Row = Account & { email: string | null; groups: string[]; confirmedMsAgo: number }
  const row = await queries.row<Row>(
    `SELECT i.id AS "keyId", ${accountColumns}, i.email, i.groups,
       (extract(epoch FROM now() - i.confirmed_at) * 1000)::float8 AS "confirmedMsAgo"
     FROM identities i JOIN users u ON u.id = i.user_id LEFT JOIN api_keys k ON false ${joinedPlace}
     WHERE i.issuer = $1 AND i.subject = $2 AND u.deleted_at IS NULL AND u.suspended_at IS NULL`,
    [issuer, subject],
  )
  if (!row) return undefined
  const { email, groups, confirmedMsAgo, ...account } = row
  return { ...account, identity: { id: account.keyId, email, groups, confirmedMsAgo } }
}
