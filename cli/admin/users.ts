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
 * Looks after the users of an organization, on the store itself: also when no admin has a key any more.
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
      throw new Error(`There is no organization "${options.organization}": name it with --organization.`)
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
  for (const { userName, kind, isAdmin, defaultWorkspaceName, lastActivityAt } of found) {
    const what = isAdmin ? 'admin' : kind
    const seen = lastActivityAt ? `last seen ${lastActivityAt}` : 'never seen'
    print(
      `${paint('bold', userName.padEnd(width))}  ${what.padEnd(15)}  ${defaultWorkspaceName ?? '-'}  ${paint('dim', seen)}`,
    )
  }
}

/** A user is of little use without a key, so one is made at once. */
async function add({ database, actor, workspace, admin, json }: Parts, userName: string) {
  if (userName.length > 100) throw new Error('A name has 100 characters or fewer.')
  const user = { userName, isAdmin: admin, workspaceName: workspace }
  const made = await insertUser(database, actor, user).catch((error: unknown) => {
    throw isUniqueViolation(error) ? new Error(`There is a user or service account "${userName}" already.`) : error
  })
  if (!made) {
    throw new Error(
      `There is a workspace "${userName}" already: name it with --workspace to make the user a member, or name another.`,
    )
  }
  const { defaultWorkspaceName } = made
  if (!json)
    print(`The user ${userName} is made${admin ? ', as an admin' : ''}, with the workspace ${defaultWorkspaceName}.`)
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
  if (outcome === 'lastAdmin') throw new Error(`${userName} is the only admin: make another one first.`)
  await requireUser(outcome === 'done' ? outcome : undefined, userName)
  print(json ? JSON.stringify({ removed: userName }) : `${userName} is removed, and its keys are refused from now on.`)
}

async function requireUser<T>(found: T | undefined | Promise<T | undefined>, userName: string): Promise<T> {
  const user = await found
  if (user === undefined) throw new Error(`There is no user "${userName}": "svc users list" lists them.`)
  return user
}

function showKey(made: { userName: string; apiKey: string; defaultWorkspaceName?: string }, json: boolean) {
  const { paint } = describeTerminal(process.stdout, process.env)
  print(json ? JSON.stringify(made) : `API key of ${made.userName}, shown this once: ${paint('green', made.apiKey)}`)
}

function toShown({ kind, createdAtMs, lastActiveAtMs, ...user }: ListedUser) {
  return {
    ...user,
    kind: shownKinds[kind],
    createdAt: new Date(createdAtMs).toISOString(),
    lastActivityAt: lastActiveAtMs === null ? null : new Date(Number(lastActiveAtMs)).toISOString(),
  }
}

function print(line: string) {
  process.stdout.write(`${line}\n`)
}
