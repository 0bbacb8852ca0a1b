import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { examine } from '../../../cli/doctor/doctor.ts'
import { createClosers } from '../../../runtime/closers.ts'
import { type ClickHouse, openClickHouse } from '../../../store/clickhouse/connection.ts'
import { firstOrganization } from '../../../store/postgres/accounts/accounts.ts'
import { type Database, openDatabase } from '../../../store/postgres/database.ts'
import { insertDeadLetter } from '../../../store/postgres/dead-letters.ts'
import { deleteFinishedBackups, describePlace, insertFinishedBackup } from '../../../store/postgres/finished-backups.ts'
import { openQueueBackend } from '../../../store/queue/open-queue.ts'
import { aPoint } from '../../kit/builders.ts'
import { eventually } from '../../kit/eventually.ts'
import { createClient } from '../../kit/http/client.ts'
import { createUser, openOwnStores, openTestService, testMasterKey } from '../../kit/service.ts'
import { codes, expectRefusal } from '../http-error.ts'

/** What those read and do who look after the whole service: admins of the organization that the first start makes. */
const asOperator = { isAdmin: true, organizationName: firstOrganization }
const closers = createClosers()
afterAll(() => closers.closeAll())

let stores: Awaited<ReturnType<typeof openOwnStores>>
let service: Awaited<ReturnType<typeof openTestService>>
let database: Database
let clickhouse: ClickHouse
beforeAll(async () => {
  stores = await openOwnStores('postgres')
  database = openDatabase({ url: stores.postgresUrl, connectionsMax: 2, onError: () => undefined })
  closers.push(() => database.close())
  clickhouse = openClickHouse({ url: stores.clickhouseUrl })
  closers.push(() => clickhouse.close())
  service = await openTestService({ stores, ...asOperator })
  closers.push(service.close)
})

const get = async (path: string) => {
  const answer = await service.client.get(path)
  expect(answer.status, answer.text).toBe(200)
  return answer.body
}

it('is for admins of the first organization only, who are told that they are', async () => {
  const foreign = createClient(service.url, await createUser(stores, { isAdmin: true }))
  const session = async ({ get }: typeof foreign) => (await get(`${service.url}/session`)).body
  expect(await session(service.client)).toMatchObject({ isAdmin: true, isOperator: true })
  expect(await session(foreign)).toMatchObject({ isAdmin: true, isOperator: false })
  const member = createClient(service.url, await createUser(stores, { organizationName: firstOrganization }))
  expect(await session(member)).toMatchObject({ isAdmin: false, isOperator: false })

  const routes = service.routes.filter((it) => it.permission === 'operator')
  expect(routes.map((it) => it.path)).toEqual(
    expect.arrayContaining(['/admin/dead-letters/replay', '/admin/queue', '/admin/health', '/admin/backups']),
  )
  for (const { method, path } of routes) {
    const address = path.replace('{deadLetterId}', '1')
    const body = method === 'GET' ? undefined : '{"deadLetterIds":["1"]}'
    expectRefusal(await foreign.send(method, address, body), 403, 8_000_015, /of the organization "default"/)
    expectRefusal(await member.send(method, address, body), 403, 8_000_015, /of the organization "default"/)
    expect((await service.client.send(method, address, body)).status, path).not.toBe(403)
  }
})

