import { type Costs, type ProcessName, processNames, scenarioNames } from './costs.ts'

/** Assumptions about a training cluster, its machines and their prices. Each is an option of `npm run capacity`. */
export type Assumptions = {
  /** Average points/s per GPU: its share of the run's metrics, and its resource usage. */
  pointsPerGpu: number
  /** The peak rate as a multiple of the average. */
  peakFactor: number
  /** The shares of request formats; the rest is columns, as the Python client sends them. */
  singleShare: number
  rowsShare: number
  retentionDays: number
  /** The maximum CPU utilization at the peak. */
  busyMax: number
  outageHours: number
  /** Memory in Redis per queued point: measured by `npm run outage` with single points; batches need less. */
  bytesPerWaitingPoint: number
  clickhouseReplicas: number
  /** Cores of a ClickHouse server, and memory per core. */
  clickhouseCores: number
  clickhouseGiBPerCore: number
  /** A server gets one more core per this many GiB of data, for merges and reads; and the maximum of data per server. */
  dataGiBPerCore: number
  dataGiBPerServer: number
  /** Disk space as a multiple of the data: merges write before they delete. */
  diskFactor: number
  pricePerCore: number
  pricePerGiBMemory: number
  pricePerGiBDisk: number
}

/**
 * Prices are rounded typical prices of public clouds in US dollars per month, without a commitment. Override them with
 * yours.
 */
export const assumptions: Assumptions = {
  pointsPerGpu: 10,
  peakFactor: 3,
  singleShare: 0.05,
  rowsShare: 0.15,
  retentionDays: 90,
  busyMax: 0.5,
  outageHours: 1,
  bytesPerWaitingPoint: 29,
  clickhouseReplicas: 3,
  clickhouseCores: 16,
  clickhouseGiBPerCore: 4,
  dataGiBPerCore: 512,
  dataGiBPerServer: 8_192,
  diskFactor: 1.5,
  pricePerCore: 25,
  pricePerGiBMemory: 3,
  pricePerGiBDisk: 0.1,
}

type Part = { name: string; processes: number; cores: number; memoryGiB: number; diskGiB: number }

export type Plan = {
  gpus: number
  pointsPerSecond: number
  peakPerSecond: number
  bytesPerDay: number
  clickhouseShards: number
  redisMasters: number
  redisMemoryGiB: number
  parts: Part[]
  dollarsPerMonth: number
  /** The capacity of one instance of each component at the peak, the smallest first. */
  limits: Limit[]
}

type Limit = { what: string; pointsPerSecond: number; share: number }

/** At least two of each role that answers requests or takes jobs, so that one can be restarted. */
const processesLeast = 2
/** Node runs JavaScript on one thread, and Redis runs commands on one. */
const coresOfProcess = 1
const gib = 2 ** 30
/** For its files and its log, which is copied while it is rewritten. */
const redisDiskPerMemory = 3
/** Reads and Postgres do not grow with points. Not measured: a starting point to monitor. */
const fixed = {
  api: { cores: 2, memoryGiB: 1 },
  postgres: { cores: 4, memoryGiB: 16, diskGiB: 100 },
} as const

/** µs of each process per point, for a mix of request formats. */
export function mixCosts({ cpuMicros }: Costs, { singleShare, rowsShare }: Assumptions): Record<ProcessName, number> {
  const shares = { single: singleShare, rows: rowsShare, columns: 1 - singleShare - rowsShare }
  const ofProcess = (name: ProcessName) =>
    scenarioNames.reduce((sum, scenario) => sum + shares[scenario] * cpuMicros[scenario][name], 0)
  return Object.fromEntries(processNames.map((it) => [it, ofProcess(it)])) as Record<ProcessName, number>
}

