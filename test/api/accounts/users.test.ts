import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../../kit/eventually.ts'
import { uniqueName } from '../../kit/service.ts'
import { codes, expectRefusal } from '../http-error.ts'
import { type Organization, openOrganization } from './organization.ts'

let organization: Organization
let admin: Organization['admin']
beforeAll(async () => {
  organization = await openOrganization()
  admin = organization.admin
})
afterAll(() => organization?.close())

type ListedUser = { userName: string; isAdmin: boolean; defaultWorkspaceName: string; lastActivityAt: number | null }
const list = async () => (await admin.get('/admin/users')).body.users as ListedUser[]
const find = async (userName: string) => (await list()).find((it) => it.userName === userName)
const remove = (userName: string, client = admin) => client.send('DELETE', `/admin/users/${userName}`, undefined)
const setAdmin = (userName: string, isAdmin: boolean, client = admin) =>
  client.send('PUT', `/admin/users/${userName}`, JSON.stringify({ isAdmin }))
const statusOf = async (apiKey: string, path = '/account-details') => (await organization.as(apiKey).get(path)).status

describe('admin/users', () => {
  it('creates a user with a workspace, who can then use a new key', async () => {
    const userName = uniqueName('colleague')

    const answer = await admin.post('/admin/users', { userName })

    expect(answer.body).toEqual({
      msg: 'User created',
      userName,
      defaultWorkspaceName: userName,
      code: 200,
      data: null,
      sdk_error_code: 0,
    })
    expect(await find(userName)).toEqual({
      userName,
      kind: 'user',
      role: 'member',
      isAdmin: false,
      workspaceRole: null,
      provider: null,
      isSuspended: false,
      defaultWorkspaceName: userName,
      authorizedWorkspaces: null,
      createdAt: expect.any(Number),
      lastActivityAt: null,
    })
    const key = await admin.post('/admin/users/keys', { userName })
    expect(key.body).toMatchObject({ apiKey: expect.stringMatching(/^svc_\w{49}$/), keyId: expect.any(String) })
    const client = organization.as(key.body.apiKey as string, userName)
    await client.createExperiment()
    expect((await client.get('/admin/users')).status).toBe(403)
    await eventually(async () => expect((await find(userName))?.lastActivityAt).toEqual(expect.any(Number)))
  })

  it('adds a user to an existing workspace, and makes it the owner of a new one', async () => {
    const [member, owner] = [uniqueName('member'), uniqueName('owner')]
    const made = uniqueName('made')
    const memberKey = await organization.createColleague(member, { workspaceName: organization.workspaceName })
    const ownerKey = await organization.createColleague(owner, { workspaceName: made })

    expect((await organization.as(memberKey).get('/workspaces')).body.workspaceNames).toEqual([
      organization.workspaceName,
    ])
    const add = (key: string, workspaceName: string) =>
      organization.as(key).post('/write/add-workspace-member', { workspaceName, userName: organization.userName })
    expect((await add(memberKey, organization.workspaceName)).status).toBe(403)
    expect((await add(ownerKey, made)).status).toBe(200)
  })

  it('never adds a user to a workspace that happens to have the same name', async () => {
    const userName = await organization.createWorkspace(uniqueName('same'))
    const answer = await admin.post('/admin/users', { userName })
    expectRefusal(answer, 400, codes.workspaceExists, /^workspaceName: there is a workspace ".+" already; name it/)
    expect(await find(userName)).toBeUndefined()
  })

  it('a name that is taken is refused; one of another organization is free', async () => {
    const userName = uniqueName('colleague')
    await organization.createColleague(userName)
    const again = await admin.post('/admin/users', { userName })
    expectRefusal(again, 400, 8000072, /^userName: your organization has a user or service account/)
    expect((await organization.stranger.post('/admin/users', { userName })).status).toBe(200)
    expect((await organization.stranger.get('/admin/users')).text).not.toContain(organization.userName)
  })

  it('of many requests for one name at the same time exactly one makes it', async () => {
    const userName = uniqueName('race')
    const answers = await Promise.all(Array.from({ length: 8 }, () => admin.post('/admin/users', { userName })))
    expect(answers.map((it) => it.status).toSorted()).toEqual([200, ...Array(7).fill(400)])
  })
})

