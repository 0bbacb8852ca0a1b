import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { Webhook } from 'standardwebhooks'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { StoreUrls } from '../../cli/settings.ts'
import { createClosers } from '../../runtime/closers.ts'
import { createEvaluator, missedWindowsMax } from '../../workers/alerts/alerts.ts'
import { openTwoUsers, type TwoUsers } from '../api/accounts/two-users.ts'
import { codes, expectRefusal } from '../api/http-error.ts'
import { createWebhookClient } from '../kit/clients/webhooks.ts'
import { eventually } from '../kit/eventually.ts'
import { createCertificate, openReceiver, type Received } from '../kit/http/receiver.ts'
import { openOwnStores, openTestService, uniqueName } from '../kit/service.ts'
import { openStoredEvents, type Scalar, type StoredEvent, type StoredEvents } from './stored-events.ts'

const minute = 60_000
const closers = createClosers()
const testClosers = createClosers()
afterAll(() => closers.closeAll())
afterEach(() => testClosers.closeAll())

let stores: StoreUrls
let service: TwoUsers
let stored: StoredEvents
let workspaceName: string
beforeAll(async () => {
  stores = await openOwnStores('postgres')
  // Without a worker: the tests look at the rules, when they want to.
  service = await openTwoUsers({ stores, roles: new Set(['api', 'ingest']), isAdmin: true })
  closers.push(service.close)
  stored = openStoredEvents(stores)
  closers.push(stored.close)
})
beforeEach(async () => {
  workspaceName = uniqueName('workspace')
  await service.client.post('/write/workspace/new', { name: workspaceName })
  await stored.database.row('DELETE FROM alert_rules')
  await stored.database.row('DELETE FROM alert_round')
})

/** The beginning of a window that ended a while ago. */
const past = () => Math.floor(Date.now() / minute) * minute - 10 * minute

async function aRule(fields: Record<string, unknown>): Promise<string> {
  const body = { workspaceName, name: 'rule', windowMs: minute, graceMs: 0, from: past(), ...fields }
  const answer = await service.client.post('/mpm/v2/alerts', body)
  expect(answer.status, answer.text).toBe(200)
  return answer.body.alertId as string
}

type Firing = { windowFrom: number; windowTo: number; found: { feature: string | null; value: number }[]; name: string }

async function firings(query: Record<string, string> = {}): Promise<Firing[]> {
  const answer = await service.client.get(`/mpm/v2/alerts/firings?${new URLSearchParams({ workspaceName, ...query })}`)
  expect(answer.status, answer.text).toBe(200)
  return (answer.body.firings as Firing[]).toSorted((a, b) => a.windowFrom - b.windowFrom)
}

async function rules(): Promise<Record<string, unknown>[]> {
  const answer = await service.client.get(`/mpm/v2/alerts?${new URLSearchParams({ workspaceName })}`)
  expect(answer.status, answer.text).toBe(200)
  return answer.body.alerts as Record<string, unknown>[]
}

const change = (alertId: string, fields: Record<string, unknown>) =>
  service.client.send('PUT', `/mpm/v2/alerts/${alertId}`, JSON.stringify({ workspaceName, ...fields }))

function anEvaluator(now: () => number = Date.now) {
  return createEvaluator({
    database: stored.database,
    clickhouse: stored.clickhouse,
    eventReader: stored.eventReader,
    now,
    onFired: () => undefined,
    onError: (error) => {
      throw error
    },
  })
}

async function evaluate(now?: () => number) {
  const evaluator = anEvaluator(now)
  await evaluator.round(new AbortController().signal)
  await evaluator.end()
}

const eventsOf = (values: Scalar[], timestamp: number, more: Partial<StoredEvent> = {}) =>
  values.map((x, at) => ({ predictionId: `${timestamp} ${at}`, timestamp, features: { x, steady: at % 40 }, ...more }))

const ramp = (from: number) => Array.from({ length: 100 }, (_, at) => from + ((at * 7.3) % 40))

/** A model that had what its reference has in the first window, and something else in the second one. */
async function aDriftingModel(at: number) {
  const modelName = uniqueName('model')
  const id = await stored.model(workspaceName, modelName)
  const dataSet = await stored.model(workspaceName, uniqueName('reference'))
  await stored.reference(dataSet, modelName)
  await stored.write(dataSet, 'TRAINING_EVENTS', eventsOf(ramp(0), at - 100 * minute))
  await stored.write(id, 'EVENTS', eventsOf(ramp(0), at))
  await stored.write(id, 'EVENTS', eventsOf(ramp(35), at + minute))
  return { modelName, id }
}

