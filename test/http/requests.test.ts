import { Agent, request } from 'node:http'
import zlib from 'node:zlib'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openTwoUsers, type TwoUsers } from '../api/accounts/two-users.ts'
import { codes, expectRefusal } from '../api/http-error.ts'
import { aPoint } from '../kit/builders.ts'
import type { Answer } from '../kit/http/client.ts'

let service: TwoUsers
let experimentKey: string
beforeAll(async () => {
  service = await openTwoUsers()
  experimentKey = await service.client.createExperiment()
})
afterAll(() => service?.close())

const metric = '/write/experiment/metric'
const saved = '{"msg":"Saved","code":200,"data":null,"sdk_error_code":0}'
const aBody = (more: Record<string, unknown> = {}) => JSON.stringify({ experimentKey, ...aPoint(), ...more })
const send = (body: string | Uint8Array, headers?: Record<string, string>) =>
  service.client.postRaw(metric, body, { headers })

/** A call that `fetch` would not make: without a content type, or with a body where it allows none. */
function call(
  method: string,
  path: string,
  headers: Record<string, string>,
  body?: string | Buffer,
  agent?: Agent,
): Promise<Answer> {
  // Node gives no length to the body of a DELETE or OPTIONS.
  const isSized = body !== undefined && !('transfer-encoding' in headers)
  const length = isSized ? { 'content-length': Buffer.byteLength(body) } : undefined
  return new Promise((resolve, reject) => {
    const sent = request(
      service.url + path,
      { method, headers: { authorization: service.apiKey, ...length, ...headers }, agent },
      (answer) => {
        const chunks: Buffer[] = []
        answer.on('data', (chunk) => chunks.push(chunk))
        answer.once('error', reject)
        answer.once('end', () => {
          const text = Buffer.concat(chunks).toString()
          resolve({
            status: answer.statusCode as number,
            headers: new Headers(answer.headers as Record<string, string>),
            text,
            body: text.startsWith('{') ? JSON.parse(text) : {},
          })
        })
      },
    )
    sent.once('error', reject)
    sent.end(body)
  })
}

