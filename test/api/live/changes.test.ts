import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import { createClosers } from '../../../runtime/closers.ts'
import { aPoint } from '../../kit/builders.ts'
import { eventually } from '../../kit/eventually.ts'
import type { TestClient } from '../../kit/http/client.ts'
import { uniqueName } from '../../kit/service.ts'
import { openTwoUsers, type TwoUsers } from '../accounts/two-users.ts'
import { codes, expectRefusal } from '../http-error.ts'

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

type Metric = { experimentKey: string; metricName: string; context: string | null; lastValue: number; count: number }
type Event = { event: string; data: Record<string, unknown> }

async function open(body: Record<string, unknown>, apiKey = service.apiKey) {
  const abort = new AbortController()
  closers.push(async () => abort.abort())
  const answer = await fetch(`${service.url}/api/rest/v2/experiments/stream`, {
    method: 'POST',
    headers: { authorization: apiKey, 'content-type': 'application/json' },
    body: JSON.stringify(body),
    signal: abort.signal,
  })
  expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'text/event-stream'])
  const events: Event[] = []
  void (async () => {
    let text = ''
    for await (const chunk of (answer.body as ReadableStream<Uint8Array>).pipeThrough(new TextDecoderStream())) {
      text += chunk
      const blocks = text.split('\n\n')
      text = blocks.pop() as string
      for (const block of blocks.filter((it) => !it.startsWith(':'))) {
        const fields = Object.fromEntries(block.split('\n').map((line) => line.split(/: (.*)/s).slice(0, 2)))
        events.push({ event: fields.event, data: JSON.parse(fields.data) })
      }
    }
  })().catch(() => undefined)
  const of = (event: string) => events.filter((it) => it.event === event).map((it) => it.data)
  return {
    close: () => abort.abort(),
    states: () => of('state').map((it) => it.experimentKey),
    metrics: () => of('changes').flatMap((it) => it.metrics as Metric[]),
    lines: () => of('changes').flatMap((it) => it.output as { experimentKey: string; lines: number }[]),
    stored: () => of('stored').flatMap((it) => it.experimentKeys as string[]),
    deleted: () => of('deleted').map((it) => it.experimentKey),
    position: () => of('changes').at(-1)?.position as string,
  }
}

const log = async (experimentKey: string, fields: Parameters<typeof aPoint>[0]) =>
  expect((await client.post('/write/experiment/metric', { experimentKey, ...aPoint(fields) })).status).toBe(200)

it('a live read and the stream from its position have every point once, while it is being written', async () => {
  const keys = await Promise.all([1, 2, 3].map(() => client.createExperiment()))
  let written = 0
  let isWriting = true
  const writing = Promise.all(
    keys.map(async (key, at) => {
      for (let step = 0; isWriting; step++) {
        await log(key, { step, metricValue: at * 1_000_000 + step })
        written++
      }
    }),
  )
  const series = keys.map((experimentKey) => ({ experimentKey, metricName: 'loss' }))
  type Read = { position: string; series: { experimentKey: string; total: number }[] }
  const read = async () => (await client.post('/experiments/series', { series, live: true })).body as Read
  const first = await eventually(async () => {
    const answer = await read()
    expect(answer.series.length).toBe(3)
    return answer
  }, 30_000)
  let counted = first.series.reduce((sum, it) => sum + it.total, 0)
  // Each stream goes on where the one before it was.
  let { position } = first
  for (let round = 0; round < 3; round++) {
    const stream = await open({ experimentKeys: keys, position })
    await eventually(() => expect(stream.metrics().length).toBeGreaterThan(3), 30_000)
    if (round === 2) {
      isWriting = false
      await writing
      await eventually(
        () => expect(counted + stream.metrics().reduce((sum, it) => sum + it.count, 0)).toBe(written),
        30_000,
      )
    }
    stream.close()
    position = stream.position()
    counted += stream.metrics().reduce((sum, it) => sum + it.count, 0)
  }
  expect(counted).toBe(written)
  expect(written).toBeGreaterThan(10)
})

it('a project tells of runs that begin, of output, and of the newest point of each metric', async () => {
  const projectName = uniqueName('live')
  const old = await client.createExperiment({ projectName })
  const stream = await open({ workspaceName: service.workspaceName, projectName })
  await eventually(() => expect(stream.states()).toContain(old), 30_000)
  const key = await client.createExperiment({ projectName })
  await log(key, { step: 3, metricValue: 7, timestamp: 1_700_000_000_003 })
  await log(key, { step: 2, metricValue: 'NaN', context: 'val' })
  await client.post('/write/experiment/output', { experimentKey: key, outputLines: [{ output: 'a' }, { output: 'b' }] })
  await eventually(() => {
    expect(stream.states()).toContain(key)
    const total = { metricName: 'loss', experimentKey: key, count: 1 }
    expect(stream.metrics()).toEqual(
      expect.arrayContaining([
        { ...total, context: null, lastStep: 3, lastValue: 7, lastTime: 1_700_000_000_003 },
        { ...total, context: 'val', lastStep: 2, lastValue: 'NaN', lastTime: 1_700_000_000_000 },
      ]),
    )
    expect(stream.lines().reduce((sum, it) => sum + it.lines, 0)).toBe(2)
  }, 30_000)

  // Nothing of it for who may not see it.
  const fields = { workspaceName: service.workspaceName, projectName }
  expectRefusal(await service.stranger.post('/experiments/stream', fields), 400, codes.projectUnknown, /./)
  const wrong = await client.post('/experiments/stream', { ...fields, position: 'x' })
  expectRefusal(wrong, 400, codes.badRequest, /^position: /)
})

it('tells at once of which experiments something newer is stored, resource usage too, and which are deleted', async () => {
  const keys = await Promise.all([1, 2, 3].map(() => client.createExperiment()))
  const [point, usage, quiet] = keys as [string, string, string]
  const stream = await open({ experimentKeys: keys })
  await eventually(() => expect(stream.states().toSorted()).toEqual(keys.toSorted()), 30_000)
  await log(point, { step: 1, metricValue: 1 })
  await eventually(() => expect(stream.stored()).toEqual([point]), 30_000)
  await client.post('/write/experiment/load-metrics', { experimentKey: usage, loadAverage: 0.25 })
  await eventually(() => expect(stream.stored()).toEqual([point, usage]), 30_000)
  await eventually(
    () =>
      expect(stream.metrics().map((it) => [it.experimentKey, it.metricName])).toContainEqual([
        usage,
        'sys.load.average',
      ]),
    30_000,
  )
  await client.get(`/write/experiment/delete?experimentKey=${quiet}`)
  await eventually(() => expect(stream.deleted()).toEqual([quiet]), 30_000)
})
