import { afterEach, describe, expect, it } from 'vitest'
import { createClosers } from '../../runtime/closers.ts'
import { aPoint } from '../kit/builders.ts'
import { eventually } from '../kit/eventually.ts'
import { queuesInForm } from '../kit/form.ts'
import { createClient, type TestClient } from '../kit/http/client.ts'
import { startRole } from '../kit/processes/svc.ts'
import { availableQueues, openOwnStores, openTestService, type QueueKind, uniqueName } from '../kit/service.ts'
import { openProxy } from '../kit/stores/proxy.ts'

const closers = createClosers()
afterEach(() => closers.closeAll())

/** The service with a proxy before its queue and one before ClickHouse. */
async function openBehindProxies(queue: QueueKind) {
  const stores = await openOwnStores(queue)
  const clickhouse = await openProxy(stores.clickhouseUrl)
  closers.push(clickhouse.close)
  const queueProxy = await openProxy(stores.redisUrl ?? stores.postgresUrl)
  closers.push(queueProxy.close)
  const service = await openTestService({
    stores: {
      clickhouseUrl: clickhouse.url,
      postgresUrl: queue === 'postgres' ? queueProxy.url : stores.postgresUrl,
      objectsUrl: stores.objectsUrl,
      redisUrl: queue === 'redis' ? queueProxy.url : undefined,
    },
    settings: { SVC_QUEUE_PREFIX: uniqueName('flow') },
  })
  closers.push(service.close)
  return { clickhouse, queueProxy, client: service.client }
}

function postStep(client: TestClient, experimentKey: string, step: number) {
  return client.post('/write/experiment/metric', { experimentKey, ...aPoint({ step }) })
}

const secondMs = 1_000

describe.each(availableQueues())('with the queue in %s', (queue) => {
  it('a queue that is gone is answered with 503 within a second, and nothing refused is stored', async () => {
    const { queueProxy, client } = await openBehindProxies(queue)
    const experimentKey = await client.createExperiment()
    expect((await postStep(client, experimentKey, 1)).status).toBe(200)

    queueProxy.cut()
    const durations: number[] = []
    for (let step = 100; step < 105; step++) {
      const startedAt = performance.now()
      const answer = await postStep(client, experimentKey, step)
      durations.push(performance.now() - startedAt)
      expect(answer).toMatchObject({ status: 503, body: { code: 503, data: null } })
      expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0)
    }
    expect(Math.min(...durations)).toBeLessThan(secondMs)

    queueProxy.restore()
    await eventually(async () => expect((await postStep(client, experimentKey, 2)).status).toBe(200))
    const points = await client.readPoints(experimentKey, 'loss', 2)
    expect(points.map((it) => it.step)).toEqual([1, 2])
  })

  it('a queue that hangs is answered with 503, and works again when it is back', async () => {
    const { queueProxy, client } = await openBehindProxies(queue)
    const experimentKey = await client.createExperiment()
    expect((await postStep(client, experimentKey, 1)).status).toBe(200)

    queueProxy.freeze()
    const answer = await postStep(client, experimentKey, 100)
    queueProxy.restore()

    expect(answer).toMatchObject({ status: 503, body: { code: 503, data: null } })
    await eventually(async () => expect((await postStep(client, experimentKey, 2)).status).toBe(200))
    await client.readPoints(experimentKey, 'loss', 2)
  })

  it.skipIf(!queuesInForm().includes(queue))(
    'while ClickHouse is away writes are taken, reads say 503, and afterwards everything is there',
    async () => {
      const { clickhouse, client } = await openBehindProxies(queue)
      const experimentKey = await client.createExperiment()

      clickhouse.cut()
      for (let step = 1; step <= 200; step++) expect((await postStep(client, experimentKey, step)).status).toBe(200)
      const read = await client.get(`/experiment/metrics/get-metric?experimentKey=${experimentKey}&metricName=loss`)
      expect(read).toMatchObject({ status: 503, body: { code: 503 } })
      expect(read.headers.get('retry-after')).not.toBeNull()

      clickhouse.restore()
      const points = await client.readPoints(experimentKey, 'loss', 200)
      expect(points.map((it) => it.step)).toEqual(Array.from({ length: 200 }, (_, index) => index + 1))
    },
  )

  it.skipIf(!queuesInForm().includes(queue))(
    'a worker stopped while ClickHouse is away ends, and gives its jobs back to the queue',
    async () => {
      const stores = await openOwnStores(queue)
      const clickhouse = await openProxy(stores.clickhouseUrl)
      closers.push(clickhouse.close)
      const settings = { SVC_QUEUE_PREFIX: uniqueName('flow') }
      const service = await openTestService({ stores, roles: new Set(['ingest', 'api']), settings })
      closers.push(service.close)
      const worker = await startRole('worker', { ...stores, clickhouseUrl: clickhouse.url }, settings)
      closers.push(async () => worker.kill('SIGKILL'))
      const experimentKey = await service.client.createExperiment()

      clickhouse.cut()
      for (let step = 1; step <= 20; step++)
        expect((await postStep(service.client, experimentKey, step)).status).toBe(200)
      await eventually(() => expect(worker.output()).toContain('an insert failed and will be repeated'))
      worker.kill('SIGTERM')
      expect(await worker.ended).toEqual({ code: 0, signal: null })

      const next = await startRole('worker', stores, settings)
      closers.push(async () => {
        next.kill('SIGTERM')
        await next.ended
      })
      const points = await service.client.readPoints(experimentKey, 'loss', 20)
      expect(points).toHaveLength(20)
    },
  )
})

