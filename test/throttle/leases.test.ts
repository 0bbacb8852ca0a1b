import { afterEach, describe, expect, inject, it } from 'vitest'
import { createClosers } from '../../runtime/closers.ts'
import { openSharedBuckets } from '../../store/redis/token-buckets.ts'
import { createLeasedBuckets } from '../../throttle/leases.ts'
import type { TokenBuckets } from '../../throttle/token-buckets.ts'
import { availableQueues, uniqueName } from '../kit/service.ts'

const closers = createClosers()
afterEach(() => closers.closeAll())

/** So many processes, as far as the shared buckets can tell: each with a connection and leases of its own. */
async function openProcesses(count: number, url = inject('stores').redisUrl as string): Promise<TokenBuckets[]> {
  const prefix = uniqueName('tokens')
  const open = async () => {
    const shared = await openSharedBuckets({ url, prefix, onError: () => undefined })
    closers.push(() => shared.close())
    return createLeasedBuckets({ shared, now: () => performance.now() })
  }
  return await Promise.all(Array.from({ length: count }, open))
}

/** A rate so slow that a bucket does not fill while a test runs. */
const perMinute = 1_000

describe.skipIf(!availableQueues().includes('redis'))('buckets shared by several processes', () => {
  it('admit nearly one burst in total, not one per process', async () => {
    const processes = await openProcesses(4)
    const startedAt = performance.now()
    let admitted = 0
    for (let round = 0; round < 500; round++) {
      const shortages = await Promise.all(processes.map((it) => it.take('experiment', perMinute, 1)))
      admitted += shortages.filter((it) => it === undefined).length
    }
    const filled = ((performance.now() - startedAt) * perMinute) / 60_000
    expect(admitted).toBeLessThanOrEqual(perMinute + Math.ceil(filled))
    // What may lie unspent: a lease, and half of one asked for ahead, for each process.
    expect(admitted).toBeGreaterThanOrEqual(perMinute - processes.length * 0.015 * perMinute)
  })

  it('keep the limit with concurrent requests', async () => {
    const processes = await openProcesses(3)
    const startedAt = performance.now()
    const takes = processes.flatMap((it) => Array.from({ length: 400 }, () => it.take('experiment', perMinute, 2)))
    const admitted = (await Promise.all(takes)).filter((it) => it === undefined).length * 2
    const filled = ((performance.now() - startedAt) * perMinute) / 60_000
    expect(admitted).toBeLessThanOrEqual(perMinute + Math.ceil(filled))
    expect(admitted).toBeGreaterThanOrEqual(perMinute * 0.95)
  })

  it('return the missing tokens and the time to wait', async () => {
    const [bucket] = (await openProcesses(1)) as [TokenBuckets]
    expect(await bucket.take('experiment', perMinute, 990)).toBe(undefined)
    const shortage = await bucket.take('experiment', perMinute, 110)
    // Ten tokens were leased ahead; a hundred more take six seconds.
    expect(shortage?.remaining).toBeGreaterThanOrEqual(10)
    expect(shortage?.retryAfterMs).toBeGreaterThan(5_000)
    expect(shortage?.retryAfterMs).toBeLessThanOrEqual(6_000)
    expect(await bucket.take('another', perMinute, 1_000)).toBe(undefined)
  })

  it('admit more than a burst when full, and all processes pay the debt', async () => {
    const [one, other] = (await openProcesses(2)) as [TokenBuckets, TokenBuckets]
    expect(await one.take('experiment', perMinute, 3_000)).toBe(undefined)
    const shortage = await other.take('experiment', perMinute, 1)
    expect(shortage?.remaining).toBeLessThan(-1_900)
    expect(shortage?.retryAfterMs).toBeGreaterThan(110_000)
  })

  it('spend a lease without Redis, and return the rest', async () => {
    const [bucket] = (await openProcesses(1)) as [TokenBuckets]
    expect(await bucket.take('experiment', 100_000, 1)).toBe(undefined)
    expect(bucket.take('experiment', 100_000, 1_000)).toBe(undefined)
    bucket.giveBack('experiment', 500)
    expect(bucket.take('experiment', 100_000, 500)).toBe(undefined)
  })
})

it('an unused lease is returned after some seconds', async () => {
  let nowMs = 0
  const asked: number[] = []
  const bucket = createLeasedBuckets({
    shared: {
      async take(_id, _perMinute, need, want) {
        asked.push(need)
        return { granted: want, remaining: 0 }
      },
      close: async () => undefined,
    },
    now: () => nowMs,
  })
  expect(await bucket.take('experiment', perMinute, 1)).toBe(undefined)
  expect(bucket.take('experiment', perMinute, 3)).toBe(undefined)
  expect(asked).toEqual([1])
  nowMs = 5_000
  expect(await bucket.take('experiment', perMinute, 2)).toBe(undefined)
  expect(asked).toEqual([1, 2])
})

it('while Redis is down every process uses its own bucket', async () => {
  const [one, other] = (await openProcesses(2, 'redis://127.0.0.1:1')) as [TokenBuckets, TokenBuckets]
  for (const bucket of [one, other]) {
    expect(await bucket.take('experiment', perMinute, perMinute)).toBe(undefined)
    expect(await bucket.take('experiment', perMinute, 500)).toMatchObject({ remaining: expect.any(Number) })
  }
})
