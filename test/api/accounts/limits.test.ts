import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openDatabase } from '../../../store/postgres/database.ts'
import { aPoint } from '../../kit/builders.ts'
import { eventually } from '../../kit/eventually.ts'
import { createClient, type TestClient } from '../../kit/http/client.ts'
import { createUser, openOwnStores, openTestService, storesWith } from '../../kit/service.ts'
import { expectRefusal } from '../http-error.ts'

let service: Awaited<ReturnType<typeof openTestService>>
let admin: TestClient
let workspaceName: string
beforeAll(async () => {
  service = await openTestService()
  const user = await createAdmin()
  admin = createClient(service.url, user)
  workspaceName = user.workspaceName
})
afterAll(() => service?.close())

/** The admin of an organization of its own. */
async function createAdmin() {
  const user = await createUser(storesWith('postgres'))
  const database = openDatabase({
    url: storesWith('postgres').postgresUrl,
    connectionsMax: 1,
    onError: () => undefined,
  })
  await database.row('UPDATE users SET is_admin = true WHERE user_name = $1', [user.userName])
  await database.close()
  return user
}

const put = (body: unknown, client = admin) => client.send('PUT', '/admin/limits', JSON.stringify(body))
const points = (count: number) => Array.from({ length: count }, (_, step) => aPoint({ step }))
const send = (experimentKey: string, count: number) =>
  admin.post('/write/experiment/metrics/batch', { experimentKey, metrics: points(count) })

describe('limits', () => {
  it('of a workspace apply to its experiments, those of a project override them, and null removes one', async () => {
    const inWorkspace = await admin.createExperiment({ projectName: 'one' })
    const inProject = await admin.createExperiment({ projectName: 'two' })
    expect((await put({ workspaceName, limits: { metricsPerMinute: 10 } })).body).toEqual({
      msg: 'Ok',
      code: 200,
      data: null,
      sdk_error_code: 0,
      limits: { metricsPerMinute: 10 },
    })
    const limits = { metricsPerMinute: 20, outputPerMinute: 7 }
    expect((await put({ workspaceName, projectName: 'two', limits })).body).toMatchObject({ limits })

    // Both are met for the first time now, so what was set holds at once.
    expect((await send(inWorkspace, 11)).status).toBe(200)
    const refused = await send(inWorkspace, 1)
    expect([refused.status, refused.headers.get('ratelimit-limit')]).toEqual([429, '10'])
    expect((await send(inProject, 20)).status).toBe(200)
    expect((await send(inProject, 1)).headers.get('ratelimit-limit')).toBe('20')

    const { body } = await put({ workspaceName, projectName: 'two', limits: { metricsPerMinute: null } })
    expect(body.limits).toEqual({ outputPerMinute: 7 })
    const read = await admin.get(`/admin/limits?workspaceName=${workspaceName}&projectName=two`)
    expect(read.body).toEqual({ limits: { outputPerMinute: 7 } })
    expect((await admin.get(`/admin/limits?workspaceName=${workspaceName}`)).body).toEqual({
      limits: { metricsPerMinute: 10 },
    })
    await put({ workspaceName, limits: { metricsPerMinute: null } })
    // A process that knows the experiment already learns of it within ten seconds.
    await eventually(async () => expect((await send(inWorkspace, 1)).status).toBe(200))
  })

  it('by count can be set for a project', async () => {
    const experimentKey = await admin.createExperiment({ projectName: 'counted' })
    await put({ workspaceName, projectName: 'counted', limits: { metricNamesMax: 2, pointsPerMetricMax: 3 } })
    const metrics = ['a', 'b', 'c', 'a', 'a', 'a'].map((metricName) => aPoint({ metricName }))
    const answer = await admin.post('/write/experiment/metrics/batch', { experimentKey, metrics })
    expect(answer.body).toMatchObject({ accepted: 4, throttled: 2 })
  })

  it('of a key apply only to that key', async () => {
    const { body } = await admin.get('/admin/keys')
    const keys = body.keys as { keyId: string; shownPrefix: string; userName: string; createdAt: number }[]
    expect(keys).toEqual([
      {
        keyId: expect.any(String),
        name: null,
        scope: 'all',
        workspaceName: null,
        projectName: null,
        createdBy: null,
        expiresAt: null,
        lastUsedAt: expect.toSatisfy((it) => it === null || Number.isInteger(it)),
        kind: 'user',
        limits: {},
        shownPrefix: expect.stringMatching(/^svc_.{8}$/),
        userName: expect.any(String),
        createdAt: expect.any(Number),
      },
    ])
    const keyId = keys[0]?.keyId
    await put({ keyId, limits: { outputPerMinute: 3 } })
    const experimentKey = await admin.createExperiment()
    const sendLines = (count: number) =>
      admin.post('/write/experiment/output', { experimentKey, outputLines: Array(count).fill({ output: 'line' }) })
    // A key is remembered for a second.
    await eventually(async () => {
      const answer = await sendLines(1)
      expect([answer.status, answer.headers.get('ratelimit-limit')]).toEqual([429, '3'])
    })
    expect((await put({ keyId, limits: { outputPerMinute: null } })).body).toMatchObject({ limits: {} })
    await eventually(async () => expect((await sendLines(1)).status).toBe(200))
  })

  it('are for admins only, and only of their own organization', async () => {
    for (const path of ['/admin/limits?workspaceName=x', '/admin/keys']) {
      expectRefusal(await service.client.get(path), 403, 8000015, /^Only an admin or an auditor may read this/)
    }
    expectRefusal(await put({ workspaceName, limits: {} }, service.client), 403, 8000015, /admin/)

    const foreign = { workspaceName: service.workspaceName, limits: { metricsPerMinute: 1 } }
    const absent = { workspaceName: 'not there', limits: { metricsPerMinute: 1 } }
    expectRefusal(await put(foreign), 400, 90219, /^There is no workspace ".*" in your organization\.$/)
    expectRefusal(await put(absent), 400, 90219, /^There is no workspace "not there" in your organization\.$/)
    expectRefusal(await put({ projectId: 'x', limits: {} }), 400, 8000007, /^There is no such project/)
    expectRefusal(await put({ keyId: 'x', limits: {} }), 400, 8000001, /^keyId: your organization has no such key/)
  })

  it('that are invalid are rejected with the field, and nothing is set', async () => {
    const own = { workspaceName, projectName: 'one' }
    const before = (await admin.get(`/admin/limits?workspaceName=${workspaceName}&projectName=one`)).text
    const wrong: [unknown, RegExp][] = [
      [{ ...own, limits: { metricsPerMinute: 5, outputPerMinute: 0 } }, /^limits\.outputPerMinute: must be 1 or more$/],
      [{ ...own, limits: { metricsPerMinute: 1.5 } }, /^limits\.metricsPerMinute: expected an integer$/],
      [{ ...own, limits: { metricsPerMinutes: 5 } }, /^limits: there are only metricsPerMinute, /],
      [{ ...own, limits: [] }, /^limits: expected an object of limits$/],
      [own, /^limits: /],
      [{ limits: {} }, /^Name the organization by organization=true, a workspace by workspaceName/],
      [{ ...own, keyId: 'x', limits: {} }, /^Name the organization by organization=true, a workspace by workspaceName/],
      [
        { projectId: 'x', projectName: 'one', limits: {} },
        /^Name the organization by organization=true, a workspace by workspaceName/,
      ],
    ]
    for (const [body, message] of wrong) expectRefusal(await put(body), 400, 8000001, message)
    const { body } = await admin.get('/admin/keys')
    const [key] = body.keys as { keyId: string }[]
    const counts = { keyId: key?.keyId, limits: { metricNamesMax: 5 } }
    expectRefusal(await put(counts), 400, 8000001, /^limits\.metricNamesMax: holds for an experiment/)
    expect((await admin.get(`/admin/limits?workspaceName=${workspaceName}&projectName=one`)).text).toBe(before)
  })
})

