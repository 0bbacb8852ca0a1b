import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { aPoint } from '../../kit/builders.ts'
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

const path = '/write/service-account'
const keyForm = /^svc_[0-9A-Za-z]{49}$/
const envelope = { code: 200, data: null, sdk_error_code: 0 }
const accountUnknown = 8000071
const apiKeyUnknown = 8000073
const accountRestricted = 7000023

const whoIs = async (apiKey: unknown) => (await organization.as(apiKey as string).get('/account-details')).status
/** A key of which the service said that it is revoked was told to this process too, a moment later at most. */
const expectRefused = (apiKey: unknown) => eventually(async () => expect(await whoIs(apiKey)).toBe(401), 1_000)
const createKey = async (name: string) => (await admin.post(`${path}/${name}/create-api-key`, {})).body.apiKey as string
const deleteKey = (name: string, apiKey: unknown) => admin.post(`${path}/${name}/delete-api-key`, { apiKey })

describe('service-account', () => {
  it('answers the record of an account that may use every workspace of the organization, and its key works', async () => {
    const name = uniqueName('account')
    const before = Date.now()

    const answer = await admin.post(path, organization.account(name))

    expect(answer.status).toBe(200)
    expect(answer.headers.get('cache-control')).toBe('no-store')
    expect(answer.body).toEqual({
      ...envelope,
      msg: 'Service account created',
      apiKey: expect.stringMatching(keyForm),
      authorizedWorkspaces: null,
      createdAt: expect.any(Number),
      createdBy: organization.userName,
      defaultWorkspaceName: organization.workspaceName,
      deleted: false,
      hasGlobalAccess: true,
      lastActivityAt: answer.body.createdAt,
      name,
      organizationId: organization.organizationId,
    })
    expect(Number.isInteger(answer.body.createdAt)).toBe(true)
    expect(Math.abs((answer.body.createdAt as number) - before)).toBeLessThan(60_000)
    const details = await organization.as(answer.body.apiKey as string).get('/account-details')
    expect(details.body).toEqual({ userName: name, defaultWorkspaceName: organization.workspaceName })
  })

  it('an unrestricted account uses workspaces that nobody added it to, also those made later', async () => {
    const account = await organization.createAccount(uniqueName('account'))
    const workspaceName = await organization.createWorkspace(uniqueName('later'))
    const client = organization.as(account.apiKey as string, workspaceName)

    expect((await client.get('/workspaces')).body.workspaceNames).toContain(workspaceName)
    const experimentKey = await client.createExperiment()
    expect((await client.post('/write/experiment/metric', { experimentKey, ...aPoint() })).status).toBe(200)
    expect(await client.readPoints(experimentKey, 'loss', 1)).toHaveLength(1)
    expect((await admin.get(`/experiment/metadata?experimentKey=${experimentKey}`)).body.userName).toBe(account.name)
  })

  it('a restricted account can use only its workspaces, and errors name them', async () => {
    const [inside, outside] = [uniqueName('inside'), uniqueName('outside')]
    await organization.createWorkspace(inside)
    await organization.createWorkspace(outside)
    const account = await organization.createAccount(uniqueName('account'), {
      teamName: inside,
      authorizedWorkspaces: [inside, inside],
    })
    expect(account).toMatchObject({
      authorizedWorkspaces: [inside],
      hasGlobalAccess: false,
      defaultWorkspaceName: inside,
    })
    const client = organization.as(account.apiKey as string, inside)
    expect((await client.get('/workspaces')).body.workspaceNames).toEqual([inside])
    const experimentKey = await client.createExperiment()
    expect((await client.post('/write/experiment/metric', { experimentKey, ...aPoint() })).status).toBe(200)

    const theirs = { workspaceName: outside, projectName: 'project' }
    const foreignKey = await admin.createExperiment(theirs)
    const refused = [
      await client.post('/write/experiment/create', theirs),
      await client.post('/write/experiment/metric', { experimentKey: foreignKey, ...aPoint() }),
      await client.post('/write/experiment/parameter', {
        experimentKey: foreignKey,
        parameterName: 'a',
        parameterValue: 1,
      }),
      await client.get(`/experiment/metadata?experimentKey=${foreignKey}`),
      await client.get(`/write/experiment/delete?experimentKey=${foreignKey}`),
      await client.get(`/projects?workspaceName=${outside}`),
      await client.get(`/project?${new URLSearchParams(theirs)}`),
      await client.send('POST', `/write/experiment/upload-asset?experimentKey=${foreignKey}&fileName=a`, 'bytes', {
        headers: { 'content-type': 'text/plain' },
      }),
      await client.post('/write/workspace/new', { name: uniqueName('own') }),
    ]
    for (const answer of refused) {
      expectRefusal(answer, 403, accountRestricted, /^This service account is restricted to other workspaces: /)
    }
    // Another organization's are not there, as for everybody else.
    const absent = await client.get(`/projects?workspaceName=${organization.strangersWorkspace}`)
    expectRefusal(absent, 400, codes.workspaceUnknown, /^There is no workspace/)
    const nowhere = await client.post('/write/experiment/metric', { experimentKey: '0'.repeat(32), ...aPoint() })
    expectRefusal(nowhere, 400, codes.experimentUnknown, /^There is no experiment/)
  })

  it('a restricted account can read but not change experiments symlinked into its workspace', async () => {
    const inside = await organization.createWorkspace(uniqueName('inside'))
    const outside = await organization.createWorkspace(uniqueName('outside'))
    const target = { targetWorkspaceName: inside, targetProjectName: 'project' }
    await admin.createExperiment({ workspaceName: inside, projectName: 'project' })
    const experimentKey = await admin.createExperiment({ workspaceName: outside, projectName: 'project' })
    await admin.post('/write/experiment/move', { ...target, experimentKeys: [experimentKey], symlink: true })
    const { apiKey } = await organization.createAccount(uniqueName('account'), { authorizedWorkspaces: [inside] })
    const client = organization.as(apiKey as string, inside)

    expect((await client.get(`/experiment/metadata?experimentKey=${experimentKey}`)).body).toMatchObject({
      workspaceName: outside,
    })
    for (const answer of [
      await client.post('/write/experiment/metric', { experimentKey, ...aPoint() }),
      await client.post('/write/experiment/tags', { experimentKey, addedTags: ['a'] }),
      await client.get(`/write/experiment/archive?experimentKey=${experimentKey}`),
    ]) {
      expectRefusal(answer, 403, accountRestricted, /^This service account is restricted/)
    }
  })

  it('an account with an empty list may use no workspace at all', async () => {
    const account = await organization.createAccount(uniqueName('account'), { authorizedWorkspaces: [] })
    expect(account).toMatchObject({ authorizedWorkspaces: [], hasGlobalAccess: false })
    expect((await organization.as(account.apiKey as string).get('/workspaces')).body).toEqual({ workspaceNames: [] })
  })

  it('a restricted account cannot be added to a further workspace', async () => {
    const name = uniqueName('account')
    await organization.createAccount(name, { authorizedWorkspaces: [organization.workspaceName] })
    const workspaceName = await organization.createWorkspace(uniqueName('further'))
    const answer = await admin.post('/write/add-workspace-member', { userName: name, workspaceName, admin: true })
    expectRefusal(answer, 400, 8000018, `userName: your organization has no user "${name}".`)
  })

  it.each([
    ['teamName', { teamName: 'nowhere' }],
    ['authorizedWorkspaces[1]', { authorizedWorkspaces: ['<own>', 'nowhere'] }],
  ])('a workspace that the organization does not have is refused by name: %s', async (field, fields) => {
    const own = (it: unknown) => (it === '<own>' ? organization.workspaceName : it)
    const given = Object.fromEntries(
      Object.entries(fields).map(([name, it]) => [name, Array.isArray(it) ? it.map(own) : it]),
    )
    const name = uniqueName('account')
    const absent = await admin.post(path, organization.account(name, given))
    expectRefusal(absent, 400, codes.workspaceUnknown, `${field}: your organization has no workspace "nowhere"`)
    // One of another organization answers the same but for the name, and nothing was kept.
    const foreign = JSON.parse(JSON.stringify(given).replace('nowhere', organization.strangersWorkspace))
    const answer = await admin.post(path, organization.account(name, foreign))
    expect(answer.text).toBe(absent.text.replace('nowhere', organization.strangersWorkspace))
    await organization.createAccount(name)
  })

  it('a foreign and an absent organization answer the same', async () => {
    const there = ((await organization.stranger.get('/admin/users')).body as { organizationName: string })
      .organizationName
    const answers = []
    for (const organizationName of [there, uniqueName('absent')]) {
      answers.push(await admin.post(path, organization.account(uniqueName('account'), { organizationName })))
    }
    expectRefusal(answers[0] as never, 400, 8000070, /^organizationName: there is no such organization/)
    expect(answers[0]?.text).toBe(answers[1]?.text)
  })

  it('a name that is taken in the organization is refused; in another one it is free', async () => {
    const name = uniqueName('account')
    await organization.createAccount(name)
    for (const taken of [name, organization.userName]) {
      const again = await admin.post(path, organization.account(taken))
      expectRefusal(again, 400, 8000072, /^name: your organization has a user or service account ".+" already/)
    }
    const { organizationName } = (await organization.stranger.get('/admin/users')).body
    const elsewhere = { name, teamName: organization.strangersWorkspace, organizationName }
    expect((await organization.stranger.post(path, elsewhere)).status).toBe(200)
  })

  it('of many requests for one name at the same time exactly one makes it', async () => {
    const body = organization.account(uniqueName('race'))
    const answers = await Promise.all(Array.from({ length: 8 }, () => admin.post(path, body)))
    expect(answers.map((it) => it.status).toSorted()).toEqual([200, ...Array(7).fill(400)])
  })

  it('GET on its path answers 405, and so does GET on the path of one of them', async () => {
    for (const [it, allow] of [
      [path, 'POST'],
      [`${path}/some%20name`, 'DELETE'],
      [`${path}/some%20name/create-api-key`, 'POST'],
    ]) {
      const answer = await admin.get(it as string)
      expect([answer.status, answer.headers.get('allow')], it).toEqual([405, allow])
    }
    expect((await admin.get(`${path}/a/b/c`)).status).toBe(404)
  })
})

