import { afterEach, expect, it } from 'vitest'
import { createClosers } from '../../../runtime/closers.ts'
import { openQueueBackend } from '../../../store/queue/open-queue.ts'
import { openOwnStores, storesWith } from '../../kit/service.ts'
import { openProxy } from '../../kit/stores/proxy.ts'

const closers = createClosers()
afterEach(() => closers.closeAll())

async function openBehindProxy() {
  const { postgresUrl } = await openOwnStores('postgres')
  const proxy = await openProxy(postgresUrl)
  closers.push(proxy.close)
  const backend = openQueueBackend({
    redisUrl: undefined,
    postgresUrl: proxy.url,
    prefix: 'x',
    onError: () => undefined,
  })
  closers.push(() => backend.close())
  return { proxy, backend }
}

const consumer = { name: 'metrics', jobsAtOnce: 1, store: async () => undefined, onError: () => undefined } as const

it('a consumer that cannot connect fails the start without blocking the process', async () => {
  const { proxy, backend } = await openBehindProxy()
  proxy.freeze()

  await expect(backend.openConsumer(consumer)).rejects.toThrow()
  // BullMQ alone would now try again in a loop that lets no timer run.
  await new Promise((resolve) => setTimeout(resolve, 1))
  proxy.restore()
  await (await backend.openConsumer(consumer)).close()
})

it('a producer that cannot connect fails the start, and works when it is opened again', async () => {
  const { proxy, backend } = await openBehindProxy()
  proxy.cut()
  await expect(backend.openProducer('metrics')).rejects.toThrow()
  proxy.restore()

  const producer = await backend.openProducer('metrics')
  await producer.add({ rows: 1, receivedMs: 0, bytes: Buffer.from('block') })
  expect(await producer.load()).toEqual({ blocks: 1, memoryShare: 0, memoryMax: 0 })
})

it('a consumer resumes its jobs when the queue comes back', async () => {
  const { proxy, backend } = await openBehindProxy()
  const producer = await backend.openProducer('metrics')
  const taken = Promise.withResolvers<number>()
  const running = await backend.openConsumer({ ...consumer, store: async ({ rows }) => taken.resolve(rows) })
  closers.push(running.close)

  proxy.cut()
  await expect(producer.add({ rows: 5, receivedMs: 0, bytes: Buffer.from('x') })).rejects.toThrow()
  proxy.restore()
  await producer.add({ rows: 7, receivedMs: 0, bytes: Buffer.from('x') })
  expect(await taken.promise).toBe(7)
})

it.skipIf(storesWith('redis').redisUrl === undefined)('blocks come out of Redis as they went in', async () => {
  const stores = storesWith('redis')
  const backend = openQueueBackend({ ...stores, prefix: `test-${Date.now()}`, onError: () => undefined })
  closers.push(() => backend.close())
  const producer = await backend.openProducer('output')
  const bytes = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte))
  await producer.add({ rows: 3, receivedMs: 12, bytes })
  const taken = Promise.withResolvers<unknown>()
  const running = await backend.openConsumer({
    ...consumer,
    name: 'output',
    store: async (block) => taken.resolve(block),
  })
  closers.push(running.close)
  expect(await taken.promise).toEqual({ rows: 3, receivedMs: 12, bytes })
})
