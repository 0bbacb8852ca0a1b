import { afterEach, describe, expect, it } from 'vitest'
import { createClosers } from '../../runtime/closers.ts'
import { form, inForm } from '../kit/form.ts'
import type { QueueKind } from '../kit/service.ts'
import { hasRedisServer } from '../kit/stores/redis.ts'
import { drawDeeds } from './cluster/plan.ts'
import { runFaults } from './kills/run.ts'
import { compareRows } from './verify/comparison.ts'
import { listDifferences } from './verify/verification.ts'

/** The short form of `npm run faults`; that one kills 200 times. */
const closers = createClosers()
afterEach(() => closers.closeAll())

const silent = { show: () => undefined, say: () => undefined }
const canKill = process.platform === 'linux'
if (!canKill) console.warn('Processes were not killed at random: this needs Linux.')
if (!hasRedisServer()) console.warn('Redis was not killed at random: there is no redis-server on the PATH.')
const all: QueueKind[] = hasRedisServer() ? ['postgres', 'redis'] : ['postgres']
// In the middle form `test/flow/02` kills with Redis.
const queues = form === 'long' ? all : all.slice(0, 1)
const kills = inForm({ short: 0, middle: 4, long: 100 })

// In the short form `test/flow/02` kills one process of each kind.
describe.skipIf(!canKill || form === 'short').each(queues)('with the queue in %s', (queue) => {
  it(`${kills} processes killed at random moments lose nothing, repeat nothing, alter nothing`, async () => {
    const { signal } = new AbortController()
    const result = await runFaults({
      kills,
      seed: 2,
      queue,
      minutesMax: inForm({ short: 0, middle: 0.4, long: 10 }),
      closers,
      status: silent,
      signal,
    })

    expect(listDifferences(result.verified, result.answers.unexpected)).toEqual([])
    expect(result.answers.unexpectedCount).toBe(0)
    expect(result.acknowledged.points).toBeGreaterThan(0)
    expect(result.killed.inAll).toBeGreaterThan(0)
  })
})

it('a row that is lost, repeated or altered is told, and look-alikes must all be there', () => {
  const acknowledged = ['a', 'b', 'b', 'c']
  expect(compareRows('here', acknowledged, ['d'], ['b', 'c', 'a', 'b'])).toMatchObject({
    lost: 0,
    repeated: 0,
    altered: 0,
  })
  expect(compareRows('here', acknowledged, ['d'], ['a', 'b', 'b', 'c', 'd'])).toMatchObject({ lost: 0, repeated: 0 })
  expect(compareRows('here', acknowledged, [], ['a', 'b', 'c'])).toMatchObject({
    lost: 1,
    first: ['here: lost 1 x "b"'],
  })
  expect(compareRows('here', acknowledged, ['d'], [...acknowledged, 'a', 'd', 'd'])).toMatchObject({ repeated: 2 })
  expect(compareRows('here', acknowledged, [], ['a', 'b', 'b', 'x'])).toMatchObject({ lost: 1, altered: 1 })
})

it('the same seed draws the same deeds', () => {
  const victims = new Map([
    ['ingest', ['ingest 1', 'ingest 2']],
    ['redis', ['redis']],
  ])
  const draw = (seed: number) => drawDeeds(seed, victims).take(50).toArray()
  expect(draw(7)).toEqual(draw(7))
  expect(draw(7)).not.toEqual(draw(8))
})
