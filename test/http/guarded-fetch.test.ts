import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, describe, expect, it } from 'vitest'
import { Undeliverable } from '../../http/outgoing/failure.ts'
import { createGuardedFetch } from '../../http/outgoing/guarded-fetch.ts'

const closers: (() => Promise<unknown>)[] = []
afterAll(() => Promise.all(closers.map((close) => close())))

async function serve(listener: RequestListener) {
  const server = createServer(listener)
  await once(server.listen(0, '127.0.0.1'), 'listening')
  closers.push(async () => {
    server.closeAllConnections()
    server.close()
  })
  return (server.address() as AddressInfo).port
}

const local = async () => [{ address: '127.0.0.1', family: 4 }]
const open = (more: Partial<Parameters<typeof createGuardedFetch>[0]> = {}) =>
  createGuardedFetch({
    privateHosts: new Set(),
    resolvePublic: local,
    resolvePrivate: local,
    answerMsMax: 120_000,
    answerBytesMax: 1_000,
    ...more,
  })
const failure = async (call: Promise<unknown>) => {
  const error = await call.then(
    () => undefined,
    (it: unknown) => it,
  )
  return error instanceof Undeliverable ? error.failure : error
}

describe('the fetch for addresses that others choose', () => {
  it('reaches no private address, by whatever name, and nothing without TLS', async () => {
    let asked = 0
    const port = await serve((_request, response) => void response.end(String(++asked)))
    const fetch = open()
    const addresses = [
      '127.0.0.1',
      '[::1]',
      '[::ffff:127.0.0.1]',
      '169.254.169.254',
      '10.0.0.1',
      '2130706433',
      '0x7f.1',
    ]
    for (const host of addresses) {
      expect(await failure(fetch(`https://${host}:${port}/`)), host).toBe('address not public')
      expect(await failure(fetch(`http://${host}:${port}/`)), host).toBe('url not allowed')
    }
    expect(await failure(fetch(`https://leads-here.example:${port}/`))).toBe('address not public')
    for (const url of ['http://example.com/', 'https://user:password@example.com/', 'file:///etc/passwd', 'x']) {
      expect(await failure(fetch(url)), url).toBe('url not allowed')
    }
    // A setting names one port of one host.
    const one = open({ privateHosts: new Set([`inside.example:${port}`]) })
    expect(await failure(one(`http://inside.example:${port + 1}/`))).toBe('url not allowed')
    expect(await failure(one(`http://127.0.0.1:${port}/`))).toBe('url not allowed')
    expect(asked).toBe(0)
    expect(await (await one(`http://inside.example:${port}/`)).text()).toBe('1')
  })

  it('sends a form, follows no redirect, and reads neither too much nor for too long', async () => {
    const port = await serve((request, response) => {
      if (request.url === '/long') return void response.end('x'.repeat(1_001))
      if (request.url === '/away') return void response.writeHead(302, { location: 'http://127.0.0.1/' }).end()
      if (request.url === '/slow') return void response.write('{')
      if (request.url === '/none') return void response.writeHead(204).end()
      request.toArray().then((chunks) => response.end(`${request.method} ${Buffer.concat(chunks)}`))
    })
    const privateHosts = new Set(['inside.example'])
    const fetch = open({ privateHosts })
    const base = `http://inside.example:${port}`
    const sent = await fetch(`${base}/`, { method: 'POST', body: new URLSearchParams({ a: 'b c' }) })
    expect([sent.status, await sent.text()]).toEqual([200, 'POST a=b+c'])
    const away = await fetch(`${base}/away`)
    expect([away.status, away.headers.get('location')]).toEqual([302, 'http://127.0.0.1/'])
    expect((await fetch(`${base}/none`)).status).toBe(204)
    expect(await failure(fetch(`${base}/long`))).toBe('answer not understood')
    expect(await failure(open({ privateHosts, answerMsMax: 300 })(`${base}/slow`))).toBe('no answer in time')
    expect(await failure(fetch('http://inside.example:9/'))).toBe('connection failed')
  })

  it('ends when a name server does not answer, and when the connection ends or turns into another protocol', async () => {
    const port = await serve((request, response) => {
      if (request.url === '/gone') return void request.socket.destroy()
      if (request.url === '/half') {
        response.writeHead(200, { 'content-length': '10' }).write('{')
        return void setImmediate(() => request.socket.destroy())
      }
      request.socket.end('HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n')
    })
    const privateHosts = new Set(['inside.example'])
    const base = `http://inside.example:${port}`
    const silent = open({ privateHosts, resolvePrivate: () => new Promise(() => undefined), answerMsMax: 300 })
    expect(await failure(silent(`${base}/`))).toBe('no answer in time')
    for (const path of ['/gone', '/half', '/other']) {
      expect(await failure(open({ privateHosts })(base + path)), path).toBe('connection failed')
    }
  })
})
