import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Organization, openOrganization } from '../../api/accounts/organization.ts'
import { codes, expectRefusal } from '../../api/http-error.ts'
import { anEvent } from '../../kit/clients/monitoring.ts'
import { uniqueName } from '../../kit/service.ts'

/** What bad input gets: told, with its place, its field and what to do about it; never guessed. */
let service: Organization
beforeAll(async () => {
  service = await openOrganization()
})
afterAll(() => service?.close())

type Fault = { index: number; field: string; msg: string }

const post = (data: unknown, query = '', path = 'events') =>
  service.client.post(`/mpm/v2/${path}/batch${query}`, { data })
const toItem = (changes: Record<string, unknown> = {}) => ({
  workspaceName: service.workspaceName,
  ...anEvent({ modelName: 'faults', ...changes }),
})
const countModels = async (modelName: string) =>
  (
    (
      await service.client.get(
        `/mpm/v2/models?${new URLSearchParams({ workspaceName: service.workspaceName, modelName })}`,
      )
    ).body.models as unknown[]
  ).length

const wrong: [what: string, changes: Record<string, unknown>, field: string, msg: string | RegExp][] = [
  ['no prediction id', { predictionId: undefined }, 'predictionId', 'is missing'],
  ['an empty prediction id', { predictionId: '' }, 'predictionId', 'must not be empty'],
  ['a long prediction id', { predictionId: 'x'.repeat(1_001) }, 'predictionId', /1000 characters/],
  ['a prediction id with NUL', { predictionId: 'a\0' }, 'predictionId', /NUL/],
  ['a prediction id that is a list', { predictionId: ['a'] }, 'predictionId', 'expected a string'],
  ['no model', { modelName: null }, 'modelName', 'is missing'],
  ['no workspace', { workspaceName: undefined }, 'workspaceName', 'is missing'],
  ['a workspace with NUL', { workspaceName: '\0' }, 'workspaceName', /NUL/],
  ['a version that is an object', { modelVersion: {} }, 'modelVersion', 'expected a string'],
  ['seconds', { timestamp: 1_700_000_000 }, 'timestamp', /year 1970: send milliseconds .* not seconds/],
  ['microseconds', { timestamp: 1_700_000_000_000_000 }, 'timestamp', /5138: send milliseconds .* not micro/],
  ['nanoseconds', { timestamp: '1700000000000000000' }, 'timestamp', /5138: send milliseconds .* not micro/],
  ['a time before 1970', { timestamp: -1 }, 'timestamp', /before 1970/],
  ['a time with a fraction', { timestamp: 1_700_000_000_000.5 }, 'timestamp', /expected an integer/],
  ['a time in words', { timestamp: '2026-01-01' }, 'timestamp', /expected an integer/],
  ['features that are a list', { features: [1] }, 'features', /not a list/],
  ['features that are a text', { features: 'a' }, 'features', /expected an object/],
  ['a nested feature', { features: { a: { b: 1 } } }, 'features.a', /not an object/],
  ['a feature that is a list', { features: { a: [1] } }, 'features.a', /not a list/],
  ['a feature without a name', { features: { '': 1 } }, 'features.', /name must not be empty/],
  ['a feature with a long name', { features: { ['n'.repeat(1_001)]: 1 } }, `features.${'n'.repeat(100)}…`, /1000/],
  ['a feature with half a character', { features: { a: '\ud800' } }, 'features.a', /surrogate/],
  ['a feature with a long text', { features: { a: 'x'.repeat(65_537) } }, 'features.a', /65536 characters/],
  ['a probability above 1', { prediction: { probability: 1.01 } }, 'prediction.probability', /from 0 to 1/],
  [
    'a probability below 0',
    { predictions: { probability: -0.1 }, prediction: undefined },
    'predictions.probability',
    /0 to 1/,
  ],
  ['a probability that is a text', { prediction: { probability: '0.5' } }, 'prediction.probability', /from 0 to 1/],
  ['a nested prediction', { prediction: { scores: [1] } }, 'prediction.scores', /not a list/],
  ['nested labels', { labels: { a: {} } }, 'labels.a', /not an object/],
]

describe('an item that is wrong', () => {
  it.each(wrong)(
    '%s: rejected with its place and field; the good ones are kept',
    async (_what, changes, field, msg) => {
      const answer = await post([toItem(), toItem(changes), toItem()])
      expect(answer.status, answer.text).toBe(200)
      const { faults, ...counts } = answer.body as { faults: Fault[] }
      expect(counts).toMatchObject({ accepted: 2, duplicates: 0, rejected: 1 })
      expect(faults).toEqual([{ index: 1, field, msg: typeof msg === 'string' ? msg : expect.stringMatching(msg) }])
    },
  )

  it.each(wrong)('%s: with enforceValidation nothing is kept', async (_what, changes, field) => {
    const modelName = uniqueName('model')
    const good = toItem({ modelName })
    const answer = await post([good, toItem(changes)], '?enforceValidation=true')
    expect({ ...answer.body, data: undefined }).toEqual({
      msg: expect.stringMatching(/^1 of 2 items are wrong, so nothing of this request was kept: \[1\] /),
      code: 400,
      sdk_error_code: 8000091,
    })
    expect(answer.status).toBe(400)
    expect((answer.body.data as Fault[]).map((it) => [it.index, it.field])).toEqual([[1, field]])
    expect(await countModels(modelName)).toBe(0)
    expect((await post([good], '?enforceValidation=true')).body).toMatchObject({ accepted: 1, duplicates: 0 })
  })

  it('every error is listed', async () => {
    const answer = await post(
      [toItem({ predictionId: null, timestamp: 1, features: { a: {}, b: [] } }), 3, null, toItem({ modelName: 1 })],
      '?enforceValidation=true',
    )
    expect((answer.body.data as Fault[]).map((it) => [it.index, it.field])).toEqual([
      [0, 'predictionId'],
      [0, 'timestamp'],
      [0, 'features.a'],
      [0, 'features.b'],
      [1, ''],
      [2, ''],
    ])
    expect(answer.body.msg).toContain('[0] predictionId: is missing; [0] timestamp: is in the year 1970')
  })

  it('the first thousand errors are listed, and all are counted', async () => {
    const items = Array.from({ length: 1_500 }, () => toItem({ predictionId: undefined }))
    const { body } = await post(items)
    expect(body).toMatchObject({ accepted: 0, rejected: 1_500 })
    expect(body.faults).toHaveLength(1_000)
  })

  it('/mpm/v2/labels/batch: labels need labels, and nothing else', async () => {
    const label = { workspaceName: service.workspaceName, modelName: 'faults', predictionId: 'a' }
    const { body } = await post(
      [label, { ...label, labels: 1, features: { a: 1 } }, { ...label, prediction: 1 }],
      '',
      'labels',
    )
    expect((body.faults as Fault[]).map((it) => [it.index, it.field])).toEqual([
      [0, 'labels'],
      [1, 'features'],
      [2, 'labels'],
      [2, 'prediction'],
    ])
  })
})

