import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openQueueBackend } from '../../../store/queue/open-queue.ts'
import type { QueueBackend } from '../../../store/queue/queue.ts'
import { parseRedisAddress } from '../../../store/redis/address.ts'
import { toHashTag, toSlot } from '../../../store/redis/slots.ts'
import { openSharedBuckets } from '../../../store/redis/token-buckets.ts'
import { aPoint } from '../../kit/builders.ts'
import { eventually } from '../../kit/eventually.ts'
import { form } from '../../kit/form.ts'
import { openOwnStores, openTestService } from '../../kit/service.ts'
import { canRunRedis, openRedisCluster, openRedisSentinel } from '../../kit/stores/redis-cluster.ts'

if (!canRunRedis) console.warn('Redis Cluster and Sentinel were not tried: there is no redis-server on the PATH.')

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'svc-redis-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

it('an address is one server, a cluster or Sentinels; any other form is rejected with the valid ones', () => {
  expect(parseRedisAddress('rediss://user:p%40ss@host/2')).toMatchObject({
    kind: 'single',
    nodes: [{ host: 'host', port: 6379 }],
    isTls: true,
    username: 'user',
    password: 'p@ss',
    database: 2,
  })
  expect(parseRedisAddress('redis+cluster://:secret@a:7000,[::1]:7001')).toMatchObject({
    kind: 'cluster',
    nodes: [
      { host: 'a', port: 7000 },
      { host: '::1', port: 7001 },
    ],
    username: undefined,
    password: 'secret',
  })
  expect(parseRedisAddress('redis+sentinel://a,b:26380/1?master=queue&sentinelPassword=s')).toMatchObject({
    kind: 'sentinel',
    nodes: [
      { host: 'a', port: 26_379 },
      { host: 'b', port: 26_380 },
    ],
    master: 'queue',
    sentinelPassword: 's',
    database: 1,
  })
  for (const url of ['http://a', 'redis://', 'redis://a,b', 'redis+ring://a', 'redis://a:port', 'a:6379']) {
    expect(() => parseRedisAddress(url)).toThrow(/must be redis:\/\/host:6379, redis\+cluster:/)
  }
})

it('slots are those of Redis Cluster, and the parts of a queue are on different masters', () => {
  // Both from the specification.
  expect(toSlot('123456789')).toBe(0x31c3 % 16_384)
  expect(toSlot('{user1000}.following')).toBe(toSlot('user1000'))
  for (const queue of ['svc:metrics', 'svc:output', 'other:events']) {
    for (const masters of [2, 3, 5, 6]) {
      const parts = Array.from({ length: 2 * masters }, (_, part) => toSlot(toHashTag(queue, part)))
      expect(new Set(parts.map((it) => Math.floor((it * masters) / 16_384))).size).toBe(masters)
    }
  }
})