describe('dead letters', () => {
  type Letter = { deadLetterId: string; queue: string; rows: number; reason: string }
  const list = async (query = '') => (await get(`/admin/dead-letters${query}`)) as unknown as List
  type List = { deadLetters: Letter[]; total: number; totalRows: number; nextPage: string | null }
  const act = async (what: 'replay' | 'discard', deadLetterIds: string[]) =>
    await service.client.post(`/admin/dead-letters/${what}`, { deadLetterIds })
  const audited = async () => {
    const { entries } = await get('/admin/audit')
    return (entries as { act: string; subject: string; details: unknown; userName: string }[])
      .filter((it) => it.act.startsWith('dead-letter'))
      .map(({ act, subject, details, userName }) => ({ act, subject, details, userName }))
  }

  it('are looked at, replayed once their reason is gone, and discarded; each is in the audit log', async () => {
    expect(await list()).toEqual({ deadLetters: [], total: 0, totalRows: 0, nextPage: null })
    const constrain = (change: string) => clickhouse.command(`ALTER TABLE ${clickhouse.database}.points ${change}`)
    await constrain('ADD CONSTRAINT no_thirteens CHECK reinterpretAsFloat64(value_bits) != 13')
    const experimentKey = await service.client.createExperiment()
    const metrics = [12, 13, 14].map((step) => aPoint({ step, metricValue: step }))
    await service.client.post('/write/experiment/metrics/batch', { experimentKey, metrics })
    const [letter] = await eventually(async () => {
      const { deadLetters, total } = await list()
      expect(total).toBe(1)
      return deadLetters
    }, 120_000)
    const { deadLetterId } = letter as Letter
    expect(letter).toMatchObject({ queue: 'metrics', rows: 1, reason: expect.stringContaining('no_thirteens') })

    const shown = await get(`/admin/dead-letters/${deadLetterId}`)
    expect(shown).toMatchObject({ ...letter, content: [expect.objectContaining({ metric: 'loss', value: 13 })] })
    expect(Buffer.from(shown.firstBytes as string, 'hex').toString('latin1')).toContain('experiment_id')

    await constrain('DROP CONSTRAINT no_thirteens')
    expect((await act('replay', [deadLetterId, '999999'])).body).toMatchObject({
      replayed: [deadLetterId],
      missing: ['999999'],
    })
    const points = await service.client.readPoints(experimentKey, 'loss', 3)
    expect(points.map((it) => it.metricValue)).toEqual(['12.0', '13.0', '14.0'])
    expect((await act('replay', [deadLetterId])).body).toMatchObject({ replayed: [], missing: [deadLetterId] })
    expectRefusal(
      await service.client.get(`/admin/dead-letters/${deadLetterId}`),
      400,
      8_000_130,
      /there is no dead letter/,
    )
    expect(await audited()).toEqual([
      {
        act: 'dead-letter.replayed',
        subject: deadLetterId,
        details: { queue: 'metrics', rows: 1 },
        userName: service.userName,
      },
    ])
  })

  it('that are damaged, or for a queue of another version, say so and stay until they are discarded', async () => {
    const receivedMs = Date.now()
    const reason = '<b>reason</b>'
    await insertDeadLetter(database, { queue: 'metrics', rows: 2, receivedMs, reason, bytes: Buffer.from('torn') })
    await insertDeadLetter(database, { queue: 'gone', rows: 3, receivedMs, reason, bytes: Buffer.from('x') })
    const { deadLetters, totalRows } = await list()
    expect(totalRows).toBe(5)
    const [ofGone, torn] = deadLetters as [Letter, Letter]
    expect(await get(`/admin/dead-letters/${torn.deadLetterId}`)).toMatchObject({
      content: null,
      bytes: 4,
      firstBytes: Buffer.from('torn').toString('hex'),
      reason,
    })
    expectRefusal(await act('replay', [ofGone.deadLetterId]), 400, codes.badRequest, /for the queue gone/)
    const first = await list('?pageSize=1')
    expect(first.deadLetters).toEqual([ofGone])
    expect((await list(`?pageSize=1&page=${first.nextPage}`)).deadLetters).toEqual([torn])

    const both = [torn.deadLetterId, ofGone.deadLetterId]
    expect((await act('discard', both)).body).toMatchObject({ discarded: both, missing: [] })
    expect((await list()).total).toBe(0)
    expect((await audited()).slice(0, 2).map((it) => [it.act, it.subject])).toEqual([
      ['dead-letter.discarded', ofGone.deadLetterId],
      ['dead-letter.discarded', torn.deadLetterId],
    ])
  })

  it.each([
    [{}, 'deadLetterIds: is missing'],
    [{ deadLetterIds: '1' }, 'deadLetterIds: expected a list'],
    [{ deadLetterIds: ['x'] }, 'deadLetterIds[0]: expected the deadLetterId of a dead letter'],
    [{ deadLetterIds: Array(101).fill('1') }, 'deadLetterIds: must have 100 entries or fewer'],
  ])('%j is refused by name', async (body, message) => {
    for (const what of ['replay', 'discard']) {
      expectRefusal(await service.client.post(`/admin/dead-letters/${what}`, body), 400, codes.badRequest, message)
    }
  })
})

