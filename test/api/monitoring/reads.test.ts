import { afterAll, beforeAll, expect, it } from 'vitest'
import { anEvent } from '../../kit/clients/monitoring.ts'
import { eventually } from '../../kit/eventually.ts'
import { uniqueName } from '../../kit/service.ts'
import { openTwoUsers, type TwoUsers } from '../accounts/two-users.ts'
import { codes, expectRefusal } from '../http-error.ts'

let service: TwoUsers
beforeAll(async () => {
  service = await openTwoUsers()
})
afterAll(() => service?.close())

const hour = 3_600_000
const start = 1_700_000_000_000 - (1_700_000_000_000 % hour)

const send = async (data: Record<string, unknown>[], path = 'events') => {
  const items = data.map((it) => ({ workspaceName: service.workspaceName, ...it }))
  const answer = await service.client.post(`/mpm/v2/${path}/batch`, { data: items })
  expect(answer.status, answer.text).toBe(200)
  return answer.body
}

const get = (path: string, query: Record<string, string>) =>
  service.client.get(`/mpm/v2/${path}?${new URLSearchParams({ workspaceName: service.workspaceName, ...query })}`)

/** Asks until the answer is as expected: what was accepted is readable within seconds. */
const expectSoon = (path: string, query: Record<string, string>, expected: unknown) =>
  eventually(async () => {
    const answer = await get(path, query)
    expect(answer.body, answer.text).toEqual(expected)
    return answer
  }, 15_000)

it('/mpm/v2/event: an event is read with its labels, every value with its type', async () => {
  const modelName = uniqueName('model')
  const features = { int: 7, float: -0.1, yes: true, text: 'a "b"', none: null, ['__proto__']: 1, zero: -0, long: 'x' }
  const event = anEvent({ modelName, predictionId: 'a', features })
  const items = [{ workspaceName: service.workspaceName, ...event, labels: { value: false } }]
  const exact = JSON.stringify({ data: items })
    .replace('"text"', '"most":9223372036854775807,"more":123456789012345678901234567890,"text"')
    .replace('"zero":0', '"zero":-0')
    .replace('"none"', '"__proto__":1,"none"')
  const answer = await service.client.postRaw('/mpm/v2/events/batch', exact)
  expect(answer.body, answer.text).toMatchObject({ accepted: 1, labels: { accepted: 1 } })
  const read = await eventually(async () => {
    const answer = await get('event', { modelName, predictionId: 'a' })
    expect(answer.status, answer.text).toBe(200)
    expect((answer.body.labels as unknown[]).length + (answer.body.features as unknown[]).length).toBe(11)
    return answer
  })
  expect(read.text).toContain('"value":9223372036854775807')
  expect(read.text).toContain('"value":123456789012345678901234567890')
  expect(read.text).toContain('{"name":"zero","type":"float","value":-0}')
  expect(read.body).toEqual({
    predictionId: 'a',
    modelName,
    modelVersion: '1.0.0',
    timestamp: 1_700_000_000_000,
    receivedAt: expect.any(Number),
    features: [
      { name: '__proto__', type: 'integer', value: 1 },
      { name: 'float', type: 'float', value: -0.1 },
      { name: 'int', type: 'integer', value: 7 },
      { name: 'long', type: 'string', value: 'x' },
      { name: 'more', type: 'integer', value: expect.any(Number) },
      { name: 'most', type: 'integer', value: expect.any(Number) },
      { name: 'none', type: 'missing', value: null },
      { name: 'text', type: 'string', value: 'a "b"' },
      { name: 'yes', type: 'boolean', value: true },
      { name: 'zero', type: 'float', value: -0 },
    ],
    prediction: [
      { name: 'probability', type: 'float', value: 0.75 },
      { name: 'value', type: 'string', value: 'ok' },
    ],
    labels: [{ name: 'value', type: 'boolean', value: false }],
    labelsTimestamp: 1_700_000_000_000,
    labelsReceivedAt: expect.any(Number),
  })
})

it('labels that arrive before their event can be read alone', async () => {
  const modelName = uniqueName('model')
  await send([{ modelName, predictionId: 'early', labels: { value: 3 }, timestamp: start }], 'labels')
  await expectSoon(
    'event',
    { modelName, predictionId: 'early' },
    {
      predictionId: 'early',
      modelName,
      modelVersion: '',
      timestamp: null,
      receivedAt: null,
      features: [],
      prediction: [],
      labels: [{ name: 'value', type: 'integer', value: 3 }],
      labelsTimestamp: start,
      labelsReceivedAt: expect.any(Number),
    },
  )
})