it('drift fires only for the window and feature that drifted', async () => {
  const at = past()
  const now = () => at + 3 * minute
  const { modelName } = await aDriftingModel(at)
  for (const measure of ['psi', 'jensenShannon', 'kolmogorovSmirnov', 'wasserstein']) {
    await aRule({ modelName, measure, name: measure, from: at })
  }
  await aRule({ modelName, measure: 'psi', name: 'steady', feature: 'steady', from: at })
  await evaluate(now)
  const fired = await firings()
  expect(fired.map((it) => it.name).toSorted()).toEqual(['jensenShannon', 'kolmogorovSmirnov', 'psi', 'wasserstein'])
  for (const { windowFrom, windowTo, found } of fired) {
    expect([windowFrom, windowTo]).toEqual([at + minute, at + 2 * minute])
    expect(found.map((it) => it.feature)).toEqual(['x'])
  }
})

it('a window fires once with concurrent, repeated and killed evaluators', async () => {
  const at = past()
  const now = () => at + 3 * minute
  const { modelName } = await aDriftingModel(at)
  await aRule({ modelName, measure: 'psi', from: at })
  // As a worker leaves it that was killed in its round: somebody else holds it until the lease is over.
  await stored.database.row(
    `INSERT INTO alert_round (holder, until) VALUES ($1, clock_timestamp() + interval '1 hour')`,
    [randomUUID()],
  )
  await evaluate(now)
  expect(await firings()).toEqual([])
  await stored.database.row(`UPDATE alert_round SET until = clock_timestamp() - interval '1 second'`)

  const evaluators = [anEvaluator(now), anEvaluator(now), anEvaluator(now)]
  const { signal } = new AbortController()
  await Promise.all(evaluators.map((it) => it.round(signal)))
  for (const it of evaluators) await it.end()
  expect(await firings()).toHaveLength(1)

  // Both past the lease, as when one hung: what is kept does not depend on it.
  await stored.database.row('UPDATE alert_rules SET evaluated_to_ms = $1', [at])
  await stored.database.row('DELETE FROM alert_firings')
  const keepers = [anEvaluator(now), anEvaluator(now)]
  const stolen = setInterval(() => void stored.database.row('DELETE FROM alert_round'), 5)
  testClosers.push(async () => clearInterval(stolen))
  await Promise.all(keepers.map((it) => it.round(signal)))
  clearInterval(stolen)
  await sleep(50)
  await stored.database.row('DELETE FROM alert_round')
  await evaluate(now)
  expect(await firings()).toHaveLength(1)

  await stored.database.row('UPDATE alert_rules SET evaluated_to_ms = $1', [at])
  await evaluate(now)
  expect(await firings()).toHaveLength(1)
})

it('a missing feature fires, and so does a model without events', async () => {
  const at = past()
  const modelName = uniqueName('model')
  const id = await stored.model(workspaceName, modelName)
  await stored.write(id, 'EVENTS', [...eventsOf([1, null, null], at), ...eventsOf([1, 2, 3], at + 2 * minute)])
  await aRule({ modelName, measure: 'missingShare', threshold: 0.5, from: at, name: 'missing' })
  await aRule({ modelName, measure: 'events', from: at, name: 'silent' })
  await aRule({ modelName: 'never seen', measure: 'events', from: at + 9 * minute, name: 'absent' })
  await evaluate(() => at + 3 * minute)
  const fired = (await firings()).map((it) => [it.name, it.windowFrom, it.found])
  expect(fired).toEqual([
    ['missing', at, [{ feature: 'x', part: 'feature', value: 2 / 3 }]],
    ['silent', at + minute, [{ feature: null, part: null, value: 0 }]],
  ])
  await evaluate(() => at + 10 * minute)
  expect((await firings()).filter((it) => it.name === 'absent')).toHaveLength(1)
})

it('low label quality fires only in the window with wrong predictions', async () => {
  const at = past()
  const modelName = uniqueName('model')
  const id = await stored.model(workspaceName, modelName)
  const judged = (timestamp: number, truth: boolean) =>
    [1, 2, 3, 4].map((it) => ({
      predictionId: `${timestamp} ${it}`,
      timestamp,
      prediction: { value: true },
      labels: { value: truth },
    }))
  await stored.write(id, 'EVENTS', [...judged(at, true), ...judged(at + minute, false)])
  await aRule({ modelName, measure: 'accuracy', threshold: 0.9, from: at })
  await evaluate(() => at + 2 * minute)
  expect((await firings()).map((it) => [it.windowFrom, it.found[0]?.value])).toEqual([[at + minute, 0]])
})

