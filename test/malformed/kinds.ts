import { createBrokenHttp } from './broken-http.ts'
import { bodyBytesMax, createPackedBodies, damage } from './bytes.ts'
import { type Call, hole } from './calls.ts'
import { type Choices, createChoices } from './random.ts'
import { deepTexts, repeatedMembers, sampleBodies, wrongQueryValues, wrongValues } from './values.ts'

/** One malformed request, ready to be sent. */
export type Malformed = {
  kind: string
  bytes: Buffer
  /**
   * `shared`: on a connection with other requests. Otherwise on its own connection, which we `finish` (FIN), `reset` at
   * once, or `abandon` at the first bytes of the answer.
   */
  manner: 'shared' | 'finish' | 'reset' | 'abandon'
  isHead: boolean
}

/** What requests are made from; the same for all processes of a run. */
export type Ingredients = {
  seed: number
  apiKey: string
  /** The experiment for malformed writes; nothing else uses it. */
  experimentKey: string
  /** The path of a read with a long answer. */
  longRead: string
  calls: Call[]
}

type Made = Omit<Malformed, 'kind'>
type Kind = { name: string; weight: number; make(choices: Choices): Made }

/** Makes request number N: always the same one for the same seed. */
export function createRequests(ingredients: Ingredients): (number: number) => Malformed {
  const kinds = createKinds(ingredients)
  const total = kinds.reduce((sum, it) => sum + it.weight, 0)
  return (number) => {
    const choices = createChoices(ingredients.seed, number)
    let left = choices.below(total)
    const kind = kinds.find((it) => {
      left -= it.weight
      return left < 0
    }) as Kind
    return { kind: kind.name, ...kind.make(choices) }
  }
}

type Parts = { method: string; target: string; headers: string[]; body: Buffer; isChunked?: boolean }

function toBytes({ method, target, headers, body, isChunked }: Parts): Buffer {
  const length = isChunked ? 'transfer-encoding: chunked' : `content-length: ${body.length}`
  const lines = [`${method} ${target} HTTP/1.1`, 'host: x', ...headers, length, '', '']
  const chunks = isChunked
    ? [Buffer.from(`${body.length.toString(16)}\r\n`), body, Buffer.from('\r\n0\r\n\r\n')]
    : [body]
  return Buffer.concat([Buffer.from(lines.join('\r\n'), 'latin1'), ...chunks])
}

