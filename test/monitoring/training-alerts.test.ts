import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import type { StoreUrls } from '../../cli/settings.ts'
import { createClosers } from '../../runtime/closers.ts'
import { createEvaluator } from '../../workers/alerts/alerts.ts'
import { openTwoUsers, type TwoUsers } from '../api/accounts/two-users.ts'
import { codes, expectRefusal } from '../api/http-error.ts'
import { createWebhookClient } from '../kit/clients/webhooks.ts'
import { openOwnStores, uniqueName } from '../kit/service.ts'
import { openStoredEvents, type StoredEvents } from './stored-events.ts'

const minute = 60_000
const closers = createClosers()
afterAll(() => closers.closeAll())

let stores: StoreUrls
let service: TwoUsers
let stored: StoredEvents
beforeAll(async () => {
  stores = await openOwnStores('postgres')
  // Without a worker: the tests look at the rules, when they want to.
  service = await openTwoUsers({ stores, roles: new Set(['api', 'ingest']), isAdmin: true })
  closers.push(service.close)
  stored = openStoredEvents(stores)
  closers.push(stored.close)
})

/** The beginning of a window that ended a while ago. */
let at: number
let projectName: string
let projectId: string
beforeEach(async () => {
  at = Math.floor(Date.now() / minute) * minute - 20 * minute
  projectName = uniqueName('project')
  const { workspaceName } = service
  const fields = { workspaceName, projectName, projectDescription: '', isPublic: false }
  projectId = (await service.client.post('/write/project/create', fields)).body.projectId as string
  await stored.database.row('DELETE FROM alert_rules')
})

/** A run that began an hour before the first window and lives; `times` are columns of its row. */
async function aRun(experimentName: string, times: Record<string, unknown> = {}, project = projectName) {
  const key = await service.client.createExperiment({ projectName: project, experimentName })
  const columns = { start_time_ms: at - 60 * minute, active_at_ms: at + 60 * minute, alive_at_ms: Date.now(), ...times }
  const set = Object.keys(columns).map((it, place) => `${it} = $${place + 2}`)
  const row = await stored.database.row<{ id: bigint }>(`UPDATE experiments SET ${set} WHERE key = $1 RETURNING id`, [
    key,
    ...Object.values(columns),
  ])
  return { key, id: row?.id as bigint }
}

/** One point in the middle of the window of this number. */
async function log({ id }: { id: bigint }, window: number, value: number | 'nan' | 'inf', metric = 'loss') {
  const time = at + window * minute + minute / 2
  await stored.clickhouse.command(
    `INSERT INTO ${stored.clickhouse.database}.points (experiment_id, metric, context, timestamp, received, present, value, place)
     VALUES (${id}, '${metric}', '', ${time}, ${time}, 4, ${value}, ${window})`,
  )
}

async function aRule(fields: Record<string, unknown>): Promise<string> {
  const { workspaceName } = service
  const body = { workspaceName, name: 'rule', windowMs: minute, graceMs: 0, from: at, ...fields }
  const answer = await service.client.post('/mpm/v2/alerts', body)
  expect(answer.status, answer.text).toBe(200)
  return answer.body.alertId as string
}

/** Looks at the windows until that of this number, it too. */
async function evaluate(window: number) {
  const evaluator = createEvaluator({
    ...{ database: stored.database, clickhouse: stored.clickhouse, eventReader: stored.eventReader },
    now: () => at + (window + 1) * minute,
    onFired: () => undefined,
    onError: (error) => {
      throw error
    },
  })
  await evaluator.round(new AbortController().signal)
  await evaluator.end()
}

type Told = {
  name: string
  windowFrom: number
  projectName: string
  found: { experimentName: string; value: number }[]
}

async function firings(query: Record<string, string> = {}): Promise<Told[]> {
  const search = new URLSearchParams({ workspaceName: service.workspaceName, ...query })
  const answer = await service.client.get(`/mpm/v2/alerts/firings?${search}`)
  expect(answer.status, answer.text).toBe(200)
  return (answer.body.firings as Told[]).toSorted((a, b) => a.windowFrom - b.windowFrom)
}

