import { Agent, request } from 'node:http'
import { connect } from 'node:net'
import zlib from 'node:zlib'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { aPoint } from '../harness/builders.ts'
import { openTestService } from '../harness/service.ts'

/** Whatever arrives, the service says what is wrong with it, makes no mistake of its own, and goes on. */
let service: Awaited<ReturnType<typeof openTestService>>
let experimentKey: string
beforeAll(async () => {
  service = await openTestService()
  experimentKey = await service.client.createExperiment()
})
afterAll(() => service?.close())

async function expectAllWell() {
  const live = await fetch(`${service.url}/livez`)
  expect([live.status, await live.text()]).toEqual([200, '{"status":"ok"}'])
  const key = await service.client.createExperiment()
  const answer = await service.client.post('/write/experiment/metric', { experimentKey: key, ...aPoint() })
  expect(answer.status).toBe(200)
  expect(await service.client.readPoints(key, 'loss', 1)).toHaveLength(1)
}

const paths = [
  '/write/workspace/new',
  '/write/project/create',
  '/write/experiment/create',
  '/write/experiment/set-status',
  '/write/experiment/set-start-end-time',
  '/write/experiment/parameter',
  '/write/experiment/log-other',
  '/write/experiment/tags',
  '/write/experiment/metric',
  '/write/experiment/metrics/batch',
  '/write/experiment/output',
  '/write/experiment/gpu-metrics',
  '/write/experiment/ram-metrics',
  '/write/experiment/cpu-metrics',
  '/write/experiment/load-metrics',
  '/workspaces',
  '/account-details',
  '/projects',
  '/project',
  '/experiments',
  '/experiment/metadata',
  '/experiment/parameters',
  '/experiment/log-other',
  '/experiment/tags',
  '/experiment/metrics/summary',
  '/experiment/metrics/get-metric',
  '/experiment/output',
  '/nothing',
]

const names = [
  ...['experimentKey', 'metricName', 'metricValue', 'context', 'runContext', 'step', 'epoch', 'timestamp', 'metrics'],
  ...['series', 'steps', 'values', 'outputLines', 'output', 'offset', 'gpus', 'gpuId', 'totalRam', 'usedRam', 'name'],
  ...['cpuPercentUtilization', 'loadAverage', 'parameterName', 'parameterValue', 'key', 'value', 'addedTags', 'plan'],
  ...['workspaceName', 'projectName', 'projectId', 'projectDescription', 'isPublic', 'experimentName', 'maxPoints'],
  ...['startTimeMillis', 'endTimeMillis', 'page', 'pageSize', 'archived', '__proto__', 'constructor'],
]

const field = fc.constantFrom(...names)
const scalar = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 20 }),
  fc.constantFrom(
    '',
    'x',
    'NaN',
    '-Infinity',
    '\0',
    '\ud800',
    '9223372036854775807',
    '9223372036854775808',
    '%',
    '_',
    'true',
  ),
  fc.double(),
  fc.maxSafeInteger(),
  fc.boolean(),
  fc.constant(null),
)
const { body: jsonBody } = fc.letrec<{ body: unknown }>((tie) => ({
  body: fc.oneof(
    { maxDepth: 4, depthSize: 'small' },
    { weight: 3, arbitrary: scalar },
    { weight: 1, arbitrary: fc.array(tie('body'), { maxLength: 6 }) },
    { weight: 4, arbitrary: fc.dictionary(field, tie('body'), { maxKeys: 6 }) },
  ),
}))

/** Mostly of an experiment that is there, so that what comes after the first check is met too. */
const text = fc.tuple(jsonBody, fc.boolean(), fc.integer({ min: 0, max: 20 })).map(([body, isOurs, digits]) => {
  const ours = isOurs && typeof body === 'object' && body !== null && !Array.isArray(body)
  const whole = JSON.stringify(ours ? { ...body, experimentKey: 'OURS' } : body)
  return digits === 0 ? whole.replace(/\d+/, '9'.repeat(18)) : whole
})

