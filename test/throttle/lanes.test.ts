import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { pino } from 'pino'
import { Registry } from 'prom-client'
import { afterAll, expect, it } from 'vitest'
import { z } from 'zod'
import { type Caller, route } from '../../http/route.ts'
import { createServer } from '../../http/server.ts'
import { openClickHouse } from '../../store/clickhouse/connection.ts'
import { createTenants } from '../../throttle/tenants.ts'
import { eventually } from '../kit/eventually.ts'
import { storesWith } from '../kit/service.ts'

const { clickhouseUrl } = storesWith('postgres')
const tenants = createTenants({
  find: async () => ({ workspace: {}, organization: {} }),
  defaults: { workspace: { queriesMax: 1 }, organization: {} },
  onRefused: () => undefined,
  onError: (error) => {
    throw error
  },
})
const clickhouse = openClickHouse({ url: clickhouseUrl, admit: tenants.query })
const operator = openClickHouse({ url: clickhouseUrl })
afterAll(() => Promise.all([clickhouse.close(), operator.close()]))

/** What runs in ClickHouse with this mark. */
const findMarked = async (mark: string) =>
  await operator.rows<{ query: string }>(
    `SELECT query FROM system.processes WHERE query LIKE '%${mark}%' AND query NOT LIKE '%system.processes%'`,
  )

const as = <T>(workspaceName: string, work: () => T, signal?: AbortSignal) =>
  tenants.within({ organizationId: 'organization', userId: 'user', ...(signal && { signal }) }, () => {
    tenants.note(workspaceName)
    return work()
  })

it('while a query of a workspace runs in ClickHouse and others of it wait, those of another workspace are answered', async () => {
  const mark = randomUUID()
  const isMarked = `query LIKE '%greedy ${mark}%' AND query NOT LIKE '%system.processes%'`
  const ofMark = () => findMarked(`greedy ${mark}`)
  const kill = () => operator.command(`KILL QUERY WHERE ${isMarked} SYNC`)
  // It has no end.
  const endless = `SELECT count() FROM system.numbers /* greedy ${mark} */ SETTINGS max_threads = 1`
  const running = as('greedy', () => clickhouse.rows(endless)).catch((error: unknown) => error)
  const answered: string[] = []
  const waiting = as('greedy', () => clickhouse.rows(`SELECT 'greedy ${mark}' AS text`)).then(() => {
    answered.push('greedy')
  })
  await eventually(async () => expect(await ofMark()).toHaveLength(1))
  for (let n = 0; n < 5; n++) {
    await as('quiet', () => clickhouse.rows('SELECT 1 AS one'))
    answered.push('quiet')
  }
  expect(await ofMark()).toEqual([{ query: expect.stringContaining('system.numbers') }])
  expect(answered).toEqual(Array(5).fill('quiet'))
  expect(tenants.queriesWaiting()).toBe(1)

  await kill()
  expect(await running).toBeInstanceOf(Error)
  await waiting
  expect(answered.at(-1)).toBe('greedy')
})

it('a heavy query and an export have one thread, and others all cores', async () => {
  const heavy = openClickHouse({ url: clickhouseUrl, admit: (run) => run({ priority: 2, isHeavy: true }) })
  const query = "SELECT toString(getSetting('max_threads')) AS threads"
  try {
    expect(await heavy.rows(query)).toEqual([{ threads: '1' }])
    expect(await operator.rows(query)).toEqual([{ threads: String(await operator.countCores()) }])
    const { signal } = new AbortController()
    const { stream } = await operator.streamExport(`${query} FORMAT CSV`, { isWhole: true, signal })
    expect(await text(stream)).toBe('"1"\n')
  } finally {
    await heavy.close()
  }
})

it('a query in ClickHouse ends when its client leaves, and its place is free', async () => {
  const mark = randomUUID()
  const client = new AbortController()
  // It has no end.
  const endless = `SELECT count() FROM system.numbers /* ${mark} */ SETTINGS max_threads = 1`
  const running = as('left', () => clickhouse.rows(endless), client.signal)
  const failed = expect(running).rejects.toThrow('aborted')
  await eventually(async () => expect(await findMarked(mark)).toHaveLength(1))
  client.abort()
  await failed
  expect(await as('left', () => clickhouse.rows('SELECT 1 AS one'))).toEqual([{ one: 1 }])
  await eventually(async () => expect(await findMarked(mark)).toEqual([]))
})

it.each(['GET', 'POST'] as const)('a read by %s is told when its client leaves', async (method) => {
  const began = Promise.withResolvers<void>()
  const told = Promise.withResolvers<unknown>()
  const read = route({
    method,
    path: '/read',
    ...(method === 'POST' && { charge: 'none' }),
    permission: 'caller',
    summary: '',
    topic: '',
    answer: z.object({}),
    shape: 'plain',
    async handle() {
      await tenants
        .query(async ({ signal }) => {
          began.resolve()
          await once(signal as AbortSignal, 'abort')
          throw signal?.reason
        })
        .catch(told.resolve)
      return {}
    },
  })
  const app = await createServer({
    routes: [{ ...read, tier: 'api' }],
    checkKey: () => ({ userId: 'user', organizationId: 'organization' }) as Caller,
    tenants,
    health: { checks: {}, metricsRegistry: new Registry(), isDraining: () => false },
    version: '0.0.0',
    log: pino({ level: 'silent' }),
  })
  try {
    await app.listen({ host: '127.0.0.1', port: 0 })
    const client = new AbortController()
    const { port } = app.server.address() as AddressInfo
    const call = fetch(`http://127.0.0.1:${port}/api/rest/v2/read`, { method, signal: client.signal })
    const left = expect(call).rejects.toThrow('aborted')
    await began.promise
    client.abort()
    await left
    expect(await told.promise).toMatchObject({ name: 'AbortError' })
  } finally {
    await app.close()
  }
})
