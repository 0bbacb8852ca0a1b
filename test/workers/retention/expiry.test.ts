import { afterAll, beforeAll, expect, it } from 'vitest'
import type { StoreUrls } from '../../../cli/settings.ts'
import { type ClickHouse, openClickHouse } from '../../../store/clickhouse/connection.ts'
import { type Database, openDatabase } from '../../../store/postgres/database.ts'
import { expire } from '../../../workers/retention/expiry.ts'
import { codes, expectRefusal } from '../../api/http-error.ts'
import { aPoint } from '../../kit/builders.ts'
import { anEvent } from '../../kit/clients/monitoring.ts'
import { eventually } from '../../kit/eventually.ts'
import { createUser, openOwnStores, openTestService, uniqueName } from '../../kit/service.ts'

let service: Awaited<ReturnType<typeof openTestService>>
let clickhouse: ClickHouse
let database: Database
let stores: StoreUrls
beforeAll(async () => {
  stores = await openOwnStores('postgres')
  clickhouse = openClickHouse({ url: stores.clickhouseUrl })
  database = openDatabase({ url: stores.postgresUrl, onError: () => undefined })
  service = await openTestService({ stores, isAdmin: true })
})
afterAll(async () => {
  await service?.close()
  await Promise.all([clickhouse?.close(), database?.close()])
})

const dayMs = 24 * 3_600_000
const daysFromNow = (days: number) => () => Date.now() + days * dayMs
const sweep = (now?: () => number) => expire({ database, clickhouse, ...(now && { now }) })

async function set(keptDays: Record<string, unknown>, workspaceName = service.workspaceName) {
  return await service.client.send('PUT', '/admin/retention', JSON.stringify({ workspaceName, keptDays }))
}
const read = () => service.client.get(`/admin/retention?workspaceName=${service.workspaceName}`)

/** Rows as if they had been accepted so many days ago. */
async function age(table: string, where: string, days: number) {
  const columns = await clickhouse.rows<{ name: string }>(
    `SELECT name FROM system.columns WHERE database = {database:String} AND table = {table:String}
     AND default_kind NOT IN ('EPHEMERAL', 'MATERIALIZED')`,
    { database: clickhouse.database, table },
  )
  const names = columns.map((it) => it.name)
  const select = names.map((it) => (it === 'received' ? `received - ${days * dayMs} AS received` : it)).join(', ')
  const to = `${clickhouse.database}.${table} (${names.join(', ')})`
  await clickhouse.command(
    `CREATE TABLE ${clickhouse.database}.aged ENGINE = Memory AS SELECT ${select} FROM ${clickhouse.database}.${table} WHERE ${where}`,
  )
  await clickhouse.command(`DELETE FROM ${clickhouse.database}.${table} WHERE ${where}`, {
    lightweight_deletes_sync: 2,
  })
  await clickhouse.command(`INSERT INTO ${to} SELECT ${names.join(', ')} FROM ${clickhouse.database}.aged`)
  await clickhouse.command(`DROP TABLE ${clickhouse.database}.aged SYNC`)
}

const idOf = async (experimentKey: string) =>
  (await database.row<{ id: bigint }>('SELECT id FROM experiments WHERE key = $1', [experimentKey]))?.id as bigint

/** An experiment with two points of `loss`, the greater of which was accepted 40 days ago, and others in the same way. */
async function anOldExperiment(fields: Record<string, unknown> = {}) {
  const { client } = service
  const experimentKey = await client.createExperiment(fields)
  const write = async (path: string, body: object) =>
    expect((await client.post(`/write/experiment/${path}`, { experimentKey, ...body })).status).toBe(200)
  // As old as can be by its timestamp, and accepted today.
  await write('metric', aPoint({ step: 1, metricValue: 1, timestamp: 1 }))
  await write('metric', aPoint({ step: 2, metricValue: 9 }))
  await write('metric', { metricName: 'gone', metricValue: 5 })
  await write('load-metrics', { loadAverage: 1 })
  await write('output', { outputLines: [{ output: 'line' }] })
  await client.readPoints(experimentKey, 'loss', 2)
  await client.readPoints(experimentKey, 'gone', 1)
  await client.readPoints(experimentKey, 'sys.load.average', 1)
  await eventually(async () =>
    expect((await client.get(`/experiment/output?experimentKey=${experimentKey}`)).body.output).toContain('line'),
  )
  const ofIt = `experiment_id = ${await idOf(experimentKey)}`
  await age('points', `${ofIt} AND (step = 2 OR metric = 'gone')`, 40)
  await age('system_points', ofIt, 40)
  await age('output_lines', ofIt, 40)
  return experimentKey
}

