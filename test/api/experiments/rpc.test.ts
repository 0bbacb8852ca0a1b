import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openDatabase } from '../../../store/postgres/database.ts'
import type { Answer, TestClient } from '../../kit/http/client.ts'
import { storesWith } from '../../kit/service.ts'
import { openTwoUsers, type TwoUsers } from '../accounts/two-users.ts'
import { codes, expectRefusal } from '../http-error.ts'

const callUnknown = 8000042
const callFinished = 8000043
const callsFull = 8000044

let service: TwoUsers
let client: TestClient
beforeAll(async () => {
  service = await openTwoUsers()
  client = service.client
})
afterAll(() => service?.close())

const saved = { msg: 'Saved', code: 200, data: null, sdk_error_code: 0 }

const send = (experimentKey: string, fields: Record<string, unknown> = {}) =>
  client.post('/write/experiment/rpc/send', { experimentKey, method: 'method', ...fields })

async function aCall(experimentKey: string, fields?: Record<string, unknown>): Promise<string> {
  const answer = await send(experimentKey, fields)
  expect(answer.body).toEqual({ ...saved, rpcId: expect.stringMatching(/^[0-9a-f]{32}$/) })
  return answer.body.rpcId as string
}

const keepAlive = (experimentKey: string) => client.get(`/write/experiment/set-status?experimentKey=${experimentKey}`)
const pickUp = async (experimentKey: string) =>
  (await keepAlive(experimentKey)).body.rpcCalls as { rpcId: string; method: string; createdAt: number }[]
const read = (experimentKey: string, rpcId: string, by = client) =>
  by.get(`/experiment/rpc?${new URLSearchParams({ experimentKey, rpcId })}`)
const finish = (experimentKey: string, rpcId: string, fields: Record<string, unknown>, by = client) =>
  by.post('/write/experiment/rpc/result', { experimentKey, rpcId, ...fields })

