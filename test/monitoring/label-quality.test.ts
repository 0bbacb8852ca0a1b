import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { openTwoUsers, type TwoUsers } from '../api/accounts/two-users.ts'
import { codes, expectRefusal } from '../api/http-error.ts'
import { storesWith, uniqueName } from '../kit/service.ts'
import { type Float, openStoredEvents, type Scalar, type StoredEvents } from './stored-events.ts'

type Case = { actual: Scalar[]; predicted: Scalar[]; values: Record<string, number> }

/** Data sets, and what scikit-learn says of them; reference-values.py makes them, and says how. */
const { quality } = JSON.parse(readFileSync(new URL('./reference-values.json', import.meta.url), 'utf8')) as {
  quality: Record<'classes' | 'booleans' | 'numbers', Case>
}

let service: TwoUsers
let stored: StoredEvents
beforeAll(async () => {
  service = await openTwoUsers()
  stored = openStoredEvents(storesWith('postgres'))
})
afterAll(() => Promise.all([service?.close(), stored?.close()]))

const hour = 3_600_000
const start = 480_000 * hour

async function aModel(predicted: (Scalar | Float)[], actual: (Scalar | Float)[], timestamp = start) {
  const modelName = uniqueName('model')
  const id = await stored.model(service.workspaceName, modelName)
  const add = async (predictions: (Scalar | Float)[], labels: (Scalar | Float)[], at: number) => {
    const ids = predictions.map(() => uniqueName('p'))
    const events = await stored.write(
      id,
      'EVENTS',
      predictions.map((value, n) => ({
        predictionId: ids[n] as string,
        timestamp: at,
        version: '1',
        prediction: { value },
      })),
    )
    // Long after, and of another version: they belong together by their prediction id alone.
    const told = await stored.write(
      id,
      'LATE_LABELS',
      labels.map((value, n) => ({ predictionId: ids[n] as string, timestamp: at + 90 * hour, labels: { value } })),
    )
    return { events, told }
  }
  return { modelName, id, add, ...(await add(predicted, actual, timestamp)) }
}

const get = (query: Record<string, string | number>) =>
  service.client.get(
    `/mpm/v2/labels/quality?${new URLSearchParams({ workspaceName: service.workspaceName, ...(query as Record<string, string>) })}`,
  )

type Window = Record<string, number | null> & { classes: Record<string, unknown>[] }

async function read(query: Record<string, string | number>): Promise<{ task: string; windows: Window[] }> {
  const answer = await get(query)
  expect(answer.status, answer.text).toBe(200)
  return answer.body as { task: string; windows: Window[] }
}

function expectValues(window: Window | undefined, values: Record<string, number>) {
  for (const [name, value] of Object.entries(values)) {
    expect(Math.abs((window?.[name] as number) - value), `${name} ${window?.[name]}`).toBeLessThan(1e-6)
  }
}

it.each(['classes', 'booleans', 'numbers'] as const)('%s are judged as scikit-learn does, to 1e-6', async (name) => {
  const { actual, predicted, values } = quality[name]
  const { modelName } = await aModel(predicted, actual)
  const { task, windows } = await read({ modelName })
  expect(task).toBe(name === 'numbers' ? 'regression' : 'classification')
  expectValues(windows[0], values)
  expect(windows[0]).toMatchObject({ predictions: actual.length, labelled: actual.length, unlabelledShare: 0 })
})

it('windows follow the predictions; repeated and tombstoned events do not count', async () => {
  const { actual, predicted, values } = quality.classes
  const { modelName, id, add, events, told } = await aModel(predicted, actual)
  await add(['cat', 'cat', 'dog', 'dog'], ['cat', 'dog'], start + 2 * hour)
  await events.again()
  await told.again()
  const spoilt = await add(['cat', 'cat'], ['eel', 'eel'], start)
  await stored.void(id, 'EVENTS', spoilt.events.claim, [0, 1])
  const query = { modelName, from: start, to: start + 3 * hour, interval: hour }
  const { windows } = await read(query)
  expectValues(windows[0], values)
  expect(windows[0]).toMatchObject({ predictions: actual.length })
  expect(windows[1]).toMatchObject({ predictions: 0, unlabelledShare: null, accuracy: null })
  expect(windows[2]).toMatchObject({
    predictions: 4,
    labelled: 2,
    unlabelledShare: 0.5,
    accuracy: 0.5,
    classCount: 2,
    classes: [
      { name: 'cat', correct: 1, predicted: 2, actual: 1 },
      { name: 'dog', correct: 0, predicted: 0, actual: 1 },
    ],
  })
  await stored.void(
    id,
    'LATE_LABELS',
    told.labelClaim,
    actual.map((_, at) => at),
  )
  expect((await read(query)).windows[0]).toMatchObject({ labelled: 0, unlabelledShare: 1, accuracy: null })
})

it('integers are regression unless the caller asks for classes; booleans and numbers are compared as numbers', async () => {
  const { modelName } = await aModel([1, 2, 3], [1, 2, 7])
  expect((await read({ modelName })).windows[0]).toMatchObject({ bias: -4 / 3, accuracy: null })
  const { windows } = await read({ modelName, task: 'classification' })
  expect(windows[0]).toMatchObject({ accuracy: 2 / 3, bias: null })
  const mixed = await aModel([true, false, true], [1, 0, 0])
  expect((await read({ modelName: mixed.modelName, task: 'classification' })).windows[0]).toMatchObject({
    accuracy: 2 / 3,
  })
})

it('infinities and NaN are in no error; without labels there is no quality', async () => {
  const infinite = [Number.POSITIVE_INFINITY, 2, Number.NaN]
  const { modelName } = await aModel(infinite, [1, 1, 1])
  expect((await read({ modelName })).windows[0]).toMatchObject({ meanAbsoluteError: 1, bias: 1 })
  const bare = await aModel([1, 2], [])
  expect(await read({ modelName: bare.modelName })).toEqual({ label: null, prediction: null, task: null, windows: [] })
})

it('an ambiguous label must be named', async () => {
  const modelName = uniqueName('model')
  const id = await stored.model(service.workspaceName, modelName)
  const both = { price: 1, demand: 2 }
  await stored.write(id, 'EVENTS', [
    { predictionId: 'a', timestamp: start, prediction: both, labels: { ...both, price: 3 } },
  ])
  expectRefusal(await get({ modelName }), 400, codes.badRequest, /^label: is missing, .* send one of demand, price/)
  expectRefusal(await get({ modelName, label: 'prize' }), 400, 8_000_100, /^label: the model has none of this name/)
  expect((await read({ modelName, label: 'price' })).windows[0]).toMatchObject({ bias: -2 })
  expect((await read({ modelName, label: 'price', prediction: 'demand' })).windows[0]).toMatchObject({ bias: -1 })
})
