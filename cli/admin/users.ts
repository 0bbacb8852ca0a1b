import { type Actor, administer } from '../../store/postgres/accounts/audit.ts'
import { addKey, revokeKeyById, rotateKeys } from '../../store/postgres/accounts/key-admin.ts'
import { findKeyPlace, type KeyFields, type ListedKey, listKeys } from '../../store/postgres/accounts/keys.ts'
import {
  findOrganization,
  insertUser,
  type ListedUser,
  listUsers,
  organizationRoles,
  removeUser,
  setOrganizationRole,
  shownKinds,
} from '../../store/postgres/accounts/users.ts'
import { keyScopes, roles } from '../../store/postgres/accounts/visibility.ts'
import { findOrganizationWorkspace, setRole } from '../../store/postgres/accounts/workspaces.ts'
import { type Database, isUniqueViolation } from '../../store/postgres/database.ts'
import { forgetRemoved } from '../../store/postgres/identities/endings.ts'
import { parsePostgresSettings } from '../settings.ts'
import { describeTerminal } from '../terminal/terminal.ts'
import { withDatabase } from './with-database.ts'

const usage =
  'Usage: svc users list | add NAME [--role auditor | admin] [--workspace NAME]\n' +
  '     | role NAME ROLE [--workspace NAME] | remove NAME | readmit NAME\n' +
  '     | key NAME [--name TEXT] [--scope read | write] [--workspace NAME [--project NAME]] [--days N] [--rotate]\n' +
  '     | keys [NAME] | revoke KEY-ID      [--organization NAME] [--json]'

type Options = {
  organization: string
  workspace: string | undefined
  admin: boolean
  role: string | undefined
  keyName: string | undefined
  scope: string | undefined
  project: string | undefined
  days: string | undefined
  rotate: boolean
  json: boolean
}
type Parts = Options & { database: Database; actor: Actor }

/**
 * Manages the users of an organization directly in Postgres, so it works even if no admin has a key any more.
 *
 * @throws Error with the usage for wrong arguments, or with the reason and what to do
 */
export async function users([action, ...words]: string[], options: Options): Promise<void> {
  const found = action && Object.hasOwn(actions, action) ? actions[action as keyof typeof actions] : undefined
  if (!found || words.length < found.words || words.length > found.words + (found.mayHave ?? 0)) throw new Error(usage)
  await withDatabase(parsePostgresSettings(process.env).postgresUrl, async (database) => {
    const organization = await findOrganization(database, options.organization)
    if (!organization)
      throw new Error(`There is no organization "${options.organization}". Choose one with --organization.`)
    const parts = { ...options, database, actor: { ...organization, userName: 'svc users' } }
    await found.act(parts, words[0] ?? '', words[1] ?? '')
  })
}

type Action = {
  /** How many words it needs, and how many more it may have. */
  words: number
  mayHave?: number
  act(parts: Parts, first: string, second: string): Promise<void>
}

const actions: Record<string, Action> = {
  list: { words: 0, act: list },
  add: { words: 1, act: add },
  role: { words: 2, act: giveRole },
  remove: { words: 1, act: remove },
  readmit: { words: 1, act: readmit },
  key: { words: 1, act: key },
  keys: { words: 0, mayHave: 1, act: showKeys },
  revoke: { words: 1, act: revoke },
}

async function list({ database, actor, json }: Parts) {
  const found = (await listUsers(database, actor.organizationId)).map(toShown)
  if (json) return print(JSON.stringify(found))
  if (found.length === 0) return print('There are no users.')
  const { paint } = describeTerminal(process.stdout, process.env)
  const width = Math.max(...found.map((it) => it.userName.length))
  for (const { userName, kind, role, defaultWorkspaceName, lastActivityAt, isSuspended } of found) {
    const what = isSuspended ? 'suspended' : role === 'member' ? kind : role
    const seen = lastActivityAt ? `last seen ${lastActivityAt}` : 'never seen'
    print(
      `${paint('bold', userName.padEnd(width))}  ${what.padEnd(15)}  ${defaultWorkspaceName ?? '-'}  ${paint('dim', seen)}`,
    )
  }
}

