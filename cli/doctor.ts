import { access, constants, stat } from 'node:fs/promises'
import path from 'node:path'
import { describeFault, runChecks } from '../http/health.ts'
import { openClickHouse } from '../store/clickhouse/connection.ts'
import { checkClickHouse } from '../store/clickhouse/migrate.ts'
import { createClosers } from '../store/closers.ts'
import { checkFreeSpace } from '../store/embedded/data-folder.ts'
import { findMasterKey } from '../store/embedded/master-key.ts'
import { openObjects } from '../store/objects/object-store.ts'
import { type Database, openDatabase } from '../store/postgres/database.ts'
import { checkPostgres } from '../store/postgres/migrate.ts'
import { isMasterKeyInUse, openSecrets } from '../store/postgres/secrets.ts'
import { openQueueBackend } from '../store/queue/queue-backend.ts'
import { describeRedisAddress } from '../store/redis/address.ts'
import { toUrlHost } from './service.ts'
import { parseSettings, type Settings, toClickHouse } from './settings.ts'
import { describeTerminal } from './terminal.ts'
import { version } from './version.ts'

type Checks = Record<string, () => Promise<unknown>>

/** Checks whatever a deployment needs, prints each finding, and exits with 1 when one of them is not well. */
export async function doctor({ json }: { json: boolean }): Promise<void> {
  const findings = await examine()
  const isWell = Object.values(findings).every((it) => it === 'ok')
  if (json) process.stdout.write(`${JSON.stringify({ version, node: process.version, ok: isWell, findings })}\n`)
  else printFindings(findings)
  process.exitCode = isWell ? 0 : 1
}

async function examine(): Promise<Record<string, string>> {
  const closers = createClosers()
  try {
    const settings = parseSettings(process.env)
    const stores = openStoreChecks(settings, closers.push)
    return { settings: 'ok', ...(await runChecks({ ...stores, ...folderCheck(settings), ...serviceCheck(settings) })) }
  } catch (error) {
    return { settings: describeFault(error) }
  } finally {
    // What could not be reached cannot be closed in order either.
    await closers.closeAll().catch(() => undefined)
  }
}

function printFindings(findings: Record<string, string>) {
  const terminal = describeTerminal(process.stdout, process.env)
  const width = Math.max(...Object.keys(findings).map((it) => it.length))
  process.stdout.write(`svc ${version} on Node ${process.version}\n\n`)
  for (const [name, outcome] of Object.entries(findings)) {
    const isWell = outcome === 'ok'
    process.stdout.write(`  ${name.padEnd(width)}  ${terminal.paint(isWell ? 'green' : 'red', outcome)}\n`)
  }
}

function serviceCheck({ host, port }: Settings): Checks {
  const url = `http://${toUrlHost(host)}:${port}`
  return { [`service at ${url}`]: () => askReady(url) }
}

async function askReady(url: string) {
  const answer = await fetch(`${url}/readyz`).catch(() => {
    throw new Error('does not answer: start it with "npm start", or name its port with SVC_PORT')
  })
  const { checks } = (await answer.json().catch(() => ({}))) as { checks?: Record<string, string> }
  if (!checks) throw new Error('something else than svc answers there')
  const faults = Object.entries(checks).filter(([, outcome]) => outcome !== 'ok')
  if (faults.length > 0) throw new Error(faults.map((it) => it.join(': ')).join('; '))
}

function folderCheck({ clickhouseUrl, postgresUrl, dataFolder }: Settings): Checks {
  if (clickhouseUrl && postgresUrl) return {}
  const folder = path.resolve(dataFolder)
  return {
    [`data folder ${folder}`]: async () => {
      const existing = await findExisting(folder)
      await access(existing, constants.W_OK)
      await checkFreeSpace(existing)
    },
  }
}

/** The folder itself, or the one it will be made in. */
async function findExisting(folder: string): Promise<string> {
  const exists = await stat(folder).then(
    () => true,
    () => false,
  )
  return exists || folder === path.dirname(folder) ? folder : findExisting(path.dirname(folder))
}

/** Embedded stores are reached by the running service only; it reports on them itself. */
function openStoreChecks(settings: Settings, onClose: (close: () => Promise<unknown>) => void): Checks {
  const { clickhouseUrl, postgresUrl, redisUrl, objectsUrl, objectsAreInDataFolder, queuePrefix } = settings
  const checks: Checks = {}
  const onError = () => undefined
  if (postgresUrl) {
    const database = openDatabase({ url: postgresUrl, connectionsMax: 1, onError })
    onClose(() => database.close())
    checks[`Postgres at ${new URL(postgresUrl).host}`] = () => checkPostgres(database)
    checks['master key'] = () => checkMasterKey(settings, database)
  } else if (!settings.masterKey) checks['master key'] = async () => findMasterKey(settings.dataFolder)
  if (clickhouseUrl) {
    const clickhouse = openClickHouse(toClickHouse({ ...settings, clickhouseUrl }))
    onClose(() => clickhouse.close())
    checks[`ClickHouse at ${new URL(clickhouseUrl).host}`] = () => checkClickHouse(clickhouse)
  }
  if (redisUrl) {
    const { queueShards: shards, queueReplicas: replicas } = settings
    const queue = { redisUrl, postgresUrl: postgresUrl ?? '', prefix: queuePrefix, shards, replicas }
    const backend = openQueueBackend({ ...queue, onError })
    onClose(() => backend.close())
    checks[`Redis at ${describeRedisAddress(redisUrl)}`] = async () => {
      await backend.check()
      const weakness = await backend.findWeakness()
      if (weakness) throw new Error(weakness)
    }
  }
  if (!objectsAreInDataFolder) {
    const { host, pathname } = new URL(objectsUrl)
    checks[`objects at ${host}${pathname}`] = async () => {
      const objects = await openObjects(objectsUrl)
      onClose(objects.close)
      await objects.check()
    }
  }
  return checks
}

async function checkMasterKey({ masterKey, previousMasterKey, dataFolder }: Settings, database: Database) {
  const key = masterKey ?? findMasterKey(dataFolder)
  if (key) return await openSecrets({ database, masterKey: key, previousMasterKey }).check()
  if (await isMasterKeyInUse(database)) {
    throw new Error(
      'is not set, and secrets in Postgres are encrypted with one: set SVC_MASTER_KEY, or no webhook is sent',
    )
  }
}