describe('addresses', () => {
  it.each([
    '/api/rest/v2/nothing',
    '/api/rest/v2',
    '/api/rest/v3/workspaces',
    '/clientlib/rest/v2/nothing',
    '/nothing',
  ])('%s answers 404, whatever the method and body', async (path) => {
    for (const method of ['GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS']) {
      const answer = await call(
        method,
        path,
        { 'content-type': 'text/plain' },
        method === 'GET' ? undefined : '{ not JSON',
      )
      expectRefusal(answer, 404, codes.routeUnknown, `There is no ${path}: see /reference for what there is.`)
    }
  })

  it('a wrong method answers 405 with the right ones, whatever the body', async () => {
    const write = '/api/rest/v2/write/experiment/metric'
    const read = '/api/rest/v2/experiment/metadata'
    for (const method of ['GET', 'PUT', 'DELETE', 'PATCH', 'OPTIONS']) {
      const answer = await call(method, `${write}?experimentKey=x`, {})
      expectRefusal(answer, 405, codes.wrongMethod, `${write} does not take ${method}: use POST.`)
      expect(answer.headers.get('allow')).toBe('POST')
    }
    for (const method of ['POST', 'PUT', 'DELETE']) {
      const answer = await call(method, read, { 'content-type': 'text/plain' }, '{ not JSON')
      expectRefusal(answer, 405, codes.wrongMethod, `${read} does not take ${method}: use GET, HEAD.`)
      expect(answer.headers.get('allow')).toBe('GET, HEAD')
    }
  })

  it('a slash at the end changes nothing', async () => {
    expect((await service.client.get('/workspaces/')).text).toBe((await service.client.get('/workspaces')).text)
    expect((await service.client.postRaw(`${metric}/`, aBody())).text).toBe(saved)
  })

  it.each(['/api/rest/v2/%zz', '/%', '/api/rest/v2/%ff%fe', '/%c0%af'])(
    '%s, which is no address, answers 400 or 404',
    async (path) => {
      const answer = await call('GET', path, {})
      expect([400, 404]).toContain(answer.status)
      expect(Object.keys(answer.body)).toEqual(['msg', 'code', 'data', 'sdk_error_code'])
      expect(answer.headers.get('content-type')).toBe('application/json')
    },
  )

  it('a very long URL is rejected with an error envelope', async () => {
    const answer = await call('GET', `/${'x'.repeat(5_000)}`, {})
    expectRefusal(answer, 404, codes.routeUnknown, `There is no /${'x'.repeat(199)}: see /reference for what there is.`)
  })

  it('/clientlib/rest/v2 reaches the same handlers as /api/rest/v2', async () => {
    const key = await service.client.createExperiment()
    const both = (path: string) =>
      Promise.all(['/api', '/clientlib'].map((it) => call('GET', `${it}/rest/v2${path}`, {})))

    const written = await call(
      'POST',
      '/clientlib/rest/v2/write/experiment/metric',
      { 'content-type': 'application/json' },
      aBody({ experimentKey: key }),
    )
    expect(written.text).toBe(saved)
    expect(await service.client.readPoints(key, 'loss', 1)).toHaveLength(1)
    for (const path of [
      '/workspaces',
      '/account-details',
      `/experiment/metrics/get-metric?experimentKey=${key}&metricName=loss`,
    ]) {
      const [one, other] = await both(path)
      expect(one?.status).toBe(200)
      expect(other?.text).toBe(one?.text)
    }
    const [one, other] = await both('/experiment/metadata')
    expectRefusal(one as Answer, 400, codes.experimentKeyMissing, 'experimentKey: is missing')
    expect(other?.text).toBe(one?.text)
  })

  it('HEAD answers as GET does, without a body', async () => {
    const answer = await call('HEAD', '/api/rest/v2/workspaces', {})
    expect([answer.status, answer.text]).toEqual([200, ''])
  })
})

describe('content types', () => {
  it.each([
    'application/json',
    'application/json; charset=utf-8',
    'Application/JSON',
    'application/json;charset=UTF-8',
  ])('takes %s', async (type) => {
    expect((await send(aBody(), { 'content-type': type })).text).toBe(saved)
  })

  it('takes a body without any', async () => {
    expect((await call('POST', `/api/rest/v2${metric}`, {}, aBody())).text).toBe(saved)
  })

  it.each([
    'application/x-www-form-urlencoded',
    'text/plain',
    'text/json',
    'multipart/form-data; boundary=x',
    'application/xml',
    'application/jsonx',
    'json',
    '*/*',
    ';',
  ])('answers 415 to %s', async (type) => {
    const message = 'The Content-Type is not understood: send application/json.'
    expectRefusal(await send(aBody(), { 'content-type': type }), 415, codes.unsupportedType, message)
  })
})

