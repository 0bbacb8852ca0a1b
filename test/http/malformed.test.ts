import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import zlib from 'node:zlib'
import { pino } from 'pino'
import { Registry } from 'prom-client'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { createBodyReader } from '../../http/body/body.ts'
import { wrapJson } from '../../http/body/json-stream.ts'
import { type Caller, route } from '../../http/route.ts'
import { createServer } from '../../http/server.ts'
import { createClosers } from '../../runtime/closers.ts'
import { aPoint } from '../kit/builders.ts'
import { openTestService } from '../kit/service.ts'

/** What test/malformed sends by the thousand, is told apart here: each refusal by what it says. */

/** Sends bytes as they are and answers all that comes back until the connection ends. */
function sendRaw(url: string, bytes: Buffer | string, ending: 'end' | 'destroy' | 'wait' = 'end'): Promise<string> {
  const { hostname, port } = new URL(url)
  return new Promise((resolve) => {
    const chunks: Buffer[] = []
    const socket = connect(Number(port), hostname, () => {
      if (ending === 'end') socket.end(bytes)
      else if (ending === 'wait') socket.write(bytes)
      else socket.write(bytes, () => socket.destroy())
    })
    socket.on('data', (chunk) => chunks.push(chunk))
    socket.on('error', () => undefined)
    socket.once('close', () => resolve(Buffer.concat(chunks).toString()))
  })
}

describe('at the whole service', () => {
  let service: Awaited<ReturnType<typeof openTestService>>
  beforeAll(async () => {
    service = await openTestService()
  })
  afterAll(() => service?.close())

  async function expectRefusal(sent: string, msg: RegExp) {
    const [head, body] = (await sendRaw(service.url, sent)).split('\r\n\r\n') as [string, string]
    expect(head).toMatch(/^HTTP\/1\.1 400 Bad Request\r\n/)
    expect(head).toMatch(/^content-type: application\/json$/m)
    const refusal = { msg: expect.stringMatching(msg), code: 400, data: null, sdk_error_code: 8000001 }
    expect(JSON.parse(body)).toEqual(refusal)
  }

  it('answers non-HTTP bytes with an error envelope', async () => {
    await expectRefusal('this is not HTTP\r\n\r\n', /^The request is not valid HTTP \(HPE_\w+\)\.$/)
  })

  it('answers a complete request even if garbage follows it', async () => {
    const right = `GET /api/rest/v2/account-details HTTP/1.1\r\nhost: x\r\nauthorization: ${service.apiKey}\r\n\r\n`
    for (let at = 0; at < 20; at++) {
      const answers = await sendRaw(service.url, `${right}this is not HTTP\r\n\r\n`, 'wait')
      expect(answers).toMatch(/^HTTP\/1\.1 200 OK\r\n/)
      expect(answers.match(/HTTP\/1\.1/g)).toHaveLength(1)
      expect(answers.endsWith(`"defaultWorkspaceName":"${service.workspaceName}"}`)).toBe(true)
    }
  })

  it('answers at once when a body stops being valid HTTP', async () => {
    const head = `POST /api/rest/v2/write/experiment/metric HTTP/1.1\r\nhost: x\r\nauthorization: ${service.apiKey}\r\n`
    await expectRefusal(
      `${head}transfer-encoding: chunked\r\n\r\n5\r\n{"a":\r\nnonsense\r\n\r\n`,
      /^The request is not valid HTTP \(HPE_\w+\)\.$/,
    )
  })

  it('answers headers that are too large with the reason', async () => {
    await expectRefusal(
      `GET / HTTP/1.1\r\na: ${'x'.repeat(70_000)}\r\n\r\n`,
      /^The headers are over the limit of 64 KiB\.$/,
    )
  })

  it('rejects a request without Host with an error envelope', async () => {
    await expectRefusal('GET /livez HTTP/1.1\r\nconnection: close\r\n\r\n', /^The header Host is missing/)
  })

  it('ignores an unknown Expect header', async () => {
    const answer = await sendRaw(
      service.url,
      'GET /livez HTTP/1.1\r\nhost: x\r\nexpect: x\r\nconnection: close\r\n\r\n',
    )

    expect(answer).toMatch(/^HTTP\/1\.1 200 OK\r\n[\s\S]*\{"status":"ok"\}$/)
  })

  it('clients that disconnect within a body do not count as store errors, and leave nothing behind', async () => {
    const key = await service.client.createExperiment()
    const body = JSON.stringify({ experimentKey: key, ...aPoint() })
    const head = `POST /api/rest/v2/write/experiment/metric HTTP/1.1\r\nhost: x\r\nauthorization: ${service.apiKey}\r\n`
    const cut = `${head}content-length: ${body.length}\r\n\r\n${body.slice(0, -1)}`

    await Promise.all(
      Array.from({ length: 50 }, (_, at) => sendRaw(service.url, cut, at % 2 === 0 ? 'destroy' : 'end')),
    )

    await service.client.post('/write/experiment/metric', { experimentKey: key, ...aPoint({ metricName: 'later' }) })
    await service.client.readPoints(key, 'later', 1)
    expect(await service.client.readMetric(key, 'loss')).toEqual([])
  })
})

