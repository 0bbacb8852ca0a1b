import { afterAll, beforeAll, expect, it } from 'vitest'
import { openTwoUsers, type TwoUsers } from '../api/accounts/two-users.ts'
import { codes, expectRefusal } from '../api/http-error.ts'
import { storesWith, uniqueName } from '../kit/service.ts'
import { type Float, openStoredEvents, type Scalar, type StoredEvents } from './stored-events.ts'

/** The calls are /mpm/v2/features and /mpm/v2/distribution. */
let service: TwoUsers
let stored: StoredEvents
beforeAll(async () => {
  service = await openTwoUsers()
  stored = openStoredEvents(storesWith('postgres'))
})
afterAll(() => Promise.all([service?.close(), stored?.close()]))

const hour = 3_600_000
const start = 480_000 * hour

const get = (path: string, query: Record<string, string | number>) =>
  service.client.get(
    `/mpm/v2/${path}?${new URLSearchParams({ workspaceName: service.workspaceName, ...(query as Record<string, string>) })}`,
  )

async function read(path: string, query: Record<string, string | number>): Promise<Record<string, unknown>> {
  const answer = await get(path, query)
  expect(answer.status, answer.text).toBe(200)
  return answer.body
}

async function aModel() {
  const modelName = uniqueName('model')
  return { modelName, id: await stored.model(service.workspaceName, modelName) }
}

const eventsOf = (values: (Scalar | Float)[], timestamp = start, version = '1') =>
  values.map((x, at) => ({ predictionId: uniqueName('p'), timestamp: timestamp + at, version, features: { x } }))

it('features, predictions and labels are listed with types, counts and the share of missing values', async () => {
  const { modelName, id } = await aModel()
  const written = await stored.write(id, 'EVENTS', [
    { predictionId: 'a', timestamp: start, version: '1', features: { age: 1, name: 'x' }, prediction: { value: true } },
    { predictionId: 'b', timestamp: start, version: '1', features: { age: 1.5, name: null }, labels: { value: false } },
    { predictionId: 'c', timestamp: start, version: '2', features: { age: Number.NaN } },
    { predictionId: 'd', timestamp: start + hour, version: '1', features: { age: '7' } },
  ])
  await written.again()
  const none = { integer: 0, float: 0, boolean: 0, string: 0 }
  const expected = [
    {
      name: 'age',
      part: 'feature',
      type: 'numeric',
      values: { ...none, integer: 1, float: 1, string: 1 },
      events: 4,
      missing: 1,
      missingShare: 0.25,
    },
    {
      name: 'name',
      part: 'feature',
      type: 'categorical',
      values: { ...none, string: 1 },
      events: 4,
      missing: 3,
      missingShare: 0.75,
    },
    {
      name: 'value',
      part: 'prediction',
      type: 'categorical',
      values: { ...none, boolean: 1 },
      events: 4,
      missing: 3,
      missingShare: 0.75,
    },
    {
      name: 'value',
      part: 'label',
      type: 'categorical',
      values: { ...none, boolean: 1 },
      events: 1,
      missing: 0,
      missingShare: 0,
    },
  ]
  expect(await read('features', { modelName })).toEqual({ features: expected })
  const ofFirst = await read('features', { modelName, modelVersion: '1', from: start, to: start + hour })
  expect((ofFirst.features as { name: string; events: number; missing: number }[])[0]).toMatchObject({
    name: 'age',
    events: 2,
    missing: 0,
  })
  await stored.void(id, 'EVENTS', written.claim, [0, 1, 2, 3])
  await stored.void(id, 'LATE_LABELS', written.labelClaim, [1])
  expect(await read('features', { modelName })).toEqual({ features: [] })
})

it('a numeric feature has a histogram and statistics per window, and repeated deliveries count once', async () => {
  const { modelName, id } = await aModel()
  const written = await stored.write(id, 'EVENTS', [
    ...eventsOf([0, 1, 2, 3, 4, 5, 6, 7, 8, 10, null, 'text', Number.POSITIVE_INFINITY]),
    ...eventsOf([5, 5], start + 2 * hour, '2'),
    { predictionId: 'without', timestamp: start, version: '1', features: { y: 1 } },
  ])
  await written.again()
  const query = { modelName, feature: 'x', from: start, to: start + 3 * hour, interval: hour, bins: 5 }
  const answer = await read('distribution', query)
  expect(answer).toMatchObject({ type: 'numeric', edges: [0, 2, 4, 6, 8, 10], categories: [] })
  const [first, second, third] = answer.windows as Record<string, unknown>[]
  expect(first).toMatchObject({
    from: start,
    to: start + hour,
    events: 14,
    values: 12,
    missing: 2,
    otherTypes: 1,
    counts: [2, 2, 2, 2, 2],
    rest: 1,
    min: 0,
    max: 10,
    mean: 4.6,
    quantiles: { '0.01': 0, '0.05': 0, '0.25': 2, '0.5': 4, '0.75': 7, '0.95': 10, '0.99': 10 },
    isExact: true,
  })
  expect(first?.std).toBeCloseTo(Math.sqrt(9.24), 9)
  expect(second).toMatchObject({
    events: 0,
    values: 0,
    missingShare: null,
    counts: [0, 0, 0, 0, 0],
    min: null,
    mean: null,
  })
  expect(third).toMatchObject({ events: 2, counts: [0, 0, 2, 0, 0], std: 0 })

  const given = await read('distribution', { ...query, edges: '1,2,5', modelVersion: '1' })
  expect((given.windows as Record<string, unknown>[])[0]).toMatchObject({ counts: [1, 4], rest: 6 })
})

