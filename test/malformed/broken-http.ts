import type { Choices } from './random.ts'

/** Parts of valid requests, from which broken ones are made. */
type Parts = { apiKey: string; experimentKey: string; longRead: string }

/** Input that is not HTTP, or ambiguous HTTP. */
export function createBrokenHttp({ apiKey, experimentKey, longRead }: Parts) {
  const body = JSON.stringify({ experimentKey, metricName: 'x', metricValue: 1, step: 1 })
  const head = (more: string, start = 'POST /api/rest/v2/write/experiment/metric HTTP/1.1') =>
    `${start}\r\nhost: x\r\nauthorization: ${apiKey}\r\n${more}\r\n`
  const right = `${head(`content-length: ${body.length}\r\n`)}${body}`
  const chunked = head('transfer-encoding: chunked\r\n')
  const get = (more: string) => `GET /livez HTTP/1.1\r\n${more}\r\n`
  const long = `GET ${longRead} HTTP/1.1\r\nhost: x\r\nauthorization: ${apiKey}\r\n\r\n`
  const all = [
    ...['', '\r\n\r\n', 'x', '\0\0\0\0', 'this is not HTTP\r\n\r\n', 'GET\r\n\r\n', 'GET /livez\r\n\r\n'],
    ...['GET / HTTP/9.9\r\n\r\n', 'GET / HTTP/2.0\r\nhost: x\r\n\r\n', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ...['get /livez HTTP/1.1\r\nhost: x\r\n\r\n', 'GET  /livez  HTTP/1.1\r\nhost: x\r\n\r\n'],
    ...[
      'GET /livez HTTP/1.0\r\n\r\n',
      'GET http://[::1 HTTP/1.1\r\nhost: x\r\n\r\n',
      'GET * HTTP/1.1\r\nhost: x\r\n\r\n',
    ],
    ...['OPTIONS * HTTP/1.1\r\nhost: x\r\n\r\n', 'CONNECT x:1 HTTP/1.1\r\nhost: x\r\n\r\n'],
    ...['TRACE /livez HTTP/1.1\r\nhost: x\r\n\r\n', 'M-SEARCH /livez HTTP/1.1\r\nhost: x\r\n\r\n'],
    ...[
      'GET /\0 HTTP/1.1\r\nhost: x\r\n\r\n',
      'GET /é HTTP/1.1\r\nhost: x\r\n\r\n',
      'GET livez HTTP/1.1\r\nhost: x\r\n\r\n',
    ],
    `GET /${'x'.repeat(100_000)} HTTP/1.1\r\nhost: x\r\n\r\n`,
    '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03',
    ...['', 'host x\r\n', ': x\r\n', 'host: x\r\nhost: y\r\n', 'host: x\r\n a: folded\r\n', 'host: x\r\na : b\r\n'].map(
      get,
    ),
    ...[
      'host: x\r\na: \0\r\n',
      'host: x\r\na: \x01\x7f\r\n',
      'host: x\r\na\r\n',
      'host: x\r\n(a): b\r\n',
      'host: x\rb: c\r\n',
    ].map(get),
    get(`host: x\r\na: ${'x'.repeat(100_000)}\r\n`),
    get(`host: x\r\n${'x'.repeat(20_000)}: a\r\n`),
    get(`host: x\r\n${'a: b\r\n'.repeat(5_000)}`),
    get(`host: x\r\n${'a:\r\n'.repeat(3_000)}`),
    'GET /livez HTTP/1.1\nhost: x\n\n',
    ...['-1', 'x', '1e3', '0x10', '', '+5', '5 5', '5,5', '99999999999999999999'].map((it) =>
      head(`content-length: ${it}\r\n`),
    ),
    head('content-length: 5\r\ncontent-length: 6\r\n'),
    `${head(`content-length: ${body.length}\r\ntransfer-encoding: chunked\r\n`)}0\r\n\r\n${right}`,
    `${head(`transfer-encoding: chunked\r\ncontent-length: 0\r\n`)}${right}`,
    ...['zz', 'ffffffffffffffff', '-1', '', '5;a=b', `5;${'x'.repeat(20_000)}`].map(
      (it) => `${chunked}${it}\r\n${body}`,
    ),
    `${chunked}2\r\n{}\r\n0\r\n${'a: b\r\n'.repeat(3_000)}\r\n`,
    `${chunked}${'1\r\n \r\n'.repeat(5_000)}0\r\n\r\n`,
    ...['x', 'gzip, chunked', 'chunked, gzip', 'chunked, chunked', 'identity', ' '].map(
      (it) => `${head(`transfer-encoding: ${it}\r\n`)}0\r\n\r\n`,
    ),
    `${head(`content-length: ${body.length * 2}\r\n`)}${body}`,
    `${head('content-length: 5\r\n')}${body}`,
    `${head(`content-length: ${body.length}\r\nexpect: x\r\n`)}${body}`,
    `${head(`content-length: ${body.length}\r\nexpect: 100-continue\r\n`)}${body}`,
    `${head(`content-length: ${body.length}\r\nupgrade: websocket\r\nconnection: upgrade\r\n`)}${body}`,
    `${head(`content-length: ${body.length}\r\nupgrade: h2c\r\nconnection: upgrade, http2-settings\r\n`)}${body}`,
    `${right}${right}${right.slice(0, -3)}`,
    `${right}garbage\r\n\r\n`,
    `${long}garbage\r\n\r\n`,
    `${right}${get('host: x\r\n')}${'\0'.repeat(100)}`,
  ].map((it) => Buffer.from(it, 'latin1'))
  const rightBytes = Buffer.from(right)

  return {
    one: (choices: Choices): Buffer => choices.one(all),

    /** A valid request with a few random bytes. */
    damaged(choices: Choices): Buffer {
      const bytes = Buffer.from(rightBytes)
      const at = choices.below(bytes.length)
      for (let more = choices.below(8); more >= 0; more--) bytes[(at + more) % bytes.length] = choices.below(256)
      return bytes
    },

    /** The beginning of a valid request. */
    half: (choices: Choices): Buffer => rightBytes.subarray(0, choices.below(rightBytes.length)),

    /** A read whose answer exceeds every buffer on its way. */
    longRead: Buffer.from(long),
  }
}
