import type { Closers } from '../../../runtime/closers.ts'
import { type StatusLine, toText } from '../../kit/command-line/status-line.ts'
import type { QueueKind } from '../../kit/service.ts'
import { startCluster } from '../cluster/cluster.ts'
import { createKiller } from '../cluster/killer.ts'
import { runClients } from '../load/clients.ts'
import { createTally } from '../load/tally.ts'
import { createLedger } from '../verify/ledger.ts'
import { verify, waitUntilEmpty } from '../verify/verification.ts'

type FaultsOptions = { kills: number; seed: number; queue: QueueKind; minutesMax: number }

type Settings = FaultsOptions & { closers: Closers; status: StatusLine; signal: AbortSignal }

export type FaultsResult = Awaited<ReturnType<typeof runFaults>>

const clients = 20
const experimentCount = 10
/** Jobs of workers killed at the end are taken over within 10 s. */
const emptyMsMax = 180_000

/** Kills processes while clients write, then compares the stored rows with the acknowledged ones. */
export async function runFaults({ kills, seed, queue, minutesMax, closers, status, signal }: Settings) {
  status.say(`Seed ${seed}, queue in ${queue}: starting stores and roles in a temporary folder`)
  const cluster = await startCluster({ queue, closers })
  const { stores } = cluster
  const experiments = await cluster.createExperiments(experimentCount)
  const depth = await cluster.openQueueDepth()
  const [ledger, tally] = [createLedger(experiments.length), createTally()]
  const roles = cluster.processes.filter(({ kind }) => kind === 'ingest' || kind === 'worker')
  const queueStore = stores.redis ?? stores.postgres

  const startedAt = performance.now()
  const { apiKey, ingestUrls } = cluster
  const load = runClients({ clients, seed, ingestUrls, apiKey, experiments, ledger, tally })
  const killer = createKiller({
    seed,
    kills,
    victims: [...roles, stores.clickhouse, queueStore],
    deadline: startedAt + minutesMax * 60_000,
    signal,
  })
  const showing = setInterval(() => {
    const { points, lines } = ledger.counts()
    const seconds = (performance.now() - startedAt) / 1_000
    status.show(
      `${toText(seconds)} s  ${killer.killed.inAll} of ${kills} kills  ${toText(points + lines)} rows acknowledged`,
    )
  }, 1_000)
  closers.push(async () => clearInterval(showing))

  await killer.run()
  signal.throwIfAborted()
  await load.finish()
  clearInterval(showing)
  const seconds = (performance.now() - startedAt) / 1_000
  status.say(`${killer.killed.inAll} kills in ${toText(seconds)} s; waiting until the queue is empty`)
  await waitUntilEmpty(depth, emptyMsMax)
  const verified = await verify(
    cluster,
    experiments,
    (experiment) => ledger.page(experiment),
    (share) => status.show(`comparing: ${toText(share * 100)} %`),
  )
  return {
    seed,
    queue,
    seconds,
    killed: killer.killed,
    acknowledged: ledger.counts(),
    answers: tally.report(),
    verified,
    restarts: slowestRestarts(),
    unexpectedEnds: cluster.processes.flatMap((it) => it.unexpectedEnds()),
  }

  function slowestRestarts(): Record<string, number> {
    const slowest: Record<string, number> = {}
    for (const it of cluster.processes) slowest[it.kind] = Math.max(slowest[it.kind] ?? 0, it.slowestRestartMs())
    return slowest
  }
}
