import { connectRedis, type RedisConnection } from './connect.ts'

/**
 * Token buckets shared by several processes. A process takes tokens in bulk and spends them in memory, so a point needs no
 * request to Redis.
 */
type Grant = {
  granted: number
  /** Tokens left; negative after a request larger than the bucket. */
  remaining: number
}

export type SharedBuckets = {
  /**
   * Takes up to `want` tokens if there are at least `need`, else none. A bucket holds the tokens of a minute. A full bucket
   * also grants a larger `need`, becomes negative, and refills before the next grant.
   *
   * Rejects while Redis is down.
   */
  take(id: string, perMinute: number, need: number, want: number): Promise<Grant>
  close(): Promise<void>
}

/** After this time the caller goes on without the answer. */
const answerWaitMs = 500

/**
 * KEYS[1]: the bucket. ARGV: tokens a minute, need, want. Uses the clock of Redis, which all processes share. A bucket expires
 * when it would be full again.
 */
const takeScript = `
local perMinute, need, want = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local nowMs = time[1] * 1000 + math.floor(time[2] / 1000)
local bucket = redis.call('HMGET', KEYS[1], 'tokens', 'filledAtMs')
local tokens = perMinute
if bucket[1] then
  local passedMs = math.max(0, nowMs - tonumber(bucket[2]))
  tokens = math.min(perMinute, tonumber(bucket[1]) + passedMs * perMinute / 60000)
end
local granted = 0
if tokens >= math.min(need, perMinute) then
  granted = math.max(need, math.min(want, math.floor(tokens)))
  tokens = tokens - granted
end
redis.call('HSET', KEYS[1], 'tokens', tostring(tokens), 'filledAtMs', nowMs)
redis.call('PEXPIRE', KEYS[1], math.ceil((perMinute - tokens) * 60000 / perMinute) + 1000)
return {granted, math.floor(tokens)}
`

type Settings = {
  url: string
  /** Lets several deployments share one Redis. */
  prefix: string
  onError(error: Error): void
}

type ScriptedRedis = RedisConnection & {
  takeTokens(key: string, perMinute: number, need: number, want: number): Promise<[granted: number, remaining: number]>
}

/** Opens the buckets, also while Redis is down: `take` then rejects until it is up. */
export async function openSharedBuckets({ url, prefix, onError }: Settings): Promise<SharedBuckets> {
  const redis = connectRedis(url, {
    lazyConnect: true,
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    commandTimeout: answerWaitMs,
    keyPrefix: `${prefix}:tokens:`,
  }) as ScriptedRedis
  redis.on('error', onError)
  redis.defineCommand('takeTokens', { numberOfKeys: 1, lua: takeScript })
  await redis.connect().catch(() => undefined)

  return {
    async take(id, perMinute, need, want) {
      const [granted, remaining] = await redis.takeTokens(id, perMinute, need, want)
      return { granted, remaining }
    },
    async close() {
      redis.disconnect()
    },
  }
}
