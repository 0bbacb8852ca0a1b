import { expect, it } from 'vitest'
import { createPaces } from '../../throttle/paces.ts'
import { createThrottle, type RateLimits } from '../../throttle/throttle.ts'
import { createLocalBuckets } from '../../throttle/token-buckets.ts'

function openPaces() {
  let nowMs = 1_000
  const pass = (ms: number) => {
    nowMs += ms
  }
  return { toWaitMs: createPaces(() => nowMs), pass }
}

/** 100,000 a second, so half a million at most. */
const limit = 6_000_000

it('nobody waits who keeps to five times the limit', () => {
  const { toWaitMs, pass } = openPaces()
  for (let at = 0; at < 100; at++) {
    expect(toWaitMs('one', limit, 50_000)).toBe(0)
    pass(100)
  }
})

it('what comes at once is let through one after the other, each tenant for itself, and none waits for more than a second', () => {
  const { toWaitMs, pass } = openPaces()
  const waits = Array.from({ length: 13 }, () => Math.round(toWaitMs('one', limit, 50_000)))
  expect(waits).toEqual([0, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1_000, 1_000, 1_000])
  expect(toWaitMs('other', limit, 50_000)).toBe(0)
  pass(1_050)
  expect(Math.round(toWaitMs('one', limit, 50_000))).toBe(50)
})

it('nothing is saved up', () => {
  const { toWaitMs, pass } = openPaces()
  toWaitMs('one', limit, 1)
  pass(60_000)
  expect(toWaitMs('one', limit, 100_000)).toBe(0)
  expect(toWaitMs('one', limit, 1)).toBe(200)
})

it('small requests wait together: less than what a timer can tell is left to the next', () => {
  const { toWaitMs } = openPaces()
  const waits = Array.from({ length: 4 }, () => toWaitMs('one', limit, 500))
  expect(waits).toEqual([0, 0, 2, 3])
})

it('ten thousand a second are below any pace', () => {
  const { toWaitMs, pass } = openPaces()
  for (let at = 0; at < 100; at++) {
    expect(toWaitMs('small', 100, 1_000)).toBe(0)
    pass(100)
  }
})

it('a clock that is set back makes nobody wait for longer', () => {
  const { toWaitMs, pass } = openPaces()
  toWaitMs('one', limit, 50_000)
  pass(-3_600_000)
  expect(toWaitMs('one', limit, 50_000)).toBe(1_000)
  pass(1_100)
  expect(toWaitMs('one', limit, 50_000)).toBe(0)
})

function openThrottle() {
  const many = 1_000_000
  const perMinute: RateLimits = {
    metrics: many,
    systemMetrics: many,
    output: many,
    parameters: many,
    other: many,
    events: many,
  }
  return createThrottle({
    buckets: createLocalBuckets(() => 0),
    perExperiment: perMinute,
    perKey: perMinute,
    perTenant: { workspace: {}, organization: {} },
    counters: { throttled: () => undefined },
    now: () => 0,
  })
}

const key = { keyId: 'key', limits: {} }
const limited = { pointsPerMinute: 6_000 }

it('a workspace with a limit is let through at its pace, others at once', async () => {
  const throttle = openThrottle()
  const admit = (id: bigint, limits: object) =>
    throttle.admit('metrics', { id, limits, workspaceId: `w${id}` }, key, 500)
  expect(admit(1n, limited)).toBeUndefined()
  const second = admit(1n, limited)
  expect(second).toBeInstanceOf(Promise)
  await expect(second).resolves.toBeUndefined()
  for (let at = 0; at < 10; at++) expect(admit(2n, {})).toBeUndefined()
})

it('an upload that waits for tokens keeps the pace too, and stops to wait when its client leaves', async () => {
  const throttle = openThrottle()
  const model = { id: 1n, limits: limited, workspaceId: 'w1' }
  const client = new AbortController()
  const upload = () => throttle.wait('events', model, key, 500, client.signal)
  await upload()
  const second = upload()
  client.abort()
  await expect(second).rejects.toThrow('aborted')
  expect(throttle.admit('events', model, key, 1)).toBeInstanceOf(Promise)
})
