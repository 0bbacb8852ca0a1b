import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { savedAnswer } from '../../../cli/demo/answers.ts'
import { createClient } from '../../../cli/demo/client.ts'
import { DemoError } from '../../../cli/demo/errors.ts'

type Reply = (request: IncomingMessage, response: ServerResponse) => void

// Plays troubles that a healthy service cannot be asked for: each request gets the next reply, the last one for ever.
async function listen(...replies: Reply[]) {
  const keys: unknown[] = []
  const server = createServer((request, response) => {
    keys.push(request.headers['idempotency-key'])
    const reply = replies[Math.min(keys.length, replies.length) - 1]
    request.resume().on('end', () => reply?.(request, response))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const waits: string[] = []
  const stop = new AbortController()
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const client = createClient({ url, apiKey: 'a-key', signal: stop.signal, onWait: (reason) => waits.push(reason) })
  return { client, keys, waits, stop, url }
}

function answering(status: number, body: object, headers: Record<string, string> = {}): Reply {
  return (_, response) => response.writeHead(status, headers).end(JSON.stringify(body))
}

const saved = answering(200, { msg: 'Saved', code: 200 })
const hangingUp: Reply = (request) => request.socket.destroy()

test('a busy service is given the time it asks for, and the write repeats under the same key', async () => {
  const busy = answering(503, { msg: 'busy', code: 503 }, { 'retry-after': '1' })
  const { client, keys, waits } = await listen(busy, answering(429, {}, { 'retry-after': '0.2' }), saved)
  const startedAt = performance.now()
  await client.post('write/experiment/metric', {}, savedAnswer)
  expect(performance.now() - startedAt).toBeGreaterThan(1150)
  expect(keys).toHaveLength(3)
  expect(new Set(keys).size).toBe(1)
  expect(waits[0]).toContain('waiting 1.0 s')

  await client.post('write/experiment/metric', {}, savedAnswer)
  expect(new Set(keys).size).toBe(2)
})

test('a lost answer is asked for again under the same key', async () => {
  const { client, keys } = await listen(hangingUp, hangingUp, saved)
  await client.post('write/experiment/metric', {}, savedAnswer)
  expect(keys).toHaveLength(3)
  expect(new Set(keys).size).toBe(1)
})

test('a service that never answers ends with what to do about it', async () => {
  const { client, url, keys } = await listen(hangingUp)
  const failed = client.post('write/experiment/metric', {}, savedAnswer)
  await expect(failed).rejects.toThrow(DemoError)
  await expect(failed).rejects.toThrow(`cannot reach ${url}`)
  await expect(failed).rejects.toThrow('npm start')
  expect(keys).toHaveLength(5)
})

test('an unknown key ends with how to give one, and a refusal with its reason, both at once', async () => {
  const { client, keys } = await listen(answering(401, { code: 401 }), answering(400, { msg: 'no such experiment' }))
  await expect(client.post('write/experiment/metric', {}, savedAnswer)).rejects.toThrow('--key')
  await expect(client.post('write/experiment/metric', {}, savedAnswer)).rejects.toThrow('no such experiment')
  expect(keys).toHaveLength(2)
})

test('an answer that is not the documented one is an error that names the field', async () => {
  const { client } = await listen(answering(200, { msg: 'Saved' }))
  await expect(client.post('write/experiment/metric', {}, savedAnswer)).rejects.toThrow('unexpected answer: code')
})

test('an abort ends the wait', async () => {
  const { client, stop } = await listen(answering(503, {}, { 'retry-after': '60' }))
  const waiting = client.post('write/experiment/metric', {}, savedAnswer)
  setTimeout(() => stop.abort(), 100)
  await expect(waiting).rejects.toThrow(/abort/i)
})
