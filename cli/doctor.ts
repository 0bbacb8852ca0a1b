import path from 'node:path'
import { runChecks } from '../http/health.ts'
import { openClickHouse } from '../store/clickhouse/connection.ts'
import { checkClickHouse } from '../store/clickhouse/migrate.ts'
import { checkFreeSpace } from '../store/embedded/data-folder.ts'
import { openDatabase } from '../store/postgres/database.ts'
import { checkPostgres } from '../store/postgres/migrate.ts'
import { openQueueBackend } from '../store/queue/queue-backend.ts'
import { toUrlHost } from './service.ts'
import { parseSettings, type Settings } from './settings.ts'
import { describeTerminal } from './terminal.ts'
import { version } from './version.ts'

/** Checks whatever a deployment needs, prints each finding, and exits with 1 when one of them is not well. */
export async function doctor({ json }: { json: boolean }): Promise<void> {
  const settings = parseSettings(process.env)
  const closers: (() => Promise<unknown>)[] = []
  const findings = await runChecks({ ...serviceChecks(settings), ...storeChecks(settings, closers) })
  await Promise.all(closers.map((close) => close()))
  const isWell = Object.values(findings).every((it) => it === 'ok')
  if (json) process.stdout.write(`${JSON.stringify({ version, node: process.version, ok: isWell, findings })}\n`)
  else printFindings(findings)
  process.exitCode = isWell ? 0 : 1
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

function serviceChecks({ host, port, dataFolder, clickhouseUrl, postgresUrl }: Settings) {
  const url = `http://${toUrlHost(host)}:${port}`
  const isEmbedded = !clickhouseUrl || !postgresUrl
  return {
    [`service at ${url}`]: () => askReady(url),
    ...(isEmbedded && { [`data folder ${path.resolve(dataFolder)}`]: () => checkFreeSpace(path.resolve(dataFolder)) }),
  }
}

async function askReady(url: string) {
  const answer = await fetch(`${url}/readyz`).catch(() => {
    throw new Error('does not answer: start it with "npm start"')
  })
  const { checks } = (await answer.json()) as { checks: Record<string, string> }
  const faults = Object.entries(checks).filter(([, outcome]) => outcome !== 'ok')
  if (faults.length > 0) throw new Error(faults.map((it) => it.join(': ')).join('; '))
}

/** Embedded stores are reached by the running service only; it reports on them itself. */
function storeChecks(
  { clickhouseUrl, postgresUrl, redisUrl, queuePrefix }: Settings,
  closers: (() => Promise<unknown>)[],
) {
  const checks: Record<string, () => Promise<unknown>> = {}
  const onError = () => undefined
  if (clickhouseUrl) {
    const clickhouse = openClickHouse({ url: clickhouseUrl })
    closers.push(() => clickhouse.close())
    checks.ClickHouse = () => checkClickHouse(clickhouse)
  }
  if (postgresUrl) {
    const database = openDatabase({ url: postgresUrl, connectionsMax: 1, onError })
    closers.push(() => database.close())
    checks.Postgres = () => checkPostgres(database)
  }
  if (redisUrl) {
    const backend = openQueueBackend({ redisUrl, postgresUrl: '', prefix: queuePrefix, onError })
    closers.push(() => backend.close())
    checks.Redis = () => backend.check()
  }
  return checks
}
