import { Cluster, Redis, type RedisOptions } from 'ioredis'
import { parseRedisAddress } from './address.ts'

export type RedisConnection = Redis | Cluster

type Options = Pick<
  RedisOptions,
  'commandTimeout' | 'connectTimeout' | 'maxRetriesPerRequest' | 'lazyConnect' | 'keyPrefix' | 'enableOfflineQueue'
> & {
  /** The delay before a reconnect; null: no reconnect. */
  retryAfterMs?: number | null
}

const retryAfterMsDefault = 200

/** Connects to a server, to the master behind Sentinels, or to a cluster. A command on a cluster must use keys of one slot. */
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
    // READONLY means that our master was demoted: ask the Sentinels again, and repeat the command.
    reconnectOnError: (error) => (error.message.startsWith('READONLY') ? 2 : false),
  })
}

export const isCluster = (redis: RedisConnection): redis is Cluster => redis.isCluster

/** The servers that accept writes. */
export const listMasters = (redis: RedisConnection): Redis[] => (isCluster(redis) ? redis.nodes('master') : [redis])

/**
 * Runs `ask` on each master over a separate connection. Skips unreachable masters of a cluster, because the others still work.
 *
 * @throws the error of `ask`, or the reason why no master is reachable
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
    const failed = pings.find((it) => it.status === 'rejected')
    const reached = masters.filter((_, at) => pings[at]?.status === 'fulfilled')
    if (reached.length === 0) throw reason ?? failed?.reason ?? new Error('there is no master')
    return await Promise.all(reached.map(ask))
  } finally {
    redis.disconnect()
  }
}

/** The error of a cluster only says that it is unreachable; this one has the reason. */
function toCause(error: Error & { lastNodeError?: Error }): Error {
  return error.lastNodeError ?? error
}
