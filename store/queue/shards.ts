import type { RedisConnection } from '../redis/connect.ts'
import type { BlockCounts, Producer } from './queue.ts'

/** A shard that refused a block is tried last for this time. */
const avoidedMs = 10_000

/** Stores and returns the largest number of shards that the queues ever had. */
export async function noteShards(redis: RedisConnection, key: string, shards: number): Promise<number> {
  const known = Number((await redis.get(key)) ?? 0)
  // Two processes that start at once with different numbers may store the smaller one. The larger one is stored at the next
  // start with it.
  if (shards > known) await redis.set(key, String(shards))
  return Math.max(shards, known)
}

/**
 * Spreads the blocks of a queue over its shards, on different masters of a cluster, in turn. A block that one shard refuses goes
 * to another. If both have it in the end, reads merge its rows.
 */
export function spreadOver(producers: Producer[]): Producer {
  if (producers.length === 1) return producers[0] as Producer
  let turn = 0
  const refusedAt = producers.map(() => Number.NEGATIVE_INFINITY)
  return {
    async add(block) {
      const first = turn++ % producers.length
      const order = producers.map((_, at) => (first + at) % producers.length)
      // Shards that refused lately come last: each may take seconds to refuse again.
      const isAvoided = (at: number) => performance.now() - (refusedAt[at] as number) < avoidedMs
      const sorted = [...order.filter((it) => !isAvoided(it)), ...order.filter(isAvoided)]
      const errors: unknown[] = []
      for (const at of sorted) {
        try {
          return await (producers[at] as Producer).add(block)
        } catch (error) {
          refusedAt[at] = performance.now()
          errors.push(error)
        }
      }
      throw errors[0]
    },
    async load() {
      const asked = producers.map((it) => it.load())
      // Skips masters that are down: the depth of their shards is unknown.
      const loads = (await Promise.allSettled(asked)).flatMap((it) => (it.status === 'fulfilled' ? [it.value] : []))
      if (loads.length === 0) await asked[0]
      const fullest = loads.reduce((one, other) => (other.memoryShare > one.memoryShare ? other : one))
      return { ...fullest, blocks: loads.reduce((sum, it) => sum + it.blocks, 0) }
    },
    async count() {
      const counts = await Promise.all(producers.map((it) => it.count()))
      const sum = (of: keyof BlockCounts) => counts.reduce((total, it) => total + it[of], 0)
      return { waiting: sum('waiting'), active: sum('active'), delayed: sum('delayed') }
    },
    async oldestReceivedMs() {
      const asked = await Promise.allSettled(producers.map((it) => it.oldestReceivedMs()))
      const known = asked.flatMap((it) => (it.status === 'fulfilled' ? [it.value] : []))
      if (known.length === 0) throw (asked[0] as PromiseRejectedResult).reason
      const times = known.filter((it) => it !== undefined)
      return times.length > 0 ? Math.min(...times) : undefined
    },
    async oldestAddedMs() {
      const times = await Promise.all(producers.map((it) => it.oldestAddedMs()))
      return times.some((it) => it === undefined) ? undefined : Math.min(...(times as number[]))
    },
  }
}
