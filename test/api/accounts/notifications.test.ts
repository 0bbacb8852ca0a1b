import { afterAll, beforeAll, expect, it } from 'vitest'
import { openDatabase } from '../../../store/postgres/database.ts'
import { eventually } from '../../kit/eventually.ts'
import { createClient, type TestClient } from '../../kit/http/client.ts'
import { createUser, openTestService, storesWith, uniqueName } from '../../kit/service.ts'

let service: Awaited<ReturnType<typeof openTestService>>
let database: ReturnType<typeof openDatabase>
beforeAll(async () => {
  service = await openTestService({ roles: new Set(['api', 'ingest']) })
  database = openDatabase({ url: storesWith('postgres').postgresUrl, connectionsMax: 1, onError: () => undefined })
})
afterAll(async () => {
  await database?.close()
  await service?.close()
})

type Told = Record<'kind' | 'experimentKey' | 'alertName' | 'error' | 'projectName' | 'modelName', string | null> & {
  at: number
  times: number
  isNew: boolean
  workspaceName: string
}

async function read(client: TestClient = service.client): Promise<Told[]> {
  const answer = await client.get('/account/notifications')
  expect(answer.status, answer.text).toBe(200)
  return answer.body.notifications as Told[]
}

const seen = (seenTo: unknown) => service.client.post('/account/notifications/seen', { seenTo })
const update = async (experimentKey: string | undefined, fields: Record<string, unknown>) => {
  const answer = await service.client.post('/write/experiment/update-status', { experimentKey, ...fields })
  expect(answer.status, answer.text).toBe(200)
}

it('tells of runs that ended, each as it did, and of no others; newest first; new until they are seen', async () => {
  const [finished, crashed, lost, running, silent] = await Promise.all(
    Array.from({ length: 5 }, () => service.client.createExperiment()),
  )
  for (const key of [finished, crashed, lost, running]) await update(key, { isAlive: true })
  await update(finished, { isAlive: false })
  await update(crashed, { isAlive: false, error: 'out of memory', hasCrashed: true })
  const kinds = async () => new Map((await read()).map((it) => [it.experimentKey, it.kind]))
  await eventually(async () => expect((await kinds()).get(crashed as string)).toBe('crashed'))
  // As if its last sign of life was an hour ago.
  const hourAgo = Date.now() - 3_600_000
  await database.row('UPDATE experiments SET alive_at_ms = $2, active_at_ms = $2 WHERE key = $1', [lost, hourAgo])

  const told = await read()

  expect(new Map(told.map((it) => [it.experimentKey, it.kind]))).toEqual(
    new Map([
      [finished, 'finished'],
      [crashed, 'crashed'],
      [lost, 'lost'],
    ]),
  )
  expect(told.find((it) => it.experimentKey === crashed)).toMatchObject({
    error: 'out of memory',
    workspaceName: service.workspaceName,
    projectName: expect.any(String),
    alertName: null,
  })
  const times = told.map((it) => it.at)
  expect(times).toEqual(times.toSorted((a, b) => b - a))
  // When it was known to be lost, not when it spoke last.
  expect(told.at(-1)).toMatchObject({ experimentKey: lost, at: hourAgo + 120_000 })
  expect(told.every((it) => it.isNew)).toBe(true)
  expect([running, silent].some((key) => told.some((it) => it.experimentKey === key))).toBe(false)

  expect((await seen(told[0]?.at)).status).toBe(200)
  expect((await read()).some((it) => it.isNew)).toBe(false)
  await seen(0)
  expect((await read()).some((it) => it.isNew)).toBe(false)
  const refused = await seen('yesterday')
  expect([refused.status, refused.body.msg]).toEqual([400, expect.stringContaining('seenTo')])
})

it('tells of runs of the caller only, and of alerts of the workspaces of the caller only', async () => {
  const key = await service.client.createExperiment()
  const other = await createUser(storesWith('postgres'))
  const colleague = createClient(service.url, other)
  const { alertId } = (
    await service.client.post('/mpm/v2/alerts', {
      workspaceName: service.workspaceName,
      name: uniqueName('nan'),
      measure: 'metricNaN',
      experimentKey: key,
      metricName: 'loss',
      windowMs: 60_000,
    })
  ).body as { alertId: string }
  const fire = (window: number, firedAtMs: number) =>
    database.row(
      `INSERT INTO alert_firings (rule_id, window_from_ms, window_to_ms, fired_at_ms, found) VALUES ($1, $2, $3, $4, '[]')`,
      [alertId, window * 60_000, (window + 1) * 60_000, firedAtMs],
    )
  const firedAtMs = Date.now()
  await fire(0, firedAtMs - 15 * 24 * 3_600_000)
  await fire(1, firedAtMs)

  const alert = { kind: 'alert', alertId, at: firedAtMs, experimentKey: key, isNew: true }
  expect((await read())[0]).toMatchObject({ ...alert, times: 1 })
  await fire(2, firedAtMs - 60_000)
  expect((await read()).filter((it) => it.kind === 'alert')).toMatchObject([{ ...alert, times: 2 }])
  await database.row(
    `UPDATE alert_rules r SET experiment_id = NULL, project_id = e.project_id FROM experiments e
     WHERE r.id = $1 AND e.id = r.experiment_id`,
    [alertId],
  )
  expect((await read())[0]).toMatchObject({ alertId, experimentKey: null, projectName: expect.any(String) })
  expect(await read(colleague)).toEqual([])
})
