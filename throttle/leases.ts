import { createLruCache } from '../runtime/lru-cache.ts'
import type { SharedBuckets } from '../store/redis/token-buckets.ts'
import { createLocalBuckets, type TokenBuckets, toShortage } from './token-buckets.ts'

/**
 * Token buckets that several processes share through Redis. A process leases tokens in bulk, a hundredth of a minute's worth
 * at a time, spends them in memory and requests more before they run out. Each bucket has one request in flight at most.
 *
 * All processes together never admit more than the shared bucket gave out: a minute's worth and the rate. Leased tokens that
 * a process does not spend are lost to the others, so under full load up to 1.5 % of a minute's worth per process is admitted
 * later than it could be. While Redis is down, every process uses local buckets.
 */
type Settings = { shared: SharedBuckets; now: () => number }

type Lease = { tokens: number; expiresAtMs: number; request: Promise<Answer> | undefined }

/** The answer to a request for tokens. A denial applies to everyone who needs as much or more. */
type Answer = { need: number; isGranted: boolean; remaining: number }

const leasesMax = 200_000
const leaseShare = 0.01
/** Unspent tokens expire: by then the shared bucket has filled up again. */
const leaseMs = 5_000

export function createLeasedBuckets({ shared, now }: Settings): TokenBuckets {
  const leases = createLruCache<Lease>(leasesMax)
  const local = createLocalBuckets(now)

  function findLease(id: string): Lease {
    let lease = leases.get(id)
    if (!lease) {
      lease = { tokens: 0, expiresAtMs: 0, request: undefined }
      leases.set(id, lease)
    }
    if (now() >= lease.expiresAtMs) lease.tokens = 0
    return lease
  }

  function renew(lease: Lease, id: string, perMinute: number, need: number): Promise<Answer> {
    lease.request ??= shared
      .take(id, perMinute, need, need + toBulk(perMinute))
      .then(({ granted, remaining }) => {
        lease.tokens += granted
        lease.expiresAtMs = now() + leaseMs
        return { need, isGranted: granted > 0, remaining }
      })
      .finally(() => {
        lease.request = undefined
      })
    return lease.request
  }

  async function takeWhenGranted(lease: Lease, id: string, perMinute: number, count: number) {
    for (;;) {
      const need = count - lease.tokens
      let answer: Answer
      try {
        answer = await renew(lease, id, perMinute, need)
      } catch {
        return local.take(id, perMinute, count)
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
      if (lease.tokens < toBulk(perMinute) / 2 && !lease.request) renew(lease, id, perMinute, 1).catch(() => undefined)
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
