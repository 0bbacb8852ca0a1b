import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { createWatermark } from '../../../api/experiments/watermark.ts'

const start = 1_700_000_000_000
beforeEach(() => vi.useFakeTimers({ now: start }))
afterEach(() => vi.useRealTimers())

let depth = 0
const open = () => createWatermark(async () => depth)

it('points are final after one second when the queue is empty, and after five otherwise', async () => {
  const times = open()
  depth = 1
  expect(await times.find('metrics')).toBe(start - 5_000)
  depth = 0
  expect(await times.find('metrics')).toBe(start - 1_000)
})

it('what was final stays final, unless the clock is set back', async () => {
  const times = open()
  depth = 0
  expect(await times.find('metrics')).toBe(start - 1_000)
  depth = 1
  expect(await times.find('metrics')).toBe(start - 1_000)
  vi.setSystemTime(start + 4_001)
  expect(await times.find('metrics')).toBe(start - 999)
  vi.setSystemTime(start - 60_000)
  expect(await times.find('metrics')).toBe(start - 61_000)
})

it('after an outage of the store nothing is final until the queue is empty, or short for five seconds', async () => {
  const times = open()
  depth = 500
  times.storeWasAway(['metrics'])
  expect(await times.find('metrics')).toBe(undefined)
  expect(await times.find('output')).toBe(start - 5_000)
  depth = 100
  expect(await times.find('metrics')).toBe(undefined)
  vi.setSystemTime(start + 4_000)
  depth = 101
  expect(await times.find('metrics')).toBe(undefined)
  depth = 50
  expect(await times.find('metrics')).toBe(undefined)
  vi.setSystemTime(start + 9_001)
  expect(await times.find('metrics')).toBe(start + 4_001)

  times.storeWasAway(['metrics'])
  depth = 3
  expect(await times.find('metrics')).toBe(undefined)
  depth = 0
  expect(await times.find('metrics')).toBe(start + 8_001)
})

it('nothing is final while the queue is long, or before the worker has caught up', async () => {
  const times = open()
  depth = 1_001
  expect(await times.find('output')).toBe(undefined)
  depth = 900
  expect(await times.find('output')).toBe(undefined)
  depth = 0
  expect(await times.find('output')).toBe(start - 1_000)
})