describe('keys of a service account', () => {
  it('are created in the requested number, and each works; createdAt has a fraction', async () => {
    const name = uniqueName('account')
    const first = (await organization.createAccount(name)).apiKey
    for (let count = 0; count < 3; count++) {
      const answer = await admin.post(`${path}/${name}/create-api-key`, {})
      expect(answer.body).toEqual({
        ...envelope,
        msg: 'Ok',
        apiKey: expect.stringMatching(keyForm),
        createdAt: expect.any(Number),
      })
      expect(answer.headers.get('cache-control')).toBe('no-store')
      expect(answer.text).toMatch(/"createdAt":\d{13}\.\d+/)
      expect(await whoIs(answer.body.apiKey)).toBe(200)
    }
    expect(await whoIs(first)).toBe(200)
  })

  it('can be made without a body', async () => {
    const name = uniqueName('account')
    await organization.createAccount(name)
    expect((await admin.send('POST', `${path}/${name}/create-api-key`, undefined)).status).toBe(200)
  })

  it('a deleted one is rejected, and the others keep working', async () => {
    const name = uniqueName('account')
    const first = (await organization.createAccount(name)).apiKey
    const second = await createKey(name)
    expect(await whoIs(first)).toBe(200)

    const answer = await deleteKey(name, first)

    expect([answer.status, answer.body]).toEqual([200, { ...envelope, msg: 'Deleted' }])
    await expectRefused(first)
    expect(await whoIs(second)).toBe(200)
    const again = await deleteKey(name, first)
    expectRefusal(again, 400, apiKeyUnknown, `apiKey: the service account "${name}" has no such key`)
    expect(again.text).not.toContain(first as string)
  })

  it('of another account, of a user and unknown ones answer the same, and keep working', async () => {
    const name = uniqueName('account')
    await organization.createAccount(name)
    const others = [(await organization.createAccount(uniqueName('other'))).apiKey, organization.apiKey]
    const answers = []
    for (const key of [...others, 'svc_nobody']) answers.push((await deleteKey(name, key)).text)
    expect(new Set(answers).size).toBe(1)
    for (const key of others) expect(await whoIs(key)).toBe(200)
  })

  it('of concurrent deletions of one key exactly one succeeds', async () => {
    const name = uniqueName('account')
    const key = (await organization.createAccount(name)).apiKey
    const answers = await Promise.all(Array.from({ length: 6 }, () => deleteKey(name, key)))
    expect(answers.map((it) => it.status).toSorted()).toEqual([200, ...Array(5).fill(400)])
  })

  it('rotate replaces all by a new one', async () => {
    const name = uniqueName('account')
    const old = [(await organization.createAccount(name)).apiKey, await createKey(name)]

    const answer = await admin.get(`/write/api/rotate?userName=${name}`)

    expect(answer.body).toEqual({ ...envelope, msg: 'Ok', apiKey: expect.stringMatching(keyForm) })
    expect(await whoIs(answer.body.apiKey)).toBe(200)
    for (const key of old) await expectRefused(key)
  })

  it('concurrent rotations leave one key', async () => {
    const name = uniqueName('account')
    await organization.createAccount(name)
    const answers = await Promise.all(Array.from({ length: 6 }, () => admin.get(`/write/api/rotate?userName=${name}`)))
    expect(answers.map((it) => it.status)).toEqual(Array(6).fill(200))
    const { keys } = (await admin.get('/admin/keys')).body as { keys: { userName: string }[] }
    expect(keys.filter((it) => it.userName === name)).toHaveLength(1)
    await eventually(async () => {
      const statuses = await Promise.all(answers.map((it) => whoIs(it.body.apiKey)))
      expect(statuses.toSorted()).toEqual([200, ...Array(5).fill(401)])
    })
  })
})

