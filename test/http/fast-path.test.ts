import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type FastAnswer, type FastPath, type FastRoute, openFastPath } from '../../http/fast-path/fast-path.ts'
import { openTwoUsers } from '../api/accounts/two-users.ts'
import { aPoint } from '../kit/builders.ts'
import { eventually } from '../kit/eventually.ts'
import { createAnswerReader } from '../kit/http/answers.ts'

const smallBodyBytes = 1_000
const bodyBytesMax = 300_000
/** What is slow by chance is not slow enough; tests of what is slow wait less. */
const restWaitMsLong = 60_000
const restWaitMs = 300
const idleMsMax = 2_000

describe('a connection', () => {
  let server: Server
  let fastPath: FastPath
  let isDraining = false
  let sockets: Socket[]
  let hold: Promise<unknown> = Promise.resolve()
  /** The paths of the requests that wait for `hold`, or did. */
  let holding: string[]
  const waitForHold = (path: string) => {
    holding.push(path)
    return hold
  }
  /** Bytes of larger bodies that were let in and are not gone again. */
  let held: number
  let hasRoom: boolean
  beforeEach(() => serve(restWaitMsLong))
  afterEach(stop)

  async function serve(restWaitMs: number) {
    hold = Promise.resolve()
    holding = []
    held = 0
    hasRoom = true
    sockets = []
    server = createServer(async (request, answer) => {
      const chunks = await request.toArray().catch(() => [])
      const body = `node ${request.method} ${Buffer.concat(chunks)}`
      answer.setHeader('content-length', Buffer.byteLength(body)).end(body)
    })
    const echo = (_: unknown, body: Buffer): FastAnswer => ({
      head: `HTTP/1.1 200 OK\r\ncontent-length: ${body.length + 6}\r\n`,
      body: `quick ${body}`,
    })
    const admit = (_: unknown, bytes: number) => {
      if (!hasRoom) return undefined
      held += bytes
      return () => {
        held -= bytes
      }
    }
    const routes = new Map<string, FastRoute>([
      ['POST /now', { bodyBytesMax, takes: undefined, admit, answer: echo }],
      [
        'POST /later',
        {
          bodyBytesMax,
          takes: undefined,
          admit,
          answer: (headers, body) => waitForHold('/later').then(() => echo(headers, body)),
        },
      ],
      [
        'POST /asked',
        {
          bodyBytesMax,
          takes: undefined,
          admit: (headers, bytes) => waitForHold('/asked').then(() => admit(headers, bytes)),
          answer: echo,
        },
      ],
    ])
    fastPath = openFastPath({ server, routes, smallBodyBytes, restWaitMs, idleMsMax, isDraining: () => isDraining })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
  }

  async function stop() {
    isDraining = false
    for (const socket of sockets) socket.destroy()
    server.close()
    await once(server, 'close')
  }

  async function hurry() {
    await stop()
    await serve(restWaitMs)
  }

  async function open() {
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
    sockets.push(socket)
    socket.setNoDelay(true)
    let received = ''
    const bodies: string[] = []
    const reader = createAnswerReader(
      () => false,
      ({ body }) => bodies.push(body),
    )
    let hasEnded = false
    socket.on('data', (chunk) => {
      received += chunk
      reader.push(chunk)
    })
    socket.on('error', () => undefined)
    socket.on('close', () => {
      hasEnded = true
    })
    await once(socket, 'connect')
    return {
      socket,
      send: (text: string | Buffer) => socket.write(text),
      ended: () => eventually(() => expect(hasEnded).toBe(true)),
      received: () => received,
      /** The bodies of the answers, once there are so many. */
      answers: (count: number) =>
        eventually(() => {
          expect(bodies).toHaveLength(count)
          return bodies
        }),
    }
  }

  const plainHead = ['host: x', 'content-type: application/json']
  const request = (body: string, { path = '/now', head = plainHead, length = String(Buffer.byteLength(body)) } = {}) =>
    [`POST ${path} HTTP/1.1`, ...head, `content-length: ${length}`, '', body].join('\r\n')

  it('is answered quickly, request after request', async () => {
    const { send, answers, received } = await open()
    for (const [index, body] of ['{"a":1}', '{"b":22}', '{"a":1}', '{"ü":"€"}'].entries()) {
      send(request(body))
      expect((await answers(index + 1)).at(-1)).toBe(`quick ${body}`)
    }
    expect(received()).toContain('connection: keep-alive\r\nkeep-alive: timeout=2\r\n\r\n')
  })

  it('may send a request in pieces', async () => {
    const { send, answers } = await open()
    const whole = request('{"a":1}')
    for (const cut of [whole.length - 7, whole.length - 1, whole.length - 20, 30, 3]) {
      send(whole.slice(0, cut))
      await sleep(20)
      send(whole.slice(cut))
    }
    expect(await answers(5)).toEqual(Array(5).fill('quick {"a":1}'))
  })

  it('may send many requests at once, and has its answers in order', async () => {
    const { send, answers } = await open()
    const bodies = Array.from({ length: 300 }, (_, index) => `{"n":${index}}`)
    const texts = bodies.map((body, index) => request(body, { path: index % 2 ? '/later' : '/now' }))
    const bytes = Buffer.from(texts.join(''))
    for (let at = 0; at < bytes.length; at += 777) send(bytes.subarray(at, at + 777))
    expect(await answers(300)).toEqual(bodies.map((body) => `quick ${body}`))
  })

  it('is handed to Node with all received bytes when a request is not plain, and stays there', async () => {
    const { send, answers } = await open()
    const odd = 'GET /now HTTP/1.1\r\nhost: x\r\n\r\n'
    send(request('1', { path: '/later' }) + request('2') + odd + request('3') + odd)
    expect(await answers(5)).toEqual(['quick 1', 'quick 2', 'node GET ', 'node POST 3', 'node GET '])
    send(request('4'))
    expect((await answers(6)).at(-1)).toBe('node POST 4')
  })

  it.each<[string, string]>([
    ['another address', request('1', { path: '/other' })],
    ['a query', request('1', { path: '/now?a=b' })],
    ['HTTP/1.0', request('1', { head: [...plainHead, 'connection: keep-alive'] }).replace('1.1', '1.0')],
    [
      'a body in chunks',
      request('1', { head: [...plainHead, 'transfer-encoding: chunked'] })
        .replace(/content-length.*\r\n/, '')
        .replace(/1$/, '1\r\n1\r\n0\r\n\r\n'),
    ],
    ['another content type', request('1', { head: ['host: x', 'content-type: text/plain'] })],
    ['a body that is compressed', request('1', { head: [...plainHead, 'content-encoding: gzip'] })],
    ['a header of bytes beyond ASCII', request('1', { head: [...plainHead, 'x-name: \u00fc'] })],
    ['a header of an odd name', request('1', { head: [...plainHead, 'x_name: 1'] })],
    ['the same header twice', request('1', { head: [...plainHead, 'accept: a', 'accept: b'] })],
    ['a wish to close', request('1', { head: [...plainHead, 'connection: close'] })],
    ['a body over the limit', request('1'.repeat(bodyBytesMax + 1))],
    ['a long head', request('1', { head: [...plainHead, `x-long: ${'x'.repeat(5_000)}`] })],
  ])('goes to Node with %s', async (_, text) => {
    const { send, answers } = await open()
    send(Buffer.from(text, 'latin1'))
    expect((await answers(1))[0]).toMatch(/^node POST 1/)
  })

  it.each<[string, string]>([
    ['two lengths', request('1', { head: [...plainHead, 'content-length: 5'] })],
    ['a length and chunks', request('0\r\n\r\n', { head: [...plainHead, 'transfer-encoding: chunked'] })],
    ['a length with a sign', request('1', { length: '+1' })],
    ['a length of two numbers', request('1', { length: '1, 1' })],
    ['a length in hex', request('1', { length: '0x1' })],
    ['a header without a name', request('1', { head: [...plainHead, ': 1'] })],
    ['a header with a space before its colon', request('1', { head: [...plainHead, 'accept : 1'] })],
    ['a header that goes on in the next line', request('1', { head: [...plainHead, 'accept: 1', ' 2'] })],
    ['a line that ends without CR', request('1', { head: ['host: x\ncontent-type: application/json'] })],
    ['a NUL in a header', request('1', { head: [...plainHead, 'accept: \0'] })],
    ['no host', request('1', { head: ['content-type: application/json'] })],
  ])('is judged by Node alone with %s', async (_, text) => {
    const { send, received } = await open()
    send(text)
    await eventually(() => expect(received()).toMatch(/^HTTP\/1\.1 /))
    expect(received()).not.toContain('quick')
  })

  const large = '1'.repeat(bodyBytesMax)

  it.each(['/now', '/later', '/asked'])(
    'may send larger bodies, which are held until they are answered: %s',
    async (path) => {
      const release = Promise.withResolvers<void>()
      hold = release.promise
      const { send, answers } = await open()
      send(request(large, { path }) + request('22') + request(large, { path }))
      await sleep(50)
      if (path === '/later') await eventually(() => expect(held).toBe(bodyBytesMax))
      if (path === '/asked') expect(held).toBe(0)
      release.resolve()
      expect(await answers(3)).toEqual([`quick ${large}`, 'quick 22', `quick ${large}`])
      expect(held).toBe(0)
    },
  )

  it('may send a larger body in many pieces', async () => {
    const { send, answers } = await open()
    const text = request(large) + request('22')
    for (let at = 0; at < text.length; at += 30_000) {
      send(text.slice(at, at + 30_000))
      await sleep(2)
    }
    expect(await answers(2)).toEqual([`quick ${large}`, 'quick 22'])
    expect(held).toBe(0)
  })

  it('is handed to Node with a larger body that is not admitted, and reserves no memory', async () => {
    hasRoom = false
    const [sync, asked] = [await open(), await open()]
    sync.send(request(large))
    asked.send(request(large, { path: '/asked' }))
    expect(await sync.answers(1)).toEqual([`node POST ${large}`])
    expect(await asked.answers(1)).toEqual([`node POST ${large}`])
  })

  it('releases the memory of a larger body that is late or incomplete', async () => {
    await hurry()
    const [slow, broken] = [await open(), await open()]
    slow.send(request(large).slice(0, -3))
    broken.send(request(large).slice(0, -3))
    await eventually(() => expect(held).toBe(2 * bodyBytesMax))
    broken.socket.resetAndDestroy()
    await eventually(() => expect(held).toBe(bodyBytesMax))
    await sleep(restWaitMs * 2)
    slow.send('111')
    expect(await slow.answers(1)).toEqual([`node POST ${large}`])
    expect(held).toBe(0)
  })

  it('releases the memory of a larger body when the connection breaks before admission or while it is answered', async () => {
    const release = Promise.withResolvers<void>()
    hold = release.promise
    const [asked, later] = [await open(), await open()]
    asked.send(request(large, { path: '/asked' }))
    later.send(request(large, { path: '/later' }))
    // By then the whole body was read: without its end, a broken connection releases it at once.
    await eventually(() => expect(holding.toSorted()).toEqual(['/asked', '/later']))
    expect(held).toBe(bodyBytesMax)
    for (const { socket } of [asked, later]) socket.resetAndDestroy()
    await sleep(50)
    expect(held).toBe(bodyBytesMax)
    release.resolve()
    await eventually(() => expect(held).toBe(0))
  })

  it('is handed to Node within a larger body when the fast path is closed meanwhile', async () => {
    const { send, answers } = await open()
    send(request(large).slice(0, -3))
    await eventually(() => expect(held).toBe(bodyBytesMax))
    fastPath.drain()
    send('111')
    expect(await answers(1)).toEqual([`node POST ${large}`])
    expect(held).toBe(0)
  })

  it('is handed to Node when the rest of a request, or any request, does not arrive', async () => {
    await hurry()
    const [slow, silent] = [await open(), await open()]
    slow.send(request('12345').slice(0, -3))
    await sleep(restWaitMs * 2)
    slow.send('345')
    silent.send(request('1'))
    expect(await slow.answers(1)).toEqual(['node POST 12345'])
    expect(await silent.answers(1)).toEqual(['node POST 1'])
  })

  it('is handed to Node when it sends a request byte by byte without pauses', async () => {
    await hurry()
    const { send, answers } = await open()
    send(request('1'))
    expect(await answers(1)).toEqual(['quick 1'])
    const body = 'x'.repeat(40)
    const text = request(body)
    send(text.slice(0, -body.length))
    for (const byte of body) {
      await sleep(restWaitMs / 10)
      send(byte)
    }
    expect((await answers(2))[1]).toBe(`node POST ${body}`)
  })

  it('is closed when it does not read its answers for long', async () => {
    const accepted = once(server, 'connection')
    const { socket, send } = await open()
    const [ofServer] = (await accepted) as [Socket]
    socket.pause()
    const body = 'x'.repeat(smallBodyBytes)
    send(request(body).repeat(20_000))
    await eventually(() => expect(ofServer.destroyed).toBe(true))
  })

  it('is closed when it is idle for long', async () => {
    const { send, answers, ended } = await open()
    send(request('1'))
    await answers(1)
    await ended()
  })

  it('whose client half-closes is answered and closed', async () => {
    const release = Promise.withResolvers<void>()
    hold = release.promise
    const { socket, send, answers, ended, received } = await open()
    send(request('1', { path: '/later' }))
    socket.end()
    await sleep(50)
    expect(received()).toBe('')
    release.resolve()
    expect(await answers(1)).toEqual(['quick 1'])
    await ended()
  })

  it('that breaks while it is answered affects no other', async () => {
    const release = Promise.withResolvers<void>()
    hold = release.promise
    const [broken, other] = [await open(), await open()]
    broken.send(request('1', { path: '/later' }))
    await sleep(50)
    broken.socket.resetAndDestroy()
    await sleep(50)
    release.resolve()
    other.send(request('2'))
    expect(await other.answers(1)).toEqual(['quick 2'])
  })

  it('that does not read its answers is paused, and gets all of them when it reads', async () => {
    const accepted = once(server, 'connection')
    const { socket, send, answers, received } = await open()
    const [ofServer] = (await accepted) as [Socket]
    socket.pause()
    const body = '"x'.padEnd(smallBodyBytes - 1, 'y').concat('"')
    const count = 20_000
    send(request(body).repeat(count))
    await eventually(() => expect(ofServer.writableNeedDrain).toBe(true))
    expect(ofServer.writableLength).toBeLessThan(100_000)
    socket.resume()
    await eventually(() => expect(received().length).toBeGreaterThan(count * body.length))
    expect((await answers(count)).at(-1)).toBe(`quick ${body}`)
  })

  it('is closed after its next answer while the process drains, with Connection: close', async () => {
    const { send, answers, received, ended } = await open()
    send(request('1'))
    await answers(1)
    isDraining = true
    send(request('2'))
    expect(await answers(2)).toEqual(['quick 1', 'quick 2'])
    expect(received()).toContain('connection: close')
    await ended()
  })

  it('is closed when the fast path is closed: at once when idle, else after its answer, with Connection: close', async () => {
    const release = Promise.withResolvers<void>()
    hold = release.promise
    const [busy, idle] = [await open(), await open()]
    idle.send(request('1'))
    await idle.answers(1)
    busy.send(request('2', { path: '/later' }))
    await eventually(() => expect(holding).toEqual(['/later']))
    fastPath.drain()
    release.resolve()
    expect(await busy.answers(1)).toEqual(['quick 2'])
    expect(busy.received()).toContain('connection: close')
    await busy.ended()
    await idle.ended()
    const late = await open()
    late.send(request('3'))
    expect(await late.answers(1)).toEqual(['node POST 3'])
  })
})