describe('bodies', () => {
  it.each([
    ['an empty body', '', 'The body is not JSON: it is empty.'],
    ['spaces', ' \n ', 'The body is not JSON: it is empty.'],
    ['half of an object', '{"experimentKey":', /^The body is not JSON: .+\.$/],
    ['two objects', '{}{}', /^The body is not JSON: .+\.$/],
    ['single quotes', "{'a':1}", /^The body is not JSON: .+\.$/],
    ['a comma too many', '{"a":1,}', /^The body is not JSON: .+\.$/],
    ['a form', 'experimentKey=x&metricName=y', /^The body is not JSON: .+\.$/],
    ['a number with a leading zero', '{"a":01}', /^The body is not JSON: .+\.$/],
    ['a bare control character', '{"a":"\u0001"}', /^The body is not JSON: .+\.$/],
    ['UTF-16', '{\0"\0a\0"\0:\x001\0}\0', /^The body is not JSON: .+\.$/],
  ])('%s is refused', async (_, body, message) => {
    expectRefusal(await send(body), 400, codes.badJson, message)
  })

  it.each(['NaN', 'Infinity', '-Infinity'])('a bare %s is a value, and nothing else', async (value) => {
    const bare = (what: string) => aBody().replace(/("metricValue":)[^,}]+/, `$1${what}`)
    expect((await send(bare(value))).text).toBe(saved)
    for (const wrong of [`${value}x`, `${value} 1`, `"${value}`, value.toLowerCase()]) {
      expectRefusal(await send(bare(wrong)), 400, codes.badJson, /^The body is not JSON: .+\.$/)
    }
    const asName = aBody().replace(/("metricName":)[^,}]+/, `$1${value}`)
    expectRefusal(await send(asName), 400, codes.badRequest, 'metricName: expected a string')
  })

  it('invalid UTF-8 is rejected', async () => {
    for (const bytes of [[0xff], [0xc3, 0x28], [0xed, 0xa0, 0x80], [0xf4, 0x90, 0x80, 0x80], [0xc0, 0x80]]) {
      const body = Buffer.concat([Buffer.from('{"experimentKey":"'), Buffer.from(bytes), Buffer.from('"}')])
      expectRefusal(await send(body), 400, codes.badJson, 'The body is not valid UTF-8.')
    }
  })

  it('a byte order mark is accepted', async () => {
    expect((await send(`\ufeff${aBody()}`)).text).toBe(saved)
  })

  it.each([
    ['a list of lists', (deep: string) => deep, 400],
    ['in an unknown field', (deep: string) => aBody().replace('{', `{"unknown":${deep},`), 200],
    ['in a known field', (deep: string) => aBody().replace('{', `{"context":${deep},`), 400],
    ['beside a long integer', (deep: string) => aBody().replace('{', `{"unknown":[9007199254740993,${deep}],`), 400],
  ])('40,000 levels deep %s do no harm', async (_, toBody, status) => {
    for (const [open, close] of [
      ['[', ']'],
      ['{"a":', '}'],
    ] as const) {
      const deep = `${open.repeat(40_000)}1${close.repeat(40_000)}`
      const answer = await send(toBody(deep))
      expect([answer.status, answer.body.code]).toEqual([status, status])
    }
    expect((await send(aBody())).text).toBe(saved)
  })

  it('the last of repeated fields wins, and an endless integer is rejected quickly', async () => {
    expect((await send(aBody().replace('{', '{"metricValue":"x",'))).text).toBe(saved)
    const digits = aBody().replace(/("metricValue":)[^,}]+/, `$1${'9'.repeat(3_000_000)}`)
    expectRefusal(await send(digits), 400, codes.badRequest, 'metricValue: is beyond the range of a 64-bit float')
    const step = aBody().replace(/("step":)[^,}]+/, `$1${'9'.repeat(30)}`)
    expectRefusal(await send(step), 400, codes.badRequest, 'step: expected an integer from -2^63 to 2^63-1')
  })
})

describe('compression', () => {
  it.each(['gzip', 'GZIP', 'x-gzip'])('takes a body as %s', async (encoding) => {
    expect((await send(zlib.gzipSync(aBody()), { 'content-encoding': encoding })).text).toBe(saved)
  })

  it('takes "identity" and several members of gzip, one after the other', async () => {
    expect((await send(aBody(), { 'content-encoding': 'identity' })).text).toBe(saved)
    const body = aBody()
    const members = Buffer.concat([zlib.gzipSync(body.slice(0, 10)), zlib.gzipSync(body.slice(10))])
    expect((await send(members, { 'content-encoding': 'gzip' })).text).toBe(saved)
  })

  it.each(['br', 'deflate', 'zstd', 'gzip, gzip', 'x', 'gzip;q=1'])('answers 415 to %s', async (encoding) => {
    const message = `Content-Encoding "${encoding}" is not understood: send gzip, or no encoding.`
    const answer = await send(zlib.gzipSync(aBody()), { 'content-encoding': encoding })
    expectRefusal(answer, 415, codes.unsupportedType, message)
  })

  it('damaged gzip is refused', async () => {
    const whole = zlib.gzipSync(aBody())
    const flipped = Buffer.from(whole)
    flipped.writeUInt8(255 - flipped.readUInt8(20), 20)
    for (const body of [Buffer.from(aBody()), whole.subarray(0, -9), whole.subarray(0, 5), flipped, Buffer.from('')]) {
      const message = 'The body is marked as gzip but cannot be decompressed.'
      expectRefusal(await send(body, { 'content-encoding': 'gzip' }), 400, codes.badCompression, message)
    }
  })
})

