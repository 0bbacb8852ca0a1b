import { setTimeout as sleep } from 'node:timers/promises'
import type { Role } from '../../../cli/service.ts'
import type { Closers } from '../../../runtime/closers.ts'
import { listIngestPaths, matchesPrefix } from '../../kit/chart.ts'
import { type StatusLine, toText } from '../../kit/command-line/status-line.ts'
import { eventually } from '../../kit/eventually.ts'
import type { QueueKind } from '../../kit/service.ts'
import { createEndpoints, type Endpoints, openIngress, openService } from '../cluster/balancer.ts'
import { type Cluster, type Experiment, startCluster } from '../cluster/cluster.ts'
import { runClients } from '../load/clients.ts'
import { runReaders } from '../load/readers.ts'
import { createTally } from '../load/tally.ts'
import { createLedger } from '../verify/ledger.ts'
import { verify, waitUntilEmpty } from '../verify/verification.ts'
import { migrateWith, openRevision, type Version, workingTree } from './revision.ts'

type RollingOptions = {
  rounds: number
  seed: number
  queue: QueueKind
  clients: number
  /** How long an old process waits before it gets SIGTERM, and then before it takes no more requests. */
  pace: { preStopMs: number; shutdownDelaySeconds: number }
  /** A git revision to begin with: it is upgraded to the working tree, rolled back, and upgraded again. */
  from?: string | undefined
}

type Settings = RollingOptions & { closers: Closers; status: StatusLine; signal: AbortSignal }

export type RollingResult = Awaited<ReturnType<typeof runRolling>>

/** The chart's `drain`, shorter. */
export const chartPace = { preStopMs: 2_000, shutdownDelaySeconds: 6 }
/** Balancers notice at a random moment before this share of `preStop` has passed. */
const heardAfterMax = 0.75

const roles: Role[] = ['ingest', 'ingest', 'worker', 'worker', 'webhook-worker', 'api', 'api']
const experimentCount = 5
const readyMsMax = 120_000
const emptyMsMax = 180_000

/** What the processes of a round are replaced by, and whether its `svc migrate` runs before, under load. */
type Round = { version: Version; migrates: boolean }

/**
 * Replaces every process of every role under load, one at a time, as Kubernetes does: a new one starts and is ready, then
 * the old one gets SIGTERM while balancers still send to it. Afterwards compares stored and acknowledged rows.
 *
 * With `from` the processes are of that version at first. They are replaced by those of the working tree after its `svc
 * migrate`, by the old ones again on the new schema, and once more by the new ones.
 */
