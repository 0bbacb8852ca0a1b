import { Agent, type ClientRequest, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { pino } from 'pino'
import { Registry } from 'prom-client'
import { afterEach, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { readUpload } from '../../http/body/upload.ts'
import type { UploadLimits } from '../../http/body/upload-pace.ts'
import { type Caller, route } from '../../http/route.ts'
import { createServer } from '../../http/server.ts'
import { createClosers } from '../../runtime/closers.ts'
import { storeAway } from '../../store/objects/object-store.ts'

const closers = createClosers()
afterEach(() => closers.closeAll())

const limits: UploadLimits = { uploadsMax: 2, bytesMin: 100, everyMs: 200, afterAnswerMs: 300 }
/** Far less than the tests take: who is held to it does not get through. */
const arrival = { headersMsMax: 200, requestMsMax: 300, everyMs: 50 }
const fileBytesMax = 10_000
const formHead = '--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'

/** A server with a route that counts bytes, one that refuses without reading, and one that takes JSON. */
async function openServer(uploads = limits) {
  const faults: unknown[] = []
  const shared = {
    method: 'POST',
    charge: 'own',
    permission: 'caller',
    summary: '',
    topic: '',
    shape: 'envelope',
  } as const
  const app = await createServer({
    routes: [
      route({
        ...shared,
        path: '/count',
        upload: z.object({ file: z.file() }),
        answer: z.object({ bytes: z.int() }),
        query: z.object({ failAfter: z.coerce.number().default(Number.POSITIVE_INFINITY) }),
        async handle({ request: { raw }, query }) {
          let bytes = 0
          const keep = async ({ content }: { content: AsyncIterable<Buffer> }) => {
            for await (const chunk of content) {
              bytes += chunk.length
              if (bytes >= query.failAfter) throw storeAway('a disk that is full')
            }
          }
          try {
            await readUpload(raw, { keep, discard: async () => undefined, fileBytesMax })
          } catch (error) {
            faults.push(error)
            throw error
          }
          return { bytes }
        },
      }),
      route({
        ...shared,
        path: '/unread',
        upload: z.object({ file: z.file() }),
        answer: z.object({ msg: z.string() }),
        handle: () => ({ msg: 'Not read' }),
      }),
      route({ ...shared, path: '/json', answer: z.object({ msg: z.string() }), handle: () => ({ msg: 'Ok' }) }),
    ],
    checkKey: () => ({ isAdmin: false }) as Caller,
    health: { checks: {}, metricsRegistry: new Registry(), isDraining: () => false },
    version: '0.0.0',
    log: pino({ level: 'silent' }),
    uploads,
    arrival,
  })
  await app.listen({ host: '127.0.0.1', port: 0 })
  closers.push(() => app.close())
  const { port } = app.server.address() as { port: number }
  return { base: `http://127.0.0.1:${port}/api/rest/v2`, faults }
}

function begin(url: string, type = 'application/octet-stream') {
  const sent: ClientRequest = request(url, {
    method: 'POST',
    headers: { 'content-type': type, 'transfer-encoding': 'chunked' },
  })
  const answer = new Promise<{ status: number; body: Record<string, unknown> }>((resolve, reject) => {
    sent.once('error', reject)
    sent.once('response', (incoming) => {
      let text = ''
      incoming.on('data', (chunk) => {
        text += chunk
      })
      incoming.once('error', reject)
      incoming.once('end', () => resolve({ status: incoming.statusCode as number, body: JSON.parse(text) }))
    })
  })
  // Told where it is awaited.
  answer.catch(() => undefined)
  closers.push(async () => void sent.destroy())
  return { sent, answer }
}

async function trickle(sent: ClientRequest, bytes: number, everyMs: number, times: number) {
  for (let at = 0; at < times; at++) {
    sent.write(Buffer.alloc(bytes))
    await sleep(everyMs)
  }
}

describe('an upload', () => {
  it('may take longer than other requests as long as bytes arrive', async () => {
    const { base } = await openServer()
    const { sent, answer } = begin(`${base}/count`)

    await trickle(sent, 100, 50, 30)
    sent.end()

    expect(await answer).toMatchObject({ status: 200, body: { bytes: 3_000 } })
  })

  it('is cut off when its sender is too slow', async () => {
    const { base, faults } = await openServer()
    const { sent, answer } = begin(`${base}/count`)
    await trickle(sent, 1, 100, 10)
    await expect(answer).rejects.toThrow()
    expect(faults).toMatchObject([{ kind: 'badRequest', message: expect.stringMatching(/^The upload was cut off/) }])
  })

  it('that was answered early is read on for a while, so that its sender receives the answer', async () => {
    const { base } = await openServer()
    const { sent, answer } = begin(`${base}/unread`)
    await trickle(sent, 1_000, 20, 5)
    expect(await answer).toMatchObject({ status: 200, body: { msg: 'Not read' } })
    const closed = new Promise((resolve) => sent.once('close', resolve))

    await trickle(sent, 1_000, 50, 20)

    await closed
  })

  it.each([3_000, 9_000])(
    'of which the keeper fails after %s bytes is answered with that fault, as a form too',
    async (bytes) => {
      const { base } = await openServer()
      const form = new FormData()
      form.set('file', new Blob([Buffer.alloc(10_000)]), 'file')
      for (const body of [Buffer.alloc(10_000), form]) {
        const answer = await fetch(`${base}/count?failAfter=${bytes}`, { method: 'POST', body })
        expect([answer.status, await answer.json()]).toMatchObject([503, { sdk_error_code: 8000014 }])
      }
    },
  )

  it('over the limit is rejected before its end', async () => {
    const { base } = await openServer()
    const { sent, answer } = begin(`${base}/count`)
    await trickle(sent, 2_000, 5, 10)
    sent.end()
    expect(await answer).toMatchObject({ status: 413, body: { code: 413, sdk_error_code: 8000011 } })
  })

  it.each([
    ['raw', 'application/octet-stream', ''],
    ['as a form', 'multipart/form-data; boundary=x', formHead],
  ])('refused before it was whole, %s, leaves its connection to the next request', async (_name, type, head) => {
    const { base } = await openServer({ ...limits, afterAnswerMs: 30_000 })
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    closers.push(async () => agent.destroy())
    const send = (path: string, contentType: string, body: Buffer) =>
      new Promise<number | undefined>((resolve, reject) => {
        const headers = { 'content-type': contentType, 'content-length': body.length }
        const sent = request(`${base}${path}`, { method: 'POST', agent, headers })
        sent.once('error', reject)
        sent.once('response', (answer) => answer.resume().once('end', () => resolve(answer.statusCode)))
        // The rest arrives later than the whole of another request may.
        sent.write(body.subarray(0, body.length / 2))
        setTimeout(() => sent.end(body.subarray(body.length / 2)), 3 * arrival.requestMsMax)
      })
    const tooMuch = Buffer.concat([Buffer.from(head), Buffer.alloc(3_000_000)])
    const answers = [send('/count', type, tooMuch), send('/count', 'application/octet-stream', Buffer.alloc(100))]
    expect(await Promise.all(answers)).toEqual([413, 200])
  })

  it('is rejected with 503 at the maximum of concurrent uploads', async () => {
    const { base } = await openServer({ ...limits, everyMs: 60_000 })
    const first = [begin(`${base}/count`), begin(`${base}/count`)]
    for (const { sent } of first) sent.write('x')
    await sleep(100)

    const more = begin(`${base}/count`)
    more.sent.end('x')
    expect(await more.answer).toMatchObject({ status: 503, body: { code: 503 } })

    for (const { sent, answer } of first) {
      sent.end('y')
      expect(await answer).toMatchObject({ status: 200, body: { bytes: 2 } })
    }
    const next = begin(`${base}/count`)
    next.sent.end('x')
    expect(await next.answer).toMatchObject({ status: 200 })
  })
})

it('a request that is not an upload is rejected when it takes too long', async () => {
  const { base } = await openServer()
  const { sent, answer } = begin(`${base}/json`, 'application/json')
  await trickle(sent, 1_000, 50, 10)
  expect(await answer).toMatchObject({ status: 400, body: { msg: expect.stringMatching(/took too long to arrive/) } })
})
