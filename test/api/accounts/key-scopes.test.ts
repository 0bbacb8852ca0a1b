import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Database, openDatabase } from '../../../store/postgres/database.ts'
import { eventually } from '../../kit/eventually.ts'
import { openTestService, storesWith, uniqueName } from '../../kit/service.ts'
import { codes, expectRefusal } from '../http-error.ts'
import { type Organization, openOrganization } from './organization.ts'

let organization: Organization
let admin: Organization['admin']
let database: Database
beforeAll(async () => {
  organization = await openOrganization()
  admin = organization.admin
  const { postgresUrl: url } = storesWith('postgres')
  database = openDatabase({ url, connectionsMax: 1, onError: () => undefined })
})
afterAll(async () => {
  await database?.close()
  await organization?.close()
})

type Made = { apiKey: string; keyId: string }
const makeKey = async (fields: Record<string, unknown>) => {
  const made = await admin.post('/account/keys', fields)
  expect([made.status, made.body.msg]).toEqual([200, 'Ok'])
  const { apiKey, keyId } = made.body as Made
  return { apiKey, keyId, client: organization.as(apiKey) }
}
const listed = async (keyId: string) =>
  ((await admin.get('/account/keys')).body.keys as Record<string, unknown>[]).find((it) => it.keyId === keyId)