/** The bytes sent: the text, or what is left of it after an accident. */
const bytes = fc
  .tuple(
    text,
    fc.constantFrom('whole', 'whole', 'cut', 'flipped', 'gzip', 'gzip cut', 'noise'),
    fc.nat(10_000),
    fc.uint8Array({ maxLength: 50 }),
  )
  .map(([text, accident, at, noise]) => ({ text, accident, at, noise }))

function toBytes(sent: string, { accident, at, noise }: { accident: string; at: number; noise: Uint8Array }): Buffer {
  const whole = Buffer.from(sent.replaceAll('"OURS"', `"${experimentKey}"`))
  const packed = accident.startsWith('gzip') ? zlib.gzipSync(whole) : whole
  if (accident.endsWith('cut')) return packed.subarray(0, at % (packed.length + 1))
  if (accident === 'noise') return Buffer.from(noise)
  if (accident === 'flipped' && packed.length > 0)
    packed[at % packed.length] = (packed[at % packed.length] as number) ^ (1 << (at % 8))
  return packed
}

const query = fc
  .array(fc.tuple(field, fc.oneof(scalar.map(String), fc.constantFrom('OURS', '%', '%00', '%ff'))), { maxLength: 4 })
  .map((pairs) =>
    pairs
      .map(([name, value]) => `${name}=${value.startsWith('%') || value === 'OURS' ? value : encode(value)}`)
      .join('&'),
  )

function encode(value: string): string {
  return encodeURIComponent(value.toWellFormed())
}

const malformed = fc.record({
  method: fc.constantFrom('POST', 'POST', 'POST', 'GET', 'GET', 'PUT', 'DELETE', 'PATCH', 'HEAD', 'OPTIONS'),
  path: fc.constantFrom(...paths),
  base: fc.constantFrom('/api/rest/v2', '/api/rest/v2', '/clientlib/rest/v2', ''),
  query,
  body: bytes,
  type: fc.constantFrom(
    'application/json',
    'application/json',
    'application/json',
    undefined,
    'text/plain',
    '',
    'a/b; c=',
    'application/json; charset=x',
  ),
  encoding: fc.constantFrom('as it is', 'as it is', 'as it is', 'gzip', 'br', 'GZIP', ''),
  key: fc.constantFrom('ours', 'ours', 'ours', 'ours', 'none', 'wrong'),
  idempotencyKey: fc.constantFrom(undefined, undefined, '', 'x', 'x'.repeat(201)),
})

it('4,700 malformed requests over kept connections are answered with an envelope each, none with a 5xx', async () => {
  const agent = new Agent({ keepAlive: true, maxSockets: 16 })
  const requests = fc.sample(malformed, { numRuns: 4_700, seed: 20_260_101 })
  const statuses = new Map<number, number>()

  async function sendOne({
    method,
    path,
    base,
    query,
    body,
    type,
    encoding,
    key,
    idempotencyKey,
  }: (typeof requests)[number]) {
    const isGzip = encoding === 'gzip' || (encoding === 'as it is' && body.accident.startsWith('gzip'))
    const headers: Record<string, string> = {
      ...(type !== undefined && { 'content-type': type }),
      ...(isGzip ? { 'content-encoding': 'gzip' } : encoding !== 'as it is' && { 'content-encoding': encoding }),
      ...(key !== 'none' && { authorization: key === 'ours' ? service.apiKey : 'wrong' }),
      ...(idempotencyKey !== undefined && { 'idempotency-key': idempotencyKey }),
    }
    const address = `${service.url}${base}${path}?${query.replaceAll('OURS', experimentKey)}`
    const sent = method === 'GET' || method === 'HEAD' ? undefined : toBytes(body.text, body)
    const answer = await new Promise<{ status: number; text: string }>((resolve, reject) => {
      const length = sent && { 'content-length': sent.length }
      const outgoing = request(address, { method, headers: { ...headers, ...length }, agent }, (incoming) => {
        const chunks: Buffer[] = []
        incoming.on('data', (chunk) => chunks.push(chunk))
        incoming.once('error', reject)
        incoming.once('end', () =>
          resolve({ status: incoming.statusCode as number, text: Buffer.concat(chunks).toString() }),
        )
      })
      outgoing.once('error', reject)
      outgoing.end(sent)
    })
    const what = `${method} ${address}\n${sent?.toString()}\n${answer.text}`
    expect([200, 400, 401, 404, 405, 413, 415], what).toContain(answer.status)
    if (answer.status !== 200 && method !== 'HEAD') {
      const { msg, ...envelope } = JSON.parse(answer.text)
      expect(envelope, what).toEqual({ code: answer.status, data: null, sdk_error_code: expect.any(Number) })
      expect(msg, what).toMatch(/./)
    }
    statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1)
  }

  const waiting = requests.values()
  await Promise.all(
    Array.from({ length: 16 }, async () => {
      for (const it of waiting) await sendOne(it)
    }),
  )
  agent.destroy()

  expect([...statuses.values()].reduce((sum, it) => sum + it, 0)).toBe(4_700)
  for (const status of [200, 400, 401, 404, 405, 415]) expect(statuses.get(status)).toBeGreaterThan(20)
  await expectAllWell()
})

