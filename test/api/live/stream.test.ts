import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { createClosers } from '../../../runtime/closers.ts'
import { aPoint } from '../../kit/builders.ts'
import { eventually } from '../../kit/eventually.ts'
import { createClient, type TestClient } from '../../kit/http/client.ts'
import { startRole } from '../../kit/processes/svc.ts'
import { createUser, openOwnStores, openTestService, storesWith } from '../../kit/service.ts'
import { openProxy } from '../../kit/stores/proxy.ts'
import { openTwoUsers, type TwoUsers } from '../accounts/two-users.ts'
import { codes } from '../http-error.ts'

/** Looks of the streams at the stores. */
const intervals = { liveMs: 100 }

let service: TwoUsers
let client: TestClient
beforeAll(async () => {
  service = await openTwoUsers({ intervals })
  client = service.client
})
afterAll(() => service?.close())

const closers = createClosers()
afterEach(() => closers.closeAll())

type Event = { id: string; event: string; data: Record<string, unknown> }

/** Opens the stream of an experiment and gathers its events. */
async function open(
  experimentKey: string,
  { lastId, apiKey = service.apiKey, url = service.url }: Partial<Record<'lastId' | 'apiKey' | 'url', string>> = {},
) {
  const abort = new AbortController()
  closers.push(async () => abort.abort())
  const answer = await fetch(`${url}/api/rest/v2/experiment/stream?experimentKey=${experimentKey}`, {
    headers: { authorization: apiKey, ...(lastId !== undefined && { 'last-event-id': lastId }) },
    signal: abort.signal,
  })
  expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'text/event-stream'])
  const events: Event[] = []
  const ended = (async () => {
    let text = ''
    for await (const chunk of (answer.body as ReadableStream<Uint8Array>).pipeThrough(new TextDecoderStream())) {
      text += chunk
      const blocks = text.split('\n\n')
      text = blocks.pop() as string
      events.push(...blocks.filter((it) => !it.startsWith(':')).map(parseEvent))
    }
  })().then(
    () => 'ended',
    () => 'broken',
  )
  const ofKind = (event: string, field: string) =>
    events.filter((it) => it.event === event).flatMap((it) => it.data[field] as Record<string, unknown>[])
  const stream = {
    events,
    ended,
    close: () => abort.abort(),
    lastId: () => events.at(-1)?.id as string,
    steps: () => ofKind('metrics', 'metrics').map((it) => it.step),
    lines: () => ofKind('output', 'outputLines').map((it) => it.output),
    states: () => events.filter((it) => it.event === 'state').map((it) => it.data),
  }
  await eventually(() => expect(stream.states()).toHaveLength(1))
  return stream
}

function parseEvent(block: string): Event {
  const fields = Object.fromEntries(block.split('\n').map((line) => line.split(/: (.*)/s).slice(0, 2)))
  return { id: fields.id, event: fields.event, data: JSON.parse(fields.data) }
}

const logPoints = async (experimentKey: string, steps: number[]) => {
  for (const step of steps) {
    expect((await client.post('/write/experiment/metric', { experimentKey, ...aPoint({ step }) })).status).toBe(200)
  }
}
const logLine = async (experimentKey: string, output: string) => {
  const outputLines = [{ output, stderr: output.includes('!') }]
  expect((await client.post('/write/experiment/output', { experimentKey, outputLines })).status).toBe(200)
}
const archive = (experimentKey: string) => client.get(`/write/experiment/archive?experimentKey=${experimentKey}`)

