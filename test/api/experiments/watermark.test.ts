import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { createWatermark } from '../../../api/experiments/watermark.ts'

const start = 1_700_000_000_000
beforeEach(() => vi.useFakeTimers({ now: start }))
afterEach(() => vi.useRealTimers())

const isEmpty = Number.POSITIVE_INFINITY
let addedMs: number | undefined
const open = () => createWatermark(async () => addedMs)

it('everything is stored that was accepted a second before the oldest block was added', async () => {
  const times = open()
  addedMs = start - 7_000
  expect(await times.find('metrics')).toBe(start - 8_000)
  addedMs = start - 10
  expect(await times.find('metrics')).toBe(start - 1_010)
  addedMs = isEmpty
  expect(await times.find('metrics')).toBe(start - 1_000)
})

it('what was final stays final, unless the clock is set back', async () => {
  const times = open()
  addedMs = isEmpty
  expect(await times.find('metrics')).toBe(start - 1_000)
  addedMs = start - 3_000
  expect(await times.find('metrics')).toBe(start - 1_000)
  expect(await times.find('output')).toBe(start - 4_000)
  vi.setSystemTime(start - 60_000)
  addedMs = isEmpty
  expect(await times.find('metrics')).toBe(start - 61_000)
})

it('a block that is added while the queue is asked is not stored yet', async () => {
  const times = createWatermark(async () => {
    vi.setSystemTime(start + 5_000)
    return isEmpty
  })
  expect(await times.find('metrics')).toBe(start - 1_000)
})

it('nothing is final while the queue is long', async () => {
  const times = open()
  addedMs = undefined
  expect(await times.find('output')).toBe(undefined)
  addedMs = isEmpty
  expect(await times.find('output')).toBe(start - 1_000)
})