/** Sends bytes as they are and answers all that comes back until the connection ends; `half` leaves it mid-request. */
function sendRaw(bytes: Buffer, ending: 'end' | 'destroy'): Promise<string> {
  const { hostname, port } = new URL(service.url)
  return new Promise((resolve) => {
    const chunks: Buffer[] = []
    const socket = connect(Number(port), hostname, () => {
      if (ending === 'end') socket.end(bytes)
      else socket.write(bytes, () => socket.destroy())
    })
    socket.on('data', (chunk) => chunks.push(chunk))
    socket.on('error', () => undefined)
    socket.once('close', () => resolve(Buffer.concat(chunks).toString()))
  })
}

it('400 connections that speak broken HTTP, or end half-way, do no harm', async () => {
  const body = JSON.stringify({ experimentKey, ...aPoint() })
  const head = (more: string, start = 'POST /api/rest/v2/write/experiment/metric HTTP/1.1') =>
    `${start}\r\nhost: x\r\nauthorization: ${service.apiKey}\r\n${more}\r\n`
  const right = `${head(`content-length: ${body.length}\r\n`)}${body}`
  const broken = [
    '',
    '\r\n\r\n',
    'x',
    'GET\r\n\r\n',
    'GET / HTTP/9.9\r\n\r\n',
    'get /livez HTTP/1.1\r\nhost: x\r\n\r\n',
    'GET /livez HTTP/1.1\r\n\r\n',
    'GET /livez HTTP/1.0\r\n\r\n',
    'GET http://[::1 HTTP/1.1\r\nhost: x\r\n\r\n',
    'GET * HTTP/1.1\r\nhost: x\r\n\r\n',
    'OPTIONS * HTTP/1.1\r\nhost: x\r\n\r\n',
    'CONNECT x:1 HTTP/1.1\r\nhost: x\r\n\r\n',
    'TRACE /livez HTTP/1.1\r\nhost: x\r\n\r\n',
    'GET /\0 HTTP/1.1\r\nhost: x\r\n\r\n',
    'GET /é HTTP/1.1\r\nhost: x\r\n\r\n',
    `GET /${'x'.repeat(100_000)} HTTP/1.1\r\nhost: x\r\n\r\n`,
    `GET /livez HTTP/1.1\r\nhost: x\r\na: ${'x'.repeat(100_000)}\r\n\r\n`,
    `GET /livez HTTP/1.1\r\nhost: x\r\n${'a: b\r\n'.repeat(5_000)}\r\n`,
    'GET /livez HTTP/1.1\r\nhost x\r\n\r\n',
    'GET /livez HTTP/1.1\r\n: x\r\n\r\n',
    'GET /livez HTTP/1.1\nhost: x\n\n',
    head('content-length: -1\r\n'),
    head('content-length: x\r\n'),
    head('content-length: 1e3\r\n'),
    head('content-length: 99999999999999999999\r\n'),
    head(`content-length: 5\r\ncontent-length: 6\r\n`),
    `${head(`content-length: ${body.length}\r\ntransfer-encoding: chunked\r\n`)}0\r\n\r\n`,
    `${head('transfer-encoding: chunked\r\n')}zz\r\n${body}`,
    `${head('transfer-encoding: chunked\r\n')}ffffffffffffffff\r\n${body}`,
    `${head('transfer-encoding: x\r\n')}${body}`,
    `${head('transfer-encoding: gzip, chunked\r\n')}0\r\n\r\n`,
    `${head(`content-length: ${body.length * 2}\r\n`)}${body}`,
    `${head(`content-length: 5\r\n`)}${body}`,
    `${head(`content-length: ${body.length}\r\nexpect: x\r\n`)}${body}`,
    `${head(`content-length: ${body.length}\r\nexpect: 100-continue\r\n`)}${body}`,
    `${head(`content-length: ${body.length}\r\nupgrade: websocket\r\nconnection: upgrade\r\n`)}${body}`,
    `${right}${right}${right.slice(0, -3)}`,
  ]
  const noise = fc.sample(fc.tuple(fc.nat(right.length), fc.uint8Array({ minLength: 1, maxLength: 8 })), {
    numRuns: 300,
    seed: 7,
  })
  const damaged = noise.map(([at, bytes]) => {
    const whole = Buffer.from(right)
    Buffer.from(bytes).copy(whole, at)
    return whole
  })
  const all = [...broken.map((it) => Buffer.from(it)), ...damaged]

  const answers: string[] = []
  const waiting = [
    ...all.map((it) => ['end', it] as const),
    ...all.slice(0, 63).map((it) => ['destroy', it] as const),
  ].values()
  await Promise.all(
    Array.from({ length: 8 }, async () => {
      for (const [ending, bytes] of waiting) answers.push(await sendRaw(bytes, ending))
    }),
  )

  expect(answers).toHaveLength(400)
  for (const answer of answers) {
    for (const [, status] of answer.matchAll(/^HTTP\/1\.1 (\d+) /gm)) expect(Number(status), answer).toBeLessThan(500)
  }
  expect(answers.filter((it) => it.startsWith('HTTP/1.1 400'))).not.toHaveLength(0)
  await expectAllWell()
})

