import { pino } from 'pino'
import { Registry } from 'prom-client'
import { expect, it } from 'vitest'
import { z } from 'zod'
import { type Caller, fastRoute, type Route } from '../../http/route.ts'
import { createServer } from '../../http/server.ts'

const thing = { path: '/thing', summary: '', topic: '', answer: z.unknown(), shape: 'plain' } as const

const start = (permission: unknown) =>
  startWith({
    ...thing,
    method: 'GET',
    permission: permission as Exclude<Route['permission'], 'caller'>,
    handle: () => ({}),
  })

const startWith = (route: Route) =>
  createServer({
    routes: [route],
    checkKey: () => ({}) as Caller,
    health: { checks: {}, metricsRegistry: new Registry(), isDraining: () => false },
    version: '0.0.0',
    log: pino({ level: 'silent' }),
  })

it.each([undefined, null, '', 'everyone'])(
  'a server whose route declares %j for a permission does not start',
  async (it) => {
    await expect(start(it)).rejects.toThrow(
      'The route GET /thing declares no permission: give it one of anyone, reader, caller, auditor, admin, operator.',
    )
  },
)

it.each(['anyone', 'reader', 'caller', 'auditor', 'admin', 'operator'])('one with %j does', async (it) => {
  const app = await start(it)
  expect(app.hasRoute({ method: 'GET', url: '/api/rest/v2/thing' })).toBe(true)
  await app.close()
})

const write = { ...thing, method: 'POST', charge: 'own', body: z.object({}), handle: () => '{}' } as const

it.each([
  ['POST', '/thing'],
  ['GET', '/write/thing'],
] as const)('a server whose %s %s declares no charge does not start', async (method, path) => {
  const route: Route = { ...thing, method, path, permission: 'caller', handle: () => ({}) }
  const message = `The route ${method} ${path} declares no charge: give it one of own, call, personal, none.`
  await expect(startWith(route)).rejects.toThrow(message)
  const app = await startWith({ ...route, charge: 'none' })
  await app.close()
})

it('the fast path, which checks only the key, accepts only routes for every caller', () => {
  expect(fastRoute({ ...write, permission: 'caller' }).handleFast).toBeTypeOf('function')
  // @ts-expect-error: what is for admins must not be on it.
  fastRoute({ ...write, permission: 'admin' })
  // @ts-expect-error: nor what a share code opens.
  const route: Route = { ...write, permission: 'reader', handleFast: () => '{}' }
  expect(route.permission).toBe('reader')
})

it.each(['anyone', 'reader', 'auditor', 'admin', 'operator'])(
  'a server with one that is for %s all the same does not start',
  async (it) => {
    const route = { ...fastRoute({ ...write, permission: 'caller' }), permission: it } as Route
    await expect(startWith(route)).rejects.toThrow(
      'The route POST /thing is on the fast path, which checks the key only: its permission must be caller.',
    )
  },
)
