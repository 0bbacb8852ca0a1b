import { request } from 'node:http'
import { pino } from 'pino'
import { Registry } from 'prom-client'
import { afterEach, describe, expect, it } from 'vitest'
import { z } from 'zod'
import type { PressureLimits } from '../../http/pressure.ts'
import { type Caller, fastRoute } from '../../http/route.ts'
import { createServer } from '../../http/server.ts'
import { createClosers } from '../../runtime/closers.ts'
import { aPoint } from '../kit/builders.ts'
import { eventually } from '../kit/eventually.ts'
import { createClient } from '../kit/http/client.ts'
import { startRole } from '../kit/processes/svc.ts'
import { createUser, openOwnStores } from '../kit/service.ts'

const closers = createClosers()
afterEach(() => closers.closeAll())

const ways = ['by Node’s server', 'by the fast path'] as const

type Way = (typeof ways)[number]

/** A server with one route that holds its answers until it is told to give them. */
async function openServer(way: Way, pressure: PressureLimits) {
  const answers = Promise.withResolvers<void>()
  const held = fastRoute({
    method: 'POST',
    path: '/held',
    charge: 'own',
    permission: 'caller',
    summary: '',
    topic: '',
    body: z.unknown(),
    checksOwnBody: true,
    answer: z.object({ msg: z.string() }),
    shape: 'envelope',
    async handle() {
      await answers.promise
      return '{"msg":"Ok"}'
    },
  })
  const app = await createServer({
    routes: [held],
    hasFastPath: way === 'by the fast path',
    checkKey: () => ({ isAdmin: false }) as Caller,
    health: { checks: {}, metricsRegistry: new Registry(), isDraining: () => false },
    version: '0.0.0',
    log: pino({ level: 'silent' }),
    pressure,
  })
  await app.listen({ host: '127.0.0.1', port: 0 })
  closers.push(() => app.close())
  const { port } = app.server.address() as { port: number }
  return {
    url: `http://127.0.0.1:${port}/api/rest/v2/held`,
    post: async (bytes: number, signal: AbortSignal | null = null) =>
      await fetch(`http://127.0.0.1:${port}/api/rest/v2/held`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: `"${'x'.repeat(bytes - 2)}"`,
        signal,
      }),
    answer: answers.resolve,
  }
}

describe.each(ways)('large bodies %s', (way) => {
  it('beyond their shared limit are rejected before they are read, while small ones pass', async () => {
    const { post, answer } = await openServer(way, { bodyBytesMax: 250_000 })
    const held = [post(100_000), post(100_000)]
    const refused = await eventually(async () => {
      const tried = await post(100_000, AbortSignal.timeout(2_000))
      expect(tried.status).toBe(503)
      return tried
    })
    expect(refused.headers.get('retry-after')).toBe('1')
    expect(((await refused.json()) as { msg: string }).msg).toMatch(
      /^This process has too many large requests under way\. Nothing/,
    )
    const small = post(1_000)
    answer()
    expect((await small).status).toBe(200)
    for (const it of held) expect((await it).status).toBe(200)
    expect((await post(100_000)).status).toBe(200)
  })

  it('release their memory when the connection breaks', async () => {
    const { post, answer, url } = await openServer(way, { bodyBytesMax: 250_000 })
    for (let round = 0; round < 5; round++) {
      const sending = await eventually(async () => {
        const begun = request(url, { method: 'POST', headers: { 'content-length': 200_000 } })
        begun.once('error', () => undefined)
        await new Promise((resolve) => begun.write('"', resolve))
        // Comes after it, or else the next one might, and be the one that takes the room.
        await fetch(new URL('/unknown', url))
        const { status } = await post(100_000, AbortSignal.timeout(2_000))
        if (status !== 503) begun.destroy()
        expect(status).toBe(503)
        return begun
      })
      sending.destroy()
      answer()
      await eventually(async () => expect((await post(100_000)).status).toBe(200))
    }
  })

  it('a single one is always admitted', async () => {
    const { post, answer } = await openServer(way, { bodyBytesMax: 10 })
    answer()
    expect((await post(100_000)).status).toBe(200)
  })
})

it('an ingest with little memory rejects excess load and survives', async () => {
  const stores = await openOwnStores('postgres')
  const ingest = await startRole('ingest', stores, { NODE_OPTIONS: '--max-old-space-size=128' })
  closers.push(async () => {
    ingest.kill('SIGKILL')
    await ingest.ended
  })
  const api = await startRole('api', stores)
  closers.push(async () => {
    api.kill('SIGKILL')
    await api.ended
  })
  const user = await createUser(stores)
  const experimentKey = await createClient(api.url, user).createExperiment()
  const writer = createClient(ingest.url, user)
  const metrics = Array.from({ length: 120_000 }, (_, step) => aPoint({ step, timestamp: undefined }))
  const body = JSON.stringify({ experimentKey, metrics })
  expect(body.length).toBeGreaterThan(6_000_000)

  const statuses = new Set<number>()
  await Promise.all(
    Array.from({ length: 40 }, async () => {
      // The answer to what is refused may find the connection already broken, by a body nobody reads.
      const answer = await writer.postRaw('/write/experiment/metrics/batch', body).catch(() => undefined)
      statuses.add(answer?.status ?? 503)
    }),
  )

  expect([...statuses].filter((status) => ![200, 429, 503].includes(status))).toEqual([])
  expect(statuses).toContain(503)
  expect((await fetch(`${ingest.url}/livez`)).status).toBe(200)
  await eventually(async () => {
    expect((await writer.post('/write/experiment/metric', { experimentKey, ...aPoint() })).status).not.toBe(503)
  })
})
