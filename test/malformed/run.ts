import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { Closers } from '../../runtime/closers.ts'
import { eventually } from '../kit/eventually.ts'
import { createClient, type TestClient } from '../kit/http/client.ts'
import { type HeldReport, holdConnections } from '../kit/http/held-connections.ts'
import { startWatchedService, type WatchedService } from '../kit/processes/watched-service.ts'
import { readCalls } from './calls.ts'
import { findError } from './judge.ts'
import type { Ingredients } from './kinds.ts'
import type { SendReport, Share, Statuses, WrongAnswer } from './send.ts'
import type { SenderMessage, SenderOrder } from './sender-process.ts'
import { startWellBehaved } from './well-behaved.ts'

/**
 * Sends malformed requests of every kind to a service in its own process, while slow clients hold connections and one
 * client sends valid requests. Reports everything that must not happen as violations.
 */
type Settings = {
  seed: number
  /** Sends requests `first` up to, not including, `end`. */
  first: number
  end: number
  /** Sends only kinds whose name contains this text. */
  kind: string
  senders: number
  /** Connections held by slow clients at any time. */
  held: number
  /** URLs of the stores, or the data folder of embedded ones. */
  environment: Record<string, string>
  onProgress(sent: number, memoryBytes: number | undefined): void
}

export type Report = {
  seed: number
  requests: number
  seconds: number
  statuses: Statuses
  errors: WrongAnswer[]
  held: HeldReport
  wellBehaved: Awaited<ReturnType<Awaited<ReturnType<typeof startWellBehaved>>['finish']>>
  memory: { start: number; peak: number; end: number } | undefined
  violations: string[]
}

/** Limit for one process with all roles; a million requests took 627 MiB at most. */
export const memoryBytesMax = 800 * 1024 * 1024

const apiKey = 'svc_malformed_0123456789abcdef'
const longSeriesPoints = 100_000
const progressEveryMs = 2_000

export async function runMalformed({ closers, ...settings }: Settings & { closers: Closers }): Promise<Report> {
  const environment = {
    SVC_BOOTSTRAP_API_KEY: apiKey,
    SVC_LOG_LEVEL: 'warn',
    // Some malformed requests carry valid points; the rate limit must not reject them.
    SVC_POINTS_PER_MINUTE: '1000000000',
    SVC_KEY_POINTS_PER_MINUTE: '1000000000',
    ...settings.environment,
  }
  const service = await startWatchedService(environment, closers)
  const report = await runAgainst(service, settings)
  const { code, signal } = await service.stop('SIGTERM')
  if (code !== 0) report.violations.push(`the service ended with ${signal ?? `exit code ${code}`} on SIGTERM`)
  return report
}

async function runAgainst(service: WatchedService, settings: Settings): Promise<Report> {
  const { url } = service
  const client = createClient(url, { apiKey, workspaceName: 'default' })
  const ingredients = await prepare(url, client, settings.seed)
  const startedAt = performance.now()
  const start = await service.memory()

  await createWorkspace(client, 'well-behaved')
  const wellBehaved = await startWellBehaved(client, 'well-behaved')
  const held = holdConnections({
    url,
    ...ingredients,
    count: settings.held,
    findError: (answer) => findError(answer, false),
  })
  let sent = 0
  let lastAt = performance.now()
  const onSent = (count: number) => {
    sent += count
    if (performance.now() - lastAt < progressEveryMs) return
    lastAt = performance.now()
    service.memory().then((it) => settings.onProgress(sent, it?.now))
  }
  const { first, end, kind, senders } = settings
  const shares = Array.from({ length: senders }, (_, at): Share => ({ first: first + at, end, every: senders, kind }))
  const reports = await Promise.all(shares.map((share) => runSender({ url, ingredients, share }, onSent)))
  const seconds = (performance.now() - startedAt) / 1_000

  const outcome = {
    seed: settings.seed,
    requests: reports.reduce((sum, it) => sum + it.sent, 0),
    seconds,
    statuses: addUp(reports),
    errors: reports.flatMap((it) => it.errors),
    held: await held.finish(),
    wellBehaved: await wellBehaved.finish(),
  }
  const lastPoint = await writeAndRead(client).then(
    () => undefined,
    (error: unknown) => `a point could not be written and read at the end: ${error}`,
  )
  const last = await service.memory()
  const memory = start && last && { start: start.now, peak: last.peak, end: last.now }
  const errorCount = reports.reduce((sum, it) => sum + it.errorCount, 0)
  const violations = [
    errorCount > 0 && `${errorCount} requests were not answered as they must be`,
    kind === '' && outcome.requests !== end - first && `${outcome.requests} of ${end - first} requests were sent`,
    service.hasEnded() && 'the service ended',
    memory && memory.peak > memoryBytesMax && `the service took ${toMebibytes(memory.peak)} MiB of memory`,
    lastPoint,
    ...outcome.held.errors,
    ...outcome.wellBehaved.errors.map((it) => `the well-behaved client: ${it}`),
    ...service.errors().map((it) => `the service logged: ${it}`),
  ]
  return { ...outcome, memory, violations: violations.filter((it) => typeof it === 'string') }
}

