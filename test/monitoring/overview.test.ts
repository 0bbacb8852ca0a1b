import { afterAll, beforeAll, expect, it } from 'vitest'
import { openTwoUsers, type TwoUsers } from '../api/accounts/two-users.ts'
import { codes, expectRefusal } from '../api/http-error.ts'
import { createRegistryClient } from '../kit/clients/registry.ts'
import { openOwnStores, uniqueName } from '../kit/service.ts'
import { openStoredEvents, type StoredEvent, type StoredEvents } from './stored-events.ts'

let service: TwoUsers
let stored: StoredEvents
beforeAll(async () => {
  // A worker of other tests would evaluate the rules, too.
  const stores = await openOwnStores('postgres')
  service = await openTwoUsers({ stores, roles: new Set(['api', 'ingest']) })
  stored = openStoredEvents(stores)
})
afterAll(() => Promise.all([service?.close(), stored?.close()]))

const day = 86_400_000
const today = () => Math.floor(Date.now() / day) * day

async function read(path: string, query: Record<string, unknown>): Promise<Record<string, unknown>> {
  const all = { workspaceName: service.workspaceName, ...query } as Record<string, string>
  const answer = await service.client.get(`/mpm/v2/${path}?${new URLSearchParams(all)}`)
  expect(answer.status, answer.text).toBe(200)
  return answer.body
}

const toEvents = (timestamp: number, count: number, shift = 0): StoredEvent[] =>
  Array.from({ length: count }, (_, at) => ({
    predictionId: uniqueName('p'),
    timestamp: timestamp + at,
    features: { x: (at % 10) + shift },
    prediction: { value: 1 },
  }))

it('the overview has each model with its last event, volume, verdict, and the rules that fire', async () => {
  const { workspaceName } = service
  const [modelName, dataSetName] = [uniqueName('a model'), uniqueName('b training')]
  const id = await stored.model(workspaceName, modelName)
  const dataSet = await stored.model(workspaceName, dataSetName)
  await stored.reference(dataSet, modelName)
  await stored.write(dataSet, 'TRAINING_EVENTS', toEvents(today() - 50 * day, 100))
  const at = today() - 2 * day
  await stored.write(id, 'EVENTS', [...toEvents(at - 5 * day, 60), ...toEvents(at, 80, 100)])
  const { registryModelItemId } = await createRegistryClient(service).aModel({ registryModelName: modelName })
  expect(registryModelItemId).toBeDefined()
  const rule = { workspaceName, modelName, name: 'volume', measure: 'events', windowMs: day, graceMs: 0 }
  const { body } = await service.client.post('/mpm/v2/alerts', { ...rule, from: today() - 3 * day })
  const { alertId } = body as { alertId: string }

  const { models } = (await read('overview', {})) as { models: Record<string, unknown>[] }
  const volume = Array<number>(30).fill(0)
  volume[29 - 7] = 60
  volume[29 - 2] = 80
  expect(models).toEqual([
    expect.objectContaining({
      ...{ modelName, isDataset: false, events: 140, labels: 0, registered: true, datasetName: dataSetName },
      lastEventAt: at + 79,
      volume,
      verdict: { from: at, to: at + day, drifted: true, driftedFeatures: 1, judgedFeatures: 2 },
      rules: 1,
      firing: [],
    }),
    expect.objectContaining({
      ...{ modelName: dataSetName, isDataset: true, events: 0, trainingEvents: 100, registered: false },
      ...{ lastEventAt: null, verdict: null, rules: 0 },
    }),
  ])

  // Of the window that the rule was evaluated for last, and of no earlier one.
  const fire = async (fromMs: number) => {
    await stored.database.row(
      `INSERT INTO alert_firings (rule_id, window_from_ms, window_to_ms, fired_at_ms, found) VALUES ($1, $2, $3, $3, '[]')`,
      [alertId, fromMs, fromMs + day],
    )
    await stored.database.row('UPDATE alert_rules SET evaluated_to_ms = $2 WHERE id = $1', [alertId, today()])
    const { models } = (await read('overview', { modelName, verdict: false })) as { models: Record<string, unknown>[] }
    expect(models).toMatchObject([{ modelName, verdict: null }])
    return models[0]?.firing
  }
  expect(await fire(today() - 2 * day)).toEqual([])
  expect(await fire(today() - day)).toEqual([
    { alertId, name: 'volume', measure: 'events', windowFrom: today() - day, windowTo: today() },
  ])

  expect(await read('overview', { modelName: 'none' })).toEqual({ models: [], nextPage: null })
  const foreign = `/mpm/v2/overview?${new URLSearchParams({ workspaceName })}`
  expectRefusal(await service.stranger.get(foreign), 400, codes.workspaceUnknown, /There is no workspace/)
})

it('the delay of labels is told by the time of the prediction, with how many have one', async () => {
  const modelName = uniqueName('model')
  const id = await stored.model(service.workspaceName, modelName)
  const at = today() - 10 * day
  const events = [...toEvents(at, 10), ...toEvents(at + day, 10)]
  await stored.write(id, 'EVENTS', events)
  // Half of the first day after 1, 2, .. 5 days, and one of the second day; one names another version; one is twice.
  const labels = [0, 1, 2, 3, 4, 10].map((n) => ({
    predictionId: events[n]?.predictionId as string,
    timestamp: (events[n]?.timestamp as number) + (n + 1) * day,
    version: n === 2 ? 'other' : '',
    labels: { value: 1 },
  }))
  const written = await stored.write(id, 'LATE_LABELS', labels)
  await written.again()
  const { windows } = await read('labels/delay', { modelName, interval: day, from: at, to: at + 3 * day })
  expect(windows).toEqual([
    expect.objectContaining({
      ...{ predictions: 10, labelled: 5, coverage: 0.5, longest: 5 * day },
      delays: { 0.1: day, 0.5: 3 * day, 0.9: 5 * day, 0.99: 5 * day },
    }),
    expect.objectContaining({ predictions: 10, labelled: 1, coverage: 0.1, longest: 11 * day }),
    expect.objectContaining({ predictions: 0, labelled: 0, coverage: null, delays: {}, longest: null }),
  ])
})
