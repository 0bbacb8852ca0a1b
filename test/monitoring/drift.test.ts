import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openTwoUsers, type TwoUsers } from '../api/accounts/two-users.ts'
import { codes, expectRefusal } from '../api/http-error.ts'
import { storesWith, uniqueName } from '../kit/service.ts'
import { openStoredEvents, type Scalar, type StoredEvent, type StoredEvents } from './stored-events.ts'

/** Data sets, and what scipy and evidently say of them; reference-values.py makes them, and says how. */
const { drift: cases } = JSON.parse(readFileSync(new URL('./reference-values.json', import.meta.url), 'utf8')) as {
  drift: Record<string, { reference: Scalar[]; current: Scalar[]; values: Record<string, number | null> }>
}

let service: TwoUsers
let stored: StoredEvents
beforeAll(async () => {
  service = await openTwoUsers({ roles: new Set(['api']) })
  stored = openStoredEvents(storesWith('postgres'))
})
afterAll(() => Promise.all([service?.close(), stored?.close()]))

const hour = 3_600_000
const start = 480_000 * hour

const toEvents = (values: Scalar[], more: Partial<StoredEvent> = {}): StoredEvent[] =>
  values.map((x, at) => ({ predictionId: uniqueName('p'), timestamp: start + at * 1_000, features: { x }, ...more }))

/** A model with a reference data set, which has events of its own. */
async function aModel(reference: StoredEvent[], current: StoredEvent[]) {
  const modelName = uniqueName('model')
  const id = await stored.model(service.workspaceName, modelName)
  const dataSetName = uniqueName('reference')
  const dataSet = await stored.model(service.workspaceName, dataSetName)
  await stored.reference(dataSet, modelName)
  const training = await stored.write(dataSet, 'TRAINING_EVENTS', reference)
  const events = await stored.write(id, 'EVENTS', current)
  return { modelName, id, dataSet, dataSetName, training, events }
}

type Feature = Record<string, number | string | boolean | null> & {
  name: string
  missing: { reference: number; current: number }
  values: { reference: number; current: number }
  bins: { from: number | null; to: number | null; reference: number; current: number }[]
}
type Window = { from: number; to: number; events: number; drifted: boolean | null; features: Feature[] } & Record<
  string,
  unknown
>

const get = (query: Record<string, string | number>) =>
  service.client.get(
    `/mpm/v2/drift?${new URLSearchParams({ workspaceName: service.workspaceName, ...(query as Record<string, string>) })}`,
  )

async function readWindows(query: Record<string, string | number>): Promise<Window[]> {
  const answer = await get(query)
  expect(answer.status, answer.text).toBe(200)
  return answer.body.windows as Window[]
}

const feature = (window: Window | undefined, name = 'x') => window?.features.find((it) => it.name === name) as Feature

describe('every measure equals that of scipy and evidently, to 1e-6', () => {
  it.each(Object.entries(cases))('%s', async (_, { reference, current, values }) => {
    const { modelName } = await aModel(toEvents(reference), toEvents(current))
    const [window] = await readWindows({ modelName, feature: 'x' })
    const measured = feature(window)
    for (const [measure, value] of Object.entries(values)) {
      if (value === null) expect(measured[measure], measure).toBeNull()
      else expect(Math.abs((measured[measure] as number) - value), `${measure} ${measured[measure]}`).toBeLessThan(1e-6)
    }
    const isMissing = (it: Scalar) => it === null
    expect(measured.missing).toEqual({
      reference: reference.filter(isMissing).length,
      current: current.filter(isMissing).length,
    })
    expect(measured.method).toBe('exact')
  })
})

const ramp = (count: number, from = 0) => Array.from({ length: count }, (_, at) => from + ((at * 7.3) % 40))

it('each window and each version is compared separately', async () => {
  const same = ramp(200)
  const moved = ramp(200, 30)
  const { modelName } = await aModel(toEvents(same), [
    ...toEvents(same, { version: '1' }),
    ...toEvents(moved, { version: '2' }),
    ...toEvents(moved).map((it) => ({ ...it, version: '1', timestamp: it.timestamp + 2 * hour })),
  ])
  const query = { modelName, from: start, to: start + 3 * hour, interval: hour }
  const ofFirst = await readWindows({ ...query, modelVersion: '1' })
  expect(ofFirst.map((it) => [it.from, it.events, it.drifted])).toEqual([
    [start, 200, false],
    [start + hour, 0, null],
    [start + 2 * hour, 200, true],
  ])
  expect(feature(ofFirst[0])).toMatchObject({ psi: 0, kolmogorovSmirnov: 0, wasserstein: 0, status: 'compared' })
  expect(feature(ofFirst[1])).toMatchObject({ psi: null, drifted: null, status: 'no values in the window' })
  const ofSecond = await readWindows({ ...query, modelVersion: '2' })
  expect(ofSecond.map((it) => [it.events, it.drifted])).toEqual([
    [200, true],
    [0, null],
    [0, null],
  ])
})

