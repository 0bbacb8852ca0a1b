import { afterEach, describe, expect, it } from 'vitest'
import { createClosers } from '../../runtime/closers.ts'
import { form } from '../kit/form.ts'
import type { QueueKind } from '../kit/service.ts'
import { hasRedisServer } from '../kit/stores/redis.ts'
import { chartPace, listRefusals, type RollingResult, runRolling } from './rolling/run.ts'
import { listDifferences } from './verify/verification.ts'

/** The short form of `npm run rolling`; that one replaces every process three times. */
const closers = createClosers()
afterEach(() => closers.closeAll())

const silent = { show: () => undefined, say: () => undefined }
const canKeep = process.platform === 'linux'
if (!canKeep) console.warn('No process was replaced under load: this needs Linux.')
const queue: QueueKind = hasRedisServer() ? 'redis' : 'postgres'

it('a read that was asked to come again is excused on a busy machine by a time-out of a store, and by nothing else', () => {
  const reads = { answered: 9, repeated: 1, failures: {} }
  const answers = { statuses: { 200: 9 }, refusals: {}, unanswered: {}, unexpected: [] }
  const judge = (warnings: string[], isBusy: boolean) =>
    listRefusals({ answers, reads, unexpectedEnds: [], warnings } as unknown as RollingResult, isBusy)
  const said = 'api 1: "A store of the service does not answer." '
  const [slow, closed] = [
    `${said} timeout exceeded when trying to connect`,
    `${said} Cannot use a pool after calling end`,
  ]
  expect(judge([slow], true)).toEqual([])
  expect(judge([slow], false)).toContain('1 reads were asked to come again')
  expect(judge([], true)).toContain('1 reads were asked to come again')
  expect(judge([slow, closed], true)).toContain(closed)
  expect(judge([closed], true)).toContain('1 reads were asked to come again')
})

// In the short form `test/cli/shutdown-delay` stops one process under load, and `test/operating/upgrades` replaces one.
describe.skipIf(!canKeep || form === 'short')('while every process of every role is replaced under load', () => {
  it('no write is refused, no read fails, and nothing is lost, repeated or altered', async () => {
    const { signal } = new AbortController()
    const fast = { preStopMs: 600, shutdownDelaySeconds: 2 }
    const pace = form === 'long' ? chartPace : fast
    const clients = form === 'long' ? 8 : 2
    const result = await runRolling({ rounds: 1, seed: 3, queue, clients, pace, closers, status: silent, signal })

    expect(listRefusals(result, form !== 'long')).toEqual([])
    expect(listDifferences(result.verified, [])).toEqual([])
    expect(result.replaced).toEqual({ ingest: 2, worker: 2, 'webhook-worker': 1, api: 2 })
    expect(result.acknowledged.points).toBeGreaterThan(0)
    expect(result.reads.answered).toBeGreaterThan(0)
  })
})
