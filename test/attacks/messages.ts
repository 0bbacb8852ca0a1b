/**
 * Messages that two readers of HTTP may understand differently: for one of them there is a second request in the body of the
 * first. By RFC 9112 there is none, or the message must be refused, so the second request must never be executed.
 */
type Parts = {
  /** The address of the first request. */
  path: string
  apiKey: string
  experimentKey: string
}

export type Message = { name: string; toBytes(inner: Buffer): Buffer }

export function createMessages({ path, apiKey, experimentKey }: Parts): Message[] {
  const body = JSON.stringify({ experimentKey, metricName: 'outer', metricValue: 1 })
  const head = (lines: string[], end = '\r\n', start = `POST ${path} HTTP/1.1`) =>
    [start, 'host: localhost', `authorization: ${apiKey}`, ...lines, '', ''].join(end)
  const bytes = (text: string) => Buffer.from(text, 'latin1')
  const size = (text: string | Buffer) => text.length.toString(16)
  const ofOuter = `${size(body)}\r\n${body}\r\n0\r\n\r\n`

  /** Content-Length covers everything; chunks end before the inner request. */
  const longLength = (name: string, lines: (length: number) => string[], end?: string): Message => ({
    name: `${name}, the length is longer`,
    toBytes: (inner) => Buffer.concat([bytes(head(lines(ofOuter.length + inner.length), end) + ofOuter), inner]),
  })
  /** Chunks cover everything; Content-Length ends before the inner request. */
  const shortLength = (name: string, lines: (length: number) => string[], end?: string): Message => ({
    name: `${name}, the length is shorter`,
    toBytes(inner) {
      const first = `${size(inner)}\r\n`
      return Buffer.concat([bytes(head(lines(first.length), end) + first), inner, bytes('\r\n0\r\n\r\n')])
    },
  })
  const both = (name: string, lines: (length: number) => string[], end?: string) => [
    longLength(name, lines, end),
    shortLength(name, lines, end),
  ]
  const coding =
    (...lines: string[]) =>
    (length: number) => [`content-length: ${length}`, ...lines]
  const codingFirst =
    (...lines: string[]) =>
    (length: number) => [...lines, `content-length: ${length}`]
  /** Only the longer of two lengths covers the inner request. */
  const lengths = (name: string, toLines: (short: number, long: number) => string[]): Message => ({
    name: `two lengths: ${name}`,
    toBytes: (inner) => Buffer.concat([bytes(head(toLines(body.length, body.length + inner.length)) + body), inner]),
  })
  /** A chunk that lenient readers end early, so that the rest of it is a request. */
  const chunk = (name: string, toText: (inner: string) => string): Message => ({
    name: `chunks: ${name}`,
    toBytes: (inner) => bytes(head(['transfer-encoding: chunked']) + toText(inner.toString('latin1'))),
  })
  const raw = (name: string, toText: (inner: string) => string): Message => ({
    name,
    toBytes: (inner) => bytes(toText(inner.toString('latin1'))),
  })
  const chunked = 'transfer-encoding: chunked'

  return [
    ...both('CL.TE', coding(chunked)),
    ...both('TE.CL', codingFirst(chunked)),
    // A name that is no Transfer-Encoding: the length counts.
    ...['transfer_encoding: chunked', 'transfer-encodinG\x00: chunked', 'x-transfer-encoding: chunked'].map((it) =>
      longLength(JSON.stringify(it), coding(it)),
    ),
    ...[
      'Transfer-Encoding: CHUNKED',
      'transfer-encoding:\tchunked',
      'transfer-encoding:chunked',
      'transfer-encoding: chunked\t',
      'transfer-encoding : chunked',
      'transfer-encoding\t: chunked',
      ' transfer-encoding: chunked',
      'transfer-encoding:\x0bchunked',
      'transfer-encoding: \x0cchunked',
      'transfer-encoding: chunked\xa0',
      'transfer-encoding: xchunked',
      'transfer-encoding: "chunked"',
      "transfer-encoding: 'chunked'",
      'transfer-encoding: chunked;q=1',
      'transfer-encoding: chunked, identity',
      'transfer-encoding: identity, chunked',
      'transfer-encoding: chunked, chunked',
      'transfer-encoding: gzip, chunked',
      'transfer-encoding:\r\n chunked',
      'transfer-encoding: identity\r\n , chunked',
      'x: y\r\n transfer-encoding: chunked',
      'x: y\ntransfer-encoding: chunked',
      'x:\ntransfer-encoding: chunked',
      'x: y\rtransfer-encoding: chunked',
      'x: y\x00\r\ntransfer-encoding: chunked',
      'transfer-encoding: identity\r\ntransfer-encoding: chunked',
      'transfer-encoding: chunked\r\ntransfer-encoding: identity',
      'transfer-encoding:\r\ntransfer-encoding: chunked',
      'content-encoding: gzip\r\ntransfer-encoding: chunked',
      'connection: transfer-encoding\r\ntransfer-encoding: chunked',
      'connection: content-length\r\ntransfer-encoding: chunked',
      'expect: 100-continue\r\ntransfer-encoding: chunked',
    ].flatMap((it) => both(`TE.TE ${JSON.stringify(it)}`, coding(...it.split('\r\n')))),
    ...both('lines that end with LF', coding(chunked), '\n'),
    lengths('the short one first', (short, long) => [`content-length: ${short}`, `content-length: ${long}`]),
    lengths('the long one first', (short, long) => [`content-length: ${long}`, `content-length: ${short}`]),
    lengths('in one line', (short, long) => [`content-length: ${short}, ${long}`]),
    lengths('one folded', (short, long) => [`content-length: ${long}`, ` ${short}`]),
    lengths('one after a lone LF', (short, long) => [`content-length: ${long}`, `x:\ncontent-length: ${short}`]),
    lengths('one after a lone CR', (short, long) => [`content-length: ${long}`, `x:\rcontent-length: ${short}`]),
    lengths('a space in the name', (short, long) => [`content-length: ${long}`, `content-length : ${short}`]),
    lengths('a sign', (short) => [`content-length: +${short}`]),
    lengths('hexadecimal', (short) => [`content-length: 0x${short.toString(16)}`]),
    lengths('a fraction', (short) => [`content-length: ${short}.0`]),
    lengths('two numbers', (short, long) => [`content-length: ${short} ${long}`]),
    lengths('a vertical tab', (short) => [`content-length:\x0b${short}`]),
    lengths('a wide space', (short) => [`content-length:\xa0${short}`]),
    lengths('beyond 64 bits', (short) => [`content-length: ${2n ** 64n + BigInt(short)}`]),
    lengths('negative', () => ['content-length: -1']),
    lengths('empty', () => ['content-length:']),
    chunk('an extension with a lone LF', (inner) => `2;a\nb\r\n{}\r\n0\r\n\r\n${inner}`),
    chunk('a size with a lone LF', (inner) => `${size(body)}\n${body}\r\n0\r\n\r\n${inner}`),
    chunk(
      'a size beyond 64 bits',
      (inner) => `1${'0'.repeat(15)}${size(body).padStart(2, '0')}\r\n${body}\r\n0\r\n\r\n${inner}`,
    ),
    chunk('a size with 0x', (inner) => `0x${size(body)}\r\n${body}\r\n0\r\n\r\n${inner}`),
    chunk('a size with a sign', (inner) => `+${size(body)}\r\n${body}\r\n0\r\n\r\n${inner}`),
    chunk('a negative size', (inner) => `-1\r\n${body}\r\n0\r\n\r\n${inner}`),
    chunk('no end of a chunk', (inner) => `${size(body)}\r\n${body}XX0\r\n\r\n${inner}`),
    chunk('a chunk that ends with LF', (inner) => `${size(body)}\r\n${body}\n0\r\n\r\n${inner}`),
    chunk('a last chunk that ends with LF', (inner) => `${size(body)}\r\n${body}\r\n0\n\n${inner}`),
    chunk('a trailer that is not one', (inner) => `${size(body)}\r\n${body}\r\n0\r\nno header\r\n\r\n${inner}`),
    chunk('an inner request as an extension', (inner) => `2;${inner}\r\n{}\r\n0\r\n\r\n`),
    chunk('an inner request as a chunk', (inner) => `${size(inner)}\r\n${inner}\r\n0\r\n\r\n`),
    raw('no end of the headers', (inner) => `${head([`content-length: ${body.length}`]).trimEnd()}\r\n${inner}`),
    raw(
      'a space before the first header',
      (inner) => head([`content-length: ${inner.length}`]).replace('\r\nhost', '\r\n host') + inner,
    ),
    raw(
      'a version that is not one',
      (inner) => head([`content-length: ${body.length}`], '\r\n', `POST ${path} HTTP/1.1 HTTP/1.1`) + body + inner,
    ),
    raw(
      'a line feed in the address',
      (inner) => head([`content-length: ${inner.length}`], '\r\n', `POST ${path}?\n HTTP/1.1`) + inner,
    ),
    raw(
      'HTTP/1.0 with chunks',
      (inner) =>
        head([chunked, `content-length: ${ofOuter.length + inner.length}`], '\r\n', `POST ${path} HTTP/1.0`) +
        ofOuter +
        inner,
    ),
    raw(
      'an upgrade to HTTP/2',
      (inner) =>
        head([
          'connection: upgrade, http2-settings',
          'upgrade: h2c',
          'http2-settings: AAMAAABkAAQAAP__',
          `content-length: ${inner.length}`,
        ]) + inner,
    ),
    raw(
      'a GET with a body',
      (inner) => `GET /livez HTTP/1.1\r\nhost: localhost\r\ncontent-length: ${inner.length}\r\n\r\n${inner}`,
    ),
    raw(
      'a HEAD with a body',
      (inner) => `HEAD /livez HTTP/1.1\r\nhost: localhost\r\ncontent-length: ${inner.length}\r\n\r\n${inner}`,
    ),
  ]
}
