import type { Redis } from 'ioredis'
import { parseRedisAddress } from './address.ts'
import { askMasters, isCluster, listMasters, type RedisConnection } from './connect.ts'
import { toSlot } from './slots.ts'

/** Checks the settings of Redis that make an acknowledged write durable. */

const connectWaitMs = 3_000

/**
 * The number of replicas that must have a block before its write is acknowledged. Redis answers before its replicas have the
 * write, so a failover could lose it. Therefore 1 if a replica can take over, else 0.
 */
export function defaultReplicas(url: string): number {
  return parseRedisAddress(url).kind === 'single' ? 0 : 1
}

/** Checks that every master stores writes durably; rejects with advice. */
export async function checkRedis(url: string, replicas: number): Promise<void> {
  await askMasters(url, connectWaitMs, async (redis) => {
    const info = await redis.info('persistence')
    const memory = await redis.info('memory')
    if (!/aof_enabled:1/.test(info)) {
      throw new Error(
        'Redis keeps nothing on disk, so acknowledged writes can be lost. Start it with "--appendonly yes".',
      )
    }
    if (!/maxmemory_policy:noeviction/.test(memory)) {
      throw new Error('Redis evicts data when it is full. Start it with "--maxmemory-policy noeviction".')
    }
    if (replicas === 0) return
    const connected = Number(/connected_slaves:(\d+)/.exec(await redis.info('replication'))?.[1] ?? 0)
    // Right after a failover the new master may have no replica yet: writes are refused until it has one.
    if (connected < replicas && !(await hadReplicas(redis))) {
      throw new Error(
        `A Redis master has ${connected} replicas, but SVC_QUEUE_REPLICAS requires ${replicas}. Add replicas, or set ` +
          'SVC_QUEUE_REPLICAS=0: then a failover can lose the last acknowledged writes.',
      )
    }
  })
}

/** True if the server was a replica or had one: then it has a replication backlog. */
async function hadReplicas(redis: Redis): Promise<boolean> {
  return /repl_backlog_active:1/.test(await redis.info('replication'))
}

/**
 * Advice to make Redis more durable, or undefined. With `appendfsync everysec`, the default, and a slow
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
      `Redis runs with "appendfsync ${weak}": a kill may lose acknowledged writes of the last two seconds. ` +
      'Start it with "--appendfsync always".'
    )
  }
  if (replicas === 0 && parseRedisAddress(url).kind !== 'single') {
    return (
      'Redis has replicas that can take over, and SVC_QUEUE_REPLICAS is 0: a failover can lose the last acknowledged ' +
      'writes. Set SVC_QUEUE_REPLICAS=1.'
    )
  }
  return undefined
}

/**
 * Resolves when `replicas` replicas have the writes of this connection to the master of `key`.
 *
 * @throws Error when they do not have them in time: a failover may lose the writes
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
 * The memory limit of Redis and the used share of it; with several masters, of the fullest one that answers. Without `maxmemory` the
 * limit is the memory of the machine.
 */
export async function readMemory(redis: RedisConnection): Promise<{ share: number; max: number }> {
  const shares = listMasters(redis).map(async (master) => {
    const info = await master.info('memory')
    const read = (name: string) => Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(info)?.[1] ?? 0)
    const usable = read('maxmemory') || read('total_system_memory')
    return { share: usable === 0 ? 0 : read('used_memory') / usable, max: usable }
  })
  const known = (await Promise.allSettled(shares)).filter((it) => it.status === 'fulfilled')
  if (known.length === 0) await shares[0]
  return known
    .map((it) => it.value)
    .reduce((one, other) => (other.share > one.share ? other : one), { share: 0, max: 0 })
}
