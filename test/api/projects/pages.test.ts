import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openDatabase } from '../../../store/postgres/database.ts'
import { createClient, type TestClient } from '../../kit/http/client.ts'
import { createUser, storesWith, uniqueName } from '../../kit/service.ts'
import { openTwoUsers, type TwoUsers } from '../accounts/two-users.ts'
import { codes, expectRefusal } from '../http-error.ts'

let service: TwoUsers
let client: TestClient
let workspaceName: string
beforeAll(async () => {
  service = await openTwoUsers()
  client = service.client
  workspaceName = service.workspaceName
})
afterAll(() => service?.close())

async function aProject(isPublic = false) {
  const projectName = uniqueName('project')
  const fields = { workspaceName, projectName, projectDescription: 'what for', isPublic }
  const { body } = await client.post('/write/project/create', fields)
  return { projectName, projectId: body.projectId as string }
}

const envelope = (msg: string) => ({ msg, code: 200, data: null, sdk_error_code: 0 })
const readProject = async (projectId: string) => (await client.get(`/project?projectId=${projectId}`)).body

describe('project/update', () => {
  it('changes the given fields, by id or by names, in the query or the body', async () => {
    const { projectId, projectName } = await aProject()
    const update = (query: string, body: unknown) => client.post(`/write/project/update${query}`, body)
    const byId = await update(`?projectId=${projectId}`, { newProjectDescription: 'another' })
    expect(byId.body).toEqual(envelope('Updated'))
    expect(await readProject(projectId)).toMatchObject({ projectName, projectDescription: 'another', isPublic: false })

    const names = new URLSearchParams({ workspaceName, projectName })
    expect((await update(`?${names}`, { isPublic: true })).body).toEqual(envelope('Updated'))
    expect((await update('', { projectId, newProjectName: `${projectName} new` })).body).toEqual(envelope('Updated'))
    const both = { workspaceName, projectName: `${projectName} new`, newProjectDescription: '' }
    expect((await update('', both)).body).toEqual(envelope('Updated'))
    expect(await readProject(projectId)).toMatchObject({
      projectName: `${projectName} new`,
      projectDescription: '',
      isPublic: true,
    })
  })

  it('rejects none or both of id and names, and a taken name', async () => {
    const [one, other] = [await aProject(), await aProject()]
    const none = await client.post('/write/project/update', { isPublic: true })
    expectRefusal(none, 400, codes.badRequest, /^Name the project by projectId alone, or by workspaceName/)
    const all = { projectId: one.projectId, workspaceName, projectName: one.projectName, isPublic: true }
    expectRefusal(await client.post('/write/project/update', all), 400, codes.badRequest, /^Name the project/)
    const taken = { projectId: one.projectId, newProjectName: other.projectName, newProjectDescription: 'not kept' }
    const message = new RegExp(`^newProjectName: the workspace ".*" has a project "${other.projectName}" already`)
    expectRefusal(await client.post('/write/project/update', taken), 400, codes.projectExists, message)
    expect(await readProject(one.projectId)).toMatchObject({
      projectName: one.projectName,
      projectDescription: 'what for',
    })
  })

  it('of concurrent renames to one name exactly one succeeds', async () => {
    const projects = await Promise.all(Array.from({ length: 6 }, () => aProject()))
    const newProjectName = uniqueName('wanted')
    const answers = await Promise.all(
      projects.map(({ projectId }) => client.post('/write/project/update', { projectId, newProjectName })),
    )
    expect(answers.map((it) => it.status).toSorted()).toEqual([200, 400, 400, 400, 400, 400])
  })
})

it('an archived project is listed as such, is logged to as before, and comes back as it was', async () => {
  const [one, other] = [await aProject(), await aProject()]
  const { projectName } = one
  const before = await readProject(one.projectId)
  const archive = (body: object) => client.post('/write/project/archive', body)
  const list = async (more = '') => {
    const { body } = await client.get(`/projects?workspaceName=${workspaceName}${more}`)
    const names = (body.projects as { projectName: string }[]).map((it) => it.projectName)
    return names.filter((it) => it === projectName || it === other.projectName)
  }
  expect((await archive({ projectId: one.projectId, archived: true })).body).toEqual(envelope('Updated'))
  expect(await readProject(one.projectId)).toEqual({ ...before, archived: true })
  expect((await list()).length).toBe(2)
  expect(await list('&archived=true')).toEqual([projectName])
  expect(await list('&archived=false')).toEqual([other.projectName])

  await client.createExperiment({ projectName })
  expect(await readProject(one.projectId)).toMatchObject({ archived: true, numberOfExperiments: 1 })
  expect((await archive({ workspaceName, projectName, archived: 'false' })).body).toEqual(envelope('Updated'))
  expect(await readProject(one.projectId)).toMatchObject({ archived: false })
  const missing = await archive({ projectId: one.projectId })
  expectRefusal(missing, 400, codes.badRequest, 'archived: is missing')
})