// Longer than a key is remembered as fresh: what is not asked again could not show that it is kept.
const keyIsStaleMs = 1_500

it.skipIf(!availableQueues().includes('redis'))(
  'while Postgres is away writes of known keys and experiments go on, and are all there afterwards',
  async () => {
    const stores = await openOwnStores('redis')
    const postgres = await openProxy(stores.postgresUrl)
    closers.push(postgres.close)
    const service = await openTestService({
      stores: { ...stores, postgresUrl: postgres.url },
      settings: { SVC_QUEUE_PREFIX: uniqueName('flow') },
    })
    closers.push(service.close)
    const { client } = service
    const experimentKey = await client.createExperiment()
    expect((await postStep(client, experimentKey, 0)).status).toBe(200)
    const series = [{ metricName: 'chunk', steps: [0, 1, 2, 3], values: [0, 1, 2, 3] }]
    const postChunk = (key: string) => client.post('/write/experiment/metrics/batch', { experimentKey: key, series })
    const ofChunks = await client.createExperiment()
    expect((await postChunk(ofChunks)).status).toBe(200)

    postgres.cut()
    const startedAt = performance.now()
    let steps = 1
    while (performance.now() - startedAt < keyIsStaleMs) {
      expect((await postStep(client, experimentKey, steps++)).status).toBe(200)
    }
    const strangers = await client.post(
      '/write/experiment/metric',
      { experimentKey, ...aPoint() },
      { apiKey: 'unknown' },
    )
    expect(strangers).toMatchObject({ status: 503, body: { code: 503 } })
    // The first chunk of an experiment is noted in Postgres before it is queued, or else no read would look for it; so is its first row.
    const refused = { status: 503, body: { code: 503, data: null } }
    expect(await postChunk(experimentKey)).toMatchObject(refused)
    expect(await postStep(client, ofChunks, 0)).toMatchObject(refused)

    postgres.restore()
    expect(await client.readPoints(experimentKey, 'loss', steps)).toHaveLength(steps)
    await eventually(async () => expect((await postChunk(experimentKey)).status).toBe(200))
    await eventually(async () => expect((await postStep(client, ofChunks, 0)).status).toBe(200))
    for (const key of [experimentKey, ofChunks]) {
      expect(await client.readPoints(key, 'chunk', 4)).toHaveLength(4)
    }
    expect(await client.readPoints(ofChunks, 'loss', 1)).toHaveLength(1)
  },
)

it.skipIf(!availableQueues().includes('redis'))(
  'an ingest by itself stays ready while ClickHouse and Postgres are away, says so, and takes writes; not without a queue',
  async () => {
    const stores = await openOwnStores('redis')
    const [postgres, clickhouse, redis] = await Promise.all([
      openProxy(stores.postgresUrl),
      openProxy(stores.clickhouseUrl),
      openProxy(stores.redisUrl as string),
    ])
    for (const it of [postgres, clickhouse, redis]) closers.push(it.close)
    const settings = { SVC_QUEUE_PREFIX: uniqueName('flow') }
    const api = await openTestService({ stores, roles: new Set(['api']), settings })
    closers.push(api.close)
    const ingest = await openTestService({
      stores: { ...stores, postgresUrl: postgres.url, clickhouseUrl: clickhouse.url, redisUrl: redis.url },
      roles: new Set(['ingest']),
      settings,
    })
    closers.push(ingest.close)
    const client = createClient(ingest.url, api)
    const experimentKey = await api.client.createExperiment()
    expect((await postStep(client, experimentKey, 0)).status).toBe(200)
    const readiness = async () => {
      const answer = await fetch(`${ingest.url}/readyz`)
      return { status: answer.status, checks: ((await answer.json()) as { checks: Record<string, string> }).checks }
    }

    postgres.cut()
    clickhouse.cut()
    const without = await readiness()
    expect(without).toMatchObject({ status: 200, checks: { queue: 'ok' } })
    expect(without.checks.postgres).not.toBe('ok')
    expect(without.checks.clickhouse).not.toBe('ok')
    expect((await postStep(client, experimentKey, 1)).status).toBe(200)

    redis.cut()
    expect((await readiness()).status).toBe(503)
    for (const it of [postgres, clickhouse, redis]) it.restore()
  },
)
