import type { Redis } from 'ioredis'
import { askMasters } from './connect.ts'

/** The state of a Redis server, for `svc doctor`. */
export type RedisState = {
  address: string
  version: string
  usedBytes: number
  /** `maxmemory`; 0: no limit. */
  maxBytes: number
  systemBytes: number
  isMaster: boolean
  lastWriteFailed: boolean
  lastRewriteFailed: boolean
  nowMs: number
}

const connectWaitMs = 3_000

/** Reads the state of each master over a separate connection. */
export async function readRedisStates(url: string): Promise<RedisState[]> {
  return await askMasters(url, connectWaitMs, readState)
}

async function readState(redis: Redis): Promise<RedisState> {
  const info = await redis.info()
  const [seconds, micros] = await redis.time()
  const find = (name: string) => new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1]
  return {
    address: `${redis.options.host}:${redis.options.port}`,
    version: find('redis_version') ?? 'unknown',
    usedBytes: Number(find('used_memory') ?? 0),
    maxBytes: Number(find('maxmemory') ?? 0),
    systemBytes: Number(find('total_system_memory') ?? 0),
    isMaster: find('role') !== 'slave',
    lastWriteFailed: find('aof_last_write_status') === 'err',
    lastRewriteFailed: find('aof_last_bgrewrite_status') === 'err',
    nowMs: Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000),
  }
}