// Clusters of six and of three processes: in the short form a single Redis has to do.
describe.skipIf(!canRunRedis || form === 'short')('a Redis Cluster', () => {
  let redis: Awaited<ReturnType<typeof openRedisCluster>>
  let service: Awaited<ReturnType<typeof openTestService>>
  beforeAll(async () => {
    redis = await openRedisCluster(folder, 3)
    const stores = { ...(await openOwnStores('postgres')), redisUrl: redis.url }
    service = await openTestService({ stores, settings: { SVC_QUEUE_SHARDS: '3', SVC_QUEUE_REPLICAS: '0' } })
  })
  afterAll(async () => {
    await service?.close()
    await redis?.close()
  })

  it('stores writes across all of its masters', async () => {
    const { client } = service
    const experimentKey = await client.createExperiment()
    for (let step = 0; step < 30; step++) {
      expect((await client.post('/write/experiment/metric', { experimentKey, ...aPoint({ step }) })).status).toBe(200)
    }
    expect(await client.readPoints(experimentKey, 'loss', 30)).toHaveLength(30)
    for (const { ask } of redis.nodes) {
      // The number that BullMQ counts jobs by stays when they are done.
      const names = (await ask.keys('*:metrics*:id')) as string[]
      const counted = await Promise.all(names.map(async (it) => Number(await ask.get(it))))
      expect(counted.reduce((sum, it) => sum + it, 0)).toBeGreaterThan(0)
    }
  })

  it('shares token buckets between processes', async () => {
    const buckets = await openSharedBuckets({ url: redis.url, prefix: 'test', onError: () => undefined })
    const ids = Array.from({ length: 20 }, (_, nth) => `bucket ${nth}`)
    for (const id of ids) expect(await buckets.take(id, 100, 60, 60)).toMatchObject({ granted: 60 })
    for (const id of ids) expect(await buckets.take(id, 100, 60, 60)).toMatchObject({ granted: 0 })
    await buckets.close()
  })

  it('is rejected when one of its masters could lose acknowledged writes', async () => {
    const open = (replicas: number) => {
      const settings = { redisUrl: redis.url, postgresUrl: '', prefix: 'x', onError: () => undefined, replicas }
      return openQueueBackend(settings)
    }
    const [one, none] = [open(1), open(0)]
    await expect(one.check()).rejects.toThrow(/has 0 replicas, but SVC_QUEUE_REPLICAS requires 1/)
    await none.check()
    expect(await none.findWeakness()).toMatch(/SVC_QUEUE_REPLICAS is 0/)
    const last = redis.nodes.at(-1)?.ask
    await last?.config('SET', 'appendonly', 'no')
    await expect(none.check()).rejects.toThrow(/Redis keeps nothing on disk/)
    await last?.config('SET', 'appendonly', 'yes')
    await none.check()
    await Promise.all([one.close(), none.close()])
  })

  it('does not acknowledge a write that no replica has', async () => {
    const settings = { redisUrl: redis.url, postgresUrl: '', prefix: 'unkept', onError: () => undefined, replicas: 1 }
    const backend = openQueueBackend(settings)
    const producer = await backend.openProducer('metrics')
    await expect(producer.add({ rows: 1, receivedMs: 0, bytes: Buffer.from('x') })).rejects.toThrow(/on 0 replicas/)
    await backend.close()
  })

  it('has workers that also drain removed parts of a queue', async () => {
    const settings = { redisUrl: redis.url, postgresUrl: '', prefix: 'fewer', onError: () => undefined, replicas: 0 }
    const [four, one] = [4, 1].map((shards) => openQueueBackend({ ...settings, shards })) as [
      QueueBackend,
      QueueBackend,
    ]
    const producer = await four.openProducer('metrics')
    for (const rows of [1, 2, 3, 4]) await producer.add({ rows, receivedMs: 0, bytes: Buffer.from('x') })
    expect((await producer.load()).blocks).toBe(4)

    const stored = new Set<number>()
    const consumer = await one.openConsumer({
      name: 'metrics',
      jobsAtOnce: 4,
      store: async ({ rows }) => void stored.add(rows),
      onError: () => undefined,
    })
    await eventually(() => expect(stored).toEqual(new Set([1, 2, 3, 4])))
    await consumer.close()
    await Promise.all([four.close(), one.close()])
  })

  it('accepts writes on the other masters when one is lost', async () => {
    const { client } = service
    const experimentKey = await client.createExperiment()
    await redis.nodes[2]?.kill()
    const acknowledged = new Set<number>()
    let step = 0
    await eventually(async () => {
      // At once: one that is refused waits for the lost master first.
      await Promise.all(
        Array.from({ length: 10 }, async () => {
          const at = step++
          const answer = await client.post('/write/experiment/metric', { experimentKey, ...aPoint({ step: at }) })
          if (answer.status === 200) acknowledged.add(at)
          expect([200, 503]).toContain(answer.status)
        }),
      )
      if (acknowledged.size < 20) throw new Error(`${acknowledged.size} of 20 were taken`)
    }, 120_000)
    const points = await client.readPoints(experimentKey, 'loss', acknowledged.size)
    const read = new Set(points.map((it) => it.step))
    for (const it of acknowledged) expect(read.has(it)).toBe(true)
    // Nor does the service take itself for unfit, once it knows which masters are left.
    await eventually(async () => expect((await fetch(`${service.url}/readyz`)).status).toBe(200))
  })
})

describe.skipIf(!canRunRedis || form === 'short')('Redis behind Sentinels', () => {
  it('accepts writes after a failover, which loses no acknowledged write', async () => {
    const redis = await openRedisSentinel(folder)
    const stores = { ...(await openOwnStores('postgres')), redisUrl: redis.url }
    // No worker yet: what is acknowledged is in the queue, and nowhere else.
    const ingest = await openTestService({ stores, roles: new Set(['ingest', 'api'] as const) })
    try {
      const { client } = ingest
      const experimentKey = await client.createExperiment()
      const acknowledged = new Set<number>()
      let step = 0
      const write = async () => {
        const at = step++
        const answer = await client.post('/write/experiment/metric', { experimentKey, ...aPoint({ step: at }) })
        expect([200, 503]).toContain(answer.status)
        if (answer.status === 200) acknowledged.add(at)
      }
      while (acknowledged.size < 50) await write()
      await redis.master.kill()
      await eventually(async () => {
        await Promise.all(Array.from({ length: 10 }, write))
        if (acknowledged.size < 100) throw new Error('not taken again yet')
      }, 120_000)

      const worker = await openTestService({ stores, roles: new Set(['worker'] as const) })
      const points = await client.readPoints(experimentKey, 'loss', acknowledged.size)
      const read = new Set(points.map((it) => it.step))
      for (const it of acknowledged) expect(read.has(it)).toBe(true)
      expect(points).toHaveLength(read.size)
      await worker.close()
    } finally {
      await ingest.close()
      await redis.close()
    }
  })
})