/** Adds a user with a first key. */
async function add({ database, actor, workspace, admin, role: named, json }: Parts, userName: string) {
  if (userName.length > 100) throw new Error('A name may have at most 100 characters.')
  const role = oneOf('--role', named ?? (admin ? 'admin' : 'member'), organizationRoles)
  const user = { userName, role, workspaceName: workspace }
  const made = await insertUser(database, actor, user).catch((error: unknown) => {
    throw isUniqueViolation(error) ? new Error(`A user or service account "${userName}" already exists.`) : error
  })
  if (!made) {
    throw new Error(
      `A workspace "${userName}" already exists. Pass it with --workspace to make the user a member, or pass another name.`,
    )
  }
  const { defaultWorkspaceName } = made
  if (!json)
    print(
      `The user ${userName} was added${role === 'member' ? '' : ` as an ${role}`}, with the workspace ${defaultWorkspaceName}.`,
    )
  const { apiKey } = await requireUser(addKey(database, actor, { userName, isService: false }), userName)
  showKey({ userName, defaultWorkspaceName, apiKey }, json)
}

/** The role in the organization, or in a workspace. */
async function giveRole({ database, actor, workspace, json }: Parts, userName: string, named: string) {
  if (workspace === undefined) {
    const role = oneOf('ROLE', named, organizationRoles)
    const outcome = await setOrganizationRole(database, actor, userName, role)
    if (outcome === 'lastAdmin') throw new Error(`${userName} is the only admin. Make somebody else one first.`)
    await requireUser(outcome === 'done' ? outcome : undefined, userName)
    return print(json ? JSON.stringify({ userName, role }) : `${userName} is now ${named} of the organization.`)
  }
  const role = oneOf('ROLE', named, roles)
  const found = await findOrganizationWorkspace(database, { ...actor, workspaceName: workspace })
  if (!found) throw new Error(`There is no workspace "${workspace}".`)
  const outcome = await administer(database, actor, async (queries, note) => {
    const outcome = await setRole(queries, { ...actor, workspaceId: found.id, userName, role })
    if (outcome === 'done') await note('workspace-member.set', userName, { workspaceName: workspace, role })
    return outcome
  })
  if (outcome === 'lastOwner') throw new Error(`${userName} is the only owner. Make somebody else one first.`)
  await requireUser(outcome === 'done' ? outcome : undefined, userName)
  print(json ? JSON.stringify({ userName, role, workspace }) : `${userName} is now ${named} of ${workspace}.`)
}

async function key(parts: Parts, userName: string) {
  const { database, actor, rotate, json } = parts
  const fields = await toFields(parts)
  const makeKey = rotate ? rotateKeys : addKey
  const made =
    (await makeKey(database, actor, { userName, isService: false }, fields)) ??
    (await makeKey(database, actor, { userName, isService: true }, fields))
  const { apiKey, keyId } = await requireUser(made, userName)
  showKey({ userName, apiKey, keyId }, json)
}

const dayMs = 24 * 3_600_000

/** What the key is called and may do. */
async function toFields({ database, actor, keyName, scope, workspace, project, days }: Parts): Promise<KeyFields> {
  if (project !== undefined && workspace === undefined)
    throw new Error('--project needs the --workspace that it is in.')
  if (days !== undefined && !/^[1-9]\d{0,4}$/.test(days))
    throw new Error('--days: expected a number of days, such as 90.')
  const place =
    workspace === undefined
      ? {}
      : await findKeyPlace(database, actor.organizationId, { workspaceName: workspace, projectName: project })
  if (!place)
    throw new Error(
      `There is no ${project === undefined ? '' : `project "${project}" in the `}workspace "${workspace}".`,
    )
  return {
    name: keyName,
    scope: scope === undefined ? undefined : oneOf('--scope', scope, keyScopes),
    expiresAtMs: days === undefined ? undefined : Date.now() + Number(days) * dayMs,
    ...place,
  }
}

