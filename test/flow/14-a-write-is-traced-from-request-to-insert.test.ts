import { randomBytes } from 'node:crypto'
import { afterEach, describe, expect, it } from 'vitest'
import { createClosers } from '../../runtime/closers.ts'
import { findFreePort } from '../../store/embedded/free-port.ts'
import { aPoint } from '../kit/builders.ts'
import { eventually } from '../kit/eventually.ts'
import { queuesInForm } from '../kit/form.ts'
import { createClient } from '../kit/http/client.ts'
import { type CollectedSpan, type Collector, openCollector } from '../kit/http/otlp-collector.ts'
import { startRole } from '../kit/processes/svc.ts'
import { openOwnStores, openTestService, uniqueName } from '../kit/service.ts'

const closers = createClosers()
afterEach(() => closers.closeAll())

const sent = { start: '00', sampled: '01', unsampled: '00' }
const aTrace = (flags = sent.sampled) => {
  const traceId = randomBytes(16).toString('hex')
  return { traceId, traceparent: `${sent.start}-${traceId}-${randomBytes(8).toString('hex')}-${flags}` }
}

async function openTraced() {
  const collector = await openCollector()
  closers.push(() => collector.close())
  return collector
}

const toCollector = (url: string, settings: Record<string, string> = {}) => ({
  OTEL_EXPORTER_OTLP_ENDPOINT: url,
  OTEL_BSP_SCHEDULE_DELAY: '50',
  ...settings,
})

/** Roles that are traced are processes of their own, with a name of their own; all others run in this one. */
async function openRoles(
  queue: 'redis' | 'postgres',
  traced: Partial<Record<'ingest' | 'worker', Record<string, string>>>,
  settings: Record<string, string> = {},
) {
  const stores = await openOwnStores(queue)
  const shared = { SVC_QUEUE_PREFIX: uniqueName('flow'), ...settings }
  const others = (['ingest', 'worker', 'api'] as const).filter((it) => it === 'api' || !traced[it])
  const rest = await openTestService({ stores, roles: new Set(others), settings: shared })
  closers.push(rest.close)
  const start = async (role: 'ingest' | 'worker') => {
    if (!traced[role]) return undefined
    const running = await startRole(role, stores, { ...shared, ...traced[role] })
    closers.push(async () => {
      running.kill('SIGKILL')
      await running.ended
    })
    return running
  }
  const [ingest] = await Promise.all([start('ingest'), start('worker')])
  const writes = createClient(ingest?.url ?? rest.url, rest)
  return { ingest, user: rest, writes, reads: rest.client, experimentKey: await rest.client.createExperiment() }
}

/** The spans of a trace from the one named to the first, each the parent of the one before. */
function pathTo(collector: Collector, traceId: string, name: string): CollectedSpan[] {
  const spans = collector.spans.filter((it) => it.traceId === traceId)
  const path = spans.filter((it) => it.name === name).slice(0, 1)
  for (;;) {
    const parent = spans.find((it) => it.spanId === path[0]?.parentId)
    if (!parent) return path
    path.unshift(parent)
  }
}

describe.each(queuesInForm())('with the queue in %s', (queue) => {
  it('one trace leads from the request over the queue to the insert, and holds nothing that was sent', async () => {
    const collector = await openTraced()
    const settings = toCollector(collector.url)
    const { writes, reads, user, experimentKey } = await openRoles(queue, { ingest: settings, worker: settings })
    const { traceId, traceparent } = aTrace()

    const point = aPoint({ metricName: 'very-private-name' })
    const answer = await writes.post(
      '/write/experiment/metric',
      { experimentKey, ...point },
      { headers: { traceparent } },
    )

    expect(answer.status, answer.text).toBe(200)
    await reads.readPoints(experimentKey, 'very-private-name', 1)
    const path = await eventually(() => {
      const found = pathTo(collector, traceId, 'INSERT points')
      expect(found.map((it) => `${it.service}: ${it.name}`)).toEqual([
        'svc-ingest: POST /write/experiment/metric',
        'svc-ingest: commit block',
        'svc-ingest: send metrics',
        'svc-worker: process metrics',
        'svc-worker: store batch',
        'svc-worker: INSERT points',
      ])
      return found
    })
    expect(path[0]?.attributes).toEqual({
      'http.request.method': 'POST',
      'http.route': '/write/experiment/metric',
      'http.response.status_code': 200,
    })
    expect(path[0]?.parentId).toBe(traceparent.split('-')[2])
    expect(path.some((it) => it.isError)).toBe(false)
    const all = Buffer.concat(collector.bodies).toString('latin1')
    for (const secret of [user.apiKey, experimentKey, 'very-private-name']) expect(all).not.toContain(secret)
  })

  it('a worker that knows of traces stores the jobs of an ingest that does not', async () => {
    const collector = await openTraced()
    const { writes, reads, experimentKey } = await openRoles(queue, { worker: toCollector(collector.url) })

    const answer = await writes.post('/write/experiment/metric', { experimentKey, ...aPoint() })

    expect(answer.status, answer.text).toBe(200)
    expect(await reads.readPoints(experimentKey, 'loss', 1)).toHaveLength(1)
  })
})

