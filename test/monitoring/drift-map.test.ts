import { afterAll, beforeAll, expect, it } from 'vitest'
import { rollUp, rollupLimits } from '../../store/clickhouse/monitoring/rollups/build.ts'
import { storeDriftOfDays } from '../../workers/rollups/drift-windows.ts'
import { openTwoUsers, type TwoUsers } from '../api/accounts/two-users.ts'
import { codes, expectRefusal } from '../api/http-error.ts'
import { openOwnStores, uniqueName } from '../kit/service.ts'
import { openStoredEvents, type Scalar, type StoredEvent, type StoredEvents } from './stored-events.ts'

let service: TwoUsers
let stored: StoredEvents
beforeAll(async () => {
  const stores = await openOwnStores('postgres')
  // Without a worker, which would make rollups, too.
  service = await openTwoUsers({ stores, roles: new Set(['api']) })
  stored = openStoredEvents(stores)
})
afterAll(() => Promise.all([service?.close(), stored?.close()]))

const day = 86_400_000
const start = 20_000 * day
const limits = { ...rollupLimits, settledMs: 0, eventsMin: 1, eventsMax: 1_000 }
const measures = ['psi', 'jensenShannon', 'kolmogorovSmirnov', 'wasserstein'] as const

/** So many events of one day; numbers are shifted. */
const ofDay = (at: number, count: number, shift = 0, version = '1'): StoredEvent[] =>
  Array.from({ length: count }, (_, n) => ({
    predictionId: uniqueName('p'),
    timestamp: start + at * day + n * 1_000,
    version,
    features: {
      x: Math.sin(n) * 10 + shift,
      country: (shift > 0 ? ['NL', 'DE', 'NL'] : ['NL', 'DE', 'FR'])[n % 3] as string,
      steady: n % 7,
      ...(n % 5 === 0 && { sparse: n }),
    } satisfies Record<string, Scalar>,
    prediction: { value: n % 2 },
  }))

async function aModel() {
  const [modelName, dataSetName] = [uniqueName('model'), uniqueName('reference')]
  const id = await stored.model(service.workspaceName, modelName)
  const dataSet = await stored.model(service.workspaceName, dataSetName)
  await stored.reference(dataSet, modelName)
  await stored.write(dataSet, 'TRAINING_EVENTS', ofDay(0, 300))
  return { modelName, id, dataSet }
}

const read = (path: string, query: Record<string, unknown>) =>
  service.client.get(
    `/mpm/v2/${path}?${new URLSearchParams({ workspaceName: service.workspaceName, ...query } as Record<string, string>)}`,
  )

type OfMap = {
  windows: { from: number; to: number; events: number; drifted: boolean | null; driftedFeatures: number }[]
  features: {
    name: string
    part: string
    drifted: (boolean | null)[]
    value: (number | null)[]
    judgedBy: (string | null)[]
    status: (string | null)[]
    missingShare: (number | null)[]
  }[]
}

async function readMap(query: Record<string, unknown>): Promise<OfMap> {
  const answer = await read('drift/map', query)
  expect(answer.status, answer.text).toBe(200)
  return answer.body as OfMap
}

/** What /mpm/v2/drift says of these windows, in the form of the map. */
async function expectSameAsDrift(query: Record<string, unknown>) {
  const map = await readMap(query)
  const { from, to } = { from: map.windows[0]?.from, to: map.windows.at(-1)?.to }
  const { body } = await read('drift', { ...query, from, to, interval: day })
  type Feature = {
    name: string
    part: string
    drifted: boolean | null
    judgedBy: 'psi' | null
    status: string
  } & Record<(typeof measures)[number], number | null> & { missing: { current: number } }
  const windows = body.windows as (OfMap['windows'][number] & { features: Feature[] })[]
  const pick = ({ from, to, events, drifted, driftedFeatures }: OfMap['windows'][number]) => ({
    ...{ from, to, events, drifted, driftedFeatures },
  })
  expect(map.windows.map(pick)).toEqual(windows.map(pick))
  const seen = new Set(windows.flatMap((it) => it.features.map(({ part, name }) => `${part} ${name}`)))
  expect(new Set(map.features.map(({ part, name }) => `${part} ${name}`))).toEqual(seen)
  for (const row of map.features) {
    for (const [at, window] of windows.entries()) {
      const it = window.features.find(({ name, part }) => name === row.name && part === row.part)
      const cell = { drifted: row.drifted[at], judgedBy: row.judgedBy[at], status: row.status[at] }
      expect(cell, `${row.name} ${at}`).toEqual({
        drifted: it?.drifted ?? null,
        judgedBy: it?.judgedBy ?? null,
        status: it?.status ?? null,
      })
      const value = it?.judgedBy ? it[it.judgedBy] : null
      if (value === null || value === undefined) expect(row.value[at]).toBeNull()
      else expect(row.value[at]).toBeCloseTo(value, 9)
      const missing = window.events === 0 || !it ? null : it.missing.current / window.events
      expect(row.missingShare[at]).toEqual(missing)
    }
  }
  return map
}