describe('a service account that is deleted', () => {
  it('is rejected with all its keys, is absent, and its data keeps its name', async () => {
    const name = uniqueName('account')
    const keys = [(await organization.createAccount(name)).apiKey, await createKey(name)]
    const experimentKey = await organization.as(keys[0] as string).createExperiment()

    const answer = await admin.send('DELETE', `${path}/${name}`, undefined)

    expect([answer.status, answer.body]).toEqual([200, { ...envelope, msg: 'Deleted' }])
    for (const key of keys) await expectRefused(key)
    const metadata = await admin.get(`/experiment/metadata?experimentKey=${experimentKey}`)
    expect(metadata.body.userName).toBe(name)
    const { users } = (await admin.get('/admin/users')).body as { users: { userName: string }[] }
    expect(users.map((it) => it.userName)).not.toContain(name)
    // Its name is free again, and its old keys stay refused.
    await organization.createAccount(name)
    expect(await whoIs(keys[0])).toBe(401)
  })

  it('while keys are created for it ends up without a valid key', async () => {
    const name = uniqueName('account')
    await organization.createAccount(name)
    const [removed, ...made] = await Promise.all([
      admin.send('DELETE', `${path}/${name}`, undefined),
      ...Array.from({ length: 6 }, () => admin.post(`${path}/${name}/create-api-key`, {})),
    ])
    expect(removed?.status).toBe(200)
    for (const it of made) if (it.status === 200) await expectRefused(it.body.apiKey)
  })
})

