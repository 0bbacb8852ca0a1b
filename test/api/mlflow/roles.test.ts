import { afterAll, beforeAll, expect, it } from 'vitest'
import { createClient, type TestClient } from '../../kit/http/client.ts'
import { createUser, openTestService, storesWith, uniqueName } from '../../kit/service.ts'

/** What `access-matrix.test.ts` does for the other routes: those of clients of MLflow by the roles and the scopes of keys. */
const mlflow = '/api/2.0/mlflow'
let service: Awaited<ReturnType<typeof openTestService>>
let viewer: TestClient
let readingKey: TestClient
let projectKey: TestClient
const projectName = uniqueName('project')
beforeAll(async () => {
  service = await openTestService()
  const { client, workspaceName } = service
  const { organizationName } = (await client.get(`${service.url}/session`)).body as { organizationName: string }
  const user = await createUser(storesWith('postgres'), { organizationName })
  await client.post('/write/add-workspace-member', { workspaceName, userName: user.userName, role: 'viewer' })
  viewer = createClient(service.url, user)
  await client.createExperiment({ projectName })
  const keyOf = async (fields: Record<string, unknown>) => {
    const { apiKey } = (await client.post('/account/keys', fields)).body as { apiKey: string }
    return createClient(service.url, { apiKey, workspaceName })
  }
  readingKey = await keyOf({ scope: 'read' })
  projectKey = await keyOf({ scope: 'write', workspaceName, projectName })
})
afterAll(() => service?.close())

const inWorkspace = () => ({ headers: { 'x-mlflow-workspace': service.workspaceName } })
const isRead = (path: string) => /search(-datasets)?$|get-latest-versions$|\/mpu\//.test(path)

it('a key that reads is refused every call that writes, before anything else of it is looked at', async () => {
  const { paths } = (await (await fetch(`${service.url}/openapi.json`)).json()) as { paths: Record<string, object> }
  const calls = Object.entries(paths)
    .filter(([path]) => path.startsWith(mlflow))
    .flatMap(([path, methods]) => Object.keys(methods).map((method) => ({ path, method: method.toUpperCase() })))
  expect(calls.length).toBeGreaterThan(60)
  for (const { path, method } of calls) {
    const address = path.replaceAll(/\{\w+\*?\}/g, 'x')
    const { status, body } = await readingKey.send(method, address, method === 'GET' ? undefined : '{}', inWorkspace())
    const what = `${method} ${path}: ${status} ${body.message}`
    if (method === 'GET' || isRead(path)) expect(body.sdk_error_code, what).not.toBe(8000152)
    else expect([status, body.error_code, body.sdk_error_code], what).toEqual([403, 'PERMISSION_DENIED', 8000152])
  }
})

it('a viewer reads what is there, and is told of the role that each write needs', async () => {
  const { client } = service
  const { experiment_id: id } = (await client.post(`${mlflow}/experiments/create`, { name: uniqueName('made') })).body
  const made = (await client.post(`${mlflow}/runs/create`, { experiment_id: id })).body
  const { run_id } = (made.run as { info: { run_id: string } }).info
  const name = uniqueName('model')
  await client.post(`${mlflow}/registered-models/create`, { name })
  for (const path of [
    `${mlflow}/experiments/get?experiment_id=${id}`,
    `${mlflow}/runs/get?run_id=${run_id}`,
    `${mlflow}/registered-models/get?name=${name}`,
    `${mlflow}/artifacts/list?run_id=${run_id}`,
  ]) {
    expect((await viewer.get(path, inWorkspace())).status, path).toBe(200)
  }
  const metric = { key: 'loss', value: 1, timestamp: 1, step: 1 }
  const writes: [string, string, Record<string, unknown>][] = [
    ['POST', 'experiments/create', { name: uniqueName('other') }],
    ['POST', 'experiments/update', { experiment_id: id, new_name: uniqueName('other') }],
    ['POST', 'experiments/set-experiment-tag', { experiment_id: id, key: 'a', value: 'b' }],
    ['POST', 'experiments/delete', { experiment_id: id }],
    ['POST', 'runs/create', { experiment_id: id }],
    ['POST', 'runs/update', { run_id, status: 'FINISHED' }],
    ['POST', 'runs/delete', { run_id }],
    ['POST', 'runs/log-metric', { run_id, ...metric }],
    ['POST', 'runs/log-batch', { run_id, metrics: [metric] }],
    ['POST', 'runs/log-parameter', { run_id, key: 'a', value: 'b' }],
    ['POST', 'runs/set-tag', { run_id, key: 'a', value: 'b' }],
    ['POST', 'logged-models', { experiment_id: id, name: 'net' }],
    ['POST', 'registered-models/create', { name: uniqueName('other') }],
    ['PATCH', 'registered-models/update', { name, description: 'a' }],
    ['POST', 'registered-models/set-tag', { name, key: 'a', value: 'b' }],
    ['DELETE', 'registered-models/delete', { name }],
  ]
  for (const [method, path, fields] of writes) {
    const { status, body } = await viewer.send(method, `${mlflow}/${path}`, JSON.stringify(fields), inWorkspace())
    expect([status, body.error_code], `${path}: ${body.message}`).toEqual([403, 'PERMISSION_DENIED'])
    expect(body.message, path).toMatch(/that needs the role editor or owner in the workspace ".+"\.$/)
  }
  const file = `/api/2.0/mlflow-artifacts/artifacts/${id}/${run_id}/artifacts/a.txt`
  expect((await viewer.send('PUT', file, 'text', inWorkspace())).status).toBe(403)
})

it('the key of a project logs to its experiment, and finds no other', async () => {
  const byName = `${mlflow}/experiments/get-by-name?experiment_name=${projectName}`
  const { experiment } = (await projectKey.get(byName)).body as { experiment: { experiment_id: string } }
  const run = await projectKey.post(`${mlflow}/runs/create`, { experiment_id: experiment.experiment_id })
  expect(run.status).toBe(200)
  const found = await projectKey.post(`${mlflow}/experiments/search`, { max_results: 100 })
  expect(found.body.experiments).toMatchObject([{ experiment_id: experiment.experiment_id }])
  const { experiment_id: other } = (
    await service.client.post(`${mlflow}/experiments/create`, { name: uniqueName('b') })
  ).body
  const refused = await projectKey.post(`${mlflow}/runs/create`, { experiment_id: other })
  expect([refused.status, refused.body.sdk_error_code]).toEqual([403, 8000151])
  const model = await projectKey.post(`${mlflow}/registered-models/create`, { name: uniqueName('model') })
  expect([model.status, model.body.sdk_error_code]).toEqual([403, 8000151])
})