const toWindows = (told: Told[]) =>
  told.map((it) => [(it.windowFrom - at) / minute, it.found.map((one) => `${one.experimentName} ${one.value}`)])

it('a run fires once, and again only after a window in which it did not cross the threshold; others do meanwhile', async () => {
  const [first, second] = [await aRun('first'), await aRun('second')]
  const elsewhere = await aRun('elsewhere', {}, uniqueName('other'))
  await aRule({ projectId, measure: 'metric', metricName: 'loss', threshold: 10 })
  for (const window of [0, 1, 2, 4]) await log(first, window, 11 + window)
  for (const window of [1, 2]) await log(second, window, 100)
  await log(first, 3, 9)
  await log(elsewhere, 0, 1_000)
  await log(second, 0, 1_000, 'another')
  for (const window of [0, 1, 2, 3, 4, 5]) await evaluate(window)

  const told = await firings()

  expect(toWindows(told)).toEqual([
    [0, ['first 11']],
    [1, ['second 100']],
    [4, ['first 15']],
  ])
  expect(told[0]?.projectName).toBe(projectName)
})

it('a run that is NaN, infinite or has no points fires; one that ended, is archived or begins in the window is not missed', async () => {
  const [nan, infinite] = [await aRun('nan'), await aRun('infinite')]
  await aRun('ended', { end_time_ms: at - minute, alive_at_ms: null, active_at_ms: at - minute })
  await aRun('archived', { archived: true })
  await aRun('begins', { start_time_ms: at + minute / 4 })
  await aRule({ projectId, name: 'nan', measure: 'metricNaN', metricName: 'loss' })
  await aRule({ projectId, name: 'high', measure: 'metric', metricName: 'loss', threshold: 1e300 })
  await aRule({ projectId, name: 'silent', measure: 'metricPoints', metricName: 'loss' })
  await log(nan, 0, 'nan')
  await log(infinite, 0, 'inf')
  await aRun('silent')
  await evaluate(0)

  const told = (await firings()).map((it) => [it.name, it.found.map((one) => one.experimentName)])

  expect(told.toSorted()).toEqual([
    ['high', ['infinite']],
    ['nan', ['nan']],
    ['silent', ['silent']],
  ])
})

it('a run that crashes or falls silent fires in the window in which that is known, whoever watches it', async () => {
  const crashed = await aRun('crashed', { has_crashed: true, alive_at_ms: null, not_alive_at_ms: at + minute / 2 })
  await aRun('lost', { alive_at_ms: at - minute, active_at_ms: at - minute })
  await aRun('finished', { alive_at_ms: null, not_alive_at_ms: at + minute / 2 })
  await aRun('before', { has_crashed: true, alive_at_ms: null, not_alive_at_ms: at - 1 })
  await aRule({ projectId, name: 'project', measure: 'runCrashed' })
  await aRule({ experimentKey: crashed.key, name: 'run', measure: 'runCrashed' })
  for (const window of [0, 1, 2]) await evaluate(window)

  const told = await firings()

  const ofProject = told.filter((it) => it.name === 'project')
  expect(toWindows(ofProject)).toEqual([
    [0, ['crashed 1']],
    // Two minutes after its last sign of life.
    [1, ['lost 1']],
  ])
  expect(toWindows(told.filter((it) => it.name === 'run'))).toEqual([[0, ['crashed 1']]])
})