describe('an answer that is long', () => {
  const closers = createClosers()
  afterEach(() => closers.closeAll())

  /** A server with an answer that never ends, or has so many slow parts; and a promise of when its source was let go. */
  async function openEndless(unreadMsMax: number, { parts = Infinity, everyMs = 0 } = {}) {
    const letGo = Promise.withResolvers<void>()
    async function* endless() {
      try {
        for (let part = 0; part < parts; part++) {
          if (everyMs > 0) await sleep(everyMs)
          yield Buffer.alloc(100_000, ' ')
        }
      } finally {
        letGo.resolve()
      }
    }
    const app = await createServer({
      routes: [
        route({
          method: 'GET',
          path: '/endless',
          permission: 'anyone',
          summary: '',
          topic: '',
          answer: z.unknown(),
          shape: 'plain',
          handle: () => wrapJson('', endless() as never, ''),
        }),
      ],
      checkKey: () => ({}) as Caller,
      health: { checks: {}, metricsRegistry: new Registry(), isDraining: () => false },
      version: '0.0.0',
      log: pino({ level: 'silent' }),
      unreadMsMax,
    })
    await app.listen({ host: '127.0.0.1', port: 0 })
    closers.push(() => app.close())
    const { port } = app.server.address() as { port: number }
    return { port, letGo: letGo.promise }
  }

  function ask(port: number): Socket {
    const socket = connect(port, '127.0.0.1')
    closers.push(async () => socket.destroy())
    socket.on('error', () => undefined)
    socket.write('GET /api/rest/v2/endless HTTP/1.1\r\nhost: x\r\n\r\n')
    return socket
  }

  it('that the client does not read is ended, and its store connection is released', async () => {
    const { port, letGo } = await openEndless(200)

    ask(port).pause()

    await expect(letGo).resolves.toBeUndefined()
  })

  it('is waited for, however slow its source is', async () => {
    const { port } = await openEndless(50, { parts: 3, everyMs: 200 })

    const answer = await fetch(`http://127.0.0.1:${port}/api/rest/v2/endless`)

    expect((await answer.text()).length).toBe(300_000)
  })

  it('is ended, without an error in its body, when garbage follows its request', async () => {
    const { port } = await openEndless(60_000)
    const socket = ask(port)
    let last = ''

    const closed = new Promise((resolve) => socket.once('close', resolve))
    socket.once('data', () => socket.write('this is not HTTP\r\n\r\n'))
    socket.on('data', (chunk) => {
      last = chunk.toString('latin1').slice(-1_000)
    })
    await closed

    expect(last).not.toContain('HTTP/1.1')
  })
})

describe('the reading of bodies', () => {
  const mebibytes = (count: number) => count * 1024 * 1024

  it('decompresses one after the other, so that many at once do not use up the memory', async () => {
    const { readJson: readBody } = createBodyReader(1)
    const order: string[] = []
    const read = async (name: string, body: Buffer) => {
      await readBody(zlib.gzipSync(body), 'gzip', mebibytes(16))
      order.push(name)
    }

    await Promise.all([
      read('large', Buffer.from(`"${'x'.repeat(mebibytes(15))}"`)),
      read('small', Buffer.from('{}')),
      read('small, too', Buffer.from('{}')),
    ])

    expect(order).toEqual(['large', 'small', 'small, too'])
  })

  it('continues after a damaged one', async () => {
    const { readJson: readBody } = createBodyReader(1)

    const damaged = readBody(Buffer.from('no gzip'), 'gzip', 1_000)
    const right = readBody(zlib.gzipSync('{"a":1}'), 'gzip', 1_000)

    await expect(damaged).rejects.toMatchObject({ kind: 'badCompression' })
    expect(await right).toEqual({ a: 1 })
  })

  it.each(['[', '{"a":', '[{"a":['])('refuses a large body of "%s" before it is parsed', (open) => {
    const { readJson: readBody } = createBodyReader()
    const body = Buffer.from(open.repeat(mebibytes(4) / open.length))

    expect(() => readBody(body, undefined, mebibytes(16))).toThrow('The body is nested too deeply')
  })

  it('counts no brackets within strings', () => {
    const { readJson: readBody } = createBodyReader()
    const line = '[[{{\\"[['.repeat(100_000)

    expect(readBody(Buffer.from(`["${line}"]`), undefined, mebibytes(16))).toEqual([JSON.parse(`"${line}"`)])
  })
})