describe('project/delete', () => {
  const remove = (projectName: string, deleteAllExperiments: boolean) =>
    client.post('/write/project/delete', { workspaceName, projectName, deleteAllExperiments })
  const experiment = (key: string) => client.get(`/experiment/metadata?experimentKey=${key}`)

  it('moves its experiments to the uncategorized, or deletes them restorably', async () => {
    const [kept, gone] = [await aProject(), await aProject()]
    const keptKey = await client.createExperiment({ projectName: kept.projectName })
    const goneKey = await client.createExperiment({ projectName: gone.projectName })
    expect((await remove(kept.projectName, false)).body).toEqual(envelope('Deleted'))
    expect((await remove(gone.projectName, true)).body).toEqual(envelope('Deleted'))

    for (const { projectId } of [kept, gone]) {
      const answer = await client.get(`/project?projectId=${projectId}`)
      expectRefusal(answer, 400, codes.projectUnknown, /no such project/)
    }
    expect((await experiment(keptKey)).body).toMatchObject({ projectName: 'Uncategorized Experiments' })
    expectRefusal(await experiment(goneKey), 400, codes.experimentUnknown, /^There is no experiment/)
    await client.get(`/write/experiment/restore?experimentKey=${goneKey}`)
    expect((await experiment(goneKey)).body).toMatchObject({ projectName: 'Uncategorized Experiments' })
  })

  it('frees the name, and an empty project leaves nothing behind', async () => {
    const { projectName, projectId } = await aProject()
    await remove(projectName, false)
    const again = await client.post('/write/project/create', {
      workspaceName,
      projectName,
      projectDescription: '',
      isPublic: false,
    })
    expect(again.status).toBe(200)
    expect(again.body.projectId).not.toBe(projectId)
    expectRefusal(await remove('not there', true), 400, codes.projectUnknown, /no such project/)
  })

  const restore = (projectId: string, more: object = {}) =>
    client.post('/write/project/restore', { projectId, ...more })
  const placeOf = async (key: string) => (await experiment(key)).body.projectName
  const listDeleted = async () =>
    (await client.get(`/projects/deleted?workspaceName=${workspaceName}`)).body.projects as Record<string, unknown>[]

  it.each([true, false])('is undone with all that was there (experiments deleted too: %s)', async (withExperiments) => {
    const { projectId, projectName } = await aProject(true)
    const target = await aProject()
    const add = () => client.createExperiment({ projectName })
    const [key, movedKey, goneKey] = [await add(), await add(), await add()]
    await client.get(`/write/experiment/delete?experimentKey=${goneKey}`)
    await client.post('/write/project/notes', { projectId, notes: 'to keep' })
    await client.post('/write/project/archive', { projectId, archived: true })
    const { shareCode } = (await client.get(`/write/project/add-share-link?projectId=${projectId}`)).body
    const asVisitor = async () =>
      (await fetch(`${service.url}/api/rest/v2/project?projectId=${projectId}&shareCode=${shareCode}`)).status
    const { artifactId } = (
      await client.post('/write/artifacts/upsert', { experimentKey: key, artifactName: uniqueName('art') })
    ).body
    const artifact = async () => (await client.get(`/artifacts/get?artifactId=${artifactId}`)).body
    const before = await readProject(projectId)
    expect(await artifact()).toMatchObject({ projectId })

    const startedMs = Date.now()
    await remove(projectName, withExperiments)
    expect(await asVisitor()).toBe(400)
    expect(await artifact()).toMatchObject({ projectId: null, project: null })
    const entry = (await listDeleted()).find((it) => it.projectId === projectId)
    const count = { projectName, projectDescription: 'what for', numberOfExperiments: 2 }
    expect(entry).toMatchObject({ ...count, deletedAt: expect.any(Number) })
    expect(entry?.deletedAt).toBeGreaterThanOrEqual(startedMs - 1_000)
    expect(Number(entry?.restorableUntil) - Number(entry?.deletedAt)).toBe(30 * 24 * 3_600_000)
    // What somebody puts elsewhere meanwhile stays there.
    if (withExperiments) await client.get(`/write/experiment/restore?experimentKey=${movedKey}`)
    const move = { targetWorkspaceName: workspaceName, targetProjectName: target.projectName, symlink: false }
    expect((await client.post('/write/experiment/move', { ...move, experimentKeys: [movedKey] })).status).toBe(200)

    expect((await restore(projectId)).body).toEqual({ ...envelope('Restored'), projectName, workspaceName })
    // What an experiment does is stored some time later, so the project may have become newer meanwhile.
    expect(await readProject(projectId)).toEqual({
      ...before,
      numberOfExperiments: 1,
      lastUpdated: expect.toSatisfy((it: number) => it >= Number(before.lastUpdated)),
    })
    expect([await placeOf(key), await placeOf(movedKey)]).toEqual([projectName, target.projectName])
    expectRefusal(await experiment(goneKey), 400, codes.experimentUnknown, /^There is no experiment/)
    await client.get(`/write/experiment/restore?experimentKey=${goneKey}`)
    expect(await placeOf(goneKey)).toBe(projectName)
    expect((await client.get(`/project/notes?projectId=${projectId}`)).body).toEqual({ notes: 'to keep' })
    expect(await asVisitor()).toBe(200)
    expect(await artifact()).toMatchObject({ projectId, project: projectName })
    expect((await listDeleted()).filter((it) => it.projectId === projectId)).toEqual([])
    expectRefusal(await restore(projectId), 400, codes.projectUnknown, /^projectId: there is no such deleted project/)
  })

  it('is not undone under a name that is taken by then, but under another; of two at once one undoes it', async () => {
    const { projectId, projectName } = await aProject()
    const key = await client.createExperiment({ projectName })
    await remove(projectName, true)
    const next = await client.createExperiment({ projectName })
    const message = new RegExp(`^newProjectName: the workspace ".*" has another project "${projectName}" by now`)
    expectRefusal(await restore(projectId), 400, codes.projectExists, message)
    expectRefusal(await experiment(key), 400, codes.experimentUnknown, /^There is no experiment/)
    const newProjectName = uniqueName('again')
    const answers = await Promise.all([restore(projectId, { newProjectName }), restore(projectId, { newProjectName })])
    expect(answers.map((it) => it.status).toSorted()).toEqual([200, 400])
    expect([await placeOf(key), await placeOf(next)]).toEqual([newProjectName, projectName])
  })

  it('empties the uncategorized, which is undone like any other', async () => {
    const projectName = 'Uncategorized Experiments'
    const key = await client.createExperiment({ projectName })
    const { projectId } = (await client.get(`/project?${new URLSearchParams({ workspaceName, projectName })}`)).body
    await remove(projectName, true)
    expectRefusal(await experiment(key), 400, codes.experimentUnknown, /^There is no experiment/)
    expect((await listDeleted()).filter((it) => it.projectId === projectId)).toEqual([])
    expect((await restore(projectId as string)).body).toMatchObject({ msg: 'Restored' })
    expect(await placeOf(key)).toBe(projectName)
  })
})