export async function runRolling({ rounds, seed, queue, clients, pace, from, closers, status, signal }: Settings) {
  const old = from === undefined ? undefined : await openRevision(from, closers)
  const plan: Round[] = old
    ? [
        { version: workingTree, migrates: true },
        { version: old, migrates: false },
        { version: workingTree, migrates: false },
      ]
    : Array.from({ length: rounds }, () => ({ version: workingTree, migrates: false }))
  status.say(`Seed ${seed}, queue in ${queue}: starting stores and two of each role in a temporary folder`)
  const settings = {
    SVC_MASTER_KEY: Buffer.alloc(32, 7).toString('base64'),
    SVC_SHUTDOWN_DELAY_SECONDS: String(pace.shutdownDelaySeconds),
  }
  const cluster = await startCluster({ queue, closers, settings, roles, ...(old && { version: old }) })
  const endpoints = { ingest: createEndpoints(closers), api: createEndpoints(closers) }
  const balanced = (role: Role): Endpoints | undefined =>
    role === 'ingest' || role === 'api' ? endpoints[role] : undefined
  const pods = [...cluster.roles]
  for (const { kind, url } of pods) balanced(kind)?.add(url)
  const ingestPaths = listIngestPaths()
  const isForIngest = (path: string) => ingestPaths.some((prefix) => matchesPrefix(path, prefix))
  const ingress = await openIngress((path) => (isForIngest(path) ? endpoints.ingest : endpoints.api), closers)
  const services = {
    ingest: await openService(endpoints.ingest, closers),
    api: await openService(endpoints.api, closers),
  }
  for (const { kind, url } of pods) await untilReady(balanced(kind), url)

  const experiments = await cluster.createExperiments(experimentCount)
  const depth = await cluster.openQueueDepth()
  const [ledger, tally] = [createLedger(experiments.length), createTally()]
  const { apiKey } = cluster
  const ingestUrls = [ingress, services.ingest]
  const startedAt = performance.now()
  const load = runClients({ clients, seed, ingestUrls, apiKey, experiments, ledger, tally })
  const readers = runReaders({ urls: [ingress, services.api], apiKey, experiments })
  closers.push(async () => void (await readers.finish()))

  const replaced: Record<string, number> = {}
  let migratedSeconds: number | undefined
  for (const [round, { version, migrates }] of plan.entries()) {
    if (old) status.say(`Round ${round + 1}: to ${version.name}${migrates ? ', after its svc migrate' : ''}`)
    if (migrates) {
      const migratedFrom = performance.now()
      await migrateWith(version, cluster.stores.urls, settings)
      migratedSeconds = (performance.now() - migratedFrom) / 1_000
      await sleep(pace.preStopMs)
    }
    for (const pod of [...pods]) {
      signal.throwIfAborted()
      const { points, lines } = ledger.counts()
      status.show(
        `round ${round + 1} of ${plan.length}: ${pod.name}  ${toText(points + lines)} rows acknowledged, ` +
          `${toText(readers.report().answered)} reads`,
      )
      await replace(pod, round, version)
      replaced[pod.kind] = (replaced[pod.kind] ?? 0) + 1
    }
  }
  signal.throwIfAborted()
  await load.finish()
  const reads = await readers.finish()
  const seconds = (performance.now() - startedAt) / 1_000
  status.say(
    `${pods.length * plan.length} processes replaced in ${toText(seconds)} s; waiting until the queue is empty`,
  )
  await waitUntilEmpty(depth, emptyMsMax)
  const verified = await verify(
    { ...cluster, apiUrl: ingress } as Cluster,
    experiments as Experiment[],
    (experiment) => ledger.page(experiment),
    (share) => status.show(`comparing: ${toText(share * 100)} %`),
  )
  const unexpectedEnds = cluster.processes.flatMap((it) => it.unexpectedEnds().map((how) => `${it.name}: ${how}`))
  const warnings = cluster.processes.flatMap((it) => it.warnings().map((line) => `${it.name}: ${line}`))
  return {
    seed,
    queue,
    from: old?.commit,
    seconds,
    migratedSeconds,
    replaced,
    acknowledged: ledger.counts(),
    answers: tally.report(),
    reads,
    unexpectedEnds,
    warnings,
    verified,
  }

  async function replace(pod: (typeof pods)[number], round: number, version: Version) {
    const next = await cluster.startRole(pod.kind, `${pod.kind} of round ${round + 1}`, version)
    const service = balanced(pod.kind)
    service?.add(next.url)
    await untilReady(service, next.url)
    pods[pods.indexOf(pod)] = next
    cluster.processes.push(next)

    const heard = sleep(Math.random() * heardAfterMax * pace.preStopMs).then(() => service?.remove(pod.url))
    if (service) await sleep(pace.preStopMs)
    await pod.hold('SIGTERM')
    await heard
  }
}

async function untilReady(endpoints: Endpoints | undefined, url: string) {
  await eventually(() => {
    if (endpoints && !endpoints.isReady(url)) throw new Error(`${url} is not ready`)
  }, readyMsMax)
}

const isTimeout = (warning: string) => /time-?out/i.test(warning)

/**
 * Every write and read that was rejected or failed, and every process that ended by itself, with what the processes said; empty when
 * there is none.
 *
 * @param isBusy on a machine that runs other tests a read may be asked to come again if a store took too long, and for nothing else
 */
export function listRefusals(
  {
    answers,
    reads,
    unexpectedEnds,
    warnings,
  }: Pick<RollingResult, 'answers' | 'reads' | 'unexpectedEnds' | 'warnings'>,
  isBusy = false,
): string[] {
  const isExcused = isBusy && warnings.some(isTimeout)
  const { statuses, refusals, unanswered, unexpected } = answers
  const { 200: _, ...others } = statuses
  const found = [
    ...Object.entries(others).map(([status, count]) => `${count} writes were answered ${status}`),
    ...Object.entries(refusals).map(([said, count]) => `${count} x ${said}`),
    ...Object.entries(unanswered).map(([said, count]) => `${count} writes were not answered: ${said}`),
    ...unexpected,
    ...Object.entries(reads.failures).map(([said, count]) => `${count} reads failed: ${said}`),
    ...unexpectedEnds,
    ...(reads.repeated > 0 && !isExcused ? [`${reads.repeated} reads were asked to come again`] : []),
    ...warnings.filter((it) => it.includes('does not answer') && !isTimeout(it)),
  ]
  return found.length === 0 ? [] : [...found, ...warnings]
}
