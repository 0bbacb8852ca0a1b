import { Redis } from 'ioredis'
import type { Closers } from '../../../runtime/closers.ts'
import { readMemory } from '../../kit/processes/usage.ts'
import type { SteadyLoad } from '../load/steady-load.ts'
import { countInserted } from '../verify/stored-rows.ts'
import type { Cluster } from './cluster.ts'

/** The state of the service at one moment. Values of a store that is down repeat the previous sample. */
export type Sample = {
  seconds: number
  arrived: number
  acknowledged: number
  stored: number
  queueBlocks: number
  redisBytes: number
}

type Peaks = { queueBlocks: number; redisBytes: number; ingestBytes: number; workerBytes: number }

export type Watch = {
  samples: Sample[]
  peaks: Peaks
  /** Resolves with the first matching sample from now on; with undefined after `msMax`. */
  waitFor(isWanted: (sample: Sample) => boolean, msMax: number): Promise<Sample | undefined>
  stop(): void
}

const everyMs = 500

type Settings = {
  cluster: Cluster
  load: SteadyLoad
  depth(): Promise<number | undefined>
  closers: Closers
  onSample(sample: Sample): void
}

/** Samples twice a second until `stop`. */
export function startWatch({ cluster, load, depth, closers, onSample }: Settings): Watch {
  const redisBytes = openRedisMemory(cluster.stores.urls.redisUrl, closers)
  const samples: Sample[] = []
  const peaks: Peaks = { queueBlocks: 0, redisBytes: 0, ingestBytes: 0, workerBytes: 0 }
  const startedAt = performance.now()
  const waiting = new Set<(sample: Sample) => void>()
  let isLooking = false

  async function look() {
    if (isLooking) return
    isLooking = true
    const last = samples.at(-1)
    const [stored, blocks, bytes, ingestBytes, workerBytes] = await Promise.all([
      countInserted(cluster.clickhouse).catch(() => last?.stored ?? 0),
      depth().then((it) => it ?? last?.queueBlocks ?? 0),
      redisBytes().catch(() => last?.redisBytes ?? 0),
      peakOf('ingest'),
      peakOf('worker'),
    ])
    const sample = {
      seconds: (performance.now() - startedAt) / 1_000,
      arrived: load.arrived(),
      acknowledged: load.acknowledged(),
      stored,
      queueBlocks: blocks,
      redisBytes: bytes,
    }
    samples.push(sample)
    peaks.queueBlocks = Math.max(peaks.queueBlocks, blocks)
    peaks.redisBytes = Math.max(peaks.redisBytes, bytes)
    peaks.ingestBytes = Math.max(peaks.ingestBytes, ingestBytes)
    peaks.workerBytes = Math.max(peaks.workerBytes, workerBytes)
    onSample(sample)
    for (const tell of waiting) tell(sample)
    isLooking = false
  }

  async function peakOf(kind: 'ingest' | 'worker'): Promise<number> {
    const pids = cluster.processes.flatMap((it) => (it.kind === kind ? (it.pid() ?? []) : []))
    const memory = await Promise.all(pids.map(readMemory))
    return Math.max(0, ...memory.map((it) => it?.peak ?? 0))
  }

  const looking = setInterval(() => void look(), everyMs)
  const stop = () => clearInterval(looking)
  closers.push(async () => stop())

  return {
    samples,
    peaks,
    stop,
    waitFor(isWanted, msMax) {
      const { promise, resolve } = Promise.withResolvers<Sample | undefined>()
      const tell = (sample: Sample) => {
        if (isWanted(sample)) resolve(sample)
      }
      waiting.add(tell)
      const timer = setTimeout(() => resolve(undefined), msMax)
      return promise.finally(() => {
        waiting.delete(tell)
        clearTimeout(timer)
      })
    },
  }
}

function openRedisMemory(url: string | undefined, closers: Closers): () => Promise<number> {
  if (url === undefined) return async () => 0
  const redis = new Redis(url, { enableOfflineQueue: false, maxRetriesPerRequest: 0, retryStrategy: () => 500 })
  redis.on('error', () => undefined)
  closers.push(async () => redis.disconnect())
  return async () => Number(/^used_memory:(\d+)/m.exec(await redis.info('memory'))?.[1])
}