describe('a block that many requests share', () => {
  it('belongs to the first of them, and is linked with all others', async () => {
    const collector = await openTraced()
    const traced = toCollector(collector.url)
    const { writes, experimentKey } = await openRoles('postgres', { ingest: traced }, { SVC_COMMIT_WAIT_MS: '1000' })
    const traces = Array.from({ length: 4 }, () => aTrace())

    const answers = await Promise.all(
      traces.map(({ traceparent }, step) =>
        writes.post('/write/experiment/metric', { experimentKey, ...aPoint({ step }) }, { headers: { traceparent } }),
      ),
    )

    expect(answers.map((it) => it.status)).toEqual([200, 200, 200, 200])
    await eventually(() => {
      const blocks = collector.spans.filter((it) => it.name === 'commit block')
      const requests = collector.spans.filter((it) => it.name === 'POST /write/experiment/metric')
      expect(requests).toHaveLength(4)
      // A machine that is very busy may make several blocks of them: each request is in exactly one.
      const inBlocks = blocks.flatMap((block) => [
        block.traceId,
        ...block.links.map((link) => {
          const request = requests.find((it) => it.spanId === link.spanId)
          expect(request?.links).toEqual([{ traceId: block.traceId, spanId: block.spanId }])
          return link.traceId
        }),
      ])
      expect(inBlocks.toSorted()).toEqual(traces.map((it) => it.traceId).toSorted())
      expect(blocks.length).toBeLessThan(4)
    })
  })
})

describe('what is traced is for the caller and OTEL_TRACES_SAMPLER to say', () => {
  it('a request whose caller does not sample it has no span, nor has what becomes of it', async () => {
    const collector = await openTraced()
    const settings = toCollector(collector.url, {
      OTEL_TRACES_SAMPLER: 'parentbased_traceidratio',
      OTEL_TRACES_SAMPLER_ARG: '0',
    })
    const { writes, reads, experimentKey } = await openRoles('postgres', { ingest: settings, worker: settings })
    const unsampled = aTrace(sent.unsampled)
    const sampled = aTrace()
    const post = async (step: number, headers: Record<string, string>) => {
      const answer = await writes.post('/write/experiment/metric', { experimentKey, ...aPoint({ step }) }, { headers })
      expect(answer.status, answer.text).toBe(200)
      await reads.readPoints(experimentKey, 'loss', step)
    }

    await post(1, {})
    await post(2, { traceparent: unsampled.traceparent })
    await post(3, { traceparent: sampled.traceparent })

    // Spans are sent in their order: when the last request's are there, the others' would be.
    await eventually(() => expect(pathTo(collector, sampled.traceId, 'INSERT points')).toHaveLength(6))
    expect(new Set(collector.spans.map((it) => it.traceId))).toEqual(new Set([sampled.traceId]))
  })

  it('a refusal is traced with its status', async () => {
    const collector = await openTraced()
    const { writes } = await openRoles('postgres', { ingest: toCollector(collector.url) })

    const wrong = { experimentKey: 'unknown', ...aPoint() }
    expect((await writes.post('/write/experiment/metric', wrong)).status).toBe(400)

    await eventually(() =>
      expect(collector.spans.map((it) => it.attributes['http.response.status_code'])).toContain(400),
    )
  })
})

it('a collector that is away costs no write, and the service stops as it should', async () => {
  const away = toCollector(`http://127.0.0.1:${await findFreePort()}`, { OTEL_EXPORTER_OTLP_TIMEOUT: '1000' })
  const { ingest, writes, reads, experimentKey } = await openRoles('postgres', { ingest: away, worker: away })

  for (let step = 1; step <= 5; step++) {
    const answer = await writes.post('/write/experiment/metric', { experimentKey, ...aPoint({ step }) })
    expect(answer.status, answer.text).toBe(200)
  }
  expect(await reads.readPoints(experimentKey, 'loss', 5)).toHaveLength(5)
  await eventually(() => expect(ingest?.output()).toContain('traces could not be sent to the collector'))
  ingest?.kill('SIGTERM')
  expect((await ingest?.ended)?.code).toBe(0)
})

it('a protocol that is not spoken here is told, and nothing else changes', async () => {
  const settings = toCollector('http://127.0.0.1:4317', { OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' })
  const { ingest, writes, experimentKey } = await openRoles('postgres', { ingest: settings })

  expect((await writes.post('/write/experiment/metric', { experimentKey, ...aPoint() })).status).toBe(200)
  expect(ingest?.output()).toContain('set OTEL_EXPORTER_OTLP_PROTOCOL to http/protobuf')
})
