import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { openTwoUsers, type TwoUsers } from '../api/accounts/two-users.ts'
import { codes, expectRefusal } from '../api/http-error.ts'
import { storesWith, uniqueName } from '../kit/service.ts'
import { Float, openStoredEvents, type StoredEvent, type StoredEvents } from './stored-events.ts'

let service: TwoUsers
let stored: StoredEvents
let workspaceName: string
let modelName: string
let id: bigint
beforeAll(async () => {
  service = await openTwoUsers({ roles: new Set(['api']), isAdmin: true })
  stored = openStoredEvents(storesWith('postgres'))
  workspaceName = service.workspaceName
})
afterAll(() => Promise.all([service?.close(), stored?.close()]))
beforeEach(async () => {
  modelName = uniqueName('model')
  id = await stored.model(workspaceName, modelName)
})

const hour = 3_600_000
const start = 480_000 * hour
const attack = `'; DROP TABLE events; -- {x:String} \\' "`

type Filter = { part?: string; feature: string; operator: string; values?: unknown[] }

const save = (name: string, filters: Filter[]) =>
  service.client.post('/mpm/v2/segments', { workspaceName, modelName, name, filters })

async function read(path: string, query: Record<string, unknown> = {}): Promise<Record<string, unknown>> {
  const all = { workspaceName, modelName, ...query } as Record<string, string>
  const answer = await service.client.get(`/mpm/v2/${path}?${new URLSearchParams(all)}`)
  expect(answer.status, answer.text).toBe(200)
  return answer.body
}

async function countEvents(query: Record<string, unknown>): Promise<Record<'events' | 'labels', number>> {
  const { counts } = (await read('events/count', query)) as { counts: { events: number; labels: number }[] }
  return {
    events: counts.reduce((sum, it) => sum + it.events, 0),
    labels: counts.reduce((sum, it) => sum + it.labels, 0),
  }
}

/** Amounts from 0 to 99; a third from NL, a third from DE, a third from nowhere; scores of predictions; half are labelled. */
const someEvents = (count = 99, more: Partial<StoredEvent> = {}): StoredEvent[] =>
  Array.from({ length: count }, (_, at) => ({
    predictionId: uniqueName('p'),
    timestamp: start + at * 1_000,
    features: {
      amount: at,
      share: new Float(at / 2),
      isMember: at % 2 === 0,
      ...(at % 3 < 2 && { country: at % 3 === 0 ? 'NL' : attack }),
      [attack]: at % 10,
    },
    prediction: { value: at % 2 === 0 ? 'yes' : 'no' },
    ...(at % 2 === 0 && { labels: { value: at % 4 === 0 ? 'yes' : 'no' } }),
    ...more,
  }))

it.each<[Filter, number]>([
  [{ feature: 'country', operator: 'equals', values: ['NL'] }, 33],
  [{ feature: 'country', operator: 'equals', values: [attack] }, 33],
  [{ feature: 'country', operator: 'not equals', values: ['NL'] }, 33],
  [{ feature: 'country', operator: 'in', values: ['NL', attack, 'FR'] }, 66],
  [{ feature: 'country', operator: 'missing' }, 33],
  [{ feature: 'country', operator: 'present' }, 66],
  [{ feature: attack, operator: 'equals', values: [3] }, 10],
  [{ feature: 'amount', operator: 'below', values: [10] }, 10],
  [{ feature: 'amount', operator: 'at most', values: [10] }, 11],
  [{ feature: 'amount', operator: 'above', values: [90] }, 8],
  [{ feature: 'share', operator: 'at least', values: [48.5] }, 2],
  [{ feature: 'share', operator: 'in', values: [0.5, 1, 1000] }, 2],
  [{ feature: 'isMember', operator: 'equals', values: [true] }, 50],
  [{ feature: 'isMember', operator: 'equals', values: ['false'] }, 49],
  [{ feature: 'amount', operator: 'equals', values: ['1'] }, 0],
  [{ part: 'prediction', feature: 'value', operator: 'equals', values: ['no'] }, 49],
])('%o has %i events, saved or not', async (filter, expected) => {
  await stored.write(id, 'EVENTS', someEvents())
  expect((await save('it', [filter])).status).toBe(200)
  expect((await countEvents({ segment: 'it' })).events).toBe(expected)
  expect((await countEvents({ filters: JSON.stringify([filter]) })).events).toBe(expected)
})

it('every read sees the events of the segment and their labels only, each once', async () => {
  const events = someEvents()
  const written = await stored.write(id, 'EVENTS', events)
  await written.again()
  await save('members of NL', [
    { feature: 'country', operator: 'equals', values: ['NL'] },
    { feature: 'isMember', operator: 'equals', values: [true] },
  ])
  const query = { segment: 'members of NL' }
  // Of 99 events every sixth is both, and all of these are labelled.
  expect(await countEvents(query)).toEqual({ events: 17, labels: 17 })
  const { features } = (await read('features', query)) as { features: { name: string; part: string; events: number }[] }
  expect(new Set(features.map((it) => it.events))).toEqual(new Set([17]))
  const { windows } = await read('distribution', { ...query, feature: 'amount' })
  expect(windows).toMatchObject([{ events: 17, values: 17, min: 0, max: 96 }])
  const { windows: quality } = await read('labels/quality', query)
  // The prediction is always yes; every second label is.
  expect(quality).toMatchObject([{ predictions: 17, labelled: 17, accuracy: 9 / 17 }])
  const { windows: delays } = await read('labels/delay', query)
  expect(delays).toMatchObject([{ predictions: 17, labelled: 17, coverage: 1, delays: { 0.5: 0 }, longest: 0 }])
})