const summaryOf = async (experimentKey: string) => {
  const { body } = await service.client.get(`/experiment/metrics/summary?experimentKey=${experimentKey}`)
  return (body.values as Record<string, unknown>[]).map((it) => [it.name, it.valueMin, it.valueMax, it.valueCurrent])
}

it('without retention settings everything is kept for ever', async () => {
  expect((await read()).body).toEqual({ keptDays: {}, deletions: [] })
  const experimentKey = await anOldExperiment()

  expect(await sweep(daysFromNow(10_000))).toBe(0)
  expect(await service.client.readMetric(experimentKey, 'loss')).toHaveLength(2)
})

it('data beyond the retention of its type is deleted, and summaries cover the rest', async () => {
  const experimentKey = await anOldExperiment()
  const elsewhere = uniqueName('elsewhere')
  await service.client.post('/write/workspace/new', { name: elsewhere })
  const other = await anOldExperiment({ workspaceName: elsewhere })
  expect(await summaryOf(experimentKey)).toEqual([
    ['gone', '5.0', '5.0', '5.0'],
    ['loss', '1.0', '9.0', '9.0'],
  ])

  expect((await set({ metrics: 30 })).body).toMatchObject({ keptDays: { metrics: 30 } })
  await sweep()

  const points = await service.client.readMetric(experimentKey, 'loss')
  expect(points.map((it) => [it.step, it.timestamp])).toEqual([[1, 1]])
  expect(await summaryOf(experimentKey)).toEqual([['loss', '1.0', '1.0', '1.0']])
  expect(await service.client.readMetric(experimentKey, 'gone')).toEqual([])
  // Other types, and other workspaces, are as they were.
  expect(await service.client.readMetric(experimentKey, 'sys.load.average')).toHaveLength(1)
  expect(await service.client.readMetric(other, 'loss')).toHaveLength(2)
  expect(await summaryOf(other)).toHaveLength(2)
  const { deletions } = (await read()).body as { deletions: Record<string, unknown>[] }
  expect(deletions[0]).toMatchObject({ type: 'metrics', upTo: expect.any(Number), at: expect.any(Number) })
  expect(deletions[0]?.rows).toBeGreaterThanOrEqual(2)
  expect((deletions[0]?.upTo as number) % dayMs).toBe(0)

  await set({ systemMetrics: 30, output: 30 })
  await sweep()
  expect(await service.client.readMetric(experimentKey, 'sys.load.average')).toEqual([])
  expect((await service.client.get(`/experiment/output?experimentKey=${experimentKey}`)).body.output).toBe('')
  expect(await service.client.readMetric(other, 'sys.load.average')).toHaveLength(1)
  const { body } = await service.client.get(`/experiment/counters?experimentKey=${experimentKey}`)
  const counters = body.counters as { type: string; stored: number; pending: number }[]
  expect(counters.find((it) => it.type === 'metrics')).toMatchObject({ stored: 1, pending: 0 })
  await set({ metrics: null, systemMetrics: null, output: null })
})