describe('a write', () => {
  it('gets the same answer from the fast path and from Node', async () => {
    const service = await openTwoUsers({ settings: { SVC_POINTS_PER_MINUTE: '20' } })
    try {
      const { port } = new URL(service.url)
      const experimentKey = await service.client.createExperiment()
      const twenty = Array.from({ length: 20 }, (_, step) => aPoint({ step }))
      const limited = await service.client.createExperiment()
      await service.client.post('/write/experiment/metrics/batch', {
        experimentKey: limited,
        metrics: twenty,
      })
      const path = '/api/rest/v2/write/experiment/metric'
      const point = JSON.stringify({ experimentKey, ...aPoint() })
      const batch = '/api/rest/v2/write/experiment/metrics/batch'
      const manySeries = Array.from({ length: 400 }, () => ({ metricName: 'x'.repeat(200), values: [] }))
      const key = `authorization: ${service.apiKey}`
      const cases: Record<string, { path?: string; head?: string[]; body?: string }> = {
        'a point': {},
        'by the other prefix': { path: '/clientlib/rest/v2/write/experiment/metric' },
        'a reading of memory': {
          path: '/api/rest/v2/write/experiment/ram-metrics',
          body: JSON.stringify({ experimentKey, total: 1, used: 1, available: 0 }),
        },
        'lines of output': {
          path: '/api/rest/v2/write/experiment/output',
          body: JSON.stringify({ experimentKey, outputLines: [{ output: 'x' }] }),
        },
        'no key': { head: [] },
        'an unknown key': { head: ['authorization: svc_unknown'] },
        'a key as a bearer': { head: [`authorization: Bearer ${service.apiKey}`] },
        'no JSON': { body: '{"a":' },
        'not UTF-8': { body: '"\xff"' },
        'a list': { body: '[]' },
        null: { body: 'null' },
        'a field that is wrong': { body: JSON.stringify({ experimentKey, ...aPoint(), step: '’' }) },
        'an unknown experiment': { body: JSON.stringify({ experimentKey: 'x'.repeat(32), ...aPoint() }) },
        'no experiment': { body: JSON.stringify(aPoint()) },
        'a bad Idempotency-Key': { head: [key, `idempotency-key: ${'x'.repeat(201)}`] },
        'a batch': { path: batch, body: JSON.stringify({ experimentKey, metrics: [aPoint(), { metricName: 'x' }] }) },
        'a large batch': { path: batch, body: JSON.stringify({ experimentKey, series: manySeries }) },
        'a large batch, no key': { path: batch, head: [], body: JSON.stringify({ experimentKey, series: manySeries }) },
        'a batch over the limit': {
          path: batch,
          body: JSON.stringify({ experimentKey, metrics: [], more: 'x'.repeat(17 * 1024 * 1024) }),
        },
        // As many as a minute makes room for, or else there would be room again on a busy machine.
        'too much': { path: batch, body: JSON.stringify({ experimentKey: limited, metrics: twenty }) },
      }
      for (const [name, { path: address = path, head = [key], body = point }] of Object.entries(cases)) {
        const ask = (more: string[]) => askRaw(Number(port), address, [...head, ...more], body)
        const [quick, other] = [await ask([]), await ask(['te: trailers'])]
        expect({ name, ...quick }).toEqual({ name, ...other })
      }
    } finally {
      await service.close()
    }
  })
})

