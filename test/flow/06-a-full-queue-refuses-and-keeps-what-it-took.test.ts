import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Redis } from 'ioredis'
import { afterEach, describe, expect, it } from 'vitest'
import { createClosers } from '../../runtime/closers.ts'
import { eventually } from '../kit/eventually.ts'
import type { Answer } from '../kit/http/client.ts'
import { availableQueues, openOwnStores, openTestService } from '../kit/service.ts'
import { startRedisServer } from '../kit/stores/redis.ts'

const closers = createClosers()
afterEach(() => closers.closeAll())

const pointsPerRequest = 2_000
const requestsMax = 2_000

/** Values that cannot be compressed: each request takes some 20 kB of the queue. */
const noise = (from: number) =>
  Array.from({ length: pointsPerRequest }, (_, at) => ({
    metricName: 'noise',
    metricValue: Math.random(),
    step: from + at,
    timestamp: 1_700_000_000_000 + at,
  }))

async function openSmallRedis(megabytes: number) {
  const folder = await mkdtemp(path.join(tmpdir(), 'svc-flow-'))
  closers.push(() => rm(folder, { recursive: true, force: true }))
  const server = await startRedisServer({ folder })
  if (!server) throw new Error('redis-server did not start')
  closers.push(() => server.close())
  const redis = new Redis(server.url)
  closers.push(async () => redis.disconnect())
  await redis.config('SET', 'maxmemory', `${megabytes}mb`)
  return { url: server.url, redis }
}

describe.skipIf(!availableQueues().includes('redis'))('while workers are away', () => {
  it('writes are refused before Redis is full, and taken again once there is room; nothing taken is lost', async () => {
    const { url, redis } = await openSmallRedis(12)
    const stores = { ...(await openOwnStores('postgres')), redisUrl: url }
    const settings = { SVC_POINTS_PER_MINUTE: '100000000' }
    const intake = await openTestService({ stores, roles: new Set(['ingest', 'api']), settings })
    closers.push(() => intake.close())
    const experimentKey = await intake.client.createExperiment()
    let sent = 0
    let accepted = 0
    let unclear = 0
    async function send(): Promise<Answer> {
      const metrics = noise(sent)
      sent += pointsPerRequest
      const answer = await intake.client.post('/write/experiment/metrics/batch', { experimentKey, metrics })
      if (answer.status === 200) accepted += pointsPerRequest
      // On a busy machine the queue may not answer in time: it may have taken the block all the same.
      else if (answer.headers.get('retry-after') === '1') unclear += pointsPerRequest
      return answer
    }

    // The service guesses what a block takes until it measures again, and may then have room for a few more.
    const refused: Answer[] = []
    for (let request = 0; request < requestsMax && refused.length < 6; request++) {
      const answer = await send()
      if (answer.headers.get('retry-after') === '5') refused.push(answer)
      else if (answer.status === 200) refused.length = 0
    }
    expect(refused.map((it) => it.status)).toEqual(Array(6).fill(503))
    expect(refused[0]?.body.msg).toMatch(/^The memory of the queue is nearly full\. Nothing of this request was kept/)
    // Redis itself never had to refuse.
    expect(await redis.info('errorstats')).not.toContain('errorstat_OOM')

    const worker = await openTestService({ stores, roles: new Set(['worker']) })
    closers.push(() => worker.close())
    await eventually(async () => expect((await send()).status).toBe(200))
    const points = await intake.client.readPoints(experimentKey, 'noise', accepted)
    expect(points.length).toBeLessThanOrEqual(accepted + unclear)
  })
})
