import { expect, it } from 'vitest'
import { repeat } from '../../runtime/poll.ts'
import { eventually } from '../kit/eventually.ts'

const onError = (error: unknown) => {
  throw error
}

/** Work that ends when it is let go, and counts its runs. */
function createHeldWork() {
  const held: (() => void)[] = []
  let runs = 0
  let overlaps = 0
  let atOnce = 0
  return {
    runs: () => runs,
    overlaps: () => overlaps,
    letGo: () => held.shift()?.(),
    async work() {
      runs += 1
      atOnce += 1
      if (atOnce > 1) overlaps += 1
      await new Promise<void>((resolve) => held.push(resolve))
      atOnce -= 1
    },
  }
}

it('work is repeated, also after a failure, and not after close', async () => {
  const errors: unknown[] = []
  let runs = 0
  const polling = repeat({
    everyMs: 1,
    async work() {
      runs += 1
      if (runs === 1) throw new Error('away')
    },
    onError: (error) => errors.push(error),
  })
  await eventually(() => expect(runs).toBeGreaterThan(3))
  await polling.close()
  const atEnd = runs
  await new Promise((resolve) => setTimeout(resolve, 20))
  expect(runs).toBe(atEnd)
  expect(errors).toEqual([new Error('away')])
})

it('runs never overlap, and close waits for the one in progress', async () => {
  const held = createHeldWork()
  const polling = repeat({ everyMs: 1, work: held.work, onError })
  await eventually(() => expect(held.runs()).toBe(1))
  await new Promise((resolve) => setTimeout(resolve, 20))
  let isClosed = false
  const closed = polling.close().then(() => {
    isClosed = true
  })
  await Promise.resolve()
  expect([held.runs(), isClosed]).toEqual([1, false])
  held.letGo()
  await closed
  expect([held.runs(), held.overlaps()]).toEqual([1, 0])
})

it('all requests during a run share one more run, and wait for it', async () => {
  const held = createHeldWork()
  const polling = repeat({ everyMs: 60_000, work: held.work, onError })
  const first = polling.now()
  await eventually(() => expect(held.runs()).toBe(1))
  const later = [polling.now(), polling.now()]
  expect(held.runs()).toBe(1)
  held.letGo()
  await first
  await eventually(() => expect(held.runs()).toBe(2))
  held.letGo()
  await Promise.all(later)
  await polling.close()
  expect([held.runs(), held.overlaps()]).toEqual([2, 0])
})