it('the queue tells what waits, what is being stored and what is repeated, and since when', async () => {
  const own = await openOwnStores('postgres')
  const api = await openTestService({ stores: own, roles: new Set(['api']), ...asOperator })
  closers.push(api.close)
  const backend = openQueueBackend({ ...own, prefix: 'svc', onError: () => undefined })
  closers.push(() => backend.close())
  const receivedMs = 1_700_000_000_000
  for (const name of ['metrics', 'output', 'events'] as const) {
    const producer = await backend.openProducer(name)
    await producer.add({ rows: 1, receivedMs, bytes: Buffer.from('x') })
  }
  const ofStore = { jobsAtOnce: 1, onError: () => undefined }
  let finish: () => void = () => undefined
  const held = new Promise<void>((resolve) => {
    finish = resolve
  })
  const storing = await backend.openConsumer({ ...ofStore, name: 'output', store: () => held })
  const refusing = await backend.openConsumer({
    ...ofStore,
    name: 'events',
    store: async () => {
      throw new Error('away')
    },
  })
  closers.push(async () => {
    finish()
    await Promise.all([storing.close(), refusing.close()])
  })
  const empty = { waiting: 0, active: 0, delayed: 0, oldestAt: receivedMs }
  let most = { delayed: 0, active: 0 }
  await eventually(async () => {
    const { body } = await api.client.get('/admin/queue')
    const of = (queue: string) => (body.queues as { queue: string }[]).find((it) => it.queue === queue)
    expect(body).toMatchObject({ kind: 'postgres', memoryShare: 0, deadLetters: { letters: 0, rows: 0 } })
    expect(of('systemMetrics')).toEqual({ queue: 'systemMetrics', ...empty, oldestAt: null })
    expect(of('metrics')).toEqual({ queue: 'metrics', ...empty, waiting: 1 })
    expect(of('output')).toEqual({ queue: 'output', ...empty, active: 1 })
    // It is tried each second: most of the time it waits for that.
    most = { delayed: 0, active: 0, ...(of('events') as object) }
    expect(most.delayed).toBe(1)
  }, 120_000)
})

it('health says of the stores what svc doctor says', async () => {
  await insertDeadLetter(database, { queue: 'metrics', rows: 7, receivedMs: 1, reason: '', bytes: Buffer.alloc(0) })
  const byDoctor = await examine({
    CLICKHOUSE_URL: stores.clickhouseUrl,
    POSTGRES_URL: stores.postgresUrl,
    OBJECTS_URL: stores.objectsUrl,
    SVC_MASTER_KEY: testMasterKey,
    SVC_URL: service.url,
  })
  const ofStores = byDoctor.filter(({ name }) => name !== 'settings' && !name.startsWith('service at'))
  const health = await get('/admin/health')
  const findings = health.findings as { name: string; state: string; says: string }[]
  expect(findings.map((it) => it.name)).toEqual(ofStores.map((it) => it.name))
  expect(findings.find((it) => it.name === 'dead letters')).toEqual({
    name: 'dead letters',
    state: 'warning',
    says: expect.stringMatching(/^1 with 7 rows that ClickHouse refused/),
  })
  await database.row('DELETE FROM dead_letters')
  await eventually(async () => {
    const { ok, findings } = await get('/admin/health')
    expect((findings as { state: string }[]).filter((it) => it.state === 'wrong')).toEqual([])
    expect(ok).toBe(true)
  }, 120_000)
})

it('backups that were noted are listed, the newest first, without the secrets of their place', async () => {
  const at = (day: number) => new Date(Date.UTC(2026, 0, day))
  const place = describePlace('s3://access:secret@objects.example:9000/backups/svc?region=eu')
  expect(place).toBe('s3://objects.example:9000/backups/svc')
  expect(describePlace('file:///mnt/my%20backups')).toBe('/mnt/my backups')
  expect(await get('/admin/backups')).toEqual({ backups: [] })
  for (const day of [1, 2]) {
    const times = { startedAt: at(day), finishedAt: new Date(at(day).getTime() + 1_500) }
    await insertFinishedBackup(database, { id: `of-day-${day}`, place, ...times, bytes: 5e9, version: '1.0.0' })
  }
  expect((await get('/admin/backups')).backups).toEqual([
    {
      backupId: 'of-day-2',
      place,
      startedAt: at(2).getTime(),
      finishedAt: at(2).getTime() + 1_500,
      bytes: 5e9,
      version: '1.0.0',
    },
    expect.objectContaining({ backupId: 'of-day-1' }),
  ])
  await deleteFinishedBackups(database, ['of-day-1', 'of-day-2'])
  expect(await get('/admin/backups')).toEqual({ backups: [] })
})