describe('a user that is removed', () => {
  it('is rejected with all its keys, and its data keeps its name', async () => {
    const userName = uniqueName('leaver')
    const key = await organization.createColleague(userName)
    const projectName = uniqueName('project')
    const experimentKey = await organization.as(key, userName).createExperiment({ projectName })

    expect((await remove(userName)).body).toEqual({ msg: 'Deleted', code: 200, data: null, sdk_error_code: 0 })

    await eventually(async () => expect(await statusOf(key)).toBe(401), 1_000)
    expect(await find(userName)).toBeUndefined()
    // Its workspace would have no owner: it is the admin's now.
    const metadata = await admin.get(`/experiment/metadata?experimentKey=${experimentKey}`)
    expect(metadata.body).toMatchObject({ userName, workspaceName: userName })
    const add = { workspaceName: userName, userName: organization.userName, admin: true }
    expect((await admin.post('/write/add-workspace-member', add)).status).toBe(200)
  })

  it('leaves a workspace that has another owner to that one', async () => {
    const userName = uniqueName('leaver')
    const other = uniqueName('other')
    const key = await organization.createColleague(userName)
    const otherKey = await organization.createColleague(other)
    await organization
      .as(key)
      .post('/write/add-workspace-member', { workspaceName: userName, userName: other, admin: true })
    await remove(userName)
    expect((await admin.get('/workspaces')).body.workspaceNames).not.toContain(userName)
    expect((await organization.as(otherKey).get('/workspaces')).body.workspaceNames).toContain(userName)
  })

  it.each([
    ['remove', (name: string) => remove(name)],
    ['change', (name: string) => setAdmin(name, true)],
    ['make a key for', (userName: string) => admin.post('/admin/users/keys', { userName })],
  ])('to %s one that is absent, foreign or a service account answers the same', async (_, act) => {
    const [foreign, account] = [uniqueName('foreign'), uniqueName('account')]
    await organization.stranger.post('/admin/users', { userName: foreign })
    await organization.createAccount(account)
    for (const userName of [uniqueName('absent'), foreign, account]) {
      expectRefusal(await act(userName), 400, 8000018, `userName: your organization has no user "${userName}"`)
    }
  })
})

describe('the admins of an organization', () => {
  let own: Organization
  beforeEach(async () => {
    own = await openOrganization()
    return () => own.close()
  })

  it('are granted and revoked by each other, at once also in a process that has cached the key', async () => {
    const userName = uniqueName('colleague')
    const key = await own.createColleague(userName)
    const see = async () => (await own.as(key).get('/admin/keys')).status
    expect(await see()).toBe(403)
    expect((await setAdmin(userName, true, own.admin)).body.msg).toBe('Saved')
    await eventually(async () => expect(await see()).toBe(200), 1_000)
    await setAdmin(userName, false, own.admin)
    await eventually(async () => expect(await see()).toBe(403), 1_000)
  })

  it('the last one can be neither removed nor demoted', async () => {
    const message = `userName: "${own.userName}" is the only admin; make somebody else an admin first`
    expectRefusal(await remove(own.userName, own.admin), 400, 8000074, message)
    expectRefusal(await setAdmin(own.userName, false, own.admin), 400, 8000074, message)
  })

  it('two that remove each other concurrently leave one', async () => {
    const userName = uniqueName('rival')
    const key = await own.createColleague(userName, { isAdmin: true })
    const [mine, theirs] = await Promise.all([remove(userName, own.admin), remove(own.userName, own.as(key))])
    // Whoever came second had no key any more.
    expect([mine.status, theirs.status].toSorted()).toEqual([200, 401])
  })
})

describe('a key that is deleted by its id', () => {
  it('is rejected, whoever owns it', async () => {
    const userName = uniqueName('colleague')
    const key = await organization.createColleague(userName)
    expect(await statusOf(key)).toBe(200)
    const { keys } = (await admin.get('/admin/keys')).body as { keys: { keyId: string; userName: string }[] }
    const { keyId } = keys.find((it) => it.userName === userName) as { keyId: string }

    const foreign = await organization.stranger.send('DELETE', `/admin/keys/${keyId}`, undefined)
    const absent = await organization.stranger.send('DELETE', '/admin/keys/none', undefined)
    expectRefusal(foreign, 400, 8000073, 'keyId: your organization has no such key; see GET /admin/keys')
    expect(foreign.text).toBe(absent.text)
    expect(await statusOf(key)).toBe(200)

    expect((await admin.send('DELETE', `/admin/keys/${keyId}`, undefined)).status).toBe(200)
    await eventually(async () => expect(await statusOf(key)).toBe(401), 1_000)
    expect((await admin.send('DELETE', `/admin/keys/${keyId}`, undefined)).status).toBe(400)
  })
})

describe('members of a workspace', () => {
  it('are listed to those who use it, removed by its owners and admins, and one owner stays', async () => {
    const [person, workspaceName] = [uniqueName('person'), await organization.createWorkspace(uniqueName('workspace'))]
    await admin.post('/admin/users', { userName: person })
    const { apiKey } = (await admin.post('/admin/users/keys', { userName: person })).body as { apiKey: string }
    const colleague = organization.as(apiKey, workspaceName)
    const listed = `/workspaces/members?workspaceName=${workspaceName}`
    const drop = (userName: string, client = admin) =>
      client.post('/write/remove-workspace-member', { workspaceName, userName })

    expectRefusal(await colleague.get(listed), 400, codes.workspaceUnknown, /no workspace/)
    await admin.post('/write/add-workspace-member', { workspaceName, userName: person, admin: false })
    expect((await colleague.get(listed)).body).toEqual({
      members: [
        { userName: organization.userName, kind: 'user', role: 'owner', isOwner: true },
        { userName: person, kind: 'user', role: 'editor', isOwner: false },
      ],
      mayManage: false,
    })
    expect((await drop(organization.userName, colleague)).status).toBe(403)
    expectRefusal(await drop(organization.userName), 400, 8000114, /is the only owner/)
    expectRefusal(await drop('nobody'), 400, 8000018, /no person "nobody" is a member/)
    expect((await drop(person)).body.msg).toBe('Removed')
    expect((await colleague.get(listed)).status).toBe(400)
    expect((await admin.get(listed)).body).toMatchObject({ members: [{ isOwner: true }], mayManage: true })
  })
})