it('rules and firings are listed by project, and by run with those of its project that found it', async () => {
  const [one, two] = [await aRun('one'), await aRun('two')]
  const other = await aRun('other', {}, uniqueName('other'))
  await aRule({ projectId, name: 'all', measure: 'metric', metricName: 'loss', threshold: 1 })
  await aRule({ experimentKey: one.key, name: 'of one', measure: 'metric', metricName: 'loss', threshold: 1 })
  await aRule({ experimentKey: other.key, name: 'of other', measure: 'metric', metricName: 'loss', threshold: 1 })
  for (const run of [one, other]) await log(run, 0, 2)
  await log(two, 1, 2)
  for (const window of [0, 1]) await evaluate(window)
  const rules = async (query: Record<string, string>) => {
    const search = new URLSearchParams({ workspaceName: service.workspaceName, ...query })
    const { alerts } = (await service.client.get(`/mpm/v2/alerts?${search}`)).body
    return (alerts as { name: string }[]).map((it) => it.name)
  }
  const names = async (query: Record<string, string>) => (await firings(query)).map((it) => it.name).toSorted()

  expect(await rules({ projectId })).toEqual(['all', 'of one'])
  expect(await rules({ experimentKey: one.key })).toEqual(['all', 'of one'])
  expect(await rules({ experimentKey: two.key })).toEqual(['all'])
  expect(await names({ projectId })).toEqual(['all', 'all', 'of one'])
  expect(await names({ experimentKey: one.key })).toEqual(['all', 'of one'])
  expect(await names({ experimentKey: two.key })).toEqual(['all'])
})

it('webhooks are told with a sentence for people', async () => {
  const { client, workspaceName } = service
  const url = 'https://hooks.invalid/slack'
  await createWebhookClient(service).add({ url, triggers: ['ALERT_FIRED'] })
  const runs = await Promise.all(['a', 'b', 'c', 'd', 'e'].map((it) => aRun(it)))
  await aRule({ projectId, name: 'too high', measure: 'metric', metricName: 'loss', threshold: 1 })
  await aRule({ experimentKey: runs[0]?.key, name: 'broken', measure: 'runCrashed' })
  for (const [place, run] of runs.entries()) await log(run, 0, 2 + place)
  await client.post('/write/experiment/update-status', {
    experimentKey: runs[0]?.key,
    isAlive: false,
    hasCrashed: true,
  })
  await stored.database.row('UPDATE experiments SET not_alive_at_ms = $2 WHERE id = $1', [runs[0]?.id, at + 1])
  await evaluate(0)
  const rows = await stored.database.rows<{ payload: string }>(
    `SELECT d.payload FROM webhook_deliveries d JOIN webhook_receivers r ON r.id = d.receiver_id
     WHERE r.url = $1 ORDER BY d.payload::json->>'alertName'`,
    [url],
  )
  const [broken, high] = rows.map((it) => JSON.parse(it.payload) as Record<string, unknown>)
  const place = `${workspaceName}/${projectName}`
  expect(high).toMatchObject({
    ...{ projectName, experimentKey: null, foundCount: 5 },
    found: [{ experimentName: 'e', experimentKey: runs[4]?.key, value: 6 }, {}, {}, {}, {}],
    text: `too high (${place}): metric of loss above 1: e 6, d 5, c 4 and 2 more`,
  })
  expect(broken?.text).toBe(`broken (${place}): run crashed or fell silent: a`)
})

it('what does not fit together is refused by its field; a project of others is not there', async () => {
  const { workspaceName, client, stranger } = service
  const experimentKey = await client.createExperiment({ projectName })
  const rule = { workspaceName, name: 'a', windowMs: minute, metricName: 'loss', measure: 'metricNaN' }
  const refused = async (fields: Record<string, unknown>, message: RegExp, as = client) =>
    expect((await as.post('/mpm/v2/alerts', { ...rule, ...fields })).body.msg).toMatch(message)
  await refused({}, /^experimentKey: metricNaN is measured of a run or of a project: send either it or projectId/)
  await refused({ projectId, experimentKey }, /^experimentKey: .*either it or projectId/)
  await refused({ projectId, metricName: null }, /^metricName: is missing/)
  await refused({ projectId, measure: 'runCrashed' }, /^metricName: runCrashed is not of a metric/)
  await refused({ projectId, modelName: 'm' }, /^modelName: metricNaN is measured of runs/)
  await refused({ projectId, modelName: 'm', measure: 'psi' }, /^projectId: psi is measured of a model/)
  await client.post('/write/workspace/new', { name: 'another-one' })
  await refused({ projectId, workspaceName: 'another-one' }, /^projectId: is of another workspace/)
  const foreign = { ...rule, workspaceName: stranger.workspaceName, projectId }
  expectRefusal(await stranger.post('/mpm/v2/alerts', foreign), 400, codes.projectUnknown, /^There is no such project/)
})
