import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { findFreePort } from '../../../store/embedded/free-port.ts'
import { eventually } from '../../../test/kit/eventually.ts'
import { inForm } from '../../../test/kit/form.ts'
import { createClient } from '../../../test/kit/http/client.ts'
import { aFolder, runSvc } from '../../../test/kit/processes/svc.ts'
import { openTestService, uniqueName } from '../../../test/kit/service.ts'
import { openProxy } from '../../../test/kit/stores/proxy.ts'
import { Experiment, MonitoringLogger } from '../src/node/index.ts'
import { connectionTo, createTestLog, expectCounts, expectEvent } from './stored.ts'

const closers: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close()
})
const onClose = (close: () => unknown) => void closers.push(close)

const messages = (logger: Experiment | MonitoringLogger) => logger.loggingErrors(false).map((it) => it.message)

/** `npm start` as a process, which may be killed and started again on the same address and data. */
async function openKillable() {
  const folder = await aFolder(onClose)
  const port = await findFreePort()
  const apiKey = 'key-of-the-client-tests-0123456789'
  const url = `http://127.0.0.1:${port}`
  const settings = { SVC_PORT: String(port), SVC_DATA_DIR: folder, SVC_BOOTSTRAP_API_KEY: apiKey }
  let running: ReturnType<typeof runSvc> | undefined
  const user = { url, apiKey, workspaceName: 'default' }
  return {
    ...user,
    client: createClient(url, user),
    async start() {
      const started = runSvc(['up'], settings, onClose)
      running = started
      await eventually(async () => {
        if (started.hasEnded()) throw new Error(`svc up ended:\n${started.stdout()}${started.stderr()}`)
        expect((await fetch(`${url}/readyz`)).status).toBe(200)
      }, 120_000)
    },
    async kill() {
      running?.kill('SIGKILL')
      await running?.ended
    },
  }
}

describe('a service that is killed again and again', () => {
  it('stores each point and each event once', async () => {
    const service = await openKillable()
    await service.start()
    const experiment = Experiment.create({ ...connectionTo(service), batchWaitMs: 50 })
    const model = { workspaceName: 'default', modelName: uniqueName('model') }
    const logger = new MonitoringLogger({ ...connectionTo(service), ...model, batchSize: 50, batchWaitMs: 50 })
    let step = 0
    async function log(steps: number) {
      for (const last = step + steps; step < last; step++) {
        experiment.logMetrics({ loss: 1 / (step + 1), accuracy: step }, { step })
        if (step % 10 === 0) experiment.logParameter(`parameter ${(step / 10) % 50}`, step)
        logger.logEvent({ predictionId: `event ${step}`, inputFeatures: { step }, labels: { value: step % 2 } })
        if (step % 10 === 0) await sleep(1)
      }
    }
    for (let round = 0; round < inForm({ short: 1, middle: 1, long: 5 }); round++) {
      await log(500)
      await service.kill()
      await log(500)
      const away = [experiment, logger].map((it) =>
        eventually(() => expect(messages(it).join()).toContain('wait in memory')),
      )
      await Promise.all(away)
      await service.start()
    }
    await Promise.all([experiment.end(120_000), logger.end(120_000)])
    expect([...messages(experiment), ...messages(logger)].filter((it) => it.includes('given up'))).toEqual([])
    for (const [name, toValue] of [
      ['loss', (at: number) => 1 / (at + 1)],
      ['accuracy', (at: number) => at],
    ] as const) {
      const points = await service.client.readPoints(experiment.key, name, step)
      const found = points
        .map((it) => [it.step, Number(it.metricValue)])
        .sort(([a], [b]) => (a as number) - (b as number))
      expect(found).toEqual(Array.from({ length: step }, (_, at) => [at, toValue(at)]))
    }
    const { body } = await service.client.get(`/experiment/parameters?experimentKey=${experiment.key}`)
    const values = body.values as { name: string; valueCurrent: string }[]
    expect(Object.fromEntries(values.map((it) => [it.name, Number(it.valueCurrent)]))).toEqual(
      Object.fromEntries(Array.from({ length: 50 }, (_, at) => [`parameter ${at}`, step - 500 + at * 10])),
    )
    await expectCounts(service.client, model, { events: step, labels: step })
    for (let at = 0; at < step; at += 97) {
      const want = { features: { step: ['integer', at] }, labels: { value: ['integer', at % 2] } }
      await expectEvent(service.client, { ...model, predictionId: `event ${at}` }, want)
    }
  })
})