describe('roles', () => {
  it('of a workspace are given by its owners and admins, and hold at once', async () => {
    const workspaceName = await organization.createWorkspace(uniqueName('workspace'))
    const projectName = uniqueName('project')
    const [person, second] = [uniqueName('person'), uniqueName('second')]
    const client = organization.as(await organization.createColleague(person), workspaceName)
    const set = (fields: Record<string, unknown>) =>
      admin.post('/write/add-workspace-member', { workspaceName, userName: person, ...fields })
    const create = () => client.post('/write/experiment/create', { workspaceName, projectName })

    const roleAfter = async (fields: Record<string, unknown>) => {
      expect((await set(fields)).body.msg).toBe('Saved')
      const { members } = (await admin.get(`/workspaces/members?workspaceName=${workspaceName}`)).body
      return (members as { userName: string; role: string }[]).find((it) => it.userName === person)?.role
    }

    expect(await roleAfter({ role: 'viewer' })).toBe('viewer')
    expectRefusal(await create(), 403, 8000150, /needs the role editor or owner in the workspace/)
    // As clients that know two roles only send it: a member keeps the role.
    expect(await roleAfter({ admin: false })).toBe('viewer')
    expect(await roleAfter({ role: 'editor' })).toBe('editor')
    expect((await create()).status).toBe(200)
    expect(await roleAfter({ admin: true })).toBe('owner')
    expect(await roleAfter({ admin: false })).toBe('owner')

    await organization.createColleague(second)
    const add = { workspaceName, userName: second, role: 'viewer' }
    expect((await client.post('/write/add-workspace-member', add)).status).toBe(200)
    expect((await client.post('/write/remove-workspace-member', { ...add, role: undefined })).status).toBe(200)
    const demote = { workspaceName, userName: organization.userName, role: 'editor' }
    expect((await client.post('/write/add-workspace-member', demote)).status).toBe(200)
    expectRefusal(await set({ role: 'viewer' }), 400, 8000114, /is the only owner/)
    expectRefusal(await set({ role: 'boss' }), 400, codes.badRequest, /^role: must be one of viewer, editor, owner/)
  })

  it('a viewer is refused every write of points, with a sentence that names the role', async () => {
    const experimentKey = await admin.createExperiment()
    const viewer = organization.as(await organization.createColleague(uniqueName('viewer')))
    const userName = (await viewer.get('/account-details')).body.userName as string
    const { workspaceName } = organization
    await admin.post('/write/add-workspace-member', { workspaceName, userName, role: 'viewer' })
    expect((await viewer.get(`/experiment/metadata?experimentKey=${experimentKey}`)).status).toBe(200)
    const point = { experimentKey, metricName: 'loss', metricValue: 1, step: 1 }
    // On the fast path, and on Node's server.
    for (const headers of [{}, { prefer: 'wait=0' }] as Record<string, string>[]) {
      const refused = await viewer.post('/write/experiment/metric', point, { headers })
      expectRefusal(refused, 403, 90210, /needs the role editor or owner in the workspace/)
      expect(refused.body.data).toBeNull()
    }
    const event = { workspaceName, modelName: 'net', predictionId: 'a', inputFeatures: { age: 1 } }
    expectRefusal(await viewer.post('/mpm/v2/events/batch', { data: [event] }), 403, 8000150, /needs the role editor/)
  })

  it('of the organization are given by admins: an auditor reads all of it, and changes nothing', async () => {
    const userName = uniqueName('auditor')
    const auditor = organization.as(await organization.createColleague(userName, { role: 'auditor' }))
    const setRole = (role: string) => admin.send('PUT', `/admin/users/${userName}`, JSON.stringify({ role }))
    expect(await find(userName)).toMatchObject({ role: 'auditor', isAdmin: false })
    const experimentKey = await admin.createExperiment()
    expect((await auditor.get(`/experiment/metadata?experimentKey=${experimentKey}`)).status).toBe(200)
    expect((await auditor.get('/admin/audit')).status).toBe(200)
    expect((await auditor.post('/admin/users', { userName: uniqueName('x') })).status).toBe(403)
    expect((await setRole('member')).status).toBe(200)
    await eventually(async () => expect((await auditor.get('/admin/audit')).status).toBe(403))
    expect((await auditor.get(`/experiment/metadata?experimentKey=${experimentKey}`)).status).toBe(400)
    expect((await setRole('admin')).status).toBe(200)
    await eventually(async () => expect((await auditor.get('/admin/audit')).status).toBe(200))
    expectRefusal(await setRole('king'), 400, codes.badRequest, /^role: must be one of member, auditor, admin/)
  })
})