describe('a key', () => {
  it('has a name, a scope, a place, an end, who made it and when it was last used', async () => {
    const { workspaceName, userName } = organization
    const projectName = uniqueName('project')
    await admin.createExperiment({ projectName })
    const expiresAt = Date.now() + 86_400_000
    const { keyId, client } = await makeKey({ name: 'a reader', scope: 'read', workspaceName, projectName, expiresAt })
    const expected = { name: 'a reader', scope: 'read', workspaceName, projectName, expiresAt, createdBy: userName }
    expect(await listed(keyId)).toMatchObject({ ...expected, lastUsedAt: null })
    expect((await client.get('/account-details')).body).toEqual({ userName, defaultWorkspaceName: workspaceName })
    await eventually(async () => expect(await listed(keyId)).toMatchObject({ lastUsedAt: expect.any(Number) }))
    const { entries } = (await admin.get('/admin/audit?act=key.created&pageSize=1')).body
    expect(entries).toMatchObject([{ subject: userName, details: { keyId, scope: 'read' } }])
  })

  it('is made with wrong fields by nobody', async () => {
    const refuse = async (fields: Record<string, unknown>, message: RegExp, code: number = codes.badRequest) =>
      expectRefusal(await admin.post('/account/keys', fields), 400, code, message)
    await refuse({ scope: 'all of it' }, /^scope: must be one of read, write, all/)
    await refuse({ projectName: 'a' }, /^workspaceName: is missing/)
    await refuse({ expiresAt: Date.now() - 1 }, /^expiresAt: must be in the future/)
    await refuse({ expiresAt: 'tomorrow' }, /^expiresAt: expected ms since the Unix epoch/)
    await refuse({ workspaceName: 'none' }, /no workspace "none"/, codes.workspaceUnknown)
    const foreign = { workspaceName: organization.strangersWorkspace }
    await refuse(foreign, /no workspace/, codes.workspaceUnknown)
  })

  it('of scope read reads, and is told what it lacks', async () => {
    const experimentKey = await admin.createExperiment()
    const { client } = await makeKey({ scope: 'read' })
    expect((await client.get(`/experiment/metadata?experimentKey=${experimentKey}`)).status).toBe(200)
    expect((await client.post('/experiments/search', await projectOf(experimentKey))).status).toBe(200)
    const point = { experimentKey, metricName: 'loss', metricValue: 1, step: 1 }
    const message = 'This API key has the scope "read": use one of scope "write" for this.'
    // On the fast path, and on Node's server.
    expectRefusal(await client.post('/write/experiment/metric', point), 403, 8000152, message)
    const slowly = { headers: { prefer: 'wait=0' } }
    expectRefusal(await client.post('/write/experiment/metric', point, slowly), 403, 8000152, message)
  })

  it('of scope write logs, and neither manages nor makes keys', async () => {
    const { client } = await makeKey({ scope: 'write' })
    const { workspaceName } = organization
    expect((await client.post('/write/experiment/create', { workspaceName, projectName: 'project' })).status).toBe(200)
    const message = 'This API key has the scope "write": use one of scope "all" for this.'
    for (const [path, body] of [
      ['/account/keys', {}],
      ['/write/workspace/new', { name: uniqueName('workspace') }],
      ['/write/add-workspace-member', { workspaceName, userName: organization.userName, role: 'owner' }],
      ['/admin/users', { userName: uniqueName('user') }],
      ['/webhooks/test', { workspaceName, url: 'https://hook.invalid/' }],
    ] as const) {
      expectRefusal(await client.post(path, body), 403, 8000152, message)
    }
  })

  it('of a project logs to it, makes no other, and reaches nothing else, by any client', async () => {
    const { workspaceName } = organization
    const [projectName, otherName] = [uniqueName('project'), uniqueName('other')]
    const experimentKey = await admin.createExperiment({ projectName })
    const otherKey = await admin.createExperiment({ projectName: otherName })
    const { client } = await makeKey({ scope: 'write', workspaceName, projectName })
    expect((await client.post('/write/experiment/create', { workspaceName, projectName })).status).toBe(200)
    const point = { metricName: 'loss', metricValue: 1, step: 1 }
    expect((await client.post('/write/experiment/metric', { experimentKey, ...point })).status).toBe(200)
    const message = `This API key is for the project "${projectName}" of "${workspaceName}" only: use a key without that restriction.`
    const refuse = async (answer: ReturnType<typeof client.get>) => expectRefusal(await answer, 403, 8000151, message)
    await refuse(client.post('/write/experiment/metric', { experimentKey: otherKey, ...point }))
    await refuse(client.post('/write/experiment/create', { workspaceName, projectName: otherName }))
    await refuse(client.post('/write/experiment/create', { workspaceName, projectName: uniqueName('new') }))
    await refuse(client.get(`/experiment/metadata?experimentKey=${otherKey}`))
    await refuse(client.get(`/mpm/v2/models?workspaceName=${workspaceName}`))
    const { projects } = (await client.get(`/projects?workspaceName=${workspaceName}`)).body
    expect((projects as { projectName: string }[]).map((it) => it.projectName)).toEqual([projectName])
    expect((await client.get('/workspaces')).body.workspaceNames).toEqual([workspaceName])
    const byName = (name: string) => `/api/2.0/mlflow/experiments/get-by-name?experiment_name=${name}`
    expect((await client.get(byName(projectName))).status).toBe(200)
    expect((await client.get(byName(otherName))).status).toBe(404)
    expect((await client.post('/api/2.0/mlflow/experiments/create', { name: uniqueName('new') })).status).toBe(403)
  })

  it('of a workspace owns it like its user, and sees no other, public or not', async () => {
    const other = await organization.createWorkspace(uniqueName('other'))
    const fields = { workspaceName: other, projectName: uniqueName('public'), projectDescription: '', isPublic: true }
    const { projectId } = (await admin.post('/write/project/create', fields)).body
    const { workspaceName } = organization
    const { client } = await makeKey({ workspaceName })
    expect((await client.get('/workspaces')).body.workspaceNames).toEqual([workspaceName])
    expect((await client.get(`/workspaces/members?workspaceName=${workspaceName}`)).body.mayManage).toBe(true)
    expectRefusal(await client.get(`/project?projectId=${projectId}`), 403, 8000151, /is for the workspace ".+" only/)
    expectRefusal(await client.post('/account/keys', {}), 403, 8000151, /is for the workspace/)
    expectRefusal(await client.get('/admin/users'), 403, 8000151, /is for the workspace/)
  })

  it('of a viewer, an editor or an auditor never may do more than its user', async () => {
    const userName = uniqueName('viewer')
    const whole = organization.as(await organization.createColleague(userName))
    const { workspaceName } = organization
    await admin.post('/write/add-workspace-member', { workspaceName, userName, role: 'viewer' })
    const made = await whole.post('/account/keys', { scope: 'write', workspaceName })
    const client = organization.as(made.body.apiKey as string)
    const create = () => client.post('/write/experiment/create', { workspaceName, projectName: 'project' })
    expectRefusal(await create(), 403, 8000150, /needs the role editor or owner/)
    await admin.post('/write/add-workspace-member', { workspaceName, userName, role: 'editor' })
    expect((await create()).status).toBe(200)
    await admin.post('/write/remove-workspace-member', { workspaceName, userName })
    expect((await create()).status).toBe(400)
  })

  it('ends by itself, with the sessions that it opened, in every process and on the fast path', async () => {
    const other = await openTestService()
    try {
      const experimentKey = await admin.createExperiment()
      const { apiKey, keyId, client } = await makeKey({ expiresAt: Date.now() + 3_600_000 })
      const signedIn = await fetch(`${organization.url}/session`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ apiKey }),
      })
      const cookie = signedIn.headers.get('set-cookie')?.split(';')[0] ?? ''
      const bySession = async () => (await fetch(`${organization.url}/session`, { headers: { cookie } })).status
      const elsewhere = () => other.client.get('/account-details', { apiKey })
      const point = { experimentKey, metricName: 'loss', metricValue: 1, step: 1 }
      const log = () => client.post('/write/experiment/metric', point)
      for (const status of [(await log()).status, (await elsewhere()).status, await bySession()])
        expect(status).toBe(200)

      // The end comes closer, as if the clock had moved on: every process is told of the change.
      await database.row(`UPDATE api_keys SET expires_at = now() - interval '1 second' WHERE id = $1`, [keyId])
      await eventually(async () => expect((await elsewhere()).status).toBe(401), 1_000)
      await eventually(async () => expect((await log()).status).toBe(401), 1_000)
      await eventually(async () => expect(await bySession()).toBe(401), 1_000)
      expectRefusal(await log(), 401, 90212, /^This API key ended at 20\d\d-.+Z: make another one\.$/)
      expectRefusal(await elsewhere(), 401, 90212, /^This API key ended at/)
    } finally {
      await other.close()
    }
  })

  it('is refused at its end although nothing tells the processes', async () => {
    const { client } = await makeKey({ expiresAt: Date.now() + 2_000 })
    expect((await client.get('/account-details')).status).toBe(200)
    await eventually(async () => expect((await client.get('/account-details')).status).toBe(401))
  })

  it('of a service account is made with the same fields, by admins', async () => {
    const name = uniqueName('account')
    await organization.createAccount(name)
    const { workspaceName } = organization
    const path = `/write/service-account/${name}/create-api-key`
    const made = await admin.post(path, { name: 'cluster', scope: 'write', workspaceName })
    const client = organization.as(made.body.apiKey as string)
    expect((await client.post('/write/experiment/create', { workspaceName, projectName: 'project' })).status).toBe(200)
    const keys = (await admin.get('/admin/keys')).body.keys as Record<string, unknown>[]
    expect(keys.find((it) => it.name === 'cluster' && it.userName === name)).toMatchObject({
      scope: 'write',
      workspaceName,
      createdBy: organization.userName,
    })
    expectRefusal(await admin.post(path, { workspaceName: 'none' }), 400, codes.workspaceUnknown, /^workspaceName: /)
    const project = { workspaceName, projectName: 'none' }
    expectRefusal(await admin.post(path, project), 400, codes.projectUnknown, /^projectName: the workspace ".+" has no/)
  })
})

async function projectOf(experimentKey: string) {
  const { body } = await admin.get(`/experiment/metadata?experimentKey=${experimentKey}`)
  return { projectId: body.projectId, rulesTree: null }
}
