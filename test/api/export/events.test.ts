import { parse as parseCsv } from 'csv-parse/sync'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { eventually } from '../../kit/eventually.ts'
import { uniqueName } from '../../kit/service.ts'
import { openTwoUsers, type TwoUsers } from '../accounts/two-users.ts'
import { codes, expectRefusal } from '../http-error.ts'

let service: TwoUsers
beforeAll(async () => {
  service = await openTwoUsers({ isAdmin: true })
})
afterAll(() => service?.close())

const at = 1_700_000_000_000

/** Reads an export as rows of text; null where a field is empty without quotes. */
async function readRows(path: string): Promise<Record<string, string | null>[]> {
  const { status, text } = await service.client.get(path)
  expect(status, text).toBe(200)
  return parseCsv(text, { columns: true, cast: (value, { quoting }) => (value === '' && !quoting ? null : value) })
}

async function send(what: 'events' | 'labels', data: object[]) {
  // JSON.stringify would round integers.
  const text = JSON.stringify({ data }).replaceAll(/"(-?\d+)n"/g, '$1')
  const answer = await service.client.postRaw(`/mpm/v2/${what}/batch`, text)
  expect(answer.status, answer.text).toBe(200)
}

it('events are exported a row each with a column for each value, numbers exact, and labels as rows of their own', async () => {
  const model = { workspaceName: service.workspaceName, modelName: uniqueName('fraud') }
  const anEvent = (predictionId: string, features: object, more: object = {}) => ({
    ...{ ...model, predictionId, modelVersion: '1', timestamp: at, features, prediction: { score: 0.25 } },
    ...more,
  })
  await send('events', [
    anEvent('a', { age: 30, 'in, "quotes"': 'x', big: '9007199254740993n', mixed: true, flag: true, empty: '' }),
    anEvent('b', { age: 0.1, big: 5, mixed: 'text', flag: false, rare: null }, { timestamp: at + 5 }),
    anEvent('a', { age: 99 }),
    anEvent('c', { age: -1e-300, mixed: 2.5 }, { modelVersion: '2', timestamp: at + 10, prediction: { score: 1 } }),
  ])
  await send('labels', [
    { ...model, predictionId: 'a', timestamp: at + 60_000, labels: { fraud: true } },
    { ...model, predictionId: 'c', timestamp: at + 70_000, labels: { fraud: false, amount: 12.5 } },
  ])
  const path = (what: string, more: Record<string, string> = {}) =>
    `/export/${what}?${new URLSearchParams({ ...model, format: 'csv', ...more })}`
  const time = (ms: number) => new Date(ms).toISOString()
  const events = [
    {
      ...{ prediction_id: 'a', version: '1', time: time(at), 'features.age': '30', 'features.big': '9007199254740993' },
      ...{ 'features.empty': '', 'features.flag': 'true', 'features.in, "quotes"': 'x', 'features.mixed': 'true' },
      ...{ 'features.rare': null, 'predictions.score': '0.25' },
    },
    {
      ...{ prediction_id: 'b', version: '1', time: time(at + 5), 'features.age': '0.1', 'features.big': '5' },
      ...{ 'features.empty': null, 'features.flag': 'false', 'features.in, "quotes"': null, 'features.mixed': 'text' },
      ...{ 'features.rare': null, 'predictions.score': '0.25' },
    },
    {
      ...{ prediction_id: 'c', version: '2', time: time(at + 10), 'features.age': '-1e-300', 'features.big': null },
      ...{ 'features.empty': null, 'features.flag': null, 'features.in, "quotes"': null, 'features.mixed': '2.5' },
      ...{ 'features.rare': null, 'predictions.score': '1' },
    },
  ]
  const labels = [
    { prediction_id: 'a', version: '', time: time(at + 60_000), 'labels.amount': null, 'labels.fraud': 'true' },
    { prediction_id: 'c', version: '', time: time(at + 70_000), 'labels.amount': '12.5', 'labels.fraud': 'false' },
  ]
  const readSent = async (what: string) => (await readRows(path(what))).map(({ received_time: _, ...it }) => it)
  // Events and their values are stored by inserts of their own, one after the other.
  await eventually(async () => {
    expect(await readSent('events')).toEqual(events)
    expect(await readSent('labels')).toEqual(labels)
  })
  const ids = async (more: Record<string, string>) =>
    (await readRows(path('events', more))).map((it) => it.prediction_id)
  expect(await ids({ modelVersion: '1' })).toEqual(['a', 'b'])
  expect(await ids({ from: String(at + 5), to: String(at + 10) })).toEqual(['b'])
  const lines = (await service.client.get(path('events', { format: 'jsonl' }))).text.trimEnd().split('\n')
  const [first] = lines.map((it) => JSON.parse(it) as Record<string, unknown>)
  expect(first).toMatchObject({ 'features.age': 30, 'features.flag': true, 'features.big': '9007199254740993' })
  for (const format of ['parquet', 'arrow']) {
    const answer = await service.client.get(path('events', { format }))
    expect([answer.status, answer.text.length > 100]).toEqual([200, true])
  }

  expectRefusal(
    await service.client.get(path('events', { from: '5', to: '5' })),
    400,
    codes.badRequest,
    'to: must be later than from',
  )
  expect((await service.stranger.get(path('events'))).status).toBe(400)
})

it('a model without labels is a file without rows', async () => {
  const model = { workspaceName: service.workspaceName, modelName: uniqueName('none') }
  await send('events', [{ ...model, predictionId: 'a', features: {} }])
  const path = (what: string) => `/export/${what}?${new URLSearchParams({ ...model, format: 'csv' })}`
  await eventually(async () => expect(await readRows(path('events'))).toHaveLength(1))
  expect(await readRows(path('labels'))).toEqual([])
})

it('the audit log is exported whole, for admins only', async () => {
  for (const userName of [uniqueName('a "quoted" person'), uniqueName('ü, b')]) {
    expect((await service.client.post('/admin/users', { userName })).status).toBe(200)
  }
  const { body } = await service.client.get('/admin/audit?pageSize=1000')
  const rows = await readRows('/export/audit?format=csv')
  const entries = body.entries as { at: number; userName: string; act: string; subject: string; details: object }[]
  expect(entries).toHaveLength(2)
  expect(rows.map(({ details, ...it }) => ({ ...it, details: JSON.parse(details ?? '') as object }))).toEqual(
    entries.map(({ at, userName, ...it }) => ({ ...it, time: new Date(at).toISOString(), user_name: userName })),
  )
  expect((await service.stranger.get('/export/audit')).status).toBe(403)
})