it('a metric fires above its threshold, when it is NaN, and when it has no points', async () => {
  const at = past()
  const experimentKey = await service.client.createExperiment({ workspaceName })
  const row = await stored.database.row<{ id: bigint }>('SELECT id FROM experiments WHERE key = $1', [experimentKey])
  const insert = (value: string, timestamp: number) =>
    stored.clickhouse.command(
      `INSERT INTO ${stored.clickhouse.database}.points (experiment_id, metric, context, timestamp, received, present, value, place)
       VALUES (${row?.id}, 'loss', '', ${timestamp}, ${timestamp}, 4, ${value}, ${timestamp % 1_000})`,
    )
  await insert('0.5', at)
  await insert('7.5', at + minute)
  await insert('nan', at + 2 * minute)
  const metric = { experimentKey, metricName: 'loss', from: at }
  await aRule({ ...metric, name: 'high', measure: 'metric', threshold: 5 })
  await aRule({ ...metric, name: 'low', measure: 'metric', threshold: 1, comparison: 'below' })
  await aRule({ ...metric, name: 'nan', measure: 'metricNaN' })
  await aRule({ ...metric, name: 'silent', measure: 'metricPoints' })
  await evaluate(() => at + 4 * minute)
  const fired = (await firings()).map((it) => [it.name, (it.windowFrom - at) / minute, it.found[0]?.value])
  expect(fired.toSorted()).toEqual([
    ['high', 1, 7.5],
    ['low', 0, 0.5],
    ['nan', 2, 1],
    ['silent', 3, 0],
  ])
})

it('a window is evaluated after its grace period, and a limited number of missed windows later', async () => {
  const at = past()
  await aRule({ modelName: 'none', measure: 'events', graceMs: 30_000, from: at })
  await evaluate(() => at + minute + 29_999)
  expect(await firings()).toEqual([])
  await evaluate(() => at + minute + 30_000)
  expect(await firings()).toHaveLength(1)
  await evaluate(() => at + 5 * minute + 30_000)
  expect((await firings()).map((it) => (it.windowFrom - at) / minute)).toEqual([0, 1, 2, 3, 4])

  const later = at + 1_000 * minute
  await evaluate(() => later + 30_000)
  const all = await firings({})
  expect(all).toHaveLength(100)
  const answer = await service.client.get(
    `/mpm/v2/alerts/firings?${new URLSearchParams({ workspaceName, pageSize: '500' })}`,
  )
  expect(answer.body.firings).toHaveLength(5 + missedWindowsMax)
  expect(answer.body.nextPage).toBeNull()
})

it('a paused rule does not fire, a resumed one continues with the current window, a deleted one is gone', async () => {
  const at = past()
  const alertId = await aRule({ modelName: 'none', measure: 'events', from: at })
  expect((await change(alertId, { paused: true })).status).toBe(200)
  await evaluate()
  expect(await firings()).toEqual([])
  expect((await rules())[0]).toMatchObject({
    alertId,
    paused: true,
    threshold: 1,
    comparison: 'below',
    evaluatedTo: at,
  })
  const resumedAt = Date.now()
  await change(alertId, { paused: false, threshold: 0.5, name: 'renamed' })
  await evaluate()
  expect(await firings()).toEqual([])
  const [rule] = await rules()
  expect(rule).toMatchObject({ name: 'renamed', paused: false, threshold: 0.5 })
  expect(rule?.evaluatedTo).toBeGreaterThan(resumedAt - minute)
  const gone = await service.client.send(
    'DELETE',
    `/mpm/v2/alerts/${alertId}?workspaceName=${workspaceName}`,
    undefined,
  )
  expect(gone.status, gone.text).toBe(200)
  expect(await rules()).toEqual([])
  expectRefusal(await change(alertId, {}), 400, 8_000_102, /^The workspace has no alert rule/)
})

it('a rule shows why a window could not be measured', async () => {
  const at = past()
  const modelName = uniqueName('model')
  await stored.write(await stored.model(workspaceName, modelName), 'EVENTS', eventsOf([1], at))
  await aRule({ modelName, measure: 'psi', from: at })
  await evaluate()
  expect((await rules())[0]).toMatchObject({ problem: 'there is no reference data set to compare with' })
  expect(await firings()).toEqual([])
})