/** What so many GPUs need. */
export function planCapacity(gpus: number, costs: Costs, assumed: Assumptions): Plan {
  const micros = mixCosts(costs, assumed)
  const pointsPerSecond = gpus * assumed.pointsPerGpu
  const peakPerSecond = pointsPerSecond * assumed.peakFactor
  const coresOf = (name: ProcessName) => (peakPerSecond * micros[name]) / 1e6 / assumed.busyMax
  const processesOf = (name: ProcessName, least: number) => Math.max(least, Math.ceil(coresOf(name) / coresOfProcess))

  const bytesPerDay = pointsPerSecond * 86_400 * costs.bytesPerPoint
  const ingests = processesOf('ingest', processesLeast)
  const workers = processesOf('worker', processesLeast)
  const redisMasters = processesOf('redis', 1)
  // Writes are rejected while more than three quarters of its memory are used.
  const waiting = peakPerSecond * 3_600 * assumed.outageHours * assumed.bytesPerWaitingPoint
  const redisMemoryGiB = waiting / 0.75 / gib + 0.25 * redisMasters
  const { clickhouseReplicas: replicas, clickhouseCores, clickhouseGiBPerCore } = assumed
  const data = (bytesPerDay * assumed.retentionDays) / gib
  const clickhouseBusy = coresOf('clickhouse') + data / assumed.dataGiBPerCore
  const clickhouseShards = Math.max(
    1,
    Math.ceil(clickhouseBusy / clickhouseCores),
    Math.ceil(data / assumed.dataGiBPerServer),
  )
  // Small clusters take small servers.
  const coresOfServer =
    clickhouseShards > 1 ? clickhouseCores : Math.min(clickhouseCores, evenAtLeast(clickhouseBusy + 2))
  const servers = clickhouseShards * replicas
  const parts: Part[] = [
    {
      name: 'ingest',
      processes: ingests,
      cores: ingests,
      memoryGiB: (ingests * costs.ingestMiB * 1.5) / 1024,
      diskGiB: 0,
    },
    {
      name: 'worker',
      processes: workers,
      cores: workers,
      memoryGiB: (workers * costs.workerMiB * 1.5) / 1024,
      diskGiB: 0,
    },
    {
      name: 'api',
      processes: processesLeast,
      cores: processesLeast * fixed.api.cores,
      memoryGiB: processesLeast * fixed.api.memoryGiB,
      diskGiB: 0,
    },
    {
      name: 'ClickHouse',
      processes: servers,
      cores: servers * coresOfServer,
      memoryGiB: servers * coresOfServer * clickhouseGiBPerCore,
      diskGiB: data * assumed.diskFactor * replicas,
    },
    {
      name: 'Redis, each with a replica',
      processes: redisMasters * 2,
      cores: redisMasters * 2 * 2,
      memoryGiB: redisMemoryGiB * 2,
      diskGiB: redisMemoryGiB * 2 * redisDiskPerMemory,
    },
    {
      name: 'Postgres, with a standby',
      processes: 2,
      cores: 2 * fixed.postgres.cores,
      memoryGiB: 2 * fixed.postgres.memoryGiB,
      diskGiB: 2 * fixed.postgres.diskGiB,
    },
  ]
  const dollarsPerMonth = parts.reduce(
    (sum, it) =>
      sum +
      it.cores * assumed.pricePerCore +
      it.memoryGiB * assumed.pricePerGiBMemory +
      it.diskGiB * assumed.pricePerGiBDisk,
    0,
  )
  return {
    gpus,
    pointsPerSecond,
    peakPerSecond,
    bytesPerDay,
    clickhouseShards,
    redisMasters,
    redisMemoryGiB,
    parts,
    dollarsPerMonth,
    limits: findLimits(micros, assumed, peakPerSecond),
  }
}

/** The capacity of one instance of each component at maximum utilization, and the share of it that the peak uses. */
function findLimits(micros: Record<ProcessName, number>, assumed: Assumptions, peakPerSecond: number): Limit[] {
  const limit = (what: string, name: ProcessName, cores: number): Limit => {
    const pointsPerSecond = (cores * assumed.busyMax * 1e6) / micros[name]
    return { what, pointsPerSecond, share: peakPerSecond / pointsPerSecond }
  }
  return [
    limit('an ingest process', 'ingest', coresOfProcess),
    limit('a worker process', 'worker', coresOfProcess),
    limit('a Redis master', 'redis', coresOfProcess),
    limit(`a ClickHouse shard of ${assumed.clickhouseCores} cores`, 'clickhouse', assumed.clickhouseCores),
    limit(`Postgres with ${fixed.postgres.cores} cores`, 'postgres', fixed.postgres.cores),
  ].toSorted((a, b) => a.pointsPerSecond - b.pointsPerSecond)
}

const evenAtLeast = (cores: number) => Math.max(2, Math.ceil(cores / 2) * 2)
