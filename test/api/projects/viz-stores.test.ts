import { afterAll, beforeAll, expect, it } from 'vitest'
import { createClient, type TestClient } from '../../kit/http/client.ts'
import { uniqueName } from '../../kit/service.ts'
import { openTwoUsers, type TwoUsers } from '../accounts/two-users.ts'
import { codes, expectRefusal } from '../http-error.ts'

let service: TwoUsers
let client: TestClient
beforeAll(async () => {
  service = await openTwoUsers()
  client = service.client
})
afterAll(() => service?.close())

async function aProject(): Promise<{ projectId: string; projectName: string }> {
  const projectName = uniqueName('project')
  const fields = { workspaceName: service.workspaceName, projectName, projectDescription: '', isPublic: false }
  const { body } = await client.post('/write/project/create', fields)
  return { projectId: body.projectId as string, projectName }
}

const saveText = (projectId: string, store: string, instanceId = 'viz') =>
  client.postRaw(
    '/write/viz-instance/store/save',
    JSON.stringify({ instanceId, projectId }).replace('}', `,"store":${store}}`),
  )
const readText = async (projectId: string, instanceId = 'viz') =>
  (await client.get(`/viz-instance/store?${new URLSearchParams({ projectId, instanceId })}`)).text

const stored = { msg: 'Stored', code: 200, data: null, sdk_error_code: 0 }

it('gives back exactly what was saved: every digit, character and level of it', async () => {
  const { projectId } = await aProject()
  expect(await readText(projectId)).toBe('{"store":null}')
  for (const store of [
    '{}',
    '{"a":[1,-0,0.1,9007199254740993,-123456789012345678901234567890,{"b":{"c":[[]]}}],"d":null,"e":false,"":""}',
    '{"nul":"\\u0000","half":"\\ud800","line":"\\n\\"\\\\","emoji":"🦊","__proto__":{"x":1},"toJSON":1}',
  ]) {
    expect((await saveText(projectId, store)).body).toEqual(stored)
    expect(await readText(projectId)).toBe(`{"store":${store}}`)
  }
})

it('a write replaces the whole store of one instance in one project', async () => {
  const [one, other] = [await aProject(), await aProject()]
  await saveText(one.projectId, '{"a":1,"b":2}')
  await saveText(one.projectId, '{"other":"instance"}', 'second')
  await saveText(other.projectId, '{"other":"project"}')
  await saveText(one.projectId, '{"c":3}')
  expect(await readText(one.projectId)).toBe('{"store":{"c":3}}')
  expect(await readText(one.projectId, 'second')).toBe('{"store":{"other":"instance"}}')
  expect(await readText(other.projectId)).toBe('{"store":{"other":"project"}}')
})

it('concurrent writes leave one whole store, and a write during a project deletion is rejected or deleted', async () => {
  const { projectId, projectName } = await aProject()
  const stores = Array.from({ length: 20 }, (_, at) => JSON.stringify({ at, again: at }))
  const answers = await Promise.all(stores.map((it) => saveText(projectId, it)))
  expect(answers.map((it) => it.status)).toEqual(stores.map(() => 200))
  expect(stores.map((it) => `{"store":${it}}`)).toContain(await readText(projectId))

  const { workspaceName } = service
  const removal = { workspaceName, projectName, deleteAllExperiments: true }
  const [deleted, ...saves] = await Promise.all([
    client.post('/write/project/delete', removal),
    ...stores.map((it) => saveText(projectId, it)),
  ])
  expect(deleted.status).toBe(200)
  for (const it of saves) expect([0, codes.projectUnknown]).toContain(it.body.sdk_error_code)
  expect(JSON.parse(await readText(projectId)).sdk_error_code).toBe(codes.projectUnknown)
})

it('names the invalid field, and keeps the stored value', async () => {
  const { projectId } = await aProject()
  await saveText(projectId, '{"kept":1}')
  const refusals: [string, string][] = [
    ['null', 'store: is missing'],
    ['[]', 'store: expected an object'],
    ['"text"', 'store: expected an object'],
    ['5', 'store: expected an object'],
    ['{"a":[1e400]}', 'store: holds a number beyond the range of a 64-bit float'],
    [`{"a":${'['.repeat(100)}${']'.repeat(100)}}`, 'store: must be nested 100 levels deep or less'],
    [`{"a":${'['.repeat(90_000)}${']'.repeat(90_000)}}`, 'store: must be nested 100 levels deep or less'],
    [`{"a":"${'x'.repeat(1024 * 1024)}"}`, 'store: must have 1048576 bytes or fewer as JSON'],
  ]
  for (const [store, message] of refusals) {
    expectRefusal(await saveText(projectId, store), 400, codes.badRequest, message)
  }
  expectRefusal(
    await client.post('/write/viz-instance/store/save', { projectId, store: {} }),
    400,
    codes.badRequest,
    'instanceId: is missing',
  )
  expect(await readText(projectId)).toBe('{"store":{"kept":1}}')
})

it('a foreign and an absent project answer the same bytes', async () => {
  const { projectId } = await aProject()
  const bodies = [projectId, 'absent'].map((it) => ({ projectId: it, instanceId: 'viz', store: {} }))
  const saves = await Promise.all(bodies.map((it) => service.stranger.post('/write/viz-instance/store/save', it)))
  const reads = await Promise.all(
    bodies.map((it) => service.stranger.get(`/viz-instance/store?projectId=${it.projectId}&instanceId=viz`)),
  )
  for (const [foreign, absent] of [saves, reads]) {
    expect(foreign?.status).toBe(400)
    expect(foreign?.text).toBe(absent?.text)
  }
})

it('is readable with the share code, and otherwise only with a key', async () => {
  const { projectId } = await aProject()
  await saveText(projectId, '{"a":1}')
  const { shareCode } = (await client.get(`/write/project/add-share-link?projectId=${projectId}`)).body
  const visitor = createClient(service.url, { apiKey: '', workspaceName: '' })
  const path = `/viz-instance/store?projectId=${projectId}&instanceId=viz`
  expect((await visitor.get(`${path}&shareCode=${shareCode}`)).text).toBe('{"store":{"a":1}}')
  expect((await visitor.get(path)).status).toBe(401)
})