const sampledBodies = 2_000
const methods = ['GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'HEAD', 'OPTIONS']
const wrongTypes = [
  ...[
    'text/plain',
    '',
    'a/b; c=',
    'application/json; charset=x',
    'application/x-www-form-urlencoded',
    'application/xml',
  ],
  ...['multipart/form-data; boundary=x', 'application/json, application/json', 'APPLICATION/JSON', 'json', ';', '*/*'],
]
const wrongEncodings = [
  'br',
  'GZIP',
  '',
  'deflate',
  'zstd',
  'gzip, gzip',
  'identity, gzip',
  'x-gzip',
  'chunked',
  '\x80',
]

/** Every kind of malformed request with its weight, of about ten thousand. */
function createKinds({ seed, apiKey, experimentKey, longRead, calls }: Ingredients): Kind[] {
  const key = `authorization: ${apiKey}`
  const writes = calls.filter((it) => it.bodies.length > 0)
  const reads = calls.filter((it) => it.queries.length > 0)
  const batch = calls.find((it) => it.path.endsWith('/metrics/batch')) as Call
  const names = [...new Set(calls.flatMap((it) => [...it.bodies, ...it.queries].join().match(/\w{3,}/g) ?? []))]
  const bodies = sampleBodies([...names, '__proto__', 'constructor'], seed, sampledBodies)
  const packed = createPackedBodies()
  const wrongHeaders = createWrongHeaders(apiKey)
  const broken = createBrokenHttp({ apiKey, experimentKey, longRead })
  const chunkedTooLarge = Buffer.alloc(bodyBytesMax + 1, ' ')

  const share = (parts: Parts): Made => ({ bytes: toBytes(parts), manner: 'shared', isHead: parts.method === 'HEAD' })
  const post = ({ method, path }: Call, body: Buffer | string, headers: string[] = [], isChunked = false): Made =>
    share({
      method,
      target: path,
      headers: [key, 'content-type: application/json', ...headers],
      body: typeof body === 'string' ? Buffer.from(body) : body,
      isChunked,
    })
  const alone = (bytes: Buffer, manner: Made['manner']): Made => ({ bytes, manner, isHead: false })
  const bodyOf = (call: Call, choices: Choices) =>
    choices.one(call.bodies).replace(hole, () => choices.one(wrongValues))
  const anyBody = (choices: Choices) => {
    const call = choices.one(writes)
    return { call, body: bodyOf(call, choices) }
  }

  return [
    {
      name: 'a wrong value in a field',
      weight: 3300,
      make(choices) {
        const { call, body } = anyBody(choices)
        return post(call, body, [], choices.oneIn(10))
      },
    },
    {
      name: 'a wrong value in a query',
      weight: 1200,
      make(choices) {
        const { method, path, queries } = choices.one(reads)
        const query = choices.one(queries).replace(hole, () => choices.one(wrongQueryValues))
        return share({ method, target: `${path}?${query}`, headers: [key], body: Buffer.alloc(0) })
      },
    },
    {
      name: 'a body of any shape',
      weight: 1200,
      make: (choices) => post(choices.one(writes), choices.one(bodies), [], choices.oneIn(10)),
    },
    {
      name: 'a damaged body',
      weight: 1200,
      make(choices) {
        const { call, body } = anyBody(choices)
        return post(call, damage(Buffer.from(body), choices))
      },
    },
    {
      name: 'a name twice in one object',
      weight: 300,
      make(choices) {
        const { call, body } = anyBody(choices)
        return post(
          call,
          body.replace('{', () => `{${choices.one(repeatedMembers)}`),
        )
      },
    },
    {
      name: 'a body nested 100,000 deep',
      weight: 20,
      make(choices) {
        const call = choices.one(writes)
        const deep = choices.one(deepTexts)
        return post(call, choices.oneIn(2) ? deep : choices.one(call.bodies).replace(hole, () => deep))
      },
    },
    {
      name: 'a wrong type or encoding',
      weight: 500,
      make(choices) {
        const { call, body } = anyBody(choices)
        const type = choices.oneIn(2) ? [] : [`content-type: ${choices.one(wrongTypes)}`]
        const encoding = type.length > 0 && choices.oneIn(2) ? [] : [`content-encoding: ${choices.one(wrongEncodings)}`]
        return share({
          method: call.method,
          target: call.path,
          headers: [key, ...type, ...encoding],
          body: Buffer.from(body),
        })
      },
    },
    {
      name: 'a body that is not the gzip it says',
      weight: 300,
      make: (choices) => post(choices.one(writes), choices.one(packed.broken), ['content-encoding: gzip']),
    },
    {
      name: 'a gzip of 1000:1',
      weight: 3,
      make(choices) {
        const call = choices.oneIn(2) ? batch : choices.one(writes)
        return post(call, choices.one(packed.bombs), ['content-encoding: gzip'])
      },
    },
    {
      name: 'a wrong key or header',
      weight: 600,
      make(choices) {
        const { call, body } = anyBody(choices)
        return share({
          method: call.method,
          target: call.path,
          headers: choices.one(wrongHeaders),
          body: Buffer.from(body),
        })
      },
    },
    {
      name: 'a wrong address or method',
      weight: 600,
      make(choices) {
        const { path } = choices.one(calls)
        const target = choices.one([
          path,
          `${path}/`,
          `${path}/more`,
          path.replace('/api/', '/clientlib/'),
          path.toUpperCase(),
          `/${path}`,
          path.replace('/write', '/%77rite'),
          path.replace('/rest', '/../rest'),
          `${path}%`,
          `${path}%00`,
          `${path}/${'x'.repeat(5_000)}`,
          `${path}#fragment`,
          `http://elsewhere${path}`,
          '/',
          '/%',
          '/favicon.ico',
        ])
        const method = choices.one(methods)
        const body = method === 'GET' || method === 'HEAD' ? Buffer.alloc(0) : Buffer.from('{}')
        return share({ method, target, headers: choices.oneIn(4) ? [] : [key], body })
      },
    },
    { name: 'what is not HTTP', weight: 200, make: (choices) => alone(broken.one(choices), 'finish') },
    { name: 'HTTP with a few bytes wrong', weight: 200, make: (choices) => alone(broken.damaged(choices), 'finish') },
    { name: 'half a request, then the end', weight: 150, make: (choices) => alone(broken.half(choices), 'finish') },
    { name: 'half a request, then a reset', weight: 150, make: (choices) => alone(broken.half(choices), 'reset') },
    { name: 'an answer nobody waits for', weight: 5, make: () => alone(broken.longRead, 'abandon') },
    {
      name: 'a body over the limit, declared',
      weight: 10,
      make(choices) {
        const { method, path } = choices.one(writes)
        const length = choices.one([bodyBytesMax + 1, 2 ** 31, 2 ** 40])
        const head = `${method} ${path} HTTP/1.1\r\nhost: x\r\n${key}\r\ncontent-type: application/json\r\ncontent-length: ${length}\r\n\r\n{`
        return alone(Buffer.from(head), 'finish')
      },
    },
    {
      name: 'a body over the limit, in chunks',
      weight: 2,
      make: (choices) => ({ ...post(choices.one(writes), chunkedTooLarge, [], true), manner: 'finish' }),
    },
  ]
}

function createWrongHeaders(apiKey: string): string[][] {
  const key = `authorization: ${apiKey}`
  return [
    [],
    ['authorization:'],
    ['authorization: wrong'],
    ['authorization: Bearer'],
    [`authorization: Basic ${apiKey}`],
    [`authorization: ${'x'.repeat(10_000)}`],
    ['authorization: \x80\xff'],
    [key, 'authorization: wrong'],
    ['authorization: wrong', key],
    [key, 'idempotency-key:'],
    [key, `idempotency-key: ${'x'.repeat(201)}`],
    [key, 'idempotency-key: \x80\xff'],
    [key, 'idempotency-key: a', 'idempotency-key: b'],
    [key, 'content-type: application/json', 'content-type: text/plain'],
    [key, 'content-encoding: gzip', 'content-encoding: identity'],
    [key, `cookie: ${'a=b; '.repeat(2_000)}`],
    [key, ...Array.from({ length: 1_000 }, (_, at) => `h${at}: x`)],
    [
      key,
      'accept: nothing/here',
      'accept-encoding: x',
      'range: bytes=-1',
      'if-match: *',
      'x-http-method-override: DELETE',
    ],
    [key, 'constructor: x', '__proto__: x', 'x-forwarded-for: \x80'],
    [key, 'connection: keep-alive, x', 'keep-alive: timeout=99999', 'te: trailers'],
  ]
}