describe('a call', () => {
  it('is returned by every keep-alive until its result is posted, in order, and the sender can read it', async () => {
    const experimentKey = await client.createExperiment()
    expect(await pickUp(experimentKey)).toEqual([])
    const before = Date.now()
    const first = await aCall(experimentKey, { method: 'set_rate', arguments: { rate: 0.1 } })
    const second = await aCall(experimentKey, { method: 'save' })

    const pending = await pickUp(experimentKey)
    expect(pending).toEqual([
      { rpcId: first, method: 'set_rate', arguments: { rate: 0.1 }, createdAt: expect.any(Number) },
      { rpcId: second, method: 'save', arguments: null, createdAt: expect.any(Number) },
    ])
    expect(pending[0]?.createdAt).toBeGreaterThanOrEqual(before)
    expect(await pickUp(experimentKey)).toEqual(pending)
    expect((await read(experimentKey, first)).body).toEqual({
      ...pending[0],
      state: 'pending',
      result: null,
      error: null,
      finishedAt: null,
    })

    expect((await finish(experimentKey, first, { result: ['ok', 1] })).body).toEqual(saved)
    expect(await pickUp(experimentKey)).toEqual(pending.slice(1))
    expect((await read(experimentKey, first)).body).toEqual({
      ...pending[0],
      state: 'done',
      result: ['ok', 1],
      error: null,
      finishedAt: expect.any(Number),
    })

    expect((await finish(experimentKey, second, { error: 'no disk' })).body).toEqual(saved)
    expect(await pickUp(experimentKey)).toEqual([])
    expect((await read(experimentKey, second)).body).toMatchObject({ state: 'failed', result: null, error: 'no disk' })
  })

  it.each([
    '{"a":[9007199254740993,-0,0.1,123456789012345678901234567890],"b":{"c":null,"d":false}}',
    '"text with \\u0000, \\ud800 and 🦊"',
    '[[[]],{}]',
    '-9223372036854775808',
    'false',
    '0',
    '""',
  ])('gives back arguments and result exactly: %s', async (json) => {
    const experimentKey = await client.createExperiment()
    const sent = await client.postRaw(
      '/write/experiment/rpc/send',
      `{"experimentKey":"${experimentKey}","method":"m","arguments":${json}}`,
    )
    const rpcId = sent.body.rpcId as string
    expect((await keepAlive(experimentKey)).text).toContain(`"arguments":${json},"createdAt"`)
    const posted = `{"experimentKey":"${experimentKey}","rpcId":"${rpcId}","result":${json}}`
    for (let times = 0; times < 2; times++) {
      expect((await client.postRaw('/write/experiment/rpc/result', posted)).body).toEqual(saved)
    }
    const { text } = await read(experimentKey, rpcId)
    expect(text).toContain(`"arguments":${json},"state":"done","result":${json},"error":null`)
  })

  it('keeps its first result: the same again is fine, another one is refused', async () => {
    const experimentKey = await client.createExperiment()
    const done = await aCall(experimentKey)
    const failed = await aCall(experimentKey)
    const empty = await aCall(experimentKey)
    await finish(experimentKey, done, { result: { a: 1, b: [2] } })
    await finish(experimentKey, failed, { error: 'first' })
    await finish(experimentKey, empty, {})

    expect((await finish(experimentKey, done, { result: { b: [2], a: 1 } })).body).toEqual(saved)
    expect((await finish(experimentKey, failed, { error: 'first' })).body).toEqual(saved)
    expect((await finish(experimentKey, empty, { result: null })).body).toEqual(saved)
    const others: [string, Record<string, unknown>][] = [
      [done, { result: { a: 1, b: [3] } }],
      [done, { result: { a: '1', b: [2] } }],
      [done, {}],
      [done, { error: 'first' }],
      [failed, { error: 'second' }],
      [failed, { result: 1 }],
      [empty, { result: 0 }],
    ]
    for (const [id, fields] of others) {
      const message = `rpcId: the call ${id} has another result already: see /experiment/rpc.`
      expectRefusal(await finish(experimentKey, id, fields), 400, callFinished, message)
    }
    expect((await read(experimentKey, done)).body).toMatchObject({ state: 'done', result: { a: 1, b: [2] } })
    expect((await read(experimentKey, failed)).body).toMatchObject({ state: 'failed', error: 'first' })
  })

  it('accepts one of several concurrent results, and rejects the others', async () => {
    const experimentKey = await client.createExperiment()
    const rpcId = await aCall(experimentKey)
    const answers = await Promise.all(
      Array.from({ length: 20 }, async (_, result) => ({
        result,
        ...(await finish(experimentKey, rpcId, { result })),
      })),
    )
    const kept = answers.filter((it) => it.status === 200)
    expect(kept).toHaveLength(1)
    expect(answers.filter((it) => it.body.sdk_error_code === callFinished)).toHaveLength(19)
    expect((await read(experimentKey, rpcId)).body.result).toBe(kept[0]?.result)
  })
})

it('pending calls have a maximum, also for concurrent calls, and finished ones free space', async () => {
  const experimentKey = await client.createExperiment()
  const answers = await Promise.all(Array.from({ length: 60 }, () => send(experimentKey)))
  const refused = answers.filter((it) => it.status !== 200)
  expect(refused).toHaveLength(10)
  for (const it of refused)
    expectRefusal(it, 400, callsFull, /^The experiment has reached the limit of 50 calls without a result/)
  const pending = await pickUp(experimentKey)
  expect(pending).toHaveLength(50)
  await finish(experimentKey, pending[49]?.rpcId as string, {})
  expect((await send(experimentKey)).status).toBe(200)
  expect((await send(experimentKey)).status).toBe(400)
})

