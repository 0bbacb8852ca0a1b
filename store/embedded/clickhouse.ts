/**
 * The real ClickHouse engine with its HTTP interface, out of the optional npm package `@chdb/lib-<platform>`.
 *
 * The engine's command line opens a local session as the user `default`, which must have no password. HTTP would let
 * anyone on this machine log in as that user. Therefore its profile allows only one session, which the engine itself keeps
 * open, and its grants allow only the start commands.
 */
import { createHash, randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { chmod, readFile, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { totalmem } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { sqlViews } from '../clickhouse/monitoring/sql/views.ts'
import { startEngine } from './engine.ts'
import { makePrivateFolder } from './folder.ts'
import { findFreePort } from './free-port.ts'
import { endLeftover } from './live-process.ts'
import type { Log } from './log.ts'
import { supervise } from './supervise.ts'
import { EmbeddedStoreUnavailable, platformName } from './unavailable.ts'

export type EmbeddedClickHouse = {
  /** `http://svc:PASSWORD@127.0.0.1:PORT/svc`; stays the same after a restart of the engine. */
  url: string
  /** The same for the user that runs the SQL of callers: see `store/clickhouse/monitoring/sql/sandbox.ts`. */
  sqlUrl: string
  /** Stops the engine. Idle keep-alive connections delay it by up to 5 s, so close clients first. */
  close(): Promise<void>
  pid(): number
  /** The only folder for backups that it may write and read. */
  backupsFolder: string
}

const name = 'ClickHouse'
const mib = 1024 ** 2
/**
 * A third of the share of another session. At 10, a tenth, reads and inserts beside a training that takes all cores took ten times
 * as long as without (5: twice), and a quiet tenant beside a greedy one was no better off.
 */
const sessionNiceness = 5
/** Merges come after inserts and most queries. */
const mergeNiceness = 15
/**
 * Merged parts are deleted soon and one after the other. The engine would delete those of half a minute at once, in dozens of threads: each
 * file is a discard on many a disk, and the fsyncs of Redis and Postgres waited behind them for up to 300 ms.
 */
const partRemoval = {
  cleanup_delay_period: 2,
  max_cleanup_delay_period: 2,
  concurrent_part_removal_threshold: 1_000_000,
}
/** Generous, because loading the tables of an old data folder takes long. */
const startMsMax = { empty: 60_000, filled: 300_000 }

/**
 * Starts ClickHouse on the files below `folder` and keeps it running until `close` or the death of this process. Throws
 * `EmbeddedStoreUnavailable` if there is no engine for this platform, and the engine's output if it does not start.
 */
export async function openEmbeddedClickHouse(options: {
  folder: string
  log: Log
  /** Bytes of memory for queries, merges and caches; half of the machine's by default, 8 GiB at most. */
  memoryBytesMax?: number
  /** Whether taking writes, in other processes, goes before storing them. */
  isNice?: boolean
}): Promise<EmbeddedClickHouse> {
  const { log } = options
  const folder = resolve(options.folder)
  const memoryBytesMax = options.memoryBytesMax ?? Math.min(Math.floor(totalmem() / 2), 8 * 1024 * mib)
  const library = findClickHouseLibrary()
  const dataFolder = join(folder, 'data')
  const configFile = join(folder, 'config.xml')
  const usersFile = join(folder, 'users.xml')
  const backupsFolder = join(folder, 'backups')
  const password = randomBytes(24).toString('hex')
  const sqlPassword = randomBytes(24).toString('hex')
  const wasFilled = existsSync(dataFolder)

  await makePrivateFolder(folder)
  await makePrivateFolder(dataFolder)
  await makePrivateFolder(backupsFolder)
  await writePrivateFile(configFile, toConfig({ memoryBytesMax, usersFile, backupsFolder }))
  await writePrivateFile(usersFile, toClickHouseUsers(password, sqlPassword))

  let port = 0
  const engine = await supervise({
    name,
    log,
    async start(signal, isFirst) {
      await endPredecessor(folder, dataFolder)
      // Clients reconnect to the same address, so only the first start may choose a port.
      if (isFirst) port = await findFreePort()
      return startEngine({
        name,
        script: new URL('./clickhouse-process.ts', import.meta.url),
        args: [
          library,
          'HTTP',
          `--config-file=${configFile}`,
          `--path=${dataFolder}`,
          '--listen_host=127.0.0.1',
          `--http_port=${port}`,
        ],
        folder,
        checkReady: () => checkAnswers(port, password),
        startMsMax: wasFilled ? startMsMax.filled : startMsMax.empty,
        stopMsMax: 10_000,
        ...(options.isNice && { niceness: sessionNiceness }),
        signal,
        log,
      })
    },
  })
  return {
    url: `http://svc:${password}@127.0.0.1:${port}/svc`,
    sqlUrl: `http://svc_sql:${sqlPassword}@127.0.0.1:${port}/svc`,
    close: engine.close,
    pid: engine.pid,
    backupsFolder,
  }
}

/** The path of the engine's library for this platform. */
export function findClickHouseLibrary(): string {
  const libc = process.platform === 'linux' ? '-gnu' : ''
  const { resolve: find } = createRequire(import.meta.url)
  try {
    find('ffi-rs')
    const manifest = find(`@chdb/lib-${process.platform}-${process.arch}${libc}/package.json`)
    const files = ['libchdb.so', 'libchdb.dylib'].map((file) => join(dirname(manifest), file))
    const library = files.find((file) => existsSync(file))
    if (library) return library
  } catch {
    // Not installed: see the error below.
  }
  throw new EmbeddedStoreUnavailable(
    `There is no embedded ClickHouse for ${platformName()}. Set CLICKHOUSE_URL to a ClickHouse server (25.8 or newer), ` +
      'or, on Linux with glibc or macOS, install with optional packages (npm install --include=optional).',
  )
}

/** Waits for the engine of a killed predecessor: it ends by itself, but that may take a moment. */
async function endPredecessor(folder: string, dataFolder: string): Promise<void> {
  const status = await readFile(join(dataFolder, 'status'), 'utf8').catch(() => '')
  const pid = Number(/^PID: (\d+)/m.exec(status)?.[1])
  if (pid > 0) await endLeftover(pid, folder, [{ waitMs: 10_000 }, { signal: 'SIGKILL', waitMs: 5_000 }])
}

async function checkAnswers(port: number, password: string): Promise<void> {
  // With our password, or another program on the port would pass for the engine.
  const response = await fetch(`http://127.0.0.1:${port}/?database=svc&query=SELECT+1`, {
    headers: { 'x-clickhouse-user': 'svc', 'x-clickhouse-key': password, connection: 'close' },
    signal: AbortSignal.timeout(5_000),
  })
  const body = await response.text()
  if (!response.ok) throw new Error(`HTTP ${response.status}: ${body}`)
}

export async function writePrivateFile(file: string, text: string): Promise<void> {
  await writeFile(file, text, { mode: 0o600 })
  await chmod(file, 0o600)
}

function toConfig({
  memoryBytesMax,
  usersFile,
  backupsFolder,
}: {
  memoryBytesMax: number
  usersFile: string
  backupsFolder: string
}): string {
  // The shutdown settings: do not wait for queries of clients we no longer answer.
  return `<clickhouse>
  <users_config>${escapeXml(usersFile)}</users_config>
  <timezone>UTC</timezone>
  <access_control_improvements>
    <select_from_system_db_requires_grant>true</select_from_system_db_requires_grant>
    <select_from_information_schema_requires_grant>true</select_from_information_schema_requires_grant>
  </access_control_improvements>
  <max_server_memory_usage>${memoryBytesMax}</max_server_memory_usage>
  <mark_cache_size>${256 * mib}</mark_cache_size>
  <background_pool_size>4</background_pool_size>
  <os_threads_nice_value_merge_mutate>${mergeNiceness}</os_threads_nice_value_merge_mutate>
  <merge_tree>${toXml(partRemoval)}</merge_tree>
  <keep_alive_timeout>30</keep_alive_timeout>
  <shutdown_wait_unfinished>1</shutdown_wait_unfinished>
  <shutdown_wait_unfinished_queries>0</shutdown_wait_unfinished_queries>
  <backups><allowed_path>${escapeXml(backupsFolder)}/</allowed_path></backups>
</clickhouse>
`
}

export function toClickHouseUsers(password: string, sqlPassword: string, database = 'svc'): string {
  const hashOf = (text: string) => createHash('sha256').update(text).digest('hex')
  return `<clickhouse>
  <users>
    <default>
      <no_password/>
      <networks><ip>::1</ip></networks>
      <profile>local_session</profile>
      <quota>default</quota>
      <grants>
        <query>GRANT CREATE DATABASE ON svc.*</query>
        <query>GRANT SYSTEM LISTEN ON *.*</query>
        <query>GRANT CREATE TEMPORARY TABLE ON *.*</query>
        <query>GRANT READ ON FILE</query>
      </grants>
    </default>
    <svc>
      <password_sha256_hex>${hashOf(password)}</password_sha256_hex>
      <networks><ip>127.0.0.1</ip></networks>
      <profile>default</profile>
      <quota>default</quota>
      <access_management>1</access_management>
    </svc>
    <svc_sql>
      <password_sha256_hex>${hashOf(sqlPassword)}</password_sha256_hex>
      <networks><ip>127.0.0.1</ip></networks>
      <profile>default</profile>
      <quota>default</quota>
      <grants>
${sqlViews.map((it) => `        <query>GRANT SELECT ON ${database}.${it.name}</query>`).join('\n')}
      </grants>
    </svc_sql>
  </users>
  <profiles>
    <default/>
    <local_session><max_sessions_for_user>1</max_sessions_for_user></local_session>
  </profiles>
  <quotas><default/></quotas>
</clickhouse>
`
}

function toXml(values: Record<string, number>): string {
  return Object.entries(values)
    .map(([name, it]) => `<${name}>${it}</${name}>`)
    .join('')
}

function escapeXml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}