it('a categorical feature has its most frequent values, the count of the others, and the number of distinct ones', async () => {
  const { modelName, id } = await aModel()
  const values = Array.from({ length: 3_000 }, (_, at) => (at % 3 === 0 ? "it's" : at % 3 === 1 ? 'b\\' : `v${at}`))
  await stored.write(id, 'EVENTS', [...eventsOf(values), ...eventsOf(['b\\', true], start + hour)])
  const query = { modelName, feature: 'x', from: start, to: start + 2 * hour, interval: hour, top: 2 }
  const answer = await read('distribution', query)
  expect(answer).toMatchObject({ type: 'categorical', categories: ['b\\', "it's"] })
  const [first, second] = answer.windows as Record<string, unknown>[]
  expect(first).toMatchObject({ counts: [1_000, 1_000], rest: 1_000, isExact: false })
  expect(Math.abs((first?.distinct as number) - 1_002)).toBeLessThan(20)
  expect(second).toMatchObject({ counts: [1, 0], rest: 1, distinct: 2, isExact: true, missing: 0 })
})

it('very many events have exact counts, and quantiles to 10 bits', async () => {
  const { modelName, id } = await aModel()
  const { database } = stored.clickhouse
  const count = 1_100_000
  await stored.clickhouse.command(
    `INSERT INTO ${database}.events SELECT ${id}, 1, 7 + intDiv(number, 1000), number % 1000, '', ${start}, 0, toString(number)
     FROM numbers(${count})`,
  )
  await stored.clickhouse.command(
    `INSERT INTO ${database}.event_values SELECT ${id}, 1, '', 1, 'x', ${start}, 7 + intDiv(number, 1000), number % 1000, 2,
       1e6 + number / ${count}, '' FROM numbers(${count})`,
  )
  const answer = await read('distribution', { modelName, feature: 'x', bins: 4 })
  const [window] = answer.windows as (Record<string, number> & { quantiles: Record<string, number> })[]
  expect(window).toMatchObject({ values: count, counts: [275_000, 275_000, 275_000, 275_000], isExact: false })
  expect(window?.std).toBeCloseTo(1 / Math.sqrt(12), 5)
  expect(Math.abs((window?.quantiles['0.95'] as number) - 1e6 - 0.95)).toBeLessThan(3e-4)
})

it('an absent or invalid value is rejected with its field', async () => {
  const { modelName, id } = await aModel()
  expect(await read('features', { modelName })).toEqual({ features: [] })
  await stored.write(id, 'EVENTS', eventsOf([1]))
  const refused = async (query: Record<string, string | number>, code: number, message: RegExp) =>
    expectRefusal(await get('distribution', { modelName, feature: 'x', ...query }), 400, code, message)
  await refused({ feature: 'y' }, 8_000_100, /^feature: the model has no feature "y": it has x\.$/)
  await refused({ part: 'label' }, 8_000_100, /it has no label\./)
  await refused({ part: 'input' }, codes.badRequest, /^part: must be one of feature, prediction, label/)
  await refused({ edges: '3,1' }, codes.badRequest, /^edges: expected 2 to 201 ascending numbers/)
  await refused({ bins: 0 }, codes.badRequest, /^bins: must be 1 or more/)
  await refused({ interval: 0 }, codes.badRequest, /^interval: must be 1 ms or more/)
  await refused({ modelName: 'none' }, 8_000_090, /has no model "none"/)
  for (const path of ['features', 'distribution', 'labels/quality']) {
    const query = new URLSearchParams({ workspaceName: service.workspaceName, modelName, feature: 'x' })
    expectRefusal(
      await service.stranger.get(`/mpm/v2/${path}?${query}`),
      400,
      codes.workspaceUnknown,
      /^There is no workspace/,
    )
  }
  const none = await read('distribution', { modelName, feature: 'x', from: 1, to: 2 })
  expect(none.windows).toMatchObject([{ events: 0, values: 0, counts: [] }])
})
