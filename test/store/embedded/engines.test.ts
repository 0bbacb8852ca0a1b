import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client } from 'pg'
import { afterEach, expect, test } from 'vitest'
import { mergeTreeSettings } from '../../../store/clickhouse/tables.ts'
import { openEmbeddedClickHouse } from '../../../store/embedded/clickhouse.ts'
import { checkFreeSpace, findPublishedStores, lockDataFolder } from '../../../store/embedded/data-folder.ts'
import { startOfProcess } from '../../../store/embedded/live-process.ts'
import { openEmbeddedPostgres } from '../../../store/embedded/postgres.ts'
import { nicenessOf } from '../../kit/processes/niceness.ts'

const log = { info() {}, warn() {}, error() {} }
const cleanups: (() => unknown)[] = []
const minute = 60_000

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

test('ClickHouse answers at its url, and only with the password', { timeout: minute }, async () => {
  const { url } = await openClickHouse(aFolder())
  expect(await askClickHouse(url, 'SELECT currentUser(), currentDatabase(), timezone()')).toBe('svc\tsvc\tUTC')

  for (const stranger of ['svc:wrong', 'svc:', 'default:', '']) {
    await expect(askClickHouse(withUser(url, stranger), 'SELECT 1')).rejects.toThrow('HTTP')
  }
})

test('ClickHouse keeps its rows and its url when it is killed and started again', { timeout: minute }, async () => {
  const engine = await openClickHouse(aFolder())
  await askClickHouse(engine.url, 'CREATE TABLE points (step Int64) ENGINE = MergeTree ORDER BY step')
  await askClickHouse(engine.url, 'INSERT INTO points SELECT number FROM numbers(1000)')
  const pid = engine.pid()
  process.kill(pid, 'SIGKILL')

  await eventually(() => expect(engine.pid()).not.toBe(pid))
  expect(await askClickHouse(engine.url, 'SELECT count() FROM points')).toBe('1000')
})

test('ClickHouse keeps its rows when it is closed and opened again', { timeout: minute }, async () => {
  const folder = aFolder()
  const first = await openClickHouse(folder)
  await askClickHouse(first.url, 'CREATE TABLE points (step Int64) ENGINE = MergeTree ORDER BY step')
  await askClickHouse(first.url, 'INSERT INTO points VALUES (7)')
  await first.close()
  expect(startOfProcess(first.pid())).toBeUndefined()

  const second = await openClickHouse(folder)
  expect(await askClickHouse(second.url, 'SELECT step FROM points')).toBe('7')
})

test('merges of ClickHouse come last', { timeout: minute }, async () => {
  const { url } = await openClickHouse(aFolder())
  const setting = "SELECT value FROM system.server_settings WHERE name = 'os_threads_nice_value_merge_mutate'"
  expect(await askClickHouse(url, setting)).toBe('15')
})

test('merged parts are deleted soon, one after the other', { timeout: minute }, async () => {
  const { url } = await openClickHouse(aFolder())
  const settings =
    "SELECT name, value FROM system.merge_tree_settings WHERE match(name, '^(max_)?cleanup_delay_period$|^concurrent_part_removal_threshold$') ORDER BY name"
  expect(await askClickHouse(url, settings)).toBe(
    'cleanup_delay_period\t2\nconcurrent_part_removal_threshold\t1000000\nmax_cleanup_delay_period\t2',
  )
})

test('a part is on disk when its insert is done, and a merged one before what it is made of is deleted', {
  timeout: minute,
}, async () => {
  const { url } = await openClickHouse(aFolder())
  const ask = (query: string) => askClickHouse(url, query)
  const settings = mergeTreeSettings({ database: 'svc', cluster: undefined })
  await ask(`CREATE TABLE points (step Int64) ENGINE = MergeTree ORDER BY step SETTINGS ${settings}`)
  const count = async (query: string) => Number(await ask(query))
  const countSynced = () => count("SELECT sum(value) FROM system.events WHERE event = 'FileSync'")
  const countFiles = () => count("SELECT max(files) FROM system.parts WHERE table = 'points' AND active")

  const before = await countSynced()
  await ask('INSERT INTO points VALUES (1)')
  const inserted = await countSynced()
  expect(inserted - before).toBeGreaterThanOrEqual(await countFiles())

  await ask('OPTIMIZE TABLE points FINAL')
  expect(await countFiles()).toBeGreaterThan(5)
  expect((await countSynced()) - inserted).toBeGreaterThanOrEqual(await countFiles())
})

test.skipIf(nicenessOf('self') === undefined)(
  'what acknowledges writes goes before a nice ClickHouse',
  { timeout: minute },
  async () => {
    const engine = await openClickHouse(aFolder(), { isNice: true })
    expect(nicenessOf(engine.pid())).toBe(5)
  },
)

test('ClickHouse that cannot start says why', { timeout: minute }, async () => {
  const folder = aFolder()
  mkdirSync(join(folder, 'data'))
  writeFileSync(join(folder, 'data', 'metadata'), 'not a folder')
  await expect(openClickHouse(folder)).rejects.toThrow(/Embedded ClickHouse did not start: .*Its output:\n.*metadata/s)
})