describe('a service that throttles', () => {
  it('is waited for, and stores each point and each event once', async () => {
    const settings = { SVC_POINTS_PER_MINUTE: '1200', SVC_EVENTS_PER_MINUTE: '1200' }
    const service = await openTestService({ settings })
    onClose(service.close)
    const log = createTestLog()
    const experiment = Experiment.create({ ...connectionTo(service, log), batchWaitMs: 1 })
    const model = { workspaceName: service.workspaceName, modelName: uniqueName('model') }
    const logger = new MonitoringLogger({ ...connectionTo(service), ...model, batchSize: 100 })
    const isTold = () => log.lines.join().includes('(what is logged waits meanwhile)')
    let step = 0
    // Twenty more may be sent each second: on a machine that is busy otherwise it takes more until the limit is reached.
    for (; step < 1_250 || (!isTold() && step < 5_000); step++) {
      experiment.logMetric('loss', step, { step })
      logger.logEvent({ predictionId: `event ${step}` })
      if (step % 100 === 0) await experiment.flush()
    }
    await Promise.all([experiment.end(120_000), logger.end(120_000)])
    expect([...messages(experiment), ...messages(logger)]).toEqual([])
    expect(isTold()).toBe(true)
    const points = await service.client.readPoints(experiment.key, 'loss', step)
    expect(points.map((it) => it.step).sort((a, b) => Number(a) - Number(b))).toEqual([...Array(step).keys()])
    await expectCounts(service.client, model, { events: step })
  })
})

describe('a service that is away', () => {
  it('has everything once it is back, made experiments as well', async () => {
    const service = await openTestService()
    onClose(service.close)
    const proxy = await openProxy(service.url)
    onClose(proxy.close)
    proxy.cut()
    const experiment = Experiment.create(connectionTo({ ...service, url: proxy.url }))
    for (let step = 0; step < 100; step++) experiment.logMetric('loss', step, { step })
    experiment.setName('made while nobody was there')
    await eventually(() =>
      expect(messages(experiment)[0]).toMatch(/^the service cannot be reached at .*Up to 64 MiB wait/),
    )
    proxy.restore()
    await experiment.end()
    expect(await service.client.readPoints(experiment.key, 'loss', 100)).toHaveLength(100)
  })

  it('is not missed when it is back while the logger ends, however long the pause was to be', async () => {
    const service = await openTestService()
    onClose(service.close)
    const proxy = await openProxy(service.url)
    onClose(proxy.close)
    proxy.cut()
    const modelName = uniqueName('model')
    const connection = connectionTo({ ...service, url: proxy.url })
    const logger = new MonitoringLogger({ ...connection, modelName, batchSize: 1 })
    const random = vi.spyOn(Math, 'random').mockReturnValue(1e6)
    onClose(() => random.mockRestore())
    logger.logEvent({ predictionId: 'one' })
    await eventually(() => expect(messages(logger).join()).toContain('cannot be reached'))
    proxy.restore()
    await logger.end()
    await expectCounts(service.client, { workspaceName: service.workspaceName, modelName }, { events: 1 })
  })

  it('may hang: what was sent into nothing is sent again', async () => {
    const service = await openTestService()
    onClose(service.close)
    const proxy = await openProxy(service.url)
    onClose(proxy.close)
    const modelName = uniqueName('model')
    const connection = connectionTo({ ...service, url: proxy.url })
    const logger = new MonitoringLogger({ ...connection, modelName, requestTimeoutMs: 300, batchSize: 1 })
    logger.logEvent({ predictionId: 'before' })
    await logger.flush()
    proxy.freeze()
    logger.logEvent({ predictionId: 'meanwhile' })
    await eventually(() => expect(messages(logger).join()).toContain('has not answered for 300 ms'))
    proxy.restore()
    await logger.end()
    expect(messages(logger).join()).not.toContain('already')
    await expectCounts(service.client, { workspaceName: service.workspaceName, modelName }, { events: 2 })
  })

  it('costs what does not fit, which is counted and told, and no more time at the end than was given', async () => {
    const connection = connectionTo({
      url: `http://127.0.0.1:${await findFreePort()}`,
      apiKey: 'key',
      workspaceName: 'x',
    })
    const logger = new MonitoringLogger({ ...connection, modelName: 'model', queueBytesMax: 100_000, batchSize: 1 })
    logger.logEvent({ predictionId: 'first' })
    await eventually(() => expect(messages(logger)).toHaveLength(1))
    for (let it = 0; it < 1_000; it++) logger.logEvent({ predictionId: `event ${it}`, inputFeatures: { it } })
    const dropped = logger.loggingErrors()[1]
    expect(dropped?.message).toBe('dropped: the queue is full (100000 bytes), while the service is away')
    const kept = 1_001 - (dropped?.count as number)
    expect(kept).toBeGreaterThan(100)
    expect(dropped?.affected[0]).toBe(`event ${kept - 1}`)
    await logger.end(100)
    expect(messages(logger).at(-1)).toMatch(new RegExp(`^${kept} entries were not sent within 100 ms and are given up`))
  })
})

