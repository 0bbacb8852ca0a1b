import { createLruCache } from '../runtime/lru-cache.ts'
import type { SharedBuckets } from '../store/redis/token-buckets.ts'
import { createLocalBuckets, type TokenBuckets, toShortage } from './token-buckets.ts'

/**
 * Buckets that several processes share through Redis. A process leases tokens in bulk, a hundredth of a minute's worth at
 * a time, spends them in memory and asks for more before they run out; one question a bucket is under way at any time.
 *
 * What all processes admit together is never more than the shared bucket gave out: a minute's worth and the rate. What a
 * process leased and does not spend is lost to the others, so under a full load up to 1.5 % of a minute's worth for each
 * process is admitted later than it could be. While Redis is away every process goes by buckets of its own.
 */
type Settings = { shared: SharedBuckets; now: () => number }

type Lease = { tokens: number; expiresAtMs: number; asking: Promise<Answer> | undefined }

/** What one question came to. A refusal holds for all who need as much or more. */
type Answer = { need: number; isGranted: boolean; remaining: number }

const leasesMax = 200_000
const leaseShare = 0.01
/** Tokens that nobody spends go back by themselves: the shared bucket has long filled up again. */
const leaseMs = 5_000

export function createLeasedBuckets({ shared, now }: Settings): TokenBuckets {
  const leases = createLruCache<Lease>(leasesMax)
  const own = createLocalBuckets(now)

  function findLease(id: string): Lease {
    let lease = leases.get(id)
    if (!lease) {
      lease = { tokens: 0, expiresAtMs: 0, asking: undefined }
      leases.set(id, lease)
    }
    if (now() >= lease.expiresAtMs) lease.tokens = 0
    return lease
  }

  function ask(lease: Lease, id: string, perMinute: number, need: number): Promise<Answer> {
    lease.asking ??= shared
      .take(id, perMinute, need, need + toBulk(perMinute))
      .then(({ granted, remaining }) => {
        lease.tokens += granted
        lease.expiresAtMs = now() + leaseMs
        return { need, isGranted: granted > 0, remaining }
      })
      .finally(() => {
        lease.asking = undefined
      })
    return lease.asking
  }

  async function takeWhenGranted(lease: Lease, id: string, perMinute: number, count: number) {
    for (;;) {
      const need = count - lease.tokens
      let answer: Answer
      try {
        answer = await ask(lease, id, perMinute, need)
      } catch {
        return own.take(id, perMinute, count)
      }
      if (lease.tokens >= count) {
        lease.tokens -= count
        return undefined
      }
      if (!answer.isGranted && answer.need <= need) return toShortage(answer.remaining + lease.tokens, perMinute, count)
    }
  }

  return {
    take(id, perMinute, count) {
      const lease = findLease(id)
      if (lease.tokens < count) return takeWhenGranted(lease, id, perMinute, count)
      lease.tokens -= count
      if (lease.tokens < toBulk(perMinute) / 2 && !lease.asking) ask(lease, id, perMinute, 1).catch(() => undefined)
      return undefined
    },

    giveBack(id, count) {
      const lease = leases.get(id)
      if (lease) lease.tokens += count
    },
  }
}

function toBulk(perMinute: number): number {
  return Math.ceil(perMinute * leaseShare)
}