/** The keys of all, or of one user. */
async function showKeys({ database, actor, json }: Parts, userName: string) {
  const all = await listKeys(database, actor.organizationId)
  const found = userName === '' ? all : all.filter((it) => it.userName === userName)
  if (json) return print(JSON.stringify(found.map(toShownKey)))
  if (found.length === 0) return print('There are no keys.')
  const { paint } = describeTerminal(process.stdout, process.env)
  for (const it of found) {
    const { keyId, name, shownPrefix, scope, workspaceName, projectName, expiresAt, lastUsedAt } = toShownKey(it)
    const place = [workspaceName, projectName].filter(Boolean).join('/')
    const end = expiresAt ? `ends ${expiresAt}` : 'no end'
    const used = lastUsedAt ? `used ${lastUsedAt}` : 'never used'
    print(
      `${keyId}  ${paint('bold', it.userName)}  ${name ?? '-'}  ${shownPrefix}…  ${scope}${place && ` of ${place}`}  ` +
        paint('dim', `${end}, ${used}`),
    )
  }
}

async function revoke({ database, actor, json }: Parts, keyId: string) {
  const wasThere = await revokeKeyById(database, actor, keyId)
  if (!wasThere) throw new Error(`There is no key ${keyId}. "svc users keys" lists all with their ids.`)
  print(json ? JSON.stringify({ revoked: keyId }) : `The key ${keyId} is no longer accepted.`)
}

async function remove({ database, actor, json }: Parts, userName: string) {
  let outcome = await removeUser(database, actor, { userName, isService: false })
  if (outcome === 'unknown') outcome = await removeUser(database, actor, { userName, isService: true })
  if (outcome === 'lastAdmin') throw new Error(`${userName} is the only admin. Add another one first.`)
  await requireUser(outcome === 'done' ? outcome : undefined, userName)
  print(json ? JSON.stringify({ removed: userName }) : `${userName} was removed. Its keys are no longer accepted.`)
}

/** Lets somebody who was removed sign in again at a provider. */
async function readmit({ database, actor, json }: Parts, userName: string) {
  if (!(await forgetRemoved(database, actor, userName))) {
    throw new Error(`No user "${userName}" who signed in at a provider was removed.`)
  }
  print(json ? JSON.stringify({ readmitted: userName }) : `${userName} may sign in again, as a new user.`)
}

async function requireUser<T>(found: T | undefined | Promise<T | undefined>, userName: string): Promise<T> {
  const user = await found
  if (user === undefined) throw new Error(`There is no user "${userName}". "svc users list" lists all.`)
  return user
}

function showKey(
  made: { userName: string; apiKey: string; keyId?: string; defaultWorkspaceName?: string },
  json: boolean,
) {
  const { paint } = describeTerminal(process.stdout, process.env)
  print(json ? JSON.stringify(made) : `API key of ${made.userName}, shown only once: ${paint('green', made.apiKey)}`)
}

function toShown({ kind, createdAtMs, lastActiveAtMs, ...user }: ListedUser) {
  return {
    ...user,
    isAdmin: user.role === 'admin',
    kind: shownKinds[kind],
    createdAt: new Date(createdAtMs).toISOString(),
    lastActivityAt: lastActiveAtMs === null ? null : new Date(Number(lastActiveAtMs)).toISOString(),
  }
}

function toShownKey({ createdAtMs, expiresAtMs, lastUsedAtMs, kind, limits: _, ...key }: ListedKey) {
  const toText = (ms: number | null) => (ms === null ? null : new Date(ms).toISOString())
  return {
    ...key,
    kind: shownKinds[kind],
    createdAt: toText(createdAtMs),
    expiresAt: toText(expiresAtMs),
    lastUsedAt: toText(lastUsedAtMs),
  }
}

function oneOf<T extends string>(what: string, given: string, allowed: readonly T[]): T {
  const found = allowed.find((it) => it === given)
  if (found === undefined) throw new Error(`${what}: must be one of ${allowed.join(', ')}.`)
  return found
}

function print(line: string) {
  process.stdout.write(`${line}\n`)
}
