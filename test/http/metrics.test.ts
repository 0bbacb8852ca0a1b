import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { StoreUrls } from '../../cli/settings.ts'
import { createClosers } from '../../runtime/closers.ts'
import { findFreePort } from '../../store/embedded/free-port.ts'
import { openDatabase } from '../../store/postgres/database.ts'
import { insertDeadLetter } from '../../store/postgres/dead-letters.ts'
import { openQueueBackend } from '../../store/queue/open-queue.ts'
import { aPoint } from '../kit/builders.ts'
import { eventually } from '../kit/eventually.ts'
import { availableQueues, openOwnStores, openTestService, uniqueName } from '../kit/service.ts'

const closers = createClosers()
afterEach(() => closers.closeAll())

type Sample = { name: string; labels: Record<string, string>; value: number }

async function readMetrics(url: string) {
  const text = await (await fetch(`${url}/metrics`)).text()
  const samples = [...text.matchAll(/^(\w+)(?:\{(.*)\})? (\S+)$/gm)].map(([, name, labels = '', value]) => ({
    name: name as string,
    labels: Object.fromEntries([...labels.matchAll(/(\w+)="([^"]*)"/g)].map(([, key, its]) => [key, its])),
    value: Number(value),
  })) as Sample[]
  return {
    text,
    samples,
    find: (name: string, labels: Record<string, string> = {}) =>
      samples.find((it) => it.name === name && Object.entries(labels).every(([key, its]) => it.labels[key] === its))
        ?.value,
  }
}

let stores: StoreUrls
beforeAll(async () => {
  stores = await openOwnStores('postgres')
})

async function openService() {
  const settings = { SVC_QUEUE_PREFIX: uniqueName('queue') }
  const service = await openTestService({ stores, settings, intervals: { storeMetricsMs: 100 } })
  closers.push(() => service.close())
  return service
}

it('docs/metrics.md lists every metric of /metrics with its labels', async () => {
  const { url, client } = await openService()
  const experimentKey = await client.createExperiment()
  await client.post('/write/experiment/metric', { experimentKey, ...aPoint() })
  await client.readPoints(experimentKey, 'loss', 1)
  const file = readFileSync(fileURLToPath(new URL('../../docs/metrics.md', import.meta.url)), 'utf8')
  const documented = [...file.matchAll(/^\| `(svc_\w+)` +\| (\w+) +\| (.*?) +\| (.*?) +\|$/gm)]

  const { text, samples } = await eventually(async () => {
    const metrics = await readMetrics(url)
    expect(metrics.find('svc_clickhouse_parts', { table: 'points' })).toBeGreaterThan(0)
    return metrics
  })

  const told = [...text.matchAll(/^# HELP (svc_\w+) (.*)\n# TYPE \S+ (\w+)$/gm)]
  expect(documented.map(([, name, type, , help]) => [name, type, help])).toEqual(
    told.map(([, name, help, type]) => [name, type, help]).toSorted(([a = ''], [b = '']) => (a < b ? -1 : 1)),
  )
  const labelsOf = new Map(documented.map(([, name, , labels]) => [name, labels?.match(/\w+/g) ?? []]))
  for (const { name, labels } of samples) {
    const documentedLabels = labelsOf.get(name) ?? labelsOf.get(name.replace(/_(bucket|sum|count)$/, ''))
    if (!name.startsWith('svc_')) continue
    expect(documentedLabels, name).toEqual(Object.keys(labels).filter((it) => it !== 'le'))
  }
})

it('counts sign-ins by the way and the outcome', async () => {
  const { url, apiKey } = await openService()
  const signIn = (key: string) =>
    fetch(`${url}/session`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ apiKey: key }),
    })
  expect((await signIn(apiKey)).status).toBe(200)
  expect((await signIn(`${apiKey}x`)).status).toBe(401)
  await fetch(`${url}/?token=unknown`, { redirect: 'manual' })
  const { find } = await readMetrics(url)
  expect(find('svc_sign_ins_total', { way: 'key', outcome: 'opened' })).toBe(1)
  expect(find('svc_sign_ins_total', { way: 'key', outcome: 'refused' })).toBe(1)
  expect(find('svc_sign_ins_total', { way: 'link', outcome: 'refused' })).toBe(1)
})