describe('counters', () => {
  it('count accepted, stored, throttled and pending points, per type', async () => {
    const experimentKey = await admin.createExperiment({ projectName: 'counters' })
    await put({ workspaceName, projectName: 'counters', limits: { metricsPerMinute: 50 } })
    expect((await send(experimentKey, 50)).status).toBe(200)
    expect((await send(experimentKey, 30)).status).toBe(429)
    await admin.post('/write/experiment/output', { experimentKey, outputLines: [{ output: 'a' }, { output: 'b' }] })
    await admin.post('/write/experiment/parameter', { experimentKey, parameterName: 'a', parameterValue: 1 })

    await eventually(async () => {
      const { body } = await admin.get(`/experiment/counters?experimentKey=${experimentKey}`)
      expect(body).toEqual({
        counters: [
          { type: 'metrics', accepted: 50, stored: 50, throttled: 30, pending: 0 },
          { type: 'systemMetrics', accepted: 0, stored: 0, throttled: 0, pending: 0 },
          { type: 'output', accepted: 2, stored: 2, throttled: 0, pending: 0 },
          { type: 'parameters', accepted: 1, stored: 1, throttled: 0, pending: 0 },
          { type: 'other', accepted: 0, stored: 0, throttled: 0, pending: 0 },
        ],
      })
    })
  })

  it('count queued points as pending', async () => {
    const stores = await openOwnStores('postgres')
    const intake = await openTestService({ stores, roles: new Set(['ingest', 'api']) })
    const { client } = intake
    const read = async (experimentKey: string) => {
      const { body } = await client.get(`/experiment/counters?experimentKey=${experimentKey}`)
      return (body.counters as unknown[])[0]
    }
    const experimentKey = await client.createExperiment()
    await client.post('/write/experiment/metrics/batch', { experimentKey, metrics: points(40) })
    await eventually(async () => {
      expect(await read(experimentKey)).toMatchObject({ accepted: 40, stored: 0, pending: 40 })
    })
    const worker = await openTestService({ stores, roles: new Set(['worker']) })
    await eventually(async () => {
      expect(await read(experimentKey)).toMatchObject({ accepted: 40, stored: 40, pending: 0 })
    })
    await worker.close()
    await intake.close()
  })
})