it('repeated deliveries change no measure on either side, and tombstoned events are in none', async () => {
  const { modelName, id, training, events } = await aModel(toEvents(ramp(300)), toEvents(ramp(250, 5)))
  const query = { modelName, feature: 'x' }
  const before = await readWindows(query)
  await training.again()
  await events.again()
  // A part that has other events besides those that are there twice.
  await stored.write(id, 'EVENTS', toEvents(['far', 'off'], { timestamp: start + 9 * hour }))
  const bounded = { ...query, from: before[0]?.from as number, to: before[0]?.to as number }
  expect(await readWindows(bounded)).toEqual(before)

  const { claim } = await stored.write(id, 'EVENTS', toEvents(Array<number>(100).fill(1_000)))
  const disturbed = await readWindows(bounded)
  expect(feature(disturbed[0]).psi).not.toBe(feature(before[0]).psi)
  await stored.void(
    id,
    'EVENTS',
    claim,
    Array.from({ length: 100 }, (_, at) => at),
  )
  expect(await readWindows(bounded)).toEqual(before)
})

it('bins come from the reference alone, the outer ones are open, and missing values have their own', async () => {
  const reference = Array.from({ length: 100 }, (_, at) => at)
  const { modelName } = await aModel(toEvents(reference), [
    ...toEvents([-1_000, 5, 5, 1_000, 1_000]),
    { predictionId: 'absent', timestamp: start, features: { other: 1 } },
    ...toEvents([null]),
  ])
  const measured = feature((await readWindows({ modelName, feature: 'x' }))[0])
  expect(measured.bins.map((it) => [it.from, it.to, it.reference, it.current]).filter(([, , , n]) => n !== 0)).toEqual([
    [null, 10, 11, 3],
    [90, null, 9, 2],
  ])
  expect(measured).toMatchObject({ missing: { reference: 0, current: 2 }, values: { reference: 100, current: 5 } })
  expect(measured).toMatchObject({ status: 'too few values', drifted: null })
})

it('infinities are in the outer bins and in no distance; NaN is missing', async () => {
  const reference = ramp(100)
  const { modelName } = await aModel(
    toEvents(reference),
    toEvents([...reference, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, Number.NaN]),
  )
  const measured = feature((await readWindows({ modelName, feature: 'x' }))[0])
  expect(measured).toMatchObject({
    infinite: 2,
    kolmogorovSmirnov: 0,
    wasserstein: 0,
    values: { reference: 100, current: 100 },
    missing: { reference: 0, current: 1 },
    status: 'compared',
  })
  const sum = measured.bins.reduce((all, it) => all + it.current, 0)
  expect(sum).toBe(102)
})

it('a changed type, a removed feature and a new feature are reported', async () => {
  const both = (it: number) => ({ changed: it, gone: it, stays: it })
  const { modelName } = await aModel(
    ramp(100).map((it, at) => ({ predictionId: `r${at}`, timestamp: start, features: both(it) })),
    ramp(100).map((it, at) => ({
      predictionId: `e${at}`,
      timestamp: start,
      features: { changed: String(it), stays: it, fresh: it },
      prediction: { value: true },
    })),
  )
  const [window] = await readWindows({ modelName })
  const told = Object.fromEntries((window as Window).features.map((it) => [it.name, [it.status, it.drifted]]))
  expect(told).toEqual({
    changed: ['type changed', true],
    gone: ['no values in the window', true],
    stays: ['compared', false],
    fresh: ['not in the reference', null],
    value: ['not in the reference', null],
  })
  expect(window).toMatchObject({ judgedFeatures: 3, driftedFeatures: 2, drifted: true })
  const [lenient] = await readWindows({ modelName, driftShare: '0.7' })
  expect(lenient?.drifted).toBe(false)
})

it('a measure and a threshold can be chosen', async () => {
  const { modelName } = await aModel(toEvents(ramp(400)), toEvents(ramp(400, 3)))
  const judged = async (query: Record<string, string>) => {
    const { judgedBy, drifted } = feature((await readWindows({ modelName, ...query }))[0])
    return [judgedBy, drifted]
  }
  const psi = feature((await readWindows({ modelName }))[0]).psi as number
  expect(await judged({ measure: 'psi', psiThreshold: String(psi * 0.99) })).toEqual(['psi', true])
  expect(await judged({ measure: 'psi', psiThreshold: String(psi * 1.01) })).toEqual(['psi', false])
  expect((await judged({}))[0]).toBe('kolmogorovSmirnov')
  expect(await judged({ measure: 'wasserstein', wassersteinThreshold: '99' })).toEqual(['wasserstein', false])
})