it('counts and times requests by answer, on the fast path and through Node', async () => {
  const { url, client } = await openService()
  const experimentKey = await client.createExperiment()
  const route = { tier: 'ingest', method: 'POST', route: '/write/experiment/metric' }

  for (let step = 1; step <= 3; step++) {
    await client.post('/write/experiment/metric', { experimentKey, ...aPoint({ step }) })
  }
  await client.post('/write/experiment/metric', { experimentKey: 'unknown', ...aPoint() })
  // An encoding keeps it from the fast path.
  const odd = { headers: { 'content-encoding': 'zip' } }
  const { status } = await client.post('/write/experiment/metric', { experimentKey }, odd)
  await client.post('/write/experiment/metric', { experimentKey }, { apiKey: 'nobody' })

  await eventually(async () => {
    const metrics = await readMetrics(url)
    const count = (its: number) => metrics.find('svc_http_requests_total', { ...route, status: String(its) })
    expect(count(200)).toBe(3)
    expect(count(400)).toBe(status === 400 ? 2 : 1)
    expect(count(401)).toBe(1)
    expect(count(status)).toBeGreaterThan(0)
    expect(metrics.find('svc_http_request_duration_seconds_count', route)).toBe(6)
    expect(metrics.find('svc_http_request_duration_seconds_bucket', { ...route, le: '+Inf' })).toBe(6)
    expect(metrics.find('svc_http_request_duration_seconds_sum', route)).toBeGreaterThan(0)
    const tiers = new Set(
      metrics.samples.filter((it) => it.name === 'svc_http_requests_total').map((it) => it.labels.tier),
    )
    expect([...tiers].toSorted()).toEqual(['api', 'ingest'])
  })
})

describe.each(availableQueues())('with the queue in %s', (queue) => {
  it('reports the age of the oldest block, even without a worker', async () => {
    const own = await openOwnStores(queue)
    const prefix = uniqueName('queue')
    const backend = openQueueBackend({ ...own, prefix, onError: () => undefined })
    closers.push(() => backend.close())
    const producer = await backend.openProducer('metrics')
    expect(await producer.oldestReceivedMs()).toBeUndefined()
    expect(await producer.oldestAddedMs()).toBe(Number.POSITIVE_INFINITY)

    const beforeMs = Date.now()
    await producer.add({ rows: 1, receivedMs: 1_000, bytes: Buffer.from('first') })
    const addedMs = Number(await producer.oldestAddedMs())
    expect(addedMs).toBeGreaterThanOrEqual(beforeMs)
    expect(addedMs).toBeLessThanOrEqual(Date.now())
    await producer.add({ rows: 1, receivedMs: 2_000, bytes: Buffer.from('second') })
    expect(await producer.oldestReceivedMs()).toBe(1_000)

    let store = () => {}
    const stored = new Promise<void>((resolve) => {
      store = resolve
    })
    const consumer = await backend.openConsumer({
      name: 'metrics',
      jobsAtOnce: 2,
      store: () => stored,
      onError: () => undefined,
    })
    closers.push(() => consumer.close())
    // Also while it is at work.
    expect(await producer.oldestReceivedMs()).toBe(1_000)
    expect(await producer.oldestAddedMs()).toBe(addedMs)
    store()
    await eventually(async () => expect(await producer.oldestReceivedMs()).toBeUndefined())
    expect(await producer.oldestAddedMs()).toBe(Number.POSITIVE_INFINITY)
  })

  it('does not look for the oldest of a thousand blocks and more', async () => {
    const own = await openOwnStores(queue)
    const backend = openQueueBackend({ ...own, prefix: uniqueName('queue'), onError: () => undefined })
    closers.push(() => backend.close())
    const producer = await backend.openProducer('metrics')
    const add = () => producer.add({ rows: 1, receivedMs: 1_000, bytes: Buffer.from('block') })
    await Promise.all(Array.from({ length: 1_000 }, add))
    expect(await producer.oldestAddedMs()).toBeLessThanOrEqual(Date.now())
    await add()
    expect(await producer.oldestAddedMs()).toBeUndefined()
  })
})

it('counts the stored dead letters', async () => {
  const { url } = await openService()
  const database = openDatabase({ url: stores.postgresUrl, connectionsMax: 1, onError: () => undefined })
  closers.push(() => database.close())
  const letter = { queue: 'metrics', rows: 7, receivedMs: 1, reason: 'x', bytes: Buffer.from('x') }
  await insertDeadLetter(database, letter)
  await insertDeadLetter(database, letter)

  await eventually(async () => {
    const metrics = await readMetrics(url)
    expect(metrics.find('svc_dead_letters')).toBe(2)
    expect(metrics.find('svc_dead_letter_rows')).toBe(14)
  })
})

it('are at their one address only: a proxy that closes it closes them', async () => {
  const { url } = await openService()
  expect((await readMetrics(url)).samples.length).toBeGreaterThan(10)
  expect((await fetch(`${url}/metrics?a=b`)).status).toBe(200)
  for (const path of ['/metrics/', '/%6detrics', '/metric%73', '/%6Detrics/', '/metrics/?a']) {
    const answer = await fetch(url + path)
    expect([answer.status, (await answer.text()).includes('svc_http_requests_total')], path).toEqual([404, false])
  }
})

it('with a port of their own, metrics are there, and not at the address of the service', async () => {
  const port = await findFreePort()
  const service = await openTestService({ settings: { SVC_METRICS_PORT: String(port) } })
  try {
    const elsewhere = await fetch(`http://127.0.0.1:${port}/metrics`)
    expect(await elsewhere.text()).toContain('svc_role_info{')
    expect((await fetch(`http://127.0.0.1:${port}/livez`)).status).toBe(404)
    expect((await fetch(`${service.url}/metrics`)).status).toBe(404)
    expect((await fetch(`${service.url}/livez`)).status).toBe(200)
  } finally {
    await service.close()
  }
})