describe('a batch that is none', () => {
  it.each([
    ['no list', {}, 'data: is missing (a list of events)'],
    ['null', { data: null }, 'data: is missing (a list of events)'],
    ['an object', { data: {} }, 'data: expected a list of events'],
    ['a list', [], 'data: is missing (a list of events)'],
  ])('%s', async (_what, body, msg) => {
    expectRefusal(await service.client.post('/mpm/v2/events/batch', body), 400, codes.badRequest, msg)
  })

  it('an empty batch is accepted', async () => {
    expect((await post([])).body).toMatchObject({ code: 200, accepted: 0, duplicates: 0, rejected: 0 })
  })

  it('one with too many items, or too many values, is too large', async () => {
    const tiny = Array.from({ length: 50_001 }, () => 1)
    expectRefusal(await post(tiny), 413, codes.tooLarge, /at most 50000/)
  })

  it('a flag that is none', async () => {
    expectRefusal(await post([], '?enforceValidation=perhaps'), 400, codes.badRequest, /^enforceValidation: /)
  })
})

describe('whose workspace it is', () => {
  it('a workspace that is foreign or absent refuses the request, with the same bytes', async () => {
    const foreign = await post([toItem({ workspaceName: service.strangersWorkspace })])
    const absent = await post([toItem({ workspaceName: 'x'.repeat(service.strangersWorkspace.length) })])
    expectRefusal(foreign, 400, codes.workspaceUnknown, /^There is no workspace .* that this key may use/)
    expect(absent.text).toBe(
      foreign.text.replace(service.strangersWorkspace, 'x'.repeat(service.strangersWorkspace.length)),
    )
  })

  it('items of such a workspace are rejected, and others accepted', async () => {
    const items = [toItem(), toItem({ workspaceName: 'nowhere' })]
    expect((await post(items)).body).toMatchObject({
      accepted: 1,
      rejected: 1,
      faults: [{ index: 1, field: 'workspaceName', msg: 'There is no workspace "nowhere" that this key may use.' }],
    })
    const refused = await post([toItem(), toItem({ workspaceName: 'nowhere' })], '?enforceValidation=true')
    expect(refused.status).toBe(400)
  })

  it('a restricted service account gets an error that names the restriction', async () => {
    const other = await service.createWorkspace(uniqueName('other'))
    const { apiKey } = await service.createAccount(uniqueName('account'), {
      teamName: other,
      defaultWorkspaceName: other,
      authorizedWorkspaces: [other],
    })
    const answer = await service.as(apiKey as string).post('/mpm/v2/events/batch', { data: [toItem()] })
    expectRefusal(answer, 403, 7000023, /^This service account is restricted/)
    const own = await service.as(apiKey as string).post('/mpm/v2/events/batch', {
      data: [toItem({ workspaceName: other })],
    })
    expect(own.body).toMatchObject({ accepted: 1 })
  })
})

describe('limits', () => {
  it('beyond the rate of a model nothing is stored, and the answer has Retry-After', async () => {
    const workspaceName = await service.createWorkspace(uniqueName('limited'))
    const set = await service.client.send(
      'PUT',
      '/admin/limits',
      JSON.stringify({ workspaceName, limits: { eventsPerMinute: 3 } }),
    )
    expect(set.status, set.text).toBe(200)
    const items = (count: number, modelName: string) =>
      Array.from({ length: count }, () => toItem({ workspaceName, modelName }))
    expect((await post(items(3, 'limited'))).body).toMatchObject({ accepted: 3 })
    const refused = await post([...items(1, 'beside'), ...items(2, 'limited')])
    expectRefusal(refused, 429, codes.throttled, /for this model: the limit is 3 events a minute/)
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
    // What was admitted of another model in the same request was given back.
    expect((await post(items(3, 'beside'))).body).toMatchObject({ accepted: 3 })
  })
})

it('a ping answers any caller with a key', async () => {
  const answer = await service.client.get('/mpm/isAlive/ping')
  expect({ status: answer.status, body: answer.body }).toEqual({
    status: 200,
    body: { msg: 'Ok', code: 200, data: null, sdk_error_code: 0 },
  })
  expectRefusal(
    await service.client.get('/mpm/isAlive/ping', { apiKey: 'nobody-has-this-key' }),
    401,
    codes.keyUnknown,
    /./,
  )
})
