import { access, constants, stat } from 'node:fs/promises'
import path from 'node:path'
import { createClosers } from '../../runtime/closers.ts'
import { describeError } from '../../runtime/describe-error.ts'
import { type Check, type Finding, ok, runChecks, wrong } from '../../store/checks/finding.ts'
import { type CheckedStores, storeChecks } from '../../store/checks/stores.ts'
import { openClickHouse } from '../../store/clickhouse/connection.ts'
import { checkFreeSpace, findPublishedStores } from '../../store/embedded/data-folder.ts'
import { findMasterKey } from '../../store/embedded/master-key.ts'
import { openSecrets } from '../../store/postgres/accounts/secrets.ts'
import { openDatabase } from '../../store/postgres/database.ts'
import { openQueueBackend } from '../../store/queue/open-queue.ts'
import { warnOfExampleSecrets } from '../example-secrets.ts'
import { providerChecks } from '../identity-providers.ts'
import { toUrlHost } from '../service.ts'
import { parseSettings, type Settings, toClickHouse } from '../settings.ts'
import { type Colour, describeTerminal } from '../terminal/terminal.ts'
import { version } from '../version.ts'
import { serviceCheck } from './service.ts'

/**
 * Checks the settings, the stores and the running processes, and prints each finding with advice. The exit code is 1 when
 * something is wrong; warnings alone leave it 0.
 */
export async function doctor({ json }: { json: boolean }): Promise<void> {
  const findings = await examine(process.env)
  const isOk = findings.every((it) => it.state !== 'wrong')
  if (json) {
    const byName = findings.map(({ name, state, message }) => ({ name, state, says: message }))
    process.stdout.write(`${JSON.stringify({ version, node: process.version, ok: isOk, findings: byName })}\n`)
  } else printFindings(findings)
  process.exitCode = isOk ? 0 : 1
}

/** Every finding of the service that these settings describe; wrong settings are a finding too. */
export async function examine(environment: Record<string, string | undefined>): Promise<Finding[]> {
  const closers = createClosers()
  try {
    const settings = parseSettings(environment)
    const checks = [
      ...openStoreChecks(settings, closers.push),
      ...folderCheck(settings),
      ...providerChecks(settings),
      ...serviceChecks(settings),
    ]
    const exampleWarning = warnOfExampleSecrets(environment)
    const secrets = exampleWarning === undefined ? [] : [wrong('example secrets', exampleWarning)]
    return [ok('settings'), ...secrets, ...(await runChecks(checks))]
  } catch (error) {
    return [wrong('settings', describeError(error))]
  } finally {
    // Closing an unreachable store fails too.
    await closers.closeAll().catch(() => undefined)
  }
}

const colours: Record<Finding['state'], Colour> = { ok: 'green', warning: 'yellow', wrong: 'red' }

function printFindings(findings: Finding[]) {
  const out = process.stdout
  const terminal = describeTerminal(out, process.env)
  const width = Math.max(...findings.map((it) => it.name.length))
  out.write(`svc ${version} on Node ${process.version}\n\n`)
  for (const { name, state, message } of findings) {
    const mark = terminal.paint(colours[state], state.padEnd('warning'.length))
    out.write(
      `  ${name.padEnd(width)}  ${mark}  ${state === 'ok' ? terminal.paint('dim', message) : message}`.trimEnd(),
    )
    out.write('\n')
  }
  const count = (state: Finding['state']) => findings.filter((it) => it.state === state).length
  const summary = [
    count('wrong') > 0 && `${count('wrong')} wrong`,
    count('warning') > 0 && `${count('warning')} ${count('warning') === 1 ? 'warning' : 'warnings'}`,
  ].filter(Boolean)
  out.write(`\n${summary.length > 0 ? `${summary.join(', ')}. See docs/runbooks.md.` : 'All checks passed.'}\n`)
}

function serviceChecks({ host, port, serviceUrls }: Settings): Check[] {
  const urls = serviceUrls.length > 0 ? serviceUrls : [`http://${toUrlHost(host)}:${port}`]
  return urls.map(serviceCheck)
}

function folderCheck({ clickhouseUrl, postgresUrl, dataFolder }: Settings): Check[] {
  if (clickhouseUrl && postgresUrl) return []
  const folder = path.resolve(dataFolder)
  const name = `data folder ${folder}`
  return [
    {
      name,
      async run() {
        const existing = await findExisting(folder)
        await access(existing, constants.W_OK)
        await checkFreeSpace(existing)
        return [ok(name)]
      },
    },
  ]
}

/** The folder itself, or its nearest existing parent. */
async function findExisting(folder: string): Promise<string> {
  const exists = await stat(folder).then(
    () => true,
    () => false,
  )
  return exists || folder === path.dirname(folder) ? folder : findExisting(path.dirname(folder))
}

/** Checks the stores given by address, else the embedded ones of the running service. */
function openStoreChecks(settings: Settings, onClose: (close: () => Promise<unknown>) => void): Check[] {
  const given = {
    clickhouseUrl: settings.clickhouseUrl,
    postgresUrl: settings.postgresUrl,
    redisUrl: settings.redisUrl,
  }
  const areGiven = given.clickhouseUrl !== undefined && given.postgresUrl !== undefined
  const stores = areGiven ? given : (findPublishedStores(path.resolve(settings.dataFolder)) ?? given)
  const { clickhouseUrl, postgresUrl, redisUrl } = stores
  const { masterKey, previousMasterKey, postgresReadUrl, dataFolder } = settings
  const onError = () => undefined
  const checked: CheckedStores = { openSecrets: () => undefined }
  if (postgresUrl) {
    const database = openDatabase({ url: postgresUrl, connectionsMax: 3, onError })
    onClose(() => database.close())
    const replica = postgresReadUrl ? openDatabase({ url: postgresReadUrl, connectionsMax: 1, onError }) : undefined
    if (replica) onClose(() => replica.close())
    checked.postgres = {
      url: postgresUrl,
      database,
      replica: replica && postgresReadUrl ? { url: postgresReadUrl, queries: replica } : undefined,
    }
    checked.openSecrets = () => {
      const key = masterKey ?? findMasterKey(dataFolder)
      return key && openSecrets({ database, masterKey: key, previousMasterKey })
    }
  }
  if (clickhouseUrl) {
    const clickhouse = openClickHouse(toClickHouse({ ...settings, clickhouseUrl }))
    onClose(() => clickhouse.close())
    checked.clickhouse = { url: clickhouseUrl, clickhouse }
  }
  if (redisUrl || postgresUrl) {
    const { queuePrefix: prefix, queueShards: shards, queueReplicas: replicas } = settings
    const queue = { redisUrl, postgresUrl: postgresUrl ?? '', prefix, shards, replicas }
    const backend = openQueueBackend({ ...queue, onError })
    onClose(() => backend.close())
    checked.queue = { redisUrl, backend, max: settings.queueMax }
  }
  if (!settings.objectsAreInDataFolder) checked.objectsUrl = settings.objectsUrl
  return [...(postgresUrl || masterKey ? [] : [masterKeyFileCheck(dataFolder)]), ...storeChecks(checked)]
}

/** Before the first start: that the file of the master key, if there is one, can be used. */
function masterKeyFileCheck(dataFolder: string): Check {
  return {
    name: 'master key',
    async run() {
      findMasterKey(dataFolder)
      return [ok('master key')]
    },
  }
}
