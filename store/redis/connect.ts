import { Cluster, Redis, type RedisOptions } from 'ioredis'
import { parseRedisAddress } from './address.ts'

export type RedisConnection = Redis | Cluster

type Options = Pick<
  RedisOptions,
  'commandTimeout' | 'connectTimeout' | 'maxRetriesPerRequest' | 'lazyConnect' | 'keyPrefix' | 'enableOfflineQueue'
> & {
  /** When to try again; null: never. */
  retryAfterMs?: number | null
}

const retryAfterMsDefault = 200

/** Connects to one server, to the master that Sentinels name, or to a cluster. A command on a cluster must stay in one slot. */
export function connectRedis(
  url: string,
  { retryAfterMs = retryAfterMsDefault, ...options }: Options,
): RedisConnection {
  const { kind, nodes, username, password, isTls, database, master, sentinelPassword } = parseRedisAddress(url)
  const retryStrategy = () => retryAfterMs
  const common = {
    ...options,
    ...(username !== undefined && { username }),
    ...(password !== undefined && { password }),
    ...(isTls && { tls: {} }),
  }
  if (kind === 'cluster') {
    const { lazyConnect, keyPrefix, enableOfflineQueue, ...redisOptions } = common
    return new Cluster(nodes, {
      redisOptions,
      clusterRetryStrategy: retryStrategy,
      ...(lazyConnect !== undefined && { lazyConnect }),
      ...(keyPrefix !== undefined && { keyPrefix }),
      ...(enableOfflineQueue !== undefined && { enableOfflineQueue }),
    })
  }
  if (kind === 'single') {
    const [node] = nodes as [(typeof nodes)[0]]
    return new Redis({ ...common, ...node, db: database, retryStrategy })
  }
  return new Redis({
    ...common,
    db: database,
    sentinels: nodes,
    name: master,
    ...(sentinelPassword !== undefined && { sentinelPassword }),
    ...(isTls && { enableTLSForSentinelMode: true, sentinelTLS: {} }),
    retryStrategy,
    sentinelRetryStrategy: retryStrategy,
    // A master that was demoted while we were connected to it: ask the Sentinels again, and send the command again.
    reconnectOnError: (error) => (error.message.startsWith('READONLY') ? 2 : false),
  })
}

export const isCluster = (redis: RedisConnection): redis is Cluster => redis.isCluster

/** The servers that take writes. */
export const listMasters = (redis: RedisConnection): Redis[] => (isCluster(redis) ? redis.nodes('master') : [redis])

/**
 * Runs `ask` on each master over a connection of its own. Masters of a cluster that cannot be reached are left out: the others
 * go on without them.
 *
 * @throws what `ask` throws, or why none could be reached
 */
export async function askMasters<T>(
  url: string,
  connectTimeout: number,
  ask: (master: Redis) => Promise<T>,
): Promise<T[]> {
  const redis = connectRedis(url, { lazyConnect: true, maxRetriesPerRequest: 0, connectTimeout, retryAfterMs: null })
  // `connect` only rejects with "Connection is closed."; this event has the reason.
  let reason: Error | undefined
  redis.on('error', (error) => {
    reason = toCause(error)
  })
  try {
    await redis.connect().catch((error: unknown) => {
      throw reason ?? error
    })
    const masters = listMasters(redis)
    const pings = await Promise.allSettled(masters.map((it) => it.ping()))
    const away = pings.find((it) => it.status === 'rejected')
    const reached = masters.filter((_, at) => pings[at]?.status === 'fulfilled')
    if (reached.length === 0) throw reason ?? away?.reason ?? new Error('there is no master')
    return await Promise.all(reached.map(ask))
  } finally {
    redis.disconnect()
  }
}

/** A cluster's own error says only that it cannot be reached. */
function toCause(error: Error & { lastNodeError?: Error }): Error {
  return error.lastNodeError ?? error
}