/** A peer that answers what it is told to; an answer of undefined breaks the connection. */
async function openPeer(listener: RequestListener): Promise<string> {
  const server = createServer(listener)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onClose(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

describe('an answer', () => {
  it.each([
    [503, '{"msg":"away"}'],
    [502, '<html>'],
    [404, 'no backend'],
    [200, '<html>please sign in</html>'],
    [500, '{"msg":"a fault"}'],
  ])('of %s %s is waited out, and Retry-After with it', async (status, text) => {
    const times: number[] = []
    const bodies: string[] = []
    const url = await openPeer(async (request, response) => {
      let body = ''
      for await (const chunk of request) body += chunk
      if (request.method === 'POST') {
        times.push(performance.now())
        bodies.push(`${request.headers['idempotency-key']} ${body}`)
      }
      if (times.length === 1) return response.writeHead(status, { 'retry-after': '1' }).end(text)
      response.end('{"code":200,"accepted":1,"rejected":[],"rejectedCount":0,"throttled":0}')
    })
    const experiment = Experiment.continue('a'.repeat(32), connectionTo({ url, apiKey: 'key', workspaceName: 'x' }))
    experiment.logMetric('loss', 1)
    await experiment.flush()
    if (status === 503 || status === 500 || status === 502) {
      expect((times[1] as number) - (times[0] as number)).toBeGreaterThanOrEqual(999)
    }
    // The same request with the same key, by which the service knows it again.
    expect(bodies[0]).toBe(bodies[1])
    expect(messages(experiment)).toHaveLength(1)
    await experiment.end()
  })

  it('that says too much splits the batch, and costs only what is too much', async () => {
    const stored: string[] = []
    const url = await openPeer(async (request, response) => {
      let body = ''
      for await (const chunk of request) body += chunk
      const ids = [...body.matchAll(/"predictionId":"(\w+)"/g)].map((it) => it[1] as string)
      if (ids.includes('poison')) return response.writeHead(413).end('{"msg":"too much for me"}')
      stored.push(...ids)
      response.end('{"code":200,"accepted":1,"rejected":0,"duplicates":0,"labels":{"duplicates":0},"faults":[]}')
    })
    const logger = new MonitoringLogger({
      ...connectionTo({ url, apiKey: 'key', workspaceName: 'x' }),
      modelName: 'model',
    })
    for (const predictionId of ['a', 'b', 'poison', 'c', 'd']) logger.logEvent({ predictionId })
    await logger.end()
    expect(stored).toEqual(['a', 'b', 'c', 'd'])
    expect(logger.loggingErrors()).toMatchObject([
      { message: expect.stringContaining('too much for me'), affected: ['poison'] },
    ])
  })
})
