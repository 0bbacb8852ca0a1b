import type { Redis } from 'ioredis'
import { parseRedisAddress } from './address.ts'
import { askMasters, isCluster, listMasters, type RedisConnection } from './connect.ts'
import { toSlot } from './slots.ts'

/** Which settings of Redis make an acknowledged write durable. */

const connectWaitMs = 3_000

/**
 * On how many replicas a block must be before its write is acknowledged. Redis answers before its replicas have a write, so a
 * failover would lose it: one where a replica can take over from its master, else none.
 */
export function defaultReplicas(url: string): number {
  return parseRedisAddress(url).kind === 'single' ? 0 : 1
}

/** Resolves when every master stores writes durably; rejects with what to change. */
export async function checkRedis(url: string, replicas: number): Promise<void> {
  await askMasters(url, connectWaitMs, async (redis) => {
    const info = await redis.info('persistence')
    const memory = await redis.info('memory')
    if (!/aof_enabled:1/.test(info)) {
      throw new Error(
        'Redis keeps nothing on disk: start it with "--appendonly yes", or acknowledged data could be lost.',
      )
    }
    if (!/maxmemory_policy:noeviction/.test(memory)) {
      throw new Error('Redis evicts data when it is full: start it with "--maxmemory-policy noeviction".')
    }
    if (replicas === 0) return
    const connected = Number(/connected_slaves:(\d+)/.exec(await redis.info('replication'))?.[1] ?? 0)
    // Right after a failover the new master may have none: writes are refused until it gets one.
    if (connected < replicas && !(await hadReplicas(redis))) {
      throw new Error(
        `Redis has ${connected} replicas, and a write is acknowledged when ${replicas} have it: give each master replicas, or ` +
          'set SVC_QUEUE_REPLICAS=0, with which a master that is lost takes with it what it acknowledged last.',
      )
    }
  })
}

/** True for a server that was a replica or has had one: both have a replication backlog. */
async function hadReplicas(redis: Redis): Promise<boolean> {
  return /repl_backlog_active:1/.test(await redis.info('replication'))
}

/**
 * What would make Redis more durable; undefined when there is nothing. With `appendfsync everysec`, the default, and a slow
 * disk, Redis acknowledges before it writes: it delays the write for up to two seconds while another fsync runs. A kill in
 * that time loses acknowledged writes (measured: 155 of 317,000 rows in 54 kills on a busy disk; none with `always`).
 */
export async function findRedisWeakness(url: string, replicas: number): Promise<string | undefined> {
  const policies = await askMasters(url, connectWaitMs, async (redis) => {
    // A managed Redis may refuse CONFIG.
    const answer = await redis.config('GET', 'appendfsync').catch(() => [])
    const [, policy] = answer as string[]
    return policy ?? 'unknown'
  })
  const weak = policies.find((it) => it !== 'always')
  if (weak !== undefined) {
    return (
      `Redis runs with "appendfsync ${weak}": should it be killed, it may lose the last two seconds of ` +
      'what was acknowledged. Start it with "--appendfsync always".'
    )
  }
  if (replicas === 0 && parseRedisAddress(url).kind !== 'single') {
    return (
      'Redis has masters that can be replaced, and SVC_QUEUE_REPLICAS is 0: a replica that takes over knows nothing of ' +
      'what its master acknowledged last. Set SVC_QUEUE_REPLICAS=1.'
    )
  }
  return undefined
}

/**
 * Resolves when what was written to the master of `key` over this connection is on so many replicas.
 *
 * @throws Error when they do not have it in time: it may be lost with its master
 */
export async function waitForReplicas(
  redis: RedisConnection,
  key: string,
  replicas: number,
  waitMs: number,
): Promise<void> {
  if (replicas === 0) return
  const master = isCluster(redis) ? findMaster(redis, key) : redis
  const reached = master ? await master.wait(replicas, waitMs) : 0
  if (reached < replicas) throw new Error(`the write is on ${reached} replicas of Redis, not on ${replicas}`)
}

function findMaster(redis: RedisConnection, key: string): Redis | undefined {
  if (!isCluster(redis)) return redis
  const [address] = redis.slots[toSlot(key)] ?? []
  return listMasters(redis).find(({ options }) => `${options.host}:${options.port}` === address)
}

/**
 * The share of its memory limit that Redis uses; with several masters, that of the fullest one that answers. Without a
 * `maxmemory`, the limit is the machine's memory.
 */
export async function readMemoryShare(redis: RedisConnection): Promise<number> {
  const shares = listMasters(redis).map(async (master) => {
    const info = await master.info('memory')
    const figure = (name: string) => Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(info)?.[1] ?? 0)
    const usable = figure('maxmemory') || figure('total_system_memory')
    return usable === 0 ? 0 : figure('used_memory') / usable
  })
  const known = (await Promise.allSettled(shares)).filter((it) => it.status === 'fulfilled')
  if (known.length === 0) await shares[0]
  return Math.max(0, ...known.map((it) => it.value))
}