it.each<[string, string, (name: string) => [string, string, string | undefined]]>([
  ['create-api-key', 'accountName', (name) => ['POST', `${path}/${name}/create-api-key`, '{}']],
  ['delete-api-key', 'accountName', (name) => ['POST', `${path}/${name}/delete-api-key`, '{"apiKey":"x"}']],
  ['DELETE', 'accountName', (name) => ['DELETE', `${path}/${name}`, undefined]],
  ['rotate', 'userName', (name) => ['GET', `/write/api/rotate?userName=${name}`, undefined]],
])('%s of an account that is absent, foreign, deleted or a person answers the same', async (_, field, toCall) => {
  const [absent, foreign, deleted] = [uniqueName('absent'), uniqueName('foreign'), uniqueName('deleted')]
  const { organizationName } = (await organization.stranger.get('/admin/users')).body
  const theirs = { name: foreign, teamName: organization.strangersWorkspace, organizationName }
  const foreignKey = (await organization.stranger.post(path, theirs)).body.apiKey
  await organization.createAccount(deleted)
  await admin.send('DELETE', `${path}/${deleted}`, undefined)
  for (const name of [absent, foreign, deleted, organization.userName]) {
    const answer = await admin.send(...toCall(name))
    expectRefusal(answer, 400, accountUnknown, `${field}: your organization has no service account "${name}"`)
  }
  expect(await whoIs(foreignKey)).toBe(200)
})

it('names of any characters work in a path', async () => {
  for (const name of ['a/b', 'ü %41 漢', '..%2f', 'x:y?z#w', '{accountName}'].map(uniqueName)) {
    await organization.createAccount(name)
    const key = await createKey(encodeURIComponent(name))
    const details = await organization.as(key).get('/account-details')
    expect(details.body.userName).toBe(name)
    const answer = await admin.send('DELETE', `${path}/${encodeURIComponent(name)}`, undefined)
    expect(answer.status, name).toBe(200)
  }
})

it('a name of any length beyond the limit is rejected with its field', async () => {
  for (const length of [101, 300, 3_000]) {
    const answer = await admin.send('DELETE', `${path}/${'x'.repeat(length)}`, undefined)
    expectRefusal(answer, 400, codes.badRequest, 'accountName: must have 100 characters or fewer')
  }
})

it('HEAD does not rotate keys: the new one would be lost', async () => {
  const name = uniqueName('account')
  const { apiKey } = await organization.createAccount(name)
  const answer = await admin.send('HEAD', `/write/api/rotate?userName=${name}`, undefined)
  expect([answer.status, answer.headers.get('allow')]).toEqual([405, 'GET'])
  expect(await whoIs(apiKey)).toBe(200)
})

it('its last activity is stored, in one statement for many requests', async () => {
  const name = uniqueName('account')
  const { apiKey, createdAt } = await organization.createAccount(name)
  const lastActivity = async () => {
    const { users } = (await admin.get('/admin/users')).body as {
      users: { userName: string; lastActivityAt: number; authorizedWorkspaces: null; kind: string }[]
    }
    return users.find((it) => it.userName === name)
  }
  expect(await lastActivity()).toMatchObject({ lastActivityAt: createdAt, kind: 'service account' })
  await Promise.all(Array.from({ length: 20 }, () => whoIs(apiKey)))
  await eventually(async () => {
    expect((await lastActivity())?.lastActivityAt).toBeGreaterThan(createdAt as number)
  })
})