test('Postgres answers at its url, and only with the password', { timeout: minute }, async () => {
  const { url } = await openPostgres(aFolder())
  const settings = `SELECT current_user, current_database(), current_setting('fsync'), pg_encoding_to_char(encoding)
    FROM pg_database WHERE datname = current_database()`
  expect(Object.values((await askPostgres(url, settings))[0] ?? {})).toEqual(['svc', 'svc', 'on', 'UTF8'])

  for (const stranger of ['svc:wrong', 'postgres:x']) {
    await expect(askPostgres(withUser(url, stranger), 'SELECT 1')).rejects.toMatchObject({ code: '28P01' })
  }
})

test('Postgres keeps its rows and its url when it is killed and started again', { timeout: minute }, async () => {
  const engine = await openPostgres(aFolder())
  await askPostgres(engine.url, 'CREATE TABLE projects (name text)')
  await askPostgres(engine.url, "INSERT INTO projects VALUES ('kept')")
  const pid = engine.pid()
  process.kill(pid, 'SIGKILL')

  await eventually(() => expect(engine.pid()).not.toBe(pid))
  expect(await askPostgres(engine.url, 'SELECT name FROM projects')).toEqual([{ name: 'kept' }])
})

test('Postgres is restarted when its supervisor is killed', { timeout: minute }, async () => {
  const engine = await openPostgres(aFolder())
  const pid = engine.pid()
  process.kill(keeperOf(pid), 'SIGKILL')

  await eventually(() => expect(engine.pid()).not.toBe(pid))
  expect(startOfProcess(pid)).toBeUndefined()
  expect(await askPostgres(engine.url, 'SELECT 1 AS one')).toEqual([{ one: 1 }])
})

test('Postgres recreates its files after an interrupted first start', { timeout: minute }, async () => {
  const folder = aFolder()
  mkdirSync(join(folder, 'data.new-0000'))
  writeFileSync(join(folder, 'data.new-0000', 'PG_VERSION'), '18\n')
  writeFileSync(join(folder, 'password'), 'of the interrupted start\n', { mode: 0o600 })

  const { url } = await openPostgres(folder)
  expect(await askPostgres(url, 'SELECT 1 AS one')).toEqual([{ one: 1 }])
  expect(readdirSync(folder).sort()).toEqual(['data', 'password'])
  expect(statSync(join(folder, 'password')).mode & 0o777).toBe(0o600)
})

test('Postgres starts even if its old pid now belongs to another process', { timeout: minute }, async () => {
  const folder = aFolder()
  await (await openPostgres(folder)).close()
  writeFileSync(join(folder, 'data', 'postmaster.pid'), `${process.pid}\n${join(folder, 'data')}\n`)

  const { url } = await openPostgres(folder)
  expect(await askPostgres(url, 'SELECT 1 AS one')).toEqual([{ one: 1 }])
})

test('Postgres that cannot start says why', { timeout: minute }, async () => {
  const folder = aFolder()
  await (await openPostgres(folder)).close()
  writeFileSync(join(folder, 'data', 'postgresql.conf'), 'no_such_setting = 1\n')
  await expect(openPostgres(folder)).rejects.toThrow(/Embedded Postgres did not start: .*no_such_setting/s)
})

test('no engine outlives a killed parent, and the next one opens their folders', { timeout: 2 * minute }, async () => {
  const folder = aFolder()
  const parent = startParent(folder)
  const pids = await linesOf(parent, 1)
  const [clickhouse = 0, postgres = 0] = JSON.parse(pids[0] ?? '[]') as number[]
  const keeper = keeperOf(postgres)
  parent.kill('SIGKILL')
  await once(parent, 'exit')

  // At once: an engine that is still ending is waited for.
  const next = startParent(folder)
  await linesOf(next, 1)
  for (const pid of [clickhouse, postgres, keeper]) expect(startOfProcess(pid)).toBeUndefined()
})

test('a terminal or service manager that signals every process does not end the engines', {
  timeout: minute,
}, async () => {
  const engine = await openClickHouse(aFolder())
  const pid = engine.pid()
  process.kill(pid, 'SIGTERM')
  process.kill(pid, 'SIGINT')

  expect(await askClickHouse(engine.url, 'SELECT 1')).toBe('1')
  expect(engine.pid()).toBe(pid)
})

test('a data folder has one holder at a time', () => {
  const folder = join(aFolder(), 'data')
  const lock = lockDataFolder(folder)
  expect(() => lockDataFolder(folder)).toThrow(
    new RegExp(`data folder ${folder} is in use by process ${process.pid} .*SVC_DATA_DIR`),
  )
  expect(readdirSync(folder)).toEqual(['lock'])

  lock.release()
  lockDataFolder(folder).release()
  expect(readdirSync(folder)).toEqual([])
})

