import { Redis } from 'ioredis'

/** What whoever runs Redis has to look after. */
export type RedisState = {
  version: string
  usedBytes: number
  /** 0 where it has no limit of its own. */
  maxBytes: number
  systemBytes: number
  isMaster: boolean
  lastWriteFailed: boolean
  lastRewriteFailed: boolean
  nowMs: number
}

const connectWaitMs = 3_000

/** Asks a Redis once, on a connection of its own. */
export async function readRedisState(url: string): Promise<RedisState> {
  const redis = new Redis(url, {
    lazyConnect: true,
    maxRetriesPerRequest: 0,
    connectTimeout: connectWaitMs,
    retryStrategy: null,
  })
  // `connect` only rejects with "Connection is closed."; why it was closed is told here.
  let reason: Error | undefined
  redis.on('error', (error) => {
    reason = error
  })
  try {
    await redis.connect().catch((error: unknown) => {
      throw reason ?? error
    })
    const info = await redis.info()
    const [seconds, micros] = await redis.time()
    const find = (name: string) => new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1]
    return {
      version: find('redis_version') ?? 'unknown',
      usedBytes: Number(find('used_memory') ?? 0),
      maxBytes: Number(find('maxmemory') ?? 0),
      systemBytes: Number(find('total_system_memory') ?? 0),
      isMaster: find('role') !== 'slave',
      lastWriteFailed: find('aof_last_write_status') === 'err',
      lastRewriteFailed: find('aof_last_bgrewrite_status') === 'err',
      nowMs: Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000),
    }
  } finally {
    redis.disconnect()
  }
}