it('notes are read back as they were written', async () => {
  const { projectId } = await aProject()
  expect((await client.get(`/project/notes?projectId=${projectId}`)).text).toBe('{"notes":""}')
  const notes = '# Title\r\n\n* “ü” \t\u{1f600} \\ "'
  expect((await client.post('/write/project/notes', { projectId, notes })).body).toEqual(envelope('Saved'))
  expect((await client.get(`/project/notes?projectId=${projectId}`)).body).toEqual({ notes })
  const missing = await client.post('/write/project/notes', { projectId })
  expectRefusal(missing, 400, codes.badRequest, 'notes: is missing')
})

describe('a share link', () => {
  it('lets anyone read the project and its contents without a key, until it is revoked', async () => {
    const { projectId, projectName } = await aProject()
    const experimentKey = await client.createExperiment({ projectName })
    const { body } = await client.get(`/write/project/add-share-link?projectId=${projectId}`)
    expect(body).toEqual({ ...envelope('Ok'), shareCode: expect.stringMatching(/^[\w-]{32}$/) })
    const shareCode = body.shareCode as string
    expect((await client.get(`/project/get-project-share-links?projectId=${projectId}`)).body).toEqual({
      shareCodes: [shareCode],
    })

    const open = async (path: string, code = shareCode) => {
      const answer = await fetch(`${service.url}/api/rest/v2${path}&shareCode=${code}`)
      return [answer.status, await answer.text()] as const
    }
    const paths = [
      `/project?projectId=${projectId}`,
      `/experiments?projectId=${projectId}`,
      `/experiment/metadata?experimentKey=${experimentKey}`,
      `/experiment/metrics/summary?experimentKey=${experimentKey}`,
    ]
    for (const path of paths) expect(await open(path)).toEqual([200, (await client.get(path)).text])

    // A key that may not read it does no harm to the code, and a code does none to the key.
    for (const path of paths) {
      expect((await service.stranger.get(`${path}&shareCode=${shareCode}`)).status).toBe(200)
      expect((await client.get(`${path}&shareCode=wrong`)).status).toBe(200)
    }

    // It opens nothing else, and writes nothing.
    const other = await client.createExperiment({ projectName: uniqueName('other') })
    expect((await open(`/experiment/metadata?experimentKey=${other}`))[0]).toBe(400)
    expect((await open(`/write/experiment/archive?experimentKey=${experimentKey}`))[0]).toBe(401)
    expect((await open(`/projects?workspaceName=${workspaceName}`))[0]).toBe(401)
    expect((await open(`/project?projectId=${projectId}`, 'wrong'))[0]).toBe(400)

    const revoke = `/write/project/delete-project-share-link?projectId=${projectId}&shareCode=${shareCode}`
    expect((await client.get(revoke)).body).toEqual(envelope('Deleted'))
    for (const path of paths) expect((await open(path))[0]).toBe(400)
    expectRefusal(await client.get(revoke), 400, codes.badRequest, 'shareCode: the project has no such share link')
  })
})