export function toMebibytes(bytes: number): number {
  return Math.round(bytes / 1024 / 1024)
}

/** Creates what malformed requests need to pass the first checks: an experiment to write to and one to read. */
async function prepare(url: string, client: TestClient, seed: number): Promise<Ingredients> {
  const experimentKey = await client.createExperiment()
  const readKey = await client.createExperiment()
  const steps = Array.from({ length: longSeriesPoints }, (_, step) => step)
  await client.post('/write/experiment/metrics/batch', {
    experimentKey: readKey,
    series: [{ metricName: 'long', steps, values: steps.map(Math.sin) }],
    metrics: [{ metricName: 'short', metricValue: 1, step: 1 }],
  })
  await client.readPoints(readKey, 'long', longSeriesPoints)
  const names = { workspaceName: 'default', projectName: 'project' }
  const document = await (await fetch(`${url}/openapi.json`)).json()
  const calls = readCalls(document, (method) =>
    method === 'GET'
      ? { ...names, experimentKey: readKey, metricName: 'short', maxPoints: '100' }
      : { ...names, experimentKey, metricName: 'x' },
  )
  const longRead = `/api/rest/v2/experiment/metrics/get-metric?experimentKey=${readKey}&metricName=long`
  return { seed, apiKey, experimentKey, longRead, calls }
}

/** It may exist from an earlier run. */
async function createWorkspace(client: TestClient, name: string) {
  const answer = await client.post('/write/workspace/new', { name })
  if (answer.status !== 200 && answer.body.sdk_error_code !== 8000006) throw new Error(answer.text)
}

async function writeAndRead(client: TestClient) {
  const experimentKey = await client.createExperiment()
  const answer = await client.post('/write/experiment/metric', { experimentKey, metricName: 'last', metricValue: 1 })
  if (answer.status !== 200) throw new Error(answer.text)
  await eventually(() => client.readPoints(experimentKey, 'last', 1))
}

function runSender(order: SenderOrder, onSent: (count: number) => void): Promise<SendReport> {
  const child = fork(fileURLToPath(new URL('./sender-process.ts', import.meta.url)), { execArgv: [], stdio: 'inherit' })
  return new Promise((resolve, reject) => {
    child.once('exit', () => reject(new Error('a sender process ended')))
    child.on('message', (message: SenderMessage) => {
      if (message.kind === 'sent') return onSent(message.count)
      if (message.kind === 'failed') reject(new Error(`a sender process failed: ${message.message}`))
      else resolve(message.report)
      child.disconnect()
    })
    child.send(order)
  })
}

function addUp(reports: SendReport[]): Statuses {
  const sum: Statuses = {}
  for (const { statuses } of reports) {
    for (const [kind, counts] of Object.entries(statuses)) {
      const ofKind = sum[kind] ?? {}
      sum[kind] = ofKind
      for (const [status, count] of Object.entries(counts)) ofKind[status] = (ofKind[status] ?? 0) + count
    }
  }
  return sum
}