it('the last thousand finished calls are kept', async () => {
  const experimentKey = await client.createExperiment()
  const first = await aCall(experimentKey)
  await finish(experimentKey, first, {})
  const database = openDatabase({
    url: storesWith('postgres').postgresUrl,
    connectionsMax: 1,
    onError: () => undefined,
  })
  await database.row(
    `INSERT INTO experiment_calls (experiment_id, method, arguments, created_at_ms, finished_at_ms)
     SELECT experiment_id, method, arguments, created_at_ms, finished_at_ms FROM experiment_calls, generate_series(1, 999)
     WHERE id = $1`,
    [first],
  )
  await database.close()
  const second = await aCall(experimentKey)
  expect((await read(experimentKey, first)).status).toBe(200)
  await finish(experimentKey, second, {})
  await aCall(experimentKey)
  expectRefusal(await read(experimentKey, first), 400, callUnknown, `rpcId: the experiment has no call ${first}.`)
  expect((await read(experimentKey, second)).body.state).toBe('done')
})

it('a call of another experiment is absent, and for foreign callers so is the experiment', async () => {
  const [one, other] = [await client.createExperiment(), await client.createExperiment()]
  const rpcId = await aCall(one)
  const refuse = (answer: Answer, id: string) =>
    expectRefusal(answer, 400, callUnknown, `rpcId: the experiment has no call ${id}.`)
  for (const id of [rpcId, '0'.repeat(32)]) {
    refuse(await read(other, id), id)
    refuse(await finish(other, id, { result: 1 }), id)
  }
  for (const answer of [await read(one, rpcId, service.stranger), await finish(one, rpcId, {}, service.stranger)]) {
    expectRefusal(answer, 400, codes.experimentUnknown, `There is no experiment ${one} that this key may use.`)
  }
  expect((await read(one, rpcId)).body.state).toBe('pending')
})

it('names what is wrong, and keeps nothing', async () => {
  const experimentKey = await client.createExperiment()
  const rpcId = await aCall(experimentKey)
  const wrong: [Promise<Answer>, number, string | RegExp][] = [
    [
      send(experimentKey, { arguments: 'x'.repeat(32 * 1024) }),
      codes.badRequest,
      'arguments: must have 32768 bytes or fewer as JSON',
    ],
    [
      client.postRaw(
        '/write/experiment/rpc/send',
        `{"experimentKey":"${experimentKey}","method":"m","arguments":[1e999]}`,
      ),
      codes.badRequest,
      'arguments: holds a number beyond the range of a 64-bit float',
    ],
    [
      client.postRaw(
        '/write/experiment/rpc/send',
        `{"experimentKey":"${experimentKey}","method":"m","arguments":${'['.repeat(101)}${']'.repeat(101)}}`,
      ),
      codes.badRequest,
      'arguments: must be nested 100 levels deep or less',
    ],
    [
      send(experimentKey, { method: 'x'.repeat(1_001) }),
      codes.badRequest,
      'method: must have 1000 characters or fewer',
    ],
    [
      finish(experimentKey, rpcId, { result: 1, error: 'x' }),
      codes.badRequest,
      'error: send result or error, not both',
    ],
    [finish(experimentKey, rpcId, { error: 5 }), codes.badRequest, 'error: expected a string'],
    [
      finish(experimentKey, rpcId, { error: 'a\0b' }),
      codes.badRequest,
      'error: must not hold NUL or half of a surrogate pair',
    ],
    [
      finish(experimentKey, rpcId, { result: 'x'.repeat(256 * 1024) }),
      codes.badRequest,
      'result: must have 262144 bytes or fewer as JSON',
    ],
    [client.post('/write/experiment/rpc/result', { rpcId }), codes.experimentKeyMissing, 'experimentKey: is missing'],
    [client.post('/write/experiment/rpc/result', { experimentKey }), codes.badRequest, 'rpcId: is missing'],
    [
      client.post('/write/experiment/rpc/result', { experimentKey, rpcId: 5 }),
      codes.badRequest,
      'rpcId: expected a string',
    ],
    [client.get(`/experiment/rpc?experimentKey=${experimentKey}`), codes.badRequest, 'rpcId: is missing'],
    [client.get(`/experiment/rpc?rpcId=${rpcId}`), codes.experimentKeyMissing, 'experimentKey: is missing'],
  ]
  for (const [answer, code, message] of wrong) expectRefusal(await answer, 400, code, message)
  expect((await pickUp(experimentKey)).map((it) => it.rpcId)).toEqual([rpcId])
})