it('/mpm/v2/models: models are listed with versions, counts, time range and freshness', async () => {
  const modelName = uniqueName('model')
  const before = Date.now()
  await send([
    anEvent({ modelName, predictionId: '1', timestamp: start }),
    anEvent({ modelName, predictionId: '2', timestamp: start + 5, labels: 1 }),
    anEvent({ modelName, predictionId: '3', timestamp: start + 9, modelVersion: '2' }),
    anEvent({ modelName, predictionId: '1', timestamp: start + 20 }),
  ])
  const receivedAt = expect.toSatisfy((it: number) => it >= before && it <= Date.now(), 'received meanwhile')
  const expected = {
    models: [
      {
        modelName,
        versions: [
          {
            modelVersion: '1.0.0',
            events: 2,
            labels: 1,
            trainingEvents: 0,
            firstTimestamp: start,
            lastTimestamp: start + 5,
            lastReceivedAt: receivedAt,
          },
          {
            modelVersion: '2',
            events: 1,
            labels: 0,
            trainingEvents: 0,
            firstTimestamp: start + 9,
            lastTimestamp: start + 9,
            lastReceivedAt: receivedAt,
          },
        ],
        counters: { accepted: 3, duplicates: 1, throttled: 0 },
      },
    ],
    nextPage: null,
  }
  await expectSoon('models', { modelName }, expected)
  const all = (await get('models', {})).body.models as { modelName: string }[]
  expect(all.map((it) => it.modelName)).toContain(modelName)
  expect((await get('models', { modelName: 'nothing' })).body).toEqual({ models: [], nextPage: null })
})

it('/mpm/v2/events/count: events are counted over time, by version and kind', async () => {
  const modelName = uniqueName('model')
  const at = (predictionId: string, timestamp: number, more = {}) =>
    anEvent({ modelName, predictionId, timestamp, ...more })
  await send([
    at('1', start),
    at('2', start + hour - 1, { labels: 1 }),
    at('3', start + hour),
    at('4', start + hour + 1, { modelVersion: '2' }),
    at('5', start + 5 * hour),
  ])
  const count = (hours: number, events: number, modelVersion = '1.0.0', labels = 0) => ({
    timestamp: start + hours * hour,
    modelVersion,
    events,
    labels,
    trainingEvents: 0,
  })
  await expectSoon(
    'events/count',
    { modelName },
    {
      interval: hour,
      counts: [count(0, 2, '1.0.0', 1), count(1, 1), count(1, 1, '2'), count(5, 1)],
    },
  )
  const part = { modelName, from: String(start + hour), to: String(start + 5 * hour), modelVersion: '1.0.0' }
  expect((await get('events/count', part)).body).toEqual({ interval: hour, counts: [count(1, 1)] })
  expectRefusal(
    await get('events/count', { modelName, interval: '1000', to: String(start + 20_000 * hour) }),
    400,
    codes.badRequest,
    /^interval: makes more than 10000 intervals/,
  )
  expectRefusal(await get('events/count', { modelName, interval: '1' }), 400, codes.badRequest, /^interval: /)
})

it('absent and foreign resources answer the same', async () => {
  const modelName = uniqueName('model')
  await send([anEvent({ modelName })])
  const query = (more = {}) => new URLSearchParams({ workspaceName: service.workspaceName, modelName, ...more })
  for (const path of ['models', 'events/count', 'event', 'errors']) {
    const foreign = await service.stranger.get(`/mpm/v2/${path}?${query({ predictionId: 'a' })}`)
    // Whether the model is there does not show either.
    const absent = await service.stranger.get(`/mpm/v2/${path}?${query({ modelName: 'none', predictionId: 'a' })}`)
    expectRefusal(foreign, 400, codes.workspaceUnknown, /^There is no workspace/)
    expect(foreign.text).toBe(absent.text)
  }
  expectRefusal(
    await get('event', { modelName, predictionId: 'none' }),
    400,
    8000092,
    /has no event of this prediction id/,
  )
  expectRefusal(await get('event', { modelName: 'none', predictionId: 'a' }), 400, 8000090, /has no model "none"/)
  expectRefusal(await get('events/count', { modelName: 'none' }), 400, 8000090, /has no model "none"/)
})

it('/mpm/v2/errors: what was wrong with events can be read by model and fault, counted, with a sample', async () => {
  const modelName = uniqueName('model')
  const wrong = [
    anEvent({ modelName, predictionId: 'p1', prediction: { probability: 1.5 } }),
    anEvent({ modelName, predictionId: 'p2', prediction: { probability: -1 } }),
    anEvent({ modelName, predictionId: undefined }),
    anEvent({ modelName, predictionId: 'right' }),
  ]
  expect(await send(wrong)).toMatchObject({ accepted: 1, rejected: 3 })
  const day = expect.stringMatching(/^\d{4}-\d\d-\d\d$/)
  const times = { day, call: 'events/batch', firstAt: expect.any(Number), lastAt: expect.any(Number), modelName }
  await eventually(async () => {
    const { errors } = (await get('errors', { modelName })).body as { errors: { msg: string }[] }
    expect(errors.toSorted((a, b) => (a.msg < b.msg ? -1 : 1))).toEqual([
      { ...times, msg: 'prediction.probability: must be a number from 0 to 1', sample: 'p2', count: 2 },
      { ...times, msg: 'predictionId: is missing', sample: '[2]', count: 1 },
    ])
  })
  const all = (await get('errors', {})).body.errors as { modelName: string }[]
  expect(all.filter((it) => it.modelName === modelName)).toHaveLength(2)
})