it('a segment is compared with the same segment of the reference', async () => {
  const dataSet = await stored.model(workspaceName, uniqueName('reference'))
  await stored.reference(dataSet, modelName)
  const of = (country: string, from: number) =>
    Array.from({ length: 200 }, (_, at) => ({
      predictionId: uniqueName('p'),
      timestamp: start + at,
      features: { country, amount: from + (at % 50) },
    }))
  await stored.write(dataSet, 'TRAINING_EVENTS', [...of('NL', 0), ...of('DE', 100)])
  await stored.write(id, 'EVENTS', [...of('NL', 0), ...of('DE', 300)])
  const drifted = async (country: string) => {
    const filters = JSON.stringify([{ feature: 'country', operator: 'equals', values: [country] }])
    const { windows } = (await read('drift', { filters, feature: 'amount' })) as {
      windows: { features: { drifted: boolean; values: unknown }[] }[]
    }
    const { features } = (await read('drift/map', { filters })) as { features: { name: string; drifted: boolean[] }[] }
    expect(features.find((it) => it.name === 'amount')?.drifted).toEqual([windows[0]?.features[0]?.drifted])
    expect(windows[0]?.features[0]?.values).toEqual({ reference: 200, current: 200 })
    return windows[0]?.features[0]?.drifted
  }
  expect(await drifted('NL')).toBe(false)
  expect(await drifted('DE')).toBe(true)
  // The reference knows no such country, so all of it is compared.
  await stored.write(id, 'EVENTS', of('FR', 100))
  const filters = JSON.stringify([{ feature: 'country', operator: 'equals', values: ['FR'] }])
  const { reference, windows } = (await read('drift', { filters, feature: 'amount' })) as {
    reference: Record<string, unknown>
    windows: { features: { values: unknown }[] }[]
  }
  expect(reference).toMatchObject({ events: 400, ofSegment: false })
  expect(windows[0]?.features[0]?.values).toEqual({ reference: 400, current: 200 })
})

it('segments are listed by name, written to the audit log, and deleted', async () => {
  const filters = [{ part: 'feature', feature: 'a', operator: 'in', values: ['x', 1, true] }]
  await save('b', filters)
  const { body } = await save('a', [{ feature: 'a', operator: 'missing' }])
  const list = async () => ((await read('segments')) as { segments: { name: string; filters: unknown }[] }).segments
  expect(await list()).toMatchObject([
    { name: 'a', userName: service.userName },
    { name: 'b', filters },
  ])
  expectRefusal(await save('b', filters), 400, codes.segmentTaken, /^name: .*"b"/)
  const remove = (client = service.client) =>
    client.send('DELETE', `/mpm/v2/segments/${body.segmentId}?${new URLSearchParams({ workspaceName })}`, undefined)
  expectRefusal(await remove(service.stranger), 400, codes.workspaceUnknown, /There is no workspace/)
  expect((await remove()).status).toBe(200)
  expectRefusal(await remove(), 400, codes.segmentUnknown, /has no segment/)
  expect((await list()).map((it) => it.name)).toEqual(['b'])
  const { entries } = (await service.client.get('/admin/audit')).body as { entries: { act: string; subject: string }[] }
  expect(entries.map((it) => `${it.act} ${it.subject}`)).toEqual(
    expect.arrayContaining(['segment.created a', 'segment.created b', 'segment.deleted a']),
  )
})

it('a wrong segment is refused, and the refusal names the field', async () => {
  await stored.write(id, 'EVENTS', someEvents(3))
  for (const [filters, message] of [
    [[], /^filters: must have an entry/],
    [[{ feature: 'a', operator: 'like', values: ['x'] }], /^filters\[0\]\.operator: must be one of equals/],
    [[{ feature: 'a', operator: 'equals' }], /^filters\[0\]\.values: is missing/],
    [[{ feature: 'a', operator: 'equals', values: [1, 2] }], /^filters\[0\]\.values: .*takes one value/],
    [[{ feature: 'a', operator: 'missing', values: [1] }], /^filters\[0\]\.values: .*takes no value/],
    [[{ feature: 'a', operator: 'below', values: ['x'] }], /^filters\[0\]\.values: below needs a number/],
    [[{ feature: '', operator: 'missing' }], /^filters\[0\]\.feature: /],
  ] as const) {
    const answer = await service.client.post('/mpm/v2/segments', { workspaceName, modelName, name: 'x', filters })
    expectRefusal(answer, 400, codes.badRequest, message)
  }
  const count = (more: Record<string, string>) =>
    service.client.get(`/mpm/v2/events/count?${new URLSearchParams({ workspaceName, modelName, ...more })}`)
  expectRefusal(await count({ segment: 'x' }), 400, codes.segmentUnknown, /^segment: /)
  expectRefusal(await count({ filters: '[' }), 400, codes.badRequest, /^filters: /)
  const unknown = `/mpm/v2/segments/${randomUUID()}?${new URLSearchParams({ workspaceName })}`
  expectRefusal(await service.client.send('DELETE', unknown, undefined), 400, codes.segmentUnknown, /has no segment/)
})