it('a sweep that was interrupted before it rebuilt summaries is repeated', async () => {
  const experimentKey = await anOldExperiment()
  await set({ metrics: 30 })
  // Of another day, so that it was not swept before.
  const now = daysFromNow(3)
  const upToMs = Math.floor((now() - 30 * dayMs) / dayMs) * dayMs
  await database.row(
    `INSERT INTO retention_sweeps (workspace_id, data_type, up_to_ms)
     SELECT id, 'metrics', $2 FROM workspaces WHERE name = $1`,
    [service.workspaceName, upToMs],
  )
  await clickhouse.command(
    `DELETE FROM ${clickhouse.database}.points
     WHERE experiment_id = ${await idOf(experimentKey)} AND received < ${upToMs}`,
    { lightweight_deletes_sync: 2 },
  )
  expect(await summaryOf(experimentKey)).toHaveLength(2)

  await sweep(now)

  expect(await summaryOf(experimentKey)).toEqual([['loss', '1.0', '1.0', '1.0']])
  expect(await sweep(now)).toBe(0)
  await set({ metrics: null })
})

it('events are deleted with their values and features, and their prediction ids stay taken', async () => {
  const { client, workspaceName } = service
  const modelName = uniqueName('model')
  const query = (more: Record<string, string> = {}) => new URLSearchParams({ workspaceName, modelName, ...more })
  const send = async (predictionId: string, features: Record<string, unknown>) => {
    const data = [anEvent({ workspaceName, modelName, predictionId, features, prediction: undefined })]
    return (await client.post('/mpm/v2/events/batch', { data })).body
  }
  await send('old', { x: 1, only: 2 })
  await send('new', { x: 3 })
  await client.post('/mpm/v2/labels/batch', { data: [{ workspaceName, modelName, predictionId: 'old', labels: 1 }] })
  const find = (predictionId: string) => client.get(`/mpm/v2/event?${query({ predictionId })}`)
  // Its labels, its values and the event itself are stored in any order.
  await eventually(async () => {
    const { timestamp, features, labels } = (await find('old')).body as Record<string, unknown[]>
    expect([timestamp, features?.length, labels?.length]).toEqual([expect.any(Number), 2, 1])
    expect((await find('new')).body).toMatchObject({ features: [{ name: 'x' }] })
  })
  await age('events', "prediction_id = 'old' AND kind = 1", 40)
  const features = async () =>
    ((await client.get(`/mpm/v2/features?${query()}`)).body.features as { name: string }[]).map((it) => it.name)
  await eventually(async () => expect(await features()).toEqual(expect.arrayContaining(['only', 'x'])))

  await set({ events: 30 })
  await sweep()

  expect(await features()).not.toContain('only')
  expect(await features()).toContain('x')
  const { body } = await client.get(`/mpm/v2/distribution?${query({ feature: 'x' })}`)
  expect((body.windows as unknown[])[0]).toMatchObject({ events: 1, min: 3, max: 3 })
  expect(await send('old', { x: 7 })).toMatchObject({ accepted: 0, duplicates: 1 })
  await set({ events: null })
})

it('only admins set retention, for workspaces of their organization, within bounds, and it is audited', async () => {
  expectRefusal(await set({ points: 3 }), 400, codes.badRequest, /there are only metrics, systemMetrics/)
  for (const wrong of [0, -1, 1.5, '3', 36_501]) {
    expectRefusal(await set({ metrics: wrong }), 400, codes.badRequest, /^keptDays\.metrics/)
  }
  expectRefusal(await set({ metrics: 3 }, 'absent'), 400, codes.workspaceUnknown, /There is no workspace "absent"/)
  const stranger = await createUser(stores, { isAdmin: true })
  const foreign = await set({ metrics: 3 }, stranger.workspaceName)
  expectRefusal(foreign, 400, codes.workspaceUnknown, /There is no workspace/)
  const member = await createUser(stores)
  const path = `/admin/retention?workspaceName=${member.workspaceName}`
  expect((await service.client.get(path, { apiKey: member.apiKey })).status).toBe(403)

  await set({ metrics: 5, output: 6 })
  expect((await set({ metrics: null })).body).toMatchObject({ keptDays: { output: 6 } })
  const { entries } = (await service.client.get('/admin/audit')).body as { entries: Record<string, unknown>[] }
  expect(entries[0]).toMatchObject({ act: 'retention.set', subject: service.workspaceName })
  await set({ output: null })
})