it.each([
  ['/write/template/set-default', 'experiment'],
  ['/write/dashboard-template/set-default', 'project'],
])('%s sets the view of the %s page, by either identification', async (path, page) => {
  const { projectId, projectName } = await aProject()
  const set = (body: Record<string, unknown>) => client.post(path, body)
  expect((await set({ templateId: 'one', projectId })).body).toEqual(envelope('Saved'))
  expect((await set({ templateId: 'two', projectName, workspaceName })).body).toEqual(envelope('Saved'))
  const views = (await client.get(`/project/default-views?projectId=${projectId}`)).body
  expect(views).toEqual({ experiment: null, project: null, [page]: 'two' })
  expectRefusal(await set({ projectId }), 400, codes.badRequest, 'templateId: is missing')
  expectRefusal(await set({ templateId: 'x' }), 400, codes.badRequest, /^Name the project/)
  const both = { templateId: 'x', projectId, projectName, workspaceName }
  expectRefusal(await set(both), 400, codes.badRequest, /^Name the project/)
})

describe('add-workspace-member', () => {
  /** Another user of the first one's organization. */
  async function aColleague() {
    const stores = storesWith('postgres')
    const user = await createUser(stores)
    const database = openDatabase({ url: stores.postgresUrl, connectionsMax: 1, onError: () => undefined })
    await database.row(
      `UPDATE users SET organization_id = (SELECT organization_id FROM users WHERE user_name = $2) WHERE user_name = $1`,
      [user.userName, service.userName],
    )
    await database.close()
    return { ...user, client: createClient(service.url, user) }
  }
  const add = (body: Record<string, unknown>, by = client) =>
    by.post('/write/add-workspace-member', { workspaceName, ...body })

  it.each(['userName', 'userEmail'])('makes the user named by %s a member, who may then write', async (spelling) => {
    const colleague = await aColleague()
    const experimentKey = await client.createExperiment()
    const write = () =>
      colleague.client.post('/write/experiment/parameter', { experimentKey, parameterName: 'a', parameterValue: 1 })
    expectRefusal(await write(), 400, codes.experimentUnknown, /^There is no experiment/)
    expect((await add({ [spelling]: colleague.userName, admin: false })).body).toEqual(envelope('Saved'))
    expect((await write()).status).toBe(200)
    const another = await aColleague()
    const refused = await add({ userName: another.userName }, colleague.client)
    expectRefusal(refused, 403, 8000017, /^Only an owner of the workspace ".*", or an admin, may do this\.$/)
  })

  it('makes an owner when admin is true, who may add others, and never demotes one', async () => {
    const [colleague, another] = [await aColleague(), await aColleague()]
    await add({ userName: colleague.userName, admin: true })
    await add({ userName: colleague.userName, admin: false })
    expect((await add({ userName: another.userName }, colleague.client)).status).toBe(200)
  })

  it('accepts only users of the organization', async () => {
    const stranger = await createUser(storesWith('postgres'))
    for (const userName of [stranger.userName, 'nobody']) {
      const answer = await add({ userName })
      expectRefusal(answer, 400, 8000018, `userName: your organization has no user "${userName}".`)
    }
    expectRefusal(await add({}), 400, codes.badRequest, 'userName: is missing')
    const foreign = await add({ userName: service.userName }, service.stranger)
    expectRefusal(foreign, 400, codes.workspaceUnknown, /^There is no workspace/)
  })
})
