import { afterEach, describe, expect, it } from 'vitest'
import type { Role } from '../../cli/service.ts'
import { createClosers } from '../../runtime/closers.ts'
import { aPoint } from '../kit/builders.ts'
import { eventually } from '../kit/eventually.ts'
import { createClient, type TestClient } from '../kit/http/client.ts'
import { startRole } from '../kit/processes/svc.ts'
import { availableQueues, createUser, openOwnStores, uniqueName } from '../kit/service.ts'

const closers = createClosers()
afterEach(() => closers.closeAll())

const pointsPerMinute = 6_000
const pointsPerRequest = 20
const processes = 3

/** HttpErrors after which a process has nothing left to admit, and has not for a while: each is held for half a second or more. */
const refusalsAtLeast = 6

/** Sends requests one after the other, whatever is answered, until it was refused again and again. */
async function runAway(client: TestClient, experimentKey: string) {
  const metrics = Array.from({ length: pointsPerRequest }, (_, step) => aPoint({ step }))
  const statuses = new Map<number, number>()
  while ((statuses.get(429) ?? 0) < refusalsAtLeast) {
    const { status } = await client.post('/write/experiment/metrics/batch', { experimentKey, metrics })
    statuses.set(status, (statuses.get(status) ?? 0) + 1)
  }
  return statuses
}

describe.skipIf(!availableQueues().includes('redis'))('several ingest processes on one Redis', () => {
  it('keep one limit between them; what is over it is told, counted and not stored', async () => {
    const stores = await openOwnStores('redis')
    const settings = { SVC_QUEUE_PREFIX: uniqueName('flow'), SVC_POINTS_PER_MINUTE: String(pointsPerMinute) }
    const start = async (role: Role) => {
      const running = await startRole(role, stores, settings)
      closers.push(async () => {
        running.kill('SIGKILL')
        await running.ended
      })
      return running.url
    }
    const [apiUrl, , ...ingestUrls] = await Promise.all([
      start('api'),
      start('worker'),
      ...Array.from({ length: processes }, () => start('ingest')),
    ])
    const user = await createUser(stores)
    const reader = createClient(apiUrl as string, user)
    const [runaway, quiet] = [await reader.createExperiment(), await reader.createExperiment()]
    const writers = ingestUrls.map((url) => createClient(url, user))

    const startedAt = performance.now()
    const load = writers
      .flatMap((client) => Array.from({ length: 3 }, () => client))
      .map((client) => runAway(client, runaway))
    const quietAnswers: number[] = []
    for (const [step, client] of [...writers, ...writers].entries()) {
      const answer = await client.post('/write/experiment/metric', { experimentKey: quiet, ...aPoint({ step }) })
      quietAnswers.push(answer.status)
    }
    const statuses = await Promise.all(load)
    const seconds = (performance.now() - startedAt) / 1_000

    const count = (status: number) => statuses.reduce((sum, it) => sum + (it.get(status) ?? 0), 0)
    expect(quietAnswers).toEqual(Array(6).fill(200))
    expect(count(200) + count(429)).toBe(statuses.flatMap((it) => [...it.values()]).reduce((sum, it) => sum + it, 0))
    const admitted = count(200) * pointsPerRequest
    expect(admitted).toBeLessThanOrEqual(pointsPerMinute + Math.ceil((seconds * pointsPerMinute) / 60))
    expect(admitted).toBeGreaterThanOrEqual(pointsPerMinute * (1 - 0.015 * processes))

    expect(await reader.readPoints(runaway, 'loss', admitted)).toHaveLength(admitted)
    await eventually(async () => {
      const { body } = await reader.get(`/experiment/counters?experimentKey=${runaway}`)
      expect((body.counters as unknown[])[0]).toEqual({
        type: 'metrics',
        accepted: admitted,
        stored: admitted,
        throttled: count(429) * pointsPerRequest,
        pending: 0,
      })
    })
    const { body } = await reader.get(`/experiment/metadata?experimentKey=${runaway}`)
    expect(body.throttleReasons).toEqual([`metric points: over ${pointsPerMinute} a minute for this experiment`])
    expect((await reader.get(`/experiment/metadata?experimentKey=${quiet}`)).body.throttle).toBe(false)
  })
})