test('the addresses of its stores are published as long as their holder lives', () => {
  const folder = aFolder()
  const stores = { clickhouseUrl: 'http://a', postgresUrl: 'postgres://b', objectsUrl: 'file:///c' }
  const lock = lockDataFolder(folder)
  expect(findPublishedStores(folder)).toBeUndefined()
  lock.publish(stores)
  expect(findPublishedStores(folder)).toEqual(stores)

  const held = readFileSync(join(folder, 'lock'), 'utf8')
  writeFileSync(join(folder, 'lock'), aLock(2 ** 22 + 1, 'then'))
  expect(findPublishedStores(folder)).toBeUndefined()
  writeFileSync(join(folder, 'lock'), held)
  lock.release()
  expect(findPublishedStores(folder)).toBeUndefined()
  expect(readdirSync(folder)).toEqual([])
})

test.each([
  ['of a dead process', aLock(2 ** 22 + 1, 'then')],
  ['of a process whose pid went to another', aLock(process.pid, 'long ago')],
  ['that a power cut left empty', ''],
])('a lock %s is taken over', (_, content) => {
  const folder = aFolder()
  writeFileSync(join(folder, 'lock'), content)
  const lock = lockDataFolder(folder)
  expect(() => lockDataFolder(folder)).toThrow(`process ${process.pid}`)
  lock.release()
})

test('nothing starts on a full disk', async () => {
  const folder = aFolder()
  await checkFreeSpace(folder, 1)
  await expect(checkFreeSpace(folder, 2 ** 60)).rejects.toThrow(/Only \d+ MB are free for the data folder/)
})

async function openClickHouse(folder: string, options: { isNice?: boolean } = {}) {
  const engine = await openEmbeddedClickHouse({ folder, log, memoryBytesMax: 1024 ** 3, ...options })
  cleanups.push(engine.close)
  return engine
}

async function openPostgres(folder: string) {
  const engine = await openEmbeddedPostgres({ folder, log })
  cleanups.push(engine.close)
  return engine
}

async function askClickHouse(url: string, query: string): Promise<string> {
  const { origin, username, password, pathname } = new URL(url)
  const response = await fetch(`${origin}/?database=${pathname.slice(1)}`, {
    method: 'POST',
    body: query,
    headers: {
      connection: 'close',
      ...(username ? { 'x-clickhouse-user': username, 'x-clickhouse-key': password } : {}),
    },
  })
  const text = await response.text()
  if (!response.ok) throw new Error(`HTTP ${response.status}: ${text}`)
  return text.trim()
}

async function askPostgres(url: string, query: string): Promise<Record<string, unknown>[]> {
  const client = new Client({ connectionString: url })
  try {
    await client.connect()
    return (await client.query(query)).rows
  } finally {
    await client.end()
  }
}

function withUser(url: string, user: string): string {
  const changed = new URL(url)
  const [username = '', password = ''] = user.split(':')
  changed.username = username
  changed.password = password
  return changed.href
}

/** A process that opens both engines, prints their pids and then waits. */
function startParent(folder: string): ChildProcess {
  const store = new URL('../../../store/embedded/', import.meta.url)
  const script = `
    import { openEmbeddedClickHouse } from '${new URL('clickhouse.ts', store)}'
    import { openEmbeddedPostgres } from '${new URL('postgres.ts', store)}'
    const log = { info() {}, warn: console.error, error: console.error }
    const engines = await Promise.all([
      openEmbeddedClickHouse({ folder: ${JSON.stringify(join(folder, 'clickhouse'))}, log }),
      openEmbeddedPostgres({ folder: ${JSON.stringify(join(folder, 'postgres'))}, log }),
    ])
    console.log(JSON.stringify(engines.map((engine) => engine.pid())))
    process.stdin.resume().once('end', () => Promise.all(engines.map((engine) => engine.close())))
  `
  const parent = spawn(process.execPath, ['--input-type=module', '--eval', script], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const exited = once(parent, 'exit')
  cleanups.push(async () => {
    parent.stdin.end()
    await exited
  })
  return parent
}

async function linesOf(child: ChildProcess, count: number): Promise<string[]> {
  const lines: string[] = []
  if (!child.stdout) return lines
  for await (const line of createInterface(child.stdout)) {
    lines.push(line)
    if (lines.length === count) return lines
  }
  throw new Error(`the process ended after ${lines.length} lines`)
}

/** The parent of a process. */
function keeperOf(pid: number): number {
  return Number(execFileSync('ps', ['-o', 'ppid=', '-p', String(pid)], { encoding: 'utf8' }))
}

function aFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'svc-embedded-'))
  cleanups.push(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

async function eventually(check: () => unknown): Promise<void> {
  for (const giveUpAt = Date.now() + 30_000; ; await sleep(20)) {
    try {
      return void (await check())
    } catch (error) {
      if (Date.now() > giveUpAt) throw error
    }
  }
}

function aLock(pid: number, start: string): string {
  return JSON.stringify({ pid, start, token: 'theirs', since: '2026-01-01T00:00:00.000Z' })
}