it('a data set can be named; the default is the last one uploaded, and its growth is visible', async () => {
  const { modelName, dataSet, dataSetName } = await aModel(toEvents(ramp(100)), toEvents(ramp(100)))
  const other = await aModel(toEvents(ramp(100, 500)), [])
  const named = await get({ modelName, datasetName: other.dataSetName })
  expect(named.body.reference).toMatchObject({ datasetName: other.dataSetName, events: 100 })
  expect(feature((named.body.windows as Window[])[0]).drifted).toBe(true)
  expect((await get({ modelName })).body.reference).toMatchObject({ datasetName: dataSetName, events: 100 })
  await stored.write(dataSet, 'TRAINING_EVENTS', toEvents(ramp(50)))
  expect((await get({ modelName })).body.reference).toMatchObject({ events: 150 })
})

it('labels are compared with the labels of the reference', async () => {
  const labelled = (from: number) =>
    ramp(100, from).map((value, at) => ({ predictionId: `${from} ${at}`, timestamp: start, labels: { value } }))
  const { modelName } = await aModel(labelled(0), labelled(20))
  const [window] = await readWindows({ modelName, feature: 'value', part: 'label' })
  expect(feature(window, 'value')).toMatchObject({
    part: 'label',
    drifted: true,
    values: { reference: 100, current: 100 },
  })
})

it('rounding of many values changes measures by less than a thousandth, and bins not at all', async () => {
  const modelName = uniqueName('model')
  const id = await stored.model(service.workspaceName, modelName)
  const { database } = stored.clickhouse
  const count = 1_200_000
  for (const [kind, shift] of [
    [1, 0.05],
    [2, 0],
  ] as const) {
    const events = kind === 1 ? count : 20_000
    await stored.clickhouse.command(
      `INSERT INTO ${database}.events SELECT ${id}, ${kind}, 7 + intDiv(number, 1000), number % 1000, '', ${start} + number, 0,
         toString(number) FROM numbers(${events})`,
    )
    await stored.clickhouse.command(
      `INSERT INTO ${database}.event_values SELECT ${id}, ${kind}, '', 1, 'x', ${start} + number, 7 + intDiv(number, 1000),
         number % 1000, 2, sin(number) + cos(number * 1.7) + ${shift}, '' FROM numbers(${events})`,
    )
  }
  const measured = feature((await readWindows({ modelName, datasetName: modelName, feature: 'x' }))[0])
  expect(measured).toMatchObject({ method: 'rounded', values: { reference: 20_000, current: count } })
  const [exact] = await stored.clickhouse.rows<{ ks: number; shift: number }>(
    `SELECT kolmogorovSmirnovTest('two-sided', 'asymp')(number, kind = 1).1 AS ks,
       (avgIf(number, kind = 1) - avgIf(number, kind = 2)) / stddevPopIf(number, kind = 2) AS shift
     FROM ${database}.event_values WHERE model_id = ${id}`,
  )
  expect(Math.abs((measured.kolmogorovSmirnov as number) - (exact?.ks as number))).toBeLessThan(1e-3)
  // Of a shift the normed Wasserstein distance is the shift, but for the noise of the smaller sample.
  expect(Math.abs((measured.wasserstein as number) - (exact?.shift as number))).toBeLessThan(2e-3)
  expect(measured.bins.reduce((sum, it) => sum + it.current, 0)).toBe(count)
})

it('an absent resource answers with what to do; a foreign one looks the same', async () => {
  const { modelName } = await aModel(toEvents(ramp(40)), toEvents(ramp(40)))
  const lonely = uniqueName('model')
  await stored.write(await stored.model(service.workspaceName, lonely), 'EVENTS', toEvents(ramp(40)))
  expectRefusal(await get({ modelName: lonely }), 400, 8_000_101, /upload one with POST .mpm.v2.dataset.events.csv/)
  expectRefusal(await get({ modelName, datasetName: 'none' }), 400, 8_000_101, /^datasetName: /)
  expectRefusal(
    await get({ modelName, feature: 'y' }),
    400,
    8_000_100,
    'feature: the model has no feature "y": it has x.',
  )
  expectRefusal(await get({ modelName, measure: 'tv' }), 400, codes.badRequest, /^measure: must be one of psi/)
  expectRefusal(await get({ modelName, from: 5, to: 5 }), 400, codes.badRequest, 'to: must be later than from')
  expectRefusal(await get({ modelName, interval: 1 }), 400, codes.badRequest, /^interval: makes more than 200 windows/)
  const query = new URLSearchParams({ workspaceName: service.workspaceName, modelName })
  const foreign = await service.stranger.get(`/mpm/v2/drift?${query}`)
  expect(foreign.status).toBe(400)
  expect(foreign.body.sdk_error_code).toBe(90219)
})