it('a map says what drift says, window by window and feature by feature', async () => {
  const { modelName, id } = await aModel()
  await stored.write(id, 'EVENTS', [...ofDay(0, 200), ...ofDay(1, 20), ...ofDay(3, 200, 20), ...ofDay(3, 50, 20, '2')])
  const map = await expectSameAsDrift({ modelName })
  expect(map.windows.map((it) => it.from)).toEqual([0, 1, 2, 3].map((at) => start + at * day))
  const x = map.features.find((it) => it.name === 'x')
  expect(x?.drifted).toEqual([false, null, null, true])
  expect(x?.status[1]).toBe('too few values')
  await expectSameAsDrift({ modelName, modelVersion: '2' })
  await expectSameAsDrift({ modelName, measure: 'jensenShannon' })
})

it('days whose events are summed up are stored, and made anew when an event comes late or the reference grows', async () => {
  const { modelName, id, dataSet } = await aModel()
  const model = { modelId: id, kind: 'EVENTS' } as const
  const roll = () => rollUp(stored.eventReader, model, limits)
  const store = () => storeDriftOfDays({ queries: stored.database, eventReader: stored.eventReader }, model)
  for (let at = 0; at < 4; at++) await stored.write(id, 'EVENTS', ofDay(at, 100, at))
  expect(await store()).toBe(0)
  await roll()
  expect(await store()).toBe(4)
  expect(await store()).toBe(0)
  await expectSameAsDrift({ modelName })

  // The answer comes from what is stored: an entry that is changed is what is read.
  const change = 'UPDATE drift_windows SET events = events + $2 WHERE model_id = $1'
  await stored.database.row(change, [id, 7])
  const { windows } = await readMap({ modelName })
  expect(windows.map((it) => it.events)).toEqual([107, 107, 107, 107])
  // Not that of a version, of other windows or of a segment.
  await expectSameAsDrift({ modelName, modelVersion: '1' })
  const filters = JSON.stringify([{ feature: 'country', operator: 'equals', values: ['DE'] }])
  expect((await readMap({ modelName, filters })).windows.map((it) => it.events)).toEqual([33, 33, 33, 33])
  await stored.database.row(change, [id, -7])

  const late = await stored.write(id, 'EVENTS', ofDay(1, 40, 30))
  await expectSameAsDrift({ modelName })
  expect(await store()).toBe(0)
  await roll()
  await expectSameAsDrift({ modelName })
  await stored.void(id, 'EVENTS', late.claim, [0, 1, 2])
  await expectSameAsDrift({ modelName })
  await stored.write(dataSet, 'TRAINING_EVENTS', ofDay(0, 100, 15))
  await expectSameAsDrift({ modelName })
  await roll()
  // The map that was read has stored the other three.
  expect(await store()).toBe(1)
  await expectSameAsDrift({ modelName })
})

it('wrong windows, and a model without a reference, are refused by the name of the field', async () => {
  const { modelName, id } = await aModel()
  const alone = uniqueName('model')
  await stored.model(service.workspaceName, alone)
  await stored.write(id, 'EVENTS', ofDay(0, 10))
  expectRefusal(await read('drift/map', { modelName: alone }), 400, codes.referenceUnknown, /has no reference data set/)
  expectRefusal(await read('drift/map', { modelName, interval: 10 }), 400, codes.badRequest, /^interval: must be 60000/)
  expectRefusal(
    await read('drift/map', { modelName, from: 0 }),
    400,
    codes.badRequest,
    /^interval: makes more than 366/,
  )
  const empty = { modelName, from: start + day, to: start }
  expectRefusal(await read('drift/map', empty), 400, codes.badRequest, /^to: must be later/)
})
