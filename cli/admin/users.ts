import { createClosers } from '../../runtime/closers.ts'
import type { Actor } from '../../store/postgres/accounts/audit.ts'
import { addKey, rotateKeys } from '../../store/postgres/accounts/key-admin.ts'
import {
  findOrganization,
  insertUser,
  type ListedUser,
  listUsers,
  removeUser,
  shownKinds,
} from '../../store/postgres/accounts/users.ts'
import { type Database, isUniqueViolation, openDatabase } from '../../store/postgres/database.ts'
import { checkPostgres } from '../../store/postgres/migrate.ts'
import { parsePostgresSettings } from '../settings.ts'
import { nameStoreError } from '../store-error.ts'
import { describeTerminal } from '../terminal/terminal.ts'

const usage =
  'Usage: svc users list | add NAME [--admin] [--workspace NAME] | key NAME [--rotate] | remove NAME\n' +
  '                 [--organization NAME] [--json]'

type Options = { organization: string; workspace: string | undefined; admin: boolean; rotate: boolean; json: boolean }
type Parts = Options & { database: Database; actor: Actor }

/**
 * Manages the users of an organization directly in Postgres, so it works even if no admin has a key any more.
 *
 * @throws Error with the usage for wrong arguments, or with the reason and what to do
 */
export async function users([action, name, ...more]: string[], options: Options): Promise<void> {
  const act = action && Object.hasOwn(actions, action) ? actions[action as keyof typeof actions] : undefined
  if (!act || more.length > 0 || (act === list) !== (name === undefined)) throw new Error(usage)
  const { postgresUrl } = parsePostgresSettings(process.env)
  const closers = createClosers()
  try {
    const database = openDatabase({ url: postgresUrl, connectionsMax: 1, onError: () => undefined })
    closers.push(() => database.close())
    await nameStoreError('Postgres', postgresUrl, checkPostgres(database))
    const organization = await findOrganization(database, options.organization)
    if (!organization)
      throw new Error(`There is no organization "${options.organization}". Choose one with --organization.`)
    await act({ ...options, database, actor: { ...organization, userName: 'svc users' } }, name ?? '')
  } finally {
    await closers.closeAll()
  }
}

const actions = { list, add, key, remove }

async function list({ database, actor, json }: Parts) {
  const found = (await listUsers(database, actor.organizationId)).map(toShown)
  if (json) return print(JSON.stringify(found))
  if (found.length === 0) return print('There are no users.')
  const { paint } = describeTerminal(process.stdout, process.env)
  const width = Math.max(...found.map((it) => it.userName.length))
  for (const { userName, kind, role, defaultWorkspaceName, lastActivityAt } of found) {
    const what = role === 'member' ? kind : role
    const seen = lastActivityAt ? `last seen ${lastActivityAt}` : 'never seen'
    print(
      `${paint('bold', userName.padEnd(width))}  ${what.padEnd(15)}  ${defaultWorkspaceName ?? '-'}  ${paint('dim', seen)}`,
    )
  }
}

/** Adds a user with a first key. */
async function add({ database, actor, workspace, admin, json }: Parts, userName: string) {
  if (userName.length > 100) throw new Error('A name may have at most 100 characters.')
  const user = { userName, role: admin ? ('admin' as const) : ('member' as const), workspaceName: workspace }
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
    print(`The user ${userName} was added${admin ? ' as an admin' : ''}, with the workspace ${defaultWorkspaceName}.`)
  const { apiKey } = await requireUser(addKey(database, actor, { userName, isService: false }), userName)
  showKey({ userName, defaultWorkspaceName, apiKey }, json)
}

async function key({ database, actor, rotate, json }: Parts, userName: string) {
  const makeKey = rotate ? rotateKeys : addKey
  const made =
    (await makeKey(database, actor, { userName, isService: false })) ??
    (await makeKey(database, actor, { userName, isService: true }))
  const { apiKey } = await requireUser(made, userName)
  showKey({ userName, apiKey }, json)
}

async function remove({ database, actor, json }: Parts, userName: string) {
  let outcome = await removeUser(database, actor, { userName, isService: false })
  if (outcome === 'unknown') outcome = await removeUser(database, actor, { userName, isService: true })
  if (outcome === 'lastAdmin') throw new Error(`${userName} is the only admin. Add another one first.`)
  await requireUser(outcome === 'done' ? outcome : undefined, userName)
  print(json ? JSON.stringify({ removed: userName }) : `${userName} was removed. Its keys are no longer accepted.`)
}

async function requireUser<T>(found: T | undefined | Promise<T | undefined>, userName: string): Promise<T> {
  const user = await found
  if (user === undefined) throw new Error(`There is no user "${userName}". "svc users list" lists all.`)
  return user
}

function showKey(made: { userName: string; apiKey: string; defaultWorkspaceName?: string }, json: boolean) {
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

function print(line: string) {
  process.stdout.write(`${line}\n`)
}