it('an invalid rule is rejected with the field', async () => {
  const refused = async (fields: Record<string, unknown>, message: RegExp, code: number = codes.badRequest) =>
    expectRefusal(
      await service.client.post('/mpm/v2/alerts', {
        workspaceName,
        name: 'a',
        windowMs: minute,
        modelName: 'm',
        ...fields,
      }),
      400,
      code,
      message,
    )
  await refused({}, /^measure: must be one of psi/)
  await refused({ measure: 'psy' }, /^measure: must be one of psi/)
  await refused({ measure: 'accuracy' }, /^threshold: is missing/)
  await refused({ measure: 'psi', threshold: 'high' }, /^threshold: expected a number/)
  await refused({ measure: 'psi', windowMs: 59_999 }, /^windowMs: must be 60000 or more/)
  await refused({ measure: 'psi', from: 0 }, /^from: must be at most 100 windows ago/)
  await refused({ measure: 'psi', modelName: null }, /^modelName: is missing/)
  await refused(
    { measure: 'metric', threshold: 1, modelName: null },
    /^experimentKey: metric is measured of a run or of a project/,
  )
  await refused({ measure: 'events', feature: 'x' }, /^feature: events is not of a feature/)
  await refused({ measure: 'psi', experimentKey: 'a'.repeat(32) }, /^experimentKey: psi is measured of a model/)
  const metric = { measure: 'metricNaN', modelName: null, metricName: 'loss' }
  await refused({ ...metric, experimentKey: 'a'.repeat(32) }, /^There is no experiment/, codes.experimentUnknown)
})

it('a user outside the workspace can neither read nor change rules and firings', async () => {
  const alertId = await aRule({ modelName: 'none', measure: 'events' })
  const { stranger } = service
  const query = new URLSearchParams({ workspaceName })
  const answers = [
    await stranger.get(`/mpm/v2/alerts?${query}`),
    await stranger.get(`/mpm/v2/alerts/firings?${query}`),
    await stranger.post('/mpm/v2/alerts', {
      workspaceName,
      name: 'a',
      measure: 'events',
      modelName: 'm',
      windowMs: minute,
    }),
    await stranger.send('PUT', `/mpm/v2/alerts/${alertId}`, JSON.stringify({ workspaceName, paused: true })),
    await stranger.send('DELETE', `/mpm/v2/alerts/${alertId}?${query}`, undefined),
  ]
  for (const it of answers) expectRefusal(it, 400, codes.workspaceUnknown, /^There is no workspace/)
  const own = { workspaceName: stranger.workspaceName }
  const foreign = await stranger.send('PUT', `/mpm/v2/alerts/${alertId}`, JSON.stringify({ ...own, paused: true }))
  expectRefusal(foreign, 400, 8_000_102, `The workspace has no alert rule ${alertId}.`)
  expect((await rules())[0]).toMatchObject({ paused: false })
})

describe('with a worker', () => {
  it('a firing is delivered once, signed, to the receivers of the model and of the workspace', async () => {
    const certificate = await createCertificate()
    const own = await openOwnStores('postgres')
    const worker = await openTestService({
      stores: own,
      settings: { ...certificate.settings, SVC_QUEUE_PREFIX: uniqueName('queue') },
      isAdmin: true,
    })
    testClosers.push(worker.close)
    const webhooks = createWebhookClient(worker)
    const [ofModel, ofAll, ofOther] = await Promise.all([1, 2, 3].map(() => openReceiver(certificate)))
    for (const it of [ofModel, ofAll, ofOther]) testClosers.push(it?.close as () => Promise<void>)
    const triggers = ['ALERT_FIRED']
    await webhooks.add({ url: ofModel?.url as string, triggers }, 'fraud')
    await webhooks.add({ url: ofAll?.url as string, triggers })
    await webhooks.add({ url: ofOther?.url as string, triggers }, 'other')
    const { signingSecret } = (await webhooks.post('signing-secret', { url: ofAll?.url })).body
    const at = past()
    const made = await worker.client.post('/mpm/v2/alerts', {
      workspaceName: worker.workspaceName,
      name: 'silent',
      modelName: 'fraud',
      measure: 'events',
      windowMs: 5 * minute,
      graceMs: 0,
      from: at,
    })
    const from = Math.ceil(at / (5 * minute)) * 5 * minute
    const [told] = await eventually(() => {
      if (ofAll?.received.length === 0 || ofModel?.received.length === 0) throw new Error('nothing was received')
      return ofAll?.received as Received[]
    }, 30_000)
    const { body, headers } = told as Received
    expect(new Webhook(signingSecret as string).verify(body, headers as Record<string, string>)).toEqual({
      workspaceName: worker.workspaceName,
      event: 'ALERT_FIRED',
      alertId: made.body.alertId,
      alertName: 'silent',
      modelName: 'fraud',
      modelVersion: null,
      projectName: null,
      experimentKey: null,
      metricName: null,
      measure: 'events',
      comparison: 'below',
      threshold: 1,
      windowFrom: from,
      windowTo: from + 5 * minute,
      found: [{ feature: null, part: null, value: 0 }],
      foundCount: 1,
      timestamp: expect.any(Number),
      text: `silent (${worker.workspaceName}/fraud): events below 1: 0`,
    })
    const query = new URLSearchParams({ workspaceName: worker.workspaceName })
    const fired = (await worker.client.get(`/mpm/v2/alerts/firings?${query}`)).body.firings as unknown[]
    await eventually(() => expect(ofAll?.received).toHaveLength(fired.length))
    await eventually(() => expect(ofModel?.received.map((it) => it.body)).toEqual(ofAll?.received.map((it) => it.body)))
    expect(ofOther?.received).toEqual([])
    const readTold = async () => {
      const { firings } = (await worker.client.get(`/mpm/v2/alerts/firings?${query}`)).body
      return (firings as { told: { host: string; state: string; status: number | null }[] }[]).map((it) => it.told)
    }
    const hosts = [ofModel, ofAll].map((it) => new URL(it?.url as string).host).toSorted()
    await eventually(async () => {
      for (const its of await readTold()) {
        const sorted = its.toSorted((a, b) => (a.host < b.host ? -1 : 1))
        expect(sorted.map(({ host, state, status }) => ({ host, state, status }))).toEqual(
          hosts.map((host) => ({ host, state: 'delivered', status: 204 })),
        )
      }
    })
  })
})