describe('the stream of an experiment', () => {
  it('begins with its state, then has each new point, line and state once, and nothing from before', async () => {
    const experimentKey = await client.createExperiment()
    await logPoints(experimentKey, [100, 101])
    await logLine(experimentKey, 'before')
    await client.readPoints(experimentKey, 'loss', 2)
    const stream = await open(experimentKey)
    expect(stream.states()[0]).toMatchObject({ experimentKey, archived: false })

    await client.post('/write/experiment/metric', {
      experimentKey,
      ...aPoint({ step: 1, metricValue: 'NaN', context: 'train', epoch: 2 }),
    })
    await logPoints(experimentKey, [2, 3])
    await logLine(experimentKey, 'one')
    await logLine(experimentKey, 'two!')
    await archive(experimentKey)

    await eventually(() => {
      expect(stream.steps()).toEqual([1, 2, 3])
      expect(stream.lines()).toEqual(['one', 'two!'])
      expect(stream.states().map((it) => it.archived)).toEqual([false, true])
    })
    const metrics = stream.events.filter((it) => it.event === 'metrics').flatMap((it) => it.data.metrics)
    expect(metrics[0]).toEqual({
      metricName: 'loss',
      metricValue: 'NaN',
      timestamp: 1_700_000_000_000,
      step: 1,
      epoch: 2,
      runContext: 'train',
    })
    const output = stream.events.filter((it) => it.event === 'output').flatMap((it) => it.data.outputLines)
    expect(output[1]).toEqual({
      output: 'two!',
      stderr: true,
      timestamp: expect.any(Number),
      offset: null,
      runContext: null,
    })

    // What comes later comes after all of these, none of which is told again.
    await logPoints(experimentKey, [4])
    await logLine(experimentKey, 'three')
    await eventually(() => {
      expect(stream.steps()).toEqual([1, 2, 3, 4])
      expect(stream.lines()).toEqual(['one', 'two!', 'three'])
    })
    expect(stream.states()).toHaveLength(2)
  })

  it('has long lines in parts, which leave other readers their turn', async () => {
    const [experimentKey, other] = [await client.createExperiment(), await client.createExperiment()]
    await logLine(experimentKey, 'before')
    const first = await open(experimentKey)
    await logLine(experimentKey, 'the first')
    await eventually(() => expect(first.lines()).toEqual(['the first']))
    first.close()
    const sent = Array.from({ length: 12 }, (_, at) => `${at} of many`.padEnd(1_000_000, 'x'))
    for (const it of sent) await logLine(experimentKey, it)

    const [stream, beside] = [await open(experimentKey, { lastId: first.lastId() }), await open(other)]
    await logLine(other, 'beside')
    await eventually(() => {
      expect(beside.lines()).toEqual(['beside'])
      expect(stream.lines().map((it) => String(it).slice(0, 12))).toEqual(sent.map((it) => it.slice(0, 12)))
    })
    expect(stream.lines().map((it) => String(it).length)).toEqual(sent.map((it) => it.length))
    const sizes = stream.events.filter((it) => it.event === 'output').map((it) => (it.data.outputLines as []).length)
    expect(Math.max(...sizes)).toBeLessThanOrEqual(8)
  })

  it('goes on after the last event that a reader had, with nothing missing and nothing twice, also to another process', async () => {
    const other = await openTestService({ intervals, roles: new Set(['api']) })
    closers.push(other.close)
    const experimentKey = await client.createExperiment()
    const steps: unknown[] = []
    const lines: unknown[] = []
    const ids = new Set<string>()
    let stream = await open(experimentKey)
    let next = 0
    for (let round = 0; round < 3; round++) {
      await logPoints(experimentKey, [next++, next++])
      await logLine(experimentKey, `line ${round}`)
      await eventually(() => expect(stream.events.length).toBeGreaterThan(1))
      stream.close()
      await stream.ended
      const lastId = stream.lastId()
      ids.add(lastId)
      steps.push(...stream.steps())
      lines.push(...stream.lines())
      await logPoints(experimentKey, [next++])
      stream = await open(experimentKey, { lastId, url: round % 2 === 0 ? other.url : service.url })
    }
    await eventually(() => {
      expect([...steps, ...stream.steps()]).toEqual(Array.from({ length: next }, (_, step) => step))
      expect([...lines, ...stream.lines()]).toEqual([0, 1, 2].map((it) => `line ${it}`))
    })
    expect(ids.size).toBe(3)
  })

  it('has every point of a burst once, in the order they were sent, for all that read along', async () => {
    const experimentKey = await client.createExperiment()
    const streams = [await open(experimentKey), await open(experimentKey)]
    // More than one look reads for each of three readers.
    const count = 9_000
    for (let from = 0; from < count; from += 3_000) {
      const metrics = Array.from({ length: 3_000 }, (_, at) => aPoint({ step: from + at }))
      expect((await client.post('/write/experiment/metrics/batch', { experimentKey, metrics })).status).toBe(200)
    }
    const late = await open(experimentKey, { lastId: streams[0]?.events[0]?.id as string })
    await eventually(() => {
      for (const it of [...streams, late]) expect(it.steps()).toHaveLength(count)
    })
    for (const it of [...streams, late]) expect(it.steps()).toEqual(Array.from({ length: count }, (_, step) => step))
  })

  it('has a request that was sent again under its Idempotency-Key once', async () => {
    const experimentKey = await client.createExperiment()
    const stream = await open(experimentKey)
    const send = () =>
      client.post(
        '/write/experiment/metric',
        { experimentKey, ...aPoint() },
        { headers: { 'idempotency-key': 'same' } },
      )
    await send()
    await eventually(() => expect(stream.steps()).toEqual([1]))
    await send()
    await logPoints(experimentKey, [2])
    await eventually(() => expect(stream.steps()).toContain(2))
    expect(stream.steps()).toEqual([1, 2])
  })

  it('ends when the experiment is deleted, and is then refused', async () => {
    const experimentKey = await client.createExperiment()
    const stream = await open(experimentKey)
    await client.get(`/write/experiment/delete?experimentKey=${experimentKey}`)
    expect(await stream.ended).toBe('ended')
    expect((await client.get(`/experiment/stream?experimentKey=${experimentKey}`)).body.sdk_error_code).toBe(
      codes.experimentUnknown,
    )
  })

  it('is read with a share code, and refused to strangers as if it were not there', async () => {
    const experimentKey = await client.createExperiment()
    const { projectId } = (await client.get(`/experiment/metadata?experimentKey=${experimentKey}`)).body
    const { shareCode } = (await client.get(`/write/project/add-share-link?projectId=${projectId}`)).body
    const stream = await open(`${experimentKey}&shareCode=${shareCode}`, { apiKey: '' })
    expect(stream.states()[0]).toMatchObject({ experimentKey })
    const absentKey = '0'.repeat(32)
    const [foreign, absent] = await Promise.all(
      [experimentKey, absentKey].map((it) => service.stranger.get(`/experiment/stream?experimentKey=${it}`)),
    )
    expect([foreign?.status, foreign?.body.sdk_error_code]).toEqual([400, codes.experimentUnknown])
    expect(absent?.text).toBe(foreign?.text.replace(experimentKey, absentKey))
  })

  it.each(['', 'x', '1-2-3-4-5-6-7', '1-2-3-4-5-6-7-zzzzzzzzzzzzz', '1-2-3-4-5-6-7-8-9', "1-2-3-4-5-6-7-'"])(
    'refuses to go on after %j, which is no id of an event',
    async (lastId) => {
      const experimentKey = await client.createExperiment()
      const path = `/experiment/stream?experimentKey=${experimentKey}`
      const answer = await client.get(path, { headers: { 'last-event-id': lastId } })
      expect([answer.status, answer.body.msg]).toEqual([
        400,
        'Last-Event-ID: expected the id of an event of this stream',
      ])
    },
  )
})

