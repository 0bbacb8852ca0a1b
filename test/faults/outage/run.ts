import { setTimeout as sleep } from 'node:timers/promises'
import type { Closers } from '../../../runtime/closers.ts'
import { type StatusLine, toText } from '../../kit/command-line/status-line.ts'
import type { QueueKind } from '../../kit/service.ts'
import { startCluster } from '../cluster/cluster.ts'
import { type OutageName, outages } from '../cluster/outages.ts'
import { type Sample, startWatch } from '../cluster/watch.ts'
import { runSteadyLoad } from '../load/steady-load.ts'
import { listDifferences, verify, waitUntilEmpty } from '../verify/verification.ts'

type OutageOptions = {
  store: OutageName
  minutes: number
  /** Points a second. */
  rate: number
  /** Points in a request. */
  batch: number
  queue: QueueKind
  clients?: number
  /** Environment of the roles. */
  settings?: Record<string, string>
}

type Settings = OutageOptions & { closers: Closers; status: StatusLine; signal: AbortSignal }

export type OutageResult = Awaited<ReturnType<typeof runOutage>>

const clientsMin = 50
/** A client with a higher rate would be limited by waiting for its answers. */
const requestsASecondMax = 50
const calmSecondsMax = 20
const drainMsMin = 180_000
const emptyMsMax = 300_000

/** Runs a steady load during an outage and its recovery, then compares the stored rows with the acknowledged ones. */
export async function runOutage(options: Settings) {
  const { store, minutes, rate, batch, queue, settings, closers, status, signal } = options
  const outage = outages[store]
  const awayMs = minutes * 60_000
  const calmMs = Math.min(calmSecondsMax * 1_000, Math.max(3_000, awayMs / 4))
  const clients = options.clients ?? Math.max(clientsMin, Math.ceil(rate / batch / requestsASecondMax))

  status.say(`Queue in ${queue}: starting stores and roles in a temporary folder`)
  const diskBytes = store === 'disk' ? toDiskBytes((rate * (awayMs * 2 + calmMs * 3)) / 1_000) : undefined
  const cluster = await startCluster({ queue, closers, diskBytes, settings })
  const experiments = await cluster.createExperiments(clients)
  const depth = await cluster.openQueueDepth()
  const { apiKey, ingestUrls } = cluster
  const load = runSteadyLoad({ rate, batch, ingestUrls, apiKey, experiments })
  let doing = 'before'
  const watch = startWatch({
    cluster,
    load,
    depth,
    closers,
    onSample: (it) =>
      status.show(
        `${toText(it.seconds)} s  ${doing}  ${toText(it.acknowledged)} acknowledged  ${toText(it.stored)} stored  ` +
          `${toText(it.queueBlocks)} blocks in the queue`,
      ),
  })

  await pause(calmMs)
  // The usual lag; less than a second of arrival cannot be told from none.
  const lagMax = Math.max(rate, ...watch.samples.slice(watch.samples.length / 2).map(lagOf))

  doing = 'away'
  load.enter('away')
  status.say(`${outage.about}, for ${toText(awayMs / 1_000)} s`)
  await outage.begin(cluster)
  const awayAt = performance.now()
  while (performance.now() < awayAt + awayMs) {
    await pause(Math.min(1_000, awayAt + awayMs - performance.now()))
    await outage.keepAway?.(cluster)
  }

  doing = 'after'
  const wantedAt = performance.now()
  await outage.end(cluster)
  load.enter('after')
  const backAt = performance.now()
  status.say(`back in service after ${toText((backAt - wantedAt) / 1_000, 1)} s; the load goes on`)
  const drain = await watchDrain()
  await pause(calmMs)
  await load.finish()
  watch.stop()

  status.say('waiting until the queue is empty')
  await waitUntilEmpty(depth, emptyMsMax)
  const verified = await verify(
    cluster,
    experiments,
    (client) => load.expected(client),
    (share) => status.show(`comparing: ${toText(share * 100)} %`),
  )
  return {
    store,
    minutes,
    rate,
    batch,
    queue,
    clients,
    acknowledged: load.acknowledged(),
    byPhase: load.report(),
    peaks: watch.peaks,
    secondsToServe: (backAt - wantedAt) / 1_000,
    drain,
    verified,
    unexpectedEnds: cluster.processes.flatMap((it) => it.unexpectedEnds()),
    samples: watch.samples,
  }

  async function pause(ms: number) {
    await sleep(ms, undefined, { signal })
  }

  /** Measures from the first stored rows until the lag is as usual, while the load continues. */
  async function watchDrain() {
    const before = watch.samples.at(-1) as Sample
    const backlog = lagOf(before)
    const first = await watch.waitFor((it) => it.stored > before.stored, drainMsMin)
    const start = watch.samples.at(watch.samples.indexOf(first as Sample) - 1) ?? before
    const end = await watch.waitFor((it) => lagOf(it) <= lagMax, drainMsMin + 2 * awayMs)
    if (!first || !end)
      return { backlog, pointsPerSecond: 0, ratio: 0, secondsToFirst: Infinity, secondsToNormal: Infinity }
    const pointsPerSecond = (end.stored - start.stored) / (end.seconds - start.seconds)
    return {
      backlog,
      pointsPerSecond,
      ratio: pointsPerSecond / rate,
      secondsToFirst: first.seconds - before.seconds,
      secondsToNormal: end.seconds - before.seconds,
    }
  }
}

/** Points that have arrived and cannot be read yet. */
function lagOf({ arrived, stored }: Sample): number {
  return arrived - stored
}

/** Room for the points and their merges. A full disk occupies that much memory. */
function toDiskBytes(points: number): number {
  return Math.round(128 * 2 ** 20 + points * 50)
}

/** Why a run has failed; empty when it has not. */
export function listOutageFaults(
  { store, verified, byPhase, drain }: OutageResult,
  { withSpeed = true } = {},
): string[] {
  const least = outages[store].drainRatioMin ?? 0
  const isSlow = withSpeed && drain.ratio < least
  return [
    ...listDifferences(
      verified,
      byPhase.flatMap((it) => it.unexpected),
    ),
    ...(isSlow ? [`the backlog drained at ${toText(drain.ratio, 1)} times the arrival; ${least} is the least`] : []),
  ]
}
