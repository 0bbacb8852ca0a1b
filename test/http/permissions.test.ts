import { pino } from 'pino'
import { Registry } from 'prom-client'
import { expect, it } from 'vitest'
import { z } from 'zod'
import type { Caller, Route } from '../../http/route.ts'
import { createServer } from '../../http/server.ts'

const start = (permission: unknown) =>
  createServer({
    routes: [
      {
        method: 'GET',
        path: '/thing',
        permission: permission as Route['permission'],
        summary: '',
        topic: '',
        answer: z.unknown(),
        shape: 'plain',
        handle: () => ({}),
      },
    ],
    checkKey: () => ({}) as Caller,
    health: { checks: {}, metricsRegistry: new Registry(), isDraining: () => false },
    version: '0.0.0',
    log: pino({ level: 'silent' }),
  })

it.each([undefined, null, '', 'everyone'])(
  'a server whose route declares %j for a permission does not start',
  async (it) => {
    await expect(start(it)).rejects.toThrow(
      'The route GET /thing declares no permission: give it one of anyone, reader, caller, admin.',
    )
  },
)

it.each(['anyone', 'reader', 'caller', 'admin'])('one with %j does', async (it) => {
  const app = await start(it)
  expect(app.hasRoute({ method: 'GET', url: '/api/rest/v2/thing' })).toBe(true)
  await app.close()
})