/** One request on a connection of its own; what differs from second to second is left out of its answer. */
async function askRaw(port: number, path: string, head: string[], body: string) {
  const socket = connect(port, '127.0.0.1')
  const bytes = Buffer.from(body, body.includes('\xff') ? 'latin1' : 'utf8')
  const lines = [`POST ${path} HTTP/1.1`, 'host: x', ...head, `content-length: ${bytes.length}`, '', '']
  socket.write(Buffer.concat([Buffer.from(lines.join('\r\n')), bytes]))
  let text = ''
  for await (const chunk of socket) {
    text += chunk
    const length = /content-length: (\d+)/.exec(text)?.[1]
    const at = text.indexOf('\r\n\r\n')
    if (at >= 0 && Buffer.byteLength(text.slice(at + 4)) >= Number(length)) break
  }
  const [status, ...headers] = text.slice(0, text.indexOf('\r\n\r\n')).split('\r\n')
  const kept = headers
    // After a body that cannot be read the other way closes.
    .filter((line) => !/^(connection|keep-alive):/i.test(line))
    .map((line) => line.replace(/^(date|retry-after|ratelimit-\w+): .*/i, '$1'))
    .map((line) => line.toLowerCase())
    .sort()
  return { status, headers: kept, body: text.slice(text.indexOf('\r\n\r\n') + 4).replace(/again in \d+ s/, '') }
}