describe('sizes', () => {
  const tooLarge = 'The body is over the limit of 4194304 bytes: send less in one request.'
  const padded = (bytes: number) => aBody().padEnd(bytes, ' ')

  it('a body of 4 MiB is taken, one byte more is refused', async () => {
    expect((await send(padded(4_194_304))).text).toBe(saved)
    expectRefusal(await send(padded(4_194_305)), 413, codes.tooLarge, tooLarge)
  })

  it('the same holds for what a gzip body becomes: a bomb is refused', async () => {
    const headers = { 'content-encoding': 'gzip' }
    expect((await send(zlib.gzipSync(padded(4_194_304)), headers)).text).toBe(saved)
    expectRefusal(await send(zlib.gzipSync(padded(4_194_305)), headers), 413, codes.tooLarge, tooLarge)
    const bomb = zlib.gzipSync(Buffer.alloc(200_000_000, ' '))
    expect(bomb.length).toBeLessThan(300_000)
    expectRefusal(await send(bomb, headers), 413, codes.tooLarge, tooLarge)
  })

  it('after a rejection for size the connection keeps working', async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    const post = (headers: Record<string, string>, body: string) =>
      call('POST', `/api/rest/v2${metric}`, { 'content-type': 'application/json', ...headers }, body, agent)
    for (let time = 0; time < 3; time++) {
      expectRefusal(await post({}, padded(5_000_000)), 413, codes.tooLarge, tooLarge)
      expectRefusal(await post({ 'transfer-encoding': 'chunked' }, padded(5_000_000)), 413, codes.tooLarge, tooLarge)
      expect((await post({}, aBody())).text).toBe(saved)
    }
    agent.destroy()
  })
})

describe('Idempotency-Key', () => {
  it.each([
    ['/write/experiment/metric', () => aPoint()],
    ['/write/experiment/metrics/batch', () => ({ metrics: [aPoint()] })],
    ['/write/experiment/output', () => ({ outputLines: [{ output: 'x' }] })],
    ['/write/experiment/ram-metrics', () => ({ totalRam: 1, usedRam: 1 })],
  ])('%s takes one of 200 characters, and refuses an empty or longer one by name', async (path, fields) => {
    const post = (key: string) =>
      service.client.post(path, { experimentKey, ...fields() }, { headers: { 'idempotency-key': key } })

    expect((await post('x'.repeat(200))).status).toBe(200)
    const message = 'Idempotency-Key: must have 1 to 200 characters'
    expectRefusal(await post('x'.repeat(201)), 400, codes.badRequest, message)
    expectRefusal(await post(''), 400, codes.badRequest, message)
  })

  it('of one user is independent of the same key of another user', async () => {
    const headers = { 'idempotency-key': 'the same of two users' }
    const other = await service.stranger.createExperiment({ workspaceName: service.stranger.workspaceName })
    const key = await service.client.createExperiment()
    const [name, context] = ['theirs', 'x']

    await service.client.post(metric, { experimentKey: key, ...aPoint({ metricName: name, context }) }, { headers })
    await service.stranger.post(metric, { experimentKey: other, ...aPoint({ metricName: name, context }) }, { headers })

    expect(await service.client.readPoints(key, name, 1)).toHaveLength(1)
    expect(await service.stranger.readPoints(other, name, 1)).toHaveLength(1)
  })
})
