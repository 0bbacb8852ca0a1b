import { gzipSync } from 'node:zlib'
import type { Random } from '../../../cli/demo/random.ts'
import { arrowType } from '../../../http/body/arrow.ts'
import { toArrowStream } from '../../kit/arrow.ts'

/** A request as it is written to a socket, and the method, which tells whether its answer has a body. */
type RawRequest = { method: string; bytes: Buffer }

/** What is sent on one connection: requests, all of them at once, in pieces that end at `cuts`. */
export type Script = { requests: RawRequest[]; cuts: number[] }

/** Whom requests are from, and what they write to. All keys have the same length, so that lengths are the same too. */
export type Target = { apiKey: string; experimentKey: string }

type Draw = ReturnType<typeof createDraw>

function createDraw(random: Random) {
  const below = (count: number) => Math.floor(random() * count)
  return {
    below,
    one: <T>(list: readonly T[]): T => list[below(list.length)] as T,
    /** True once in `times`. */
    once: (times: number) => below(times) === 0,
  }
}

/**
 * Draws what one connection sends: most of it nearly right, because that is where two readers of HTTP come to differ. The
 * same random numbers make the same script for each target, but for its key and experiment.
 */
export function drawScript(random: Random, target: Target): Script {
  const draw = createDraw(random)
  const count = draw.once(3) ? 1 + draw.below(5) : 1
  const requests = Array.from({ length: count }, () => drawRequest(draw, target, count === 1))
  const length = requests.reduce((sum, it) => sum + it.bytes.length, 0)
  const cuts = draw.once(3) ? Array.from({ length: 1 + draw.below(4) }, () => 1 + draw.below(length - 1)) : []
  return { requests, cuts: cuts.toSorted((a, b) => a - b) }
}

const prefix = '/api/rest/v2'
const timestamp = 1_700_000_000_000

function drawRequest(draw: Draw, target: Target, isAlone: boolean): RawRequest {
  const { path, type, body } = draw.once(10)
    ? drawArrow(draw, target.experimentKey)
    : drawWrite(draw, target.experimentKey)
  const method = draw.once(25) ? draw.one(['GET', 'HEAD', 'PUT', 'OPTIONS', 'post', 'DELETE']) : 'POST'
  const address = draw.once(15) ? draw.one(oddAddresses)(path) : path
  const version = draw.once(40) ? draw.one(['HTTP/1.0', 'HTTP/1.2', 'HTTP/2.0', 'http/1.1']) : 'HTTP/1.1'
  const headers: string[] = []
  headers.push(...(draw.once(20) ? draw.one(oddHosts) : ['host: localhost']))
  headers.push(...drawKey(draw, target.apiKey))
  headers.push(...(draw.once(8) ? draw.one(oddTypes) : [`content-type: ${type}`]))
  if (draw.once(6)) headers.push(`idempotency-key: ${drawIdempotencyKey(draw)}`)
  if (draw.once(6)) headers.push(...draw.one(oddHeaders))
  if (isAlone && draw.once(20)) headers.push(...draw.one(oddHeadersAlone))
  const sent = drawFraming(draw, body, headers)
  const end = draw.once(80) ? '\n' : '\r\n'
  const head = [`${method} ${address} ${version}`, ...headers, '', ''].join(end)
  return { method, bytes: Buffer.concat([Buffer.from(head, 'latin1'), sent]) }
}

type Write = { path: string; type: string; body: Buffer }

function drawWrite(draw: Draw, experimentKey: string): Write {
  const point = (step: number) => ({
    metricName: draw.one(['loss', 'acc', 'x y', 'ü']),
    metricValue: draw.one<unknown>([0.5, -1, 1e300, 'NaN', '-Infinity', '0.1', 5e-324]),
    step,
    timestamp: timestamp + step,
    ...(draw.once(3) && { context: 'train' }),
    ...(draw.once(4) && { epoch: draw.below(3) }),
  })
  const step = draw.below(1_000_000)
  const writes: (() => [string, Record<string, unknown>])[] = [
    () => ['metric', point(step)],
    () => ['metric', point(step)],
    () => ['metrics/batch', { metrics: Array.from({ length: draw.below(8) }, (_, at) => point(step + at)) }],
    () => [
      'metrics/batch',
      {
        series: [
          {
            metricName: 'loss',
            steps: [step, step + 1],
            values: [1, draw.one<unknown>([2, 'x'])],
            timestamps: [timestamp, timestamp + 1],
          },
        ],
      },
    ],
    // More than is read before it is let in.
    () => [
      'metrics/batch',
      {
        metrics: Array.from({ length: 200 }, (_, at) => ({
          ...point(step + at),
          metricName: `long ${'m'.repeat(60)}`,
        })),
      },
    ],
    () => ['output', { outputLines: [{ output: draw.one(['x', 'ü €', '']), offset: step, timestamp }] }],
    () => ['ram-metrics', { totalRam: 2, usedRam: step, timestamp }],
    () => ['load-metrics', { loadAverage: step / 7, timestamp }],
    () => ['cpu-metrics', { cpuPercentUtilization: [1, step % 100], timestamp }],
  ]
  const [name, fields] = draw.one(writes)()
  const isOther = draw.once(12)
  const path = `${isOther ? '/clientlib/rest/v2' : prefix}/write/experiment/${name}`
  return { path, type: 'application/json', body: drawBody(draw, { experimentKey, ...fields }) }
}