it('what is not HTTP at all is told so in an envelope', async () => {
  const answer = await sendRaw(Buffer.from('this is not HTTP\r\n\r\n'), 'end')

  const [head, body] = answer.split('\r\n\r\n') as [string, string]
  expect(head).toMatch(/^HTTP\/1\.1 400 Bad Request\r\ncontent-type: application\/json\r\n/)
  expect(JSON.parse(body)).toEqual({
    msg: expect.stringMatching(/^The request is not valid HTTP \(HPE_\w+\)\.$/),
    code: 400,
    data: null,
    sdk_error_code: 8000001,
  })
})

it('callers that go away in the middle of a body are no fault of a store, and leave nothing behind', async () => {
  const key = await service.client.createExperiment()
  const body = JSON.stringify({ experimentKey: key, ...aPoint() })
  const head = `POST /api/rest/v2/write/experiment/metric HTTP/1.1\r\nhost: x\r\nauthorization: ${service.apiKey}\r\n`
  const cut = Buffer.from(`${head}content-length: ${body.length}\r\n\r\n${body.slice(0, -1)}`)

  await Promise.all(Array.from({ length: 50 }, (_, at) => sendRaw(cut, at % 2 === 0 ? 'destroy' : 'end')))

  await service.client.post('/write/experiment/metric', { experimentKey: key, ...aPoint({ metricName: 'later' }) })
  await service.client.readPoints(key, 'later', 1)
  expect(await service.client.readMetric(key, 'loss')).toEqual([])
})
