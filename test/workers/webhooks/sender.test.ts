import { createServer } from 'node:net'
import { afterEach, beforeAll, expect, it } from 'vitest'
import { resolveLocally } from '../../../http/outgoing/addresses.ts'
import { createClosers } from '../../../runtime/closers.ts'
import { createSender } from '../../../workers/webhooks/sender.ts'
import { createCertificate, openReceiver, type Reply } from '../../kit/http/receiver.ts'

let certificate: Awaited<ReturnType<typeof createCertificate>>
beforeAll(async () => {
  certificate = await createCertificate()
})
const closers = createClosers()
afterEach(() => closers.closeAll())

async function openWith(reply: Reply) {
  const receiver = await openReceiver(certificate, () => reply)
  closers.push(receiver.close)
  return receiver
}

function openSender({
  extraCa = certificate.cert,
  answerMsMax = 60_000,
}: {
  extraCa?: string
  answerMsMax?: number
} = {}) {
  return createSender({
    privateHosts: new Set(['localhost', '127.0.0.1', 'other.example']),
    extraCa,
    resolvePublic: resolveLocally,
    resolvePrivate: (name) => resolveLocally(name === 'other.example' ? 'localhost' : name),
    connectMsMax: 60_000,
    answerMsMax,
  })
}
const message = { headers: { 'x-a': 'b' }, body: '{"a":"ä"}' }

it('a request arrives byte for byte, and the status of its answer is returned', async () => {
  const receiver = await openWith({ status: 202, headers: { 'retry-after': '7' }, body: 'thanks' })

  expect(await openSender()({ ...message, url: receiver.url })).toEqual({ status: 202, retryAfter: '7' })
  expect(receiver.received).toMatchObject([
    { path: new URL(receiver.url).pathname, body: message.body, headers: { 'x-a': 'b' } },
  ])
  expect(receiver.received[0]?.headers).toMatchObject({ host: `localhost:${receiver.port}`, 'content-length': '10' })
})

it('the certificate is also checked for an IP address', async () => {
  const receiver = await openWith({ status: 200 })
  const url = `https://127.0.0.1:${receiver.port}/`

  expect((await openSender()({ ...message, url })).status).toBe(200)
})

it('a redirect is not followed', async () => {
  const target = await openWith({ status: 200 })
  const receiver = await openWith({ status: 307, headers: { location: target.url } })

  expect((await openSender()({ ...message, url: receiver.url })).status).toBe(307)
  expect(target.received).toEqual([])
})

it('with an unknown or mismatched certificate nothing is sent', async () => {
  const receiver = await openWith({ status: 200 })
  const stranger = await createCertificate()

  const withoutCa = openSender({ extraCa: stranger.cert })
  await expect(withoutCa({ ...message, url: receiver.url })).rejects.toThrow('certificate not trusted')
  const url = `https://other.example:${receiver.port}/`
  await expect(openSender()({ ...message, url })).rejects.toThrow('certificate not trusted')
  expect(receiver.received).toEqual([])
})

it('an endless answer is read up to a few KB, and its status counts', async () => {
  let written = 0
  const receiver = await openReceiver(certificate)
  await receiver.close()
  const { createServer: createHttps } = await import('node:https')
  const server = createHttps(certificate, (_request, response) => {
    response.writeHead(200)
    const more = () => {
      if (response.destroyed) return
      written += 65_536
      if (response.write(Buffer.alloc(65_536))) setImmediate(more)
      else response.once('drain', more)
    }
    more()
  })
  closers.push(() => new Promise((resolve) => server.close(resolve)))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }

  expect((await openSender()({ ...message, url: `https://localhost:${port}/` })).status).toBe(200)
  // What the buffers of two sockets hold, and not without end.
  expect(written).toBeLessThan(64 * 1024 * 1024)
})

it('a receiver that never answers times out', async () => {
  const receiver = await openWith('hang')

  const sent = openSender({ answerMsMax: 1_000 })({ ...message, url: receiver.url })

  await expect(sent).rejects.toThrow('no answer in time')
  expect(receiver.received).toHaveLength(1)
})

it('an incomplete answer counts at the time-out', async () => {
  const { createServer: createHttps } = await import('node:https')
  const server = createHttps(certificate, (_request, response) => {
    response.writeHead(200, { 'content-length': '100' })
    response.write('x')
  })
  closers.push(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }

  const sent = openSender({ answerMsMax: 1_000 })({ ...message, url: `https://localhost:${port}/` })

  expect((await sent).status).toBe(200)
})

it('a stopped sender aborts at once, with the reason', async () => {
  const stop = new AbortController()
  const receiver = await openReceiver(certificate, () => {
    stop.abort(new Error('stopped'))
    return 'hang'
  })
  closers.push(receiver.close)

  await expect(openSender()({ ...message, url: receiver.url }, stop.signal)).rejects.toThrow('stopped')
})

it.each([
  ['cuts the connection', 'cut' as const, 'connection failed'],
  [
    'answers that it speaks another protocol from now on',
    { status: 101, headers: { connection: 'upgrade', upgrade: 'other' } },
    'connection failed',
  ],
  ['answers with a header of 100 KB', { status: 200, headers: { x: 'x'.repeat(100_000) } }, 'answer not understood'],
])('a receiver that %s', async (_what, reply, failure) => {
  const receiver = await openWith(reply)

  await expect(openSender()({ ...message, url: receiver.url })).rejects.toThrow(failure)
})

it('a server without TLS is a failed connection', async () => {
  const server = createServer((socket) => void socket.end('HTTP/1.1 200 OK\r\n\r\n', () => socket.destroy()))
  closers.push(() => new Promise((resolve) => server.close(resolve)))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }

  await expect(openSender()({ ...message, url: `https://localhost:${port}/` })).rejects.toThrow('connection failed')
})
