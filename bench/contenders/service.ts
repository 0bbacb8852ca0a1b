import { type Closers, createClosers } from '../../runtime/closers.ts'
import { openClickHouse } from '../../store/clickhouse/connection.ts'
import type { DataSet } from '../../test/kit/curves.ts'
import { createExperiments } from '../load/experiments.ts'
import { pointsInPool } from '../load/requests.ts'
import { startLoadProcess } from '../load/start-load-process.ts'
import { type Contender, toRound, total } from './contender.ts'
import type { QueueKind, Scenario } from './scenarios.ts'
import { forgetPoints, measureBytesPerPoint, waitUntilQuiet, waitUntilStored } from './stored-points.ts'
import type { BenchStores } from './stores.ts'
import { startSystem } from './system.ts'
import { type Acknowledged, verifyStored } from './verify.ts'

type Settings = {
  scenario: Scenario
  queue: QueueKind | 'none'
  stores: BenchStores
  /** How long the prepared load must last. */
  secondsInAll: number
  roundsInAll: number
  profileFolder: string | undefined
  closers: Closers
  progress(text: string): void
}

export type ServiceContender = Contender & {
  /** Sends at a fixed rate. */
  runPaced(seconds: number, pointsPerSecond: number): ReturnType<Contender['runRound']>
  writeUrl: string
  readUrl: string
}

/** Starts our service or a baseline in one scenario on one queue. Deletes all points first. */
export async function openService(settings: Settings): Promise<ServiceContender> {
  const { scenario, queue, stores, secondsInAll, roundsInAll, profileFolder, closers, progress } = settings
  progress('starting')
  const clickhouse = openClickHouse({ url: stores.urls.clickhouseUrl, readTimeoutMs: 300_000 })
  closers.push(() => clickhouse.close())
  await forgetPoints(clickhouse)
  const isStoring = scenario.target !== 'bareRoute'

  const { data, passes } = toData(scenario, secondsInAll, roundsInAll)
  const makers = createClosers()
  closers.push(() => makers.closeAll())
  const maker = await startSystem({ target: 'rawInserts', queue, stores, closers: makers, profileFolder: undefined })
  const experiments = await createExperiments(maker.readUrl, stores, passes * data.experiments)
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
          dialect: scenario.dialect ?? 'service',
          url: system.writeUrl,
          apiKey: stores.apiKey,
          shape: scenario.shape,
          data,
          connections: scenario.connections,
          experimentKeys: experiments.keys,
        },
  )

  const acknowledged: Acknowledged = { perExperiment: [], unclearPoints: 0 }
  const errors: Record<string, number> = {}

  async function run(seconds: number, pointsPerSecond?: number) {
    const cpuBefore = await system.readCpu()
    const startedAt = performance.now()
    const report = await load.run(seconds, pointsPerSecond)
    for (const [experiment, points] of report.acknowledged.entries()) {
      acknowledged.perExperiment[experiment] = (acknowledged.perExperiment[experiment] ?? 0) + points
    }
    acknowledged.unclearPoints += report.unclearPoints
    for (const [what, count] of Object.entries(report.errors)) errors[what] = (errors[what] ?? 0) + count
    if (isStoring) await waitUntilStored(clickhouse, total(acknowledged.perExperiment))
    const wallSeconds = (performance.now() - startedAt) / 1_000 - report.preparingSeconds
    return toRound(report, wallSeconds, cpuBefore, await system.readCpu())
  }

  return {
    about: { scenario: scenario.name, queue, ...(await describe(stores, scenario, queue)) },
    errors,
    writeUrl: system.writeUrl,
    readUrl: system.readUrl,
    readCpu: system.readCpu,
    runRound: (seconds) => run(seconds),
    runPaced: run,
    async finish() {
      const peakMiB = await system.readPeakMiB()
      const peaks = peakMiB && { peakMiB }
      if (!isStoring) return { ...peaks }
      await waitUntilQuiet(clickhouse)
      const { readUrl } = system
      const { apiKey } = stores
      const verified = await verifyStored({ readUrl, apiKey, clickhouse, experiments, data, acknowledged })
      return { ...peaks, verified, bytesPerPoint: await measureBytesPerPoint(clickhouse) }
    },
  }
}

/** How much load to prepare: passes over new experiments, or more steps of the same ones. */
export function toData(
  { data, shape, pointsPerSecondMax, keepsExperiments }: Scenario,
  secondsInAll: number,
  roundsInAll: number,
): { data: DataSet; passes: number } {
  const pointsMax = pointsPerSecondMax * secondsInAll
  if (!keepsExperiments) return { data, passes: Math.max(roundsInAll, Math.ceil(pointsMax / pointsInPool(data))) }
  const stepsAtOnce = shape.kind === 'single' ? 1 : shape.stepsPerRequest
  const parts = Math.max(roundsInAll, Math.ceil(pointsMax / (data.experiments * data.metrics * stepsAtOnce)))
  return { data: { ...data, steps: parts * stepsAtOnce }, passes: 1 }
}

async function describe(stores: BenchStores, { target }: Scenario, queue: QueueKind | 'none') {
  if (target === 'bareRoute') return { durability: 'nothing is kept', versions: `Node ${process.version}` }
  const { clickhouse, postgres, redis } = await stores.describe()
  const versions = [`Node ${process.version}`, clickhouse, ...(queue === 'postgres' ? [postgres] : [])]
  const inQueue =
    queue === 'redis' ? [`Redis AOF fsync ${redis?.appendFsync}`] : queue === 'none' ? [] : ['Postgres fsync']
  return {
    durability: [...inQueue, 'ClickHouse fsync'].join(', '),
    versions: [...versions, ...(queue === 'redis' ? [redis?.version] : [])].join(', '),
  }
}