/** To the one route that takes it, most of the time. */
function drawArrow(draw: Draw, experimentKey: string): Write {
  const length = draw.one([1, 3, 3, 2_000])
  const values = Array.from({ length }, (_, at) => draw.one([0.5, at, Number.NaN, -0]))
  const body = toArrowStream({
    columns: {
      metricName: ['arrow'],
      values: [values],
      steps: [values.map((_, at) => at + (draw.once(30) ? 0.5 : 0))],
    },
    metadata: { experimentKey },
  })
  const name = draw.once(8) ? 'metric' : 'metrics/batch'
  const odd = draw.once(5) ? body.subarray(0, draw.below(body.length)) : body
  return { path: `${prefix}/write/experiment/${name}`, type: arrowType, body: odd }
}

function drawBody(draw: Draw, fields: Record<string, unknown>): Buffer {
  const text = JSON.stringify(fields)
  if (!draw.once(5)) return Buffer.from(text)
  const odd: (() => string | Buffer)[] = [
    () => text.slice(0, -1),
    () => `${text}x`,
    () => ` \r\n\t${text} `,
    () => `\ufeff${text}`,
    () => '',
    () => 'null',
    () => '[]',
    () => '"text"',
    () => Buffer.from(`${text.slice(0, -1)},"more":"\xff"}`, 'latin1'),
    () => text.replace('{', '{"__proto__":{"a":1},'),
    () => text.replace('{', '{"constructor":1,"step":99999999999999999999,'),
    () =>
      text.replace('}', `,"step":${draw.one(['-9223372036854775808', '9223372036854775807', '1.5', '"7"', 'null'])}}`),
    () => text.replace('}', `,"metricName":${draw.one(['""', '7', 'null', `"${'n'.repeat(2_000)}"`, '"a\\u0000b"'])}}`),
    () => JSON.stringify({ ...fields, experimentKey: draw.one<unknown>(['x'.repeat(32), '', 7, null, undefined]) }),
    () => `${'['.repeat(200)}${']'.repeat(200)}`,
    () => JSON.stringify({ ...fields, unknown: { deep: [1, { a: null }] } }),
  ]
  return Buffer.from(draw.one(odd)())
}

const oddAddresses: ((path: string) => string)[] = [
  (path) => `${path}?`,
  (path) => `${path}?a=1&a=2`,
  (path) => `${path}/`,
  (path) => `${path}#part`,
  (path) => `http://localhost${path}`,
  (path) => path.replace('/write', '//write'),
  (path) => path.replace('experiment', 'exper%69ment'),
  (path) => path.replace('/write', '/./write'),
  (path) => path.toUpperCase(),
  (path) => `${path}%`,
  (path) => `${path}\xe4`,
  () => '/nothing/here',
  () => '*',
  () => `/${'a'.repeat(6_000)}`,
]

const oddHosts = [[], ['host:'], ['host: a', 'host: b'], ['Host: LOCALHOST'], ['host: a b'], ['host:localhost ']]

const oddTypes = [
  [],
  ['content-type: application/json; charset=utf-8'],
  ['content-type: application/json;charset=UTF-8'],
  ['content-type: application/json; charset=latin1'],
  ['Content-Type: Application/JSON'],
  ['content-type: text/plain'],
  ['content-type:'],
  ['content-type: application/json', 'content-type: text/plain'],
  ['content-type: application/jsonx'],
  [`content-type: ${arrowType}`],
  [`content-type: ${arrowType.toUpperCase()}`],
  [`content-type: ${arrowType}; version=1`],
  ['content-type: multipart/form-data; boundary=x'],
]

function drawKey(draw: Draw, apiKey: string): string[] {
  const name = draw.one(['authorization', 'authorization', 'Authorization', 'AUTHORIZATION'])
  if (!draw.once(6)) return [`${name}: ${apiKey}`]
  return draw.one([
    [],
    [`${name}: Bearer ${apiKey}`],
    [`${name}: bearer  ${apiKey}`],
    [`${name}:${apiKey}`],
    [`${name}: \t ${apiKey} \t `],
    [`${name}:`],
    [`${name}: ${apiKey.slice(0, -1)}x`],
    [`${name}: svc_unknown`],
    [`${name}: ${apiKey}`, `${name}: ${apiKey}`],
    [`${name}: ${apiKey}, ${apiKey}`],
    [`${name}: ${apiKey}\xff`],
    [`${name} : ${apiKey}`],
    [`comet-sdk-api: ${apiKey}`],
  ])
}