it('what was accepted while ClickHouse was away comes once it is back: all of it, once, in order', async () => {
  const shared = storesWith('postgres')
  const clickhouse = await openProxy(shared.clickhouseUrl)
  closers.push(clickhouse.close)
  const suffering = await openTestService({ stores: await openOwnStores('postgres', clickhouse.url), intervals })
  closers.push(suffering.close)
  const experimentKey = await suffering.client.createExperiment()
  const stream = await open(experimentKey, { url: suffering.url, apiKey: suffering.apiKey })
  const count = 30
  for (let step = 0; step < count; step++) {
    if (step === 10) clickhouse.cut()
    const answer = await suffering.client.post('/write/experiment/metric', { experimentKey, ...aPoint({ step }) })
    expect(answer.status).toBe(200)
    await sleep(50)
  }
  clickhouse.restore()
  await eventually(() => expect(stream.steps()).toHaveLength(count))
  expect(stream.steps()).toEqual(Array.from({ length: count }, (_, step) => step))
})

it('more streams than a process may have are refused with Retry-After, and there is room again once some end', async () => {
  const settings = { SVC_WORKSPACE_STREAMS_MAX: '1000' }
  const wide = await openTestService({ roles: new Set(['ingest', 'api']), settings })
  closers.push(wide.close)
  const experimentKey = await wide.client.createExperiment()
  const path = `/experiment/stream?experimentKey=${experimentKey}`
  const streams = await Promise.all(Array.from({ length: 100 }, () => open(experimentKey, wide)))
  const refused = await wide.client.get(path)
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '10'])
  for (const it of streams) it.close()
  await eventually(() => open(experimentKey, wide))
})

describe('a stopping process', () => {
  it('ends its open streams, and does not wait for them', async () => {
    const stopping = await openTestService({ roles: new Set(['ingest', 'api']) })
    closers.push(stopping.close)
    const experimentKey = await stopping.client.createExperiment()
    const stream = await open(experimentKey, { url: stopping.url, apiKey: stopping.apiKey })
    await stopping.close()
    expect(await stream.ended).toBe('ended')
  })

  it('that gets SIGTERM ends by itself with streams open', async () => {
    const stores = storesWith('postgres')
    const user = await createUser(stores)
    const role = await startRole('api', stores)
    closers.push(async () => role.kill('SIGKILL'))
    const experimentKey = await createClient(role.url, user).createExperiment()
    const stream = await open(experimentKey, { url: role.url, apiKey: user.apiKey })
    role.kill('SIGTERM')
    expect(await role.ended).toEqual({ code: 0, signal: null })
    expect(await stream.ended).toBe('ended')
  })
})
