import { openClickHouse } from '../store/clickhouse/connection.ts'
import { type Closers, createClosers } from '../store/closers.ts'
import { dataSet } from './curves.ts'
import { createExperiments } from './experiments.ts'
import type { LoadReport } from './load-messages.ts'
import { startLoadProcess } from './processes.ts'
import { pointsInPool } from './requests.ts'
import type { QueueKind, Scenario } from './scenarios.ts'
import { forgetPoints, measureBytesPerPoint, waitUntilQuiet, waitUntilStored } from './stored-points.ts'
import type { BenchStores } from './stores.ts'
import { startSystem } from './system.ts'
import { type Acknowledged, verifyStored } from './verify.ts'

export type Round = {
  points: number
  /** From the first request to when all its points could be read. */
  seconds: number
  pointsPerSecond: number
  p50Ms: number
  p99Ms: number
  /** Microseconds of CPU for each point, by process; absent where CPU time cannot be told. */
  cpuMicros?: Record<string, number>
  unclearPoints: number
}

export type Measured = {
  scenario: string
  queue: QueueKind | 'none'
  rounds: Round[]
  bytesPerPoint?: number
  verified?: { points: number; pointsReadOverHttp: number }
  faults: Record<string, number>
}

type Settings = {
  scenario: Scenario
  queue: QueueKind | 'none'
  stores: BenchStores
  rounds: number
  seconds: number
  profileFolder: string | undefined
  /** What is started is put here too, so that an interrupted bench leaves nothing running. */
  closersOfBench: Closers
  progress(text: string): void
}

const warmUpSecondsMax = 2

/** Runs one scenario on one queue: warm-up, rounds, and then the comparison of what is stored with what was acknowledged. */
export async function measure(settings: Settings): Promise<Measured> {
  const { scenario, queue, stores, rounds, seconds, profileFolder, progress } = settings
  const closers = createClosers()
  settings.closersOfBench.push(() => closers.closeAll())
  try {
    progress('starting')
    const clickhouse = openClickHouse({ url: stores.urls.clickhouseUrl, readTimeoutMs: 300_000 })
    closers.push(() => clickhouse.close())
    await forgetPoints(clickhouse)
    const isStoring = scenario.target !== 'bareRoute'

    const warmUpSeconds = Math.min(warmUpSecondsMax, seconds)
    const pointsMax = scenario.pointsPerSecondMax * (warmUpSeconds + rounds * seconds)
    const passes = Math.max(rounds + 1, Math.ceil(pointsMax / pointsInPool(scenario.shape)))
    const makers = createClosers()
    closers.push(() => makers.closeAll())
    const maker = await startSystem({ target: 'rawInserts', queue, stores, closers: makers, profileFolder: undefined })
    const experiments = await createExperiments(maker.readUrl, stores, passes * dataSet.experiments)
    await makers.closeAll()

    const system = await startSystem({ target: scenario.target, queue, stores, closers, profileFolder })
    const load = startLoadProcess()
    closers.push(() => load.close())
    progress('preparing requests')
    await load.prepare(
      scenario.target === 'rawInserts'
        ? { kind: 'prepareRaw', clickhouseUrl: stores.urls.clickhouseUrl, experimentIds: experiments.ids }
        : {
            kind: 'prepareHttp',
            url: system.writeUrl,
            apiKey: stores.apiKey,
            shape: scenario.shape,
            connections: scenario.connections,
            experimentKeys: experiments.keys,
          },
    )

    const acknowledged: Acknowledged = { perExperiment: [], unclearPoints: 0 }
    const measured: Measured = { scenario: scenario.name, queue, rounds: [], faults: {} }

    async function runRound(roundSeconds: number): Promise<Round> {
      const cpuBefore = await system.readCpu()
      const startedAt = performance.now()
      const report = await load.run(roundSeconds)
      for (const [experiment, points] of report.acknowledged.entries()) {
        acknowledged.perExperiment[experiment] = (acknowledged.perExperiment[experiment] ?? 0) + points
      }
      acknowledged.unclearPoints += report.unclearPoints
      for (const [what, count] of Object.entries(report.faults))
        measured.faults[what] = (measured.faults[what] ?? 0) + count
      if (isStoring) await waitUntilStored(clickhouse, sum(acknowledged.perExperiment))
      // The raw load makes its blocks in `run`, before its own clock starts.
      const wallSeconds = scenario.target === 'rawInserts' ? report.seconds : (performance.now() - startedAt) / 1_000
      return toRound(report, wallSeconds, cpuBefore, await system.readCpu())
    }

    progress('warming up')
    await runRound(warmUpSeconds)
    for (let round = 1; round <= rounds; round++) {
      progress(`round ${round} of ${rounds}`)
      measured.rounds.push(await runRound(seconds))
    }
    if (!isStoring) return measured

    progress('verifying')
    await waitUntilQuiet(clickhouse)
    measured.verified = await verifyStored({
      readUrl: system.readUrl,
      apiKey: stores.apiKey,
      clickhouse,
      experiments,
      acknowledged,
    })
    measured.bytesPerPoint = await measureBytesPerPoint(clickhouse)
    return measured
  } finally {
    await closers.closeAll()
  }
}

type Cpu = Record<string, number> | undefined

function toRound(report: LoadReport, seconds: number, cpuBefore: Cpu, cpuAfter: Cpu): Round {
  const points = sum(report.acknowledged)
  const { p50Ms, p99Ms, unclearPoints } = report
  const round = { points, seconds, pointsPerSecond: points / seconds, p50Ms, p99Ms, unclearPoints }
  if (!cpuBefore || !cpuAfter) return round
  const cpuMicros = Object.entries(cpuAfter).map(([name, total]) => [
    name,
    ((total - (cpuBefore[name] ?? 0)) * 1e6) / points,
  ])
  return { ...round, cpuMicros: Object.fromEntries(cpuMicros) }
}

function sum(values: number[]): number {
  return values.reduce((total, it) => total + (it ?? 0), 0)
}