type Previewed = { from: number; to: number; fires: boolean; worst: { value: number } | null; found: unknown[] }

it.each<Record<string, unknown>>([
  { measure: 'psi' },
  { measure: 'wasserstein', feature: 'x' },
  { measure: 'missingShare', threshold: 0.1 },
  { measure: 'events', threshold: 50 },
  { measure: 'accuracy', threshold: 0.9, task: 'classification' },
  { measure: 'unlabelledShare', threshold: 0.4 },
])('a preview of %o says for each window what the evaluation of the saved rule then finds', async (fields) => {
  const at = past()
  const now = () => at + 4 * minute
  const { modelName, id } = await aDriftingModel(at)
  const judged = (timestamp: number, label: Scalar) =>
    eventsOf([1, null, 3], timestamp, { prediction: { value: 1 }, ...(label !== null && { labels: { value: label } }) })
  await stored.write(id, 'EVENTS', [...judged(at, 1), ...judged(at + 2 * minute, 0), ...judged(at + 3 * minute, null)])
  const rule = { workspaceName, modelName, name: 'rule', windowMs: minute, ...fields }
  const answer = await service.client.post('/mpm/v2/alerts/preview', { ...rule, windows: 5, to: now() })
  expect(answer.status, answer.text).toBe(200)
  const windows = answer.body.windows as Previewed[]
  expect(windows.map((it) => it.from)).toEqual([-1, 0, 1, 2, 3].map((it) => at + it * minute))
  expect(await rules()).toEqual([])
  await aRule({ modelName, ...fields, from: at - minute })
  await evaluate(now)
  const fired = await firings()
  expect(fired.length).toBeGreaterThan(0)
  expect(fired.length).toBeLessThan(5)
  expect(windows.filter((it) => it.fires).map(({ from, found }) => ({ windowFrom: from, found }))).toEqual(
    fired.map(({ windowFrom, found }) => ({ windowFrom, found })),
  )
})

it('a preview says why nothing can be measured, and refuses what a rule refuses', async () => {
  const preview = (fields: Record<string, unknown>, client = service.client) =>
    client.post('/mpm/v2/alerts/preview', { workspaceName, name: 'rule', windowMs: minute, ...fields })
  const { body } = await preview({ modelName: 'none', measure: 'psi' })
  expect(body).toMatchObject({ threshold: 0.2, comparison: 'above', problem: 'the model has not reported yet' })
  expectRefusal(await preview({ measure: 'psi' }), 400, codes.badRequest, /^modelName: is missing/)
  expectRefusal(await preview({ modelName: 'a', measure: 'psi', windows: 101 }), 400, codes.badRequest, /^windows: /)
  const foreign = await preview({ modelName: 'a', measure: 'psi' }, service.stranger)
  expectRefusal(foreign, 400, codes.workspaceUnknown, /There is no workspace/)
})