function drawIdempotencyKey(draw: Draw): string {
  return draw.one([
    `key ${draw.below(50)}`,
    `key ${draw.below(50)}`,
    '',
    'x'.repeat(200),
    'x'.repeat(201),
    '\xe9',
    'a\tb',
  ])
}

/**
 * For a request that comes by itself. Of several at once Node's server puts its "100 Continue" into the middle of the answer to
 * another, and reads nothing after one that asks for an upgrade until the time for a request is over.
 */
const oddHeadersAlone = [['expect: 100-continue'], ['expect: 200-ok'], ['connection: upgrade', 'upgrade: websocket']]

const oddHeaders = [
  ['connection: keep-alive'],
  ['connection: close'],
  ['Connection: Keep-Alive', 'keep-alive: timeout=5'],
  ['connection: te', 'te: trailers'],
  ['content-encoding: identity'],
  ['content-encoding: br'],
  ['content-encoding: zip'],
  ['x-folded: first', ' second'],
  ['x-folded: first', '\tsecond'],
  [' leading: space'],
  ['x-name : space before the colon'],
  ['x_name: underscore'],
  ['x-no-colon'],
  [': no name'],
  ['x-\xe9: name'],
  ['x-value: \xe9'],
  ['x-value: a\x00b'],
  ['x-value: a\x7fb'],
  ['x-value: a\rb'],
  ['x-value:\ntransfer-encoding: chunked'],
  ['x-value: a\n'],
  ['x-value:\x0ba'],
  ['x-value: a\xa0'],
  ['x-value:\ta\t'],
  ['x-empty:'],
  ['x-twice: 1', 'x-twice: 2'],
  ['cookie: a=1', 'cookie: b=2'],
  ['trailer: x-after'],
  ['__proto__: x', 'constructor: y'],
  ['accept: text/html', 'user-agent: test', 'accept-encoding: gzip, br'],
  [`x-long: ${'l'.repeat(5_000)}`],
  [`x-long: ${'l'.repeat(20_000)}`],
  Array.from({ length: 120 }, (_, at) => `x-${at}: ${at}`),
]

/**
 * How the body is told from what follows. Lengths are never larger than what is sent: the rest would be waited for, for as
 * long as a request may take.
 */
function drawFraming(draw: Draw, body: Buffer, headers: string[]): Buffer {
  if (!draw.once(6)) {
    headers.push(`content-length: ${body.length}`)
    return body
  }
  const chunked = (bytes: Buffer, more = '') =>
    Buffer.concat([
      ...(bytes.length > 0 ? [Buffer.from(`${bytes.length.toString(16)}${more}\r\n`), bytes, Buffer.from('\r\n')] : []),
      Buffer.from('0\r\n\r\n'),
    ])
  const halves = () => {
    const middle = body.length >> 1
    if (middle === 0) return chunked(body)
    const first = Buffer.concat([
      Buffer.from(`${middle.toString(16)}\r\n`),
      body.subarray(0, middle),
      Buffer.from('\r\n'),
    ])
    return Buffer.concat([first, chunked(body.subarray(middle))])
  }
  const framings: (() => [string[], Buffer])[] = [
    () => [['transfer-encoding: chunked'], chunked(body)],
    () => [['Transfer-Encoding: Chunked'], halves()],
    () => [['transfer-encoding: chunked'], chunked(body, ';name=value')],
    () => [['transfer-encoding: chunked'], Buffer.from('zz\r\nnot a length\r\n0\r\n\r\n')],
    () => [['transfer-encoding: chunked, identity'], chunked(body)],
    () => [['transfer-encoding: identity'], body],
    () => [['transfer-encoding: chunked', `content-length: ${body.length}`], chunked(body)],
    () => [[`content-length: ${body.length}`, 'transfer-encoding: chunked'], chunked(body)],
    () => [[`content-length: ${body.length}`, `content-length: ${body.length}`], body],
    () => [[`content-length: ${body.length}`, 'content-length: 3'], body],
    () => [[`content-length: ${body.length}, ${body.length}`], body],
    () => [[`content-length: 00${body.length}`], body],
    () => [[`content-length: +${body.length}`], body],
    () => [[`content-length: ${body.length}.0`], body],
    () => [[`content-length: 0x${body.length.toString(16)}`], body],
    () => [['content-length: -1'], body],
    () => [['content-length: 99999999999999999999'], body],
    () => [[`content-length: ${Math.max(0, body.length - 5)}`], body],
    () => [['content-length: 0'], Buffer.alloc(0)],
    () => [[], Buffer.alloc(0)],
    () => gzipped(gzipSync(body)),
    () => gzipped(body),
    () => [['content-encoding: identity', `content-length: ${body.length}`], body],
  ]
  const gzipped = (bytes: Buffer): [string[], Buffer] => [
    ['content-encoding: gzip', `content-length: ${bytes.length}`],
    bytes,
  ]
  const [lines, sent] = draw.one(framings)()
  headers.push(...lines)
  return sent
}
