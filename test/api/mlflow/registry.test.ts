import { afterAll, beforeAll, expect, it } from 'vitest'
import { createRegistryClient } from '../../kit/clients/registry.ts'
import { createClient } from '../../kit/http/client.ts'
import { createUser, openTestService, storesWith, uniqueName } from '../../kit/service.ts'

/** The registry as clients of MLflow use it: it is ours. `test/clients` has the same with MLflow's own packages. */

let service: Awaited<ReturnType<typeof openTestService>>
let registry: ReturnType<typeof createRegistryClient>
beforeAll(async () => {
  service = await openTestService()
  registry = createRegistryClient(service)
})
afterAll(() => service?.close())

const mlflow = '/api/2.0/mlflow'
const proxy = '/api/2.0/mlflow-artifacts/artifacts'
const call = (method: string, path: string, body?: object) =>
  service.client.send(method, `${mlflow}/${path}`, body && JSON.stringify(body))
const get = (path: string, query: Record<string, string>) => call('GET', `${path}?${new URLSearchParams(query)}`)

async function ok(method: string, path: string, body?: object) {
  const answer = await call(method, path, body)
  expect(answer.status, `${method} ${path}: ${answer.text}`).toBe(200)
  return answer.body
}

type Version = Record<
  'name' | 'version' | 'current_stage' | 'source' | 'run_id' | 'model_id' | 'description',
  string
> & {
  tags: object[]
  aliases: string[]
}

async function createRun() {
  const made = await ok('POST', 'experiments/create', { name: uniqueName('experiment') })
  const run = await ok('POST', 'runs/create', { experiment_id: made.experiment_id })
  const { info } = run.run as { info: { run_id: string; artifact_uri: string; experiment_id: string } }
  return info
}

const put = (uri: string, body: string) =>
  service.client.send('PUT', `${proxy}/${uri.replace('mlflow-artifacts:/', '')}`, body, {
    headers: { 'content-type': 'text/plain' },
  })

/** A folder of a run with a model, and its address. */
async function aModel(text = 'weights') {
  const run = await createRun()
  const source = `${run.artifact_uri}/model`
  await put(`${source}/MLmodel`, text)
  await put(`${source}/data/weights.bin`, text)
  return { runId: run.run_id, source, run }
}

async function register(name: string, fields: object): Promise<Version> {
  return (await ok('POST', 'model-versions/create', { name, ...fields })).model_version as Version
}

/** A registered model with so many versions. */
async function aRegistered(versions = 1) {
  const name = uniqueName('model')
  await ok('POST', 'registered-models/create', { name, description: 'first' })
  const { source, runId } = await aModel()
  for (let at = 0; at < versions; at++) await register(name, { source, run_id: runId })
  return { name, source, runId }
}

const readVersion = async (name: string, version: string) =>
  (await get('model-versions/get', { name, version })).body.model_version as Version

async function readFile(name: string, version: string, path: string) {
  const { body } = await get('model-versions/get-download-uri', { name, version })
  const uri = body.artifact_uri as string
  return (await service.client.get(`${proxy}/${uri.replace('mlflow-artifacts:/', '')}/${path}`)).text
}

it('a version of MLflow is one of ours: N is N.0.0, with the files that its source had', async () => {
  const { name, source, runId } = await aRegistered(2)
  const tags = [{ key: 'team', value: 'a"b' }]
  const third = await register(name, { source, run_id: runId, description: 'best', tags })
  expect(third).toMatchObject({ name, version: '3', run_id: runId, source, description: 'best', tags, status: 'READY' })
  await put(`${source}/MLmodel`, 'changed')
  expect([await readFile(name, '3', 'MLmodel'), await readFile(name, '3', 'data/weights.bin')]).toEqual([
    'weights',
    'weights',
  ])
  const ours = await service.client.get(
    `/registry-model/items?${new URLSearchParams({ workspaceName: service.workspaceName, modelName: name })}`,
  )
  const items = ours.body.items as Record<string, unknown>[]
  expect(items.map((it) => [it.version, it.comment, it.experimentKey])).toEqual([
    ['3.0.0', 'best', runId],
    ['2.0.0', '', runId],
    ['1.0.0', '', runId],
  ])
  const refused = await put(`mlflow-artifacts:/versions/${items[0]?.registryModelItemId}/artifacts/MLmodel`, 'x')
  expect(refused.status).toBe(400)
})

it('a logged model, a run, and another version can be registered; what is kept elsewhere is refused', async () => {
  const { name } = await aRegistered(1)
  const { runId, source, run } = await aModel('older')
  const logged = await ok('POST', 'logged-models', {
    experiment_id: run.experiment_id,
    source_run_id: runId,
    name: 'new',
  })
  const { info } = logged.model as { info: { model_id: string; artifact_uri: string } }
  await put(`${info.artifact_uri}/MLmodel`, 'newer')
  const id = info.model_id
  expect(await register(name, { source: `models:/${id}`, model_id: id })).toMatchObject({ version: '2', model_id: id })
  expect(await register(name, { source: info.artifact_uri })).toMatchObject({ version: '3', model_id: id })
  expect(await register(name, { source: `runs:/${runId}/model` })).toMatchObject({ version: '4' })
  const copy = uniqueName('copy')
  await ok('POST', 'registered-models/create', { name: copy })
  expect(await register(copy, { source: `models:/${name}/2` })).toMatchObject({ name: copy, version: '1' })
  await ok('DELETE', `logged-models/${id}`)
  await ok('DELETE', 'registered-models/delete', { name })
  expect(await readFile(copy, '1', 'MLmodel')).toBe('newer')
  for (const wrong of [
    's3://bucket/model',
    '/home/me/model',
    `${run.artifact_uri}/absent`,
    run.artifact_uri,
    `${source}/../x`,
  ]) {
    const { status, body } = await call('POST', 'model-versions/create', { name: copy, source: wrong })
    expect([status, body.error_code], wrong).toEqual([400, 'INVALID_PARAMETER_VALUE'])
  }
})

it('the number of a deleted version is not given again', async () => {
  const { name, source } = await aRegistered(2)
  await ok('DELETE', 'model-versions/delete', { name, version: '2' })
  expect((await get('model-versions/get', { name, version: '2' })).body.error_code).toBe('RESOURCE_DOES_NOT_EXIST')
  expect((await register(name, { source })).version).toBe('3')
})

it('a stage moves, archives those who had it, and is in the history with who did it', async () => {
  const { name } = await aRegistered(2)
  const move = (version: string, fields: object) =>
    ok('POST', 'model-versions/transition-stage', { name, version, ...fields })
  await move('1', { stage: 'production' })
  await move('2', { stage: 'Production', archive_existing_versions: true })
  const stages = async () => [await readVersion(name, '1'), await readVersion(name, '2')].map((it) => it.current_stage)
  expect(await stages()).toEqual(['Archived', 'Production'])
  const latest = async (stages?: string[]) => {
    const { model_versions } = await ok('POST', 'registered-models/get-latest-versions', { name, stages })
    return (model_versions as Version[]).map((it) => [it.current_stage, it.version])
  }
  expect(await latest(['Production'])).toEqual([['Production', '2']])
  expect(await latest()).toEqual([
    ['Production', '2'],
    ['Archived', '1'],
  ])
  const asGet = await get('registered-models/get-latest-versions', { name, stages: 'Archived' })
  expect(asGet.body.model_versions).toMatchObject([{ version: '1' }])
  const { body } = await service.client.get(
    `/registry-model/history?${new URLSearchParams({ workspaceName: service.workspaceName, registryModelName: name })}`,
  )
  const moves = (body.events as Record<string, unknown>[]).filter((it) => it.event === 'MODEL_VERSION_STAGE_CHANGED')
  expect(moves).toMatchObject([
    { version: '1.0.0', addedStages: ['Archived'], removedStages: ['Production'], userName: service.userName },
    { version: '2.0.0', addedStages: ['Production'] },
    { version: '1.0.0', addedStages: ['Production'] },
  ])
  await move('2', { stage: 'None' })
  expect(await stages()).toEqual(['Archived', 'None'])
  const wrong = await call('POST', 'model-versions/transition-stage', { name, version: '1', stage: 'Best' })
  expect([wrong.status, wrong.body.message]).toEqual([400, expect.stringMatching(/^stage: must be one of None/)])
})

it('an alias names one version, moves, and goes with its version', async () => {
  const { name } = await aRegistered(2)
  const set = (version: string) => ok('POST', 'registered-models/alias', { name, alias: 'champion', version })
  const named = () => get('registered-models/alias', { name, alias: 'champion' })
  await set('1')
  await set('2')
  expect((await named()).body.model_version).toMatchObject({ version: '2', aliases: ['champion'] })
  const { registered_model } = (await get('registered-models/get', { name })).body
  expect((registered_model as { aliases: object }).aliases).toEqual([{ alias: 'champion', version: '2' }])
  await ok('DELETE', 'registered-models/alias', { name, alias: 'champion' })
  await ok('DELETE', 'registered-models/alias', { name, alias: 'champion' })
  expect((await named()).status).toBe(404)
  await set('2')
  await ok('DELETE', 'model-versions/delete', { name, version: '2' })
  expect((await named()).status).toBe(404)
  for (const alias of ['latest', 'v1', 'a b']) {
    expect((await call('POST', 'registered-models/alias', { name, alias, version: '1' })).status, alias).toBe(400)
  }
})

it('names, descriptions and tags of models and versions are changed', async () => {
  const { name } = await aRegistered(1)
  const renamed = uniqueName('renamed')
  expect((await ok('POST', 'registered-models/rename', { name, new_name: renamed })).registered_model).toMatchObject({
    name: renamed,
    description: 'first',
  })
  await ok('PATCH', 'registered-models/update', { name: renamed, description: 'second' })
  await ok('PATCH', 'model-versions/update', { name: renamed, version: '1', description: 'a version' })
  for (const of of ['registered-models', 'model-versions']) {
    const which = { name: renamed, ...(of === 'model-versions' && { version: '1' }) }
    for (const key of ['a', 'b', 'c']) await ok('POST', `${of}/set-tag`, { ...which, key, value: `${key}1` })
    await ok('POST', `${of}/set-tag`, { ...which, key: 'b', value: '2' })
    await ok('DELETE', `${of}/delete-tag`, { ...which, key: 'c' })
    await ok('DELETE', `${of}/delete-tag`, { ...which, key: 'c' })
  }
  const tags = [
    { key: 'a', value: 'a1' },
    { key: 'b', value: '2' },
  ]
  const { registered_model } = (await get('registered-models/get', { name: renamed })).body
  expect(registered_model).toMatchObject({
    description: 'second',
    tags,
    latest_versions: [{ version: '1', description: 'a version', tags }],
  })
  const again = await call('POST', 'registered-models/create', { name: renamed })
  expect([again.status, again.body.error_code]).toEqual([400, 'RESOURCE_ALREADY_EXISTS'])
  for (const wrong of ['a/b', 'a:b', '']) {
    expect((await call('POST', 'registered-models/create', { name: wrong })).status, wrong).toBe(400)
  }
})

it('models and versions are searched, sorted and paged', async () => {
  const one = await aRegistered(2)
  const two = await aRegistered(1)
  await ok('POST', 'registered-models/set-tag', { name: one.name, key: 'kind', value: 'test' })
  await ok('POST', 'model-versions/set-tag', { name: two.name, version: '1', key: 'kind', value: 'test' })
  const models = async (query: Record<string, string>) =>
    ((await get('registered-models/search', query)).body.registered_models as Version[]).map((it) => it.name)
  const versions = async (query: Record<string, string>) =>
    ((await get('model-versions/search', query)).body.model_versions as Version[]).map(
      (it) => `${it.name} ${it.version}`,
    )
  expect(await models({ filter: `name = '${one.name}'` })).toEqual([one.name])
  expect(await models({ filter: `name LIKE '${two.name.slice(0, -2)}%'` })).toEqual([two.name])
  expect(await models({ filter: `tags.kind = 'test' and name != '${two.name}'` })).toContain(one.name)
  expect(await models({ filter: `name IN ('${one.name}', '${two.name}')`, order_by: 'timestamp DESC' })).toEqual([
    two.name,
    one.name,
  ])
  expect(await versions({ filter: `name = '${one.name}'`, order_by: 'version_number ASC' })).toEqual([
    `${one.name} 1`,
    `${one.name} 2`,
  ])
  // What clients add to each search.
  const noPrompts = "tag.`mlflow.prompt.is_prompt` != 'true'"
  expect(await models({ filter: `name = '${one.name}' AND ${noPrompts}` })).toEqual([one.name])
  expect(await versions({ filter: `name = '${two.name}' AND ${noPrompts}` })).toEqual([`${two.name} 1`])
  expect(await versions({ filter: `run_id = '${two.runId}'` })).toEqual([`${two.name} 1`])
  expect(await versions({ filter: `source_path = '${two.source}'` })).toEqual([`${two.name} 1`])
  expect(await versions({ filter: `name = '${one.name}' and version_number > 1` })).toEqual([`${one.name} 2`])
  expect(await versions({ filter: `tags.kind = 'test' and name = '${two.name}'` })).toEqual([`${two.name} 1`])
  const first = await get('model-versions/search', { filter: `name = '${one.name}'`, max_results: '1' })
  const rest = { filter: `name = '${one.name}'`, max_results: '1', page_token: first.body.next_page_token as string }
  expect([first.body.model_versions, (await get('model-versions/search', rest)).body]).toMatchObject([
    [{ version: '2' }],
    { model_versions: [{ version: '1' }] },
  ])
})

it('a version that others registered is read, under its own number', async () => {
  const source = await registry.aSource({ 'model.bin': Buffer.from('ours') })
  const { registryModelName: name } = await registry.aModel({ version: '1.2.3' }, source)
  expect(await readVersion(name, '1.2.3')).toMatchObject({ version: '1.2.3', run_id: source.experimentKey })
  expect(await readFile(name, '1.2.3', 'model.bin')).toBe('ours')
  const { registered_model } = (await get('registered-models/get', { name })).body
  // Clients would take it for a number.
  expect((registered_model as { latest_versions: object[] }).latest_versions).toEqual([])
  const { source: ours } = await aModel()
  expect((await register(name, { source: ours })).version).toBe('2')
})

it('what is of another organization looks as if it were not there', async () => {
  const { name } = await aRegistered(1)
  const { body } = await get('model-versions/get-download-uri', { name, version: '1' })
  const files = (body.artifact_uri as string).replace('mlflow-artifacts:/', '')
  const stranger = createClient(service.url, await createUser(storesWith('postgres')))
  const of = { name, version: '1' }
  for (const [method, path, fields] of [
    ['POST', 'registered-models/rename', { name, new_name: 'a' }],
    ['PATCH', 'registered-models/update', { name, description: 'a' }],
    ['DELETE', 'registered-models/delete', { name }],
    ['GET', `registered-models/get?name=${name}`],
    ['POST', 'registered-models/get-latest-versions', { name }],
    ['GET', `registered-models/get-latest-versions?name=${name}`],
    ['POST', 'registered-models/set-tag', { name, key: 'a', value: 'b' }],
    ['DELETE', 'registered-models/delete-tag', { name, key: 'a' }],
    ['POST', 'registered-models/alias', { ...of, alias: 'a' }],
    ['DELETE', 'registered-models/alias', { name, alias: 'a' }],
    ['GET', `registered-models/alias?name=${name}&alias=a`],
    ['POST', 'model-versions/create', { name, source: `models:/${name}/1` }],
    ['PATCH', 'model-versions/update', { ...of, description: 'a' }],
    ['DELETE', 'model-versions/delete', of],
    ['GET', `model-versions/get?name=${name}&version=1`],
    ['GET', `model-versions/get-download-uri?name=${name}&version=1`],
    ['POST', 'model-versions/transition-stage', { ...of, stage: 'Staging' }],
    ['POST', 'model-versions/set-tag', { ...of, key: 'a', value: 'b' }],
    ['DELETE', 'model-versions/delete-tag', { ...of, key: 'a' }],
  ] as const) {
    const answer = await stranger.send(method, `${mlflow}/${path}`, fields && JSON.stringify(fields))
    expect([answer.status, answer.body.error_code], `${method} ${path}`).toEqual([404, 'RESOURCE_DOES_NOT_EXIST'])
  }
  for (const path of [`${proxy}/${files}/MLmodel`, `${proxy}?path=${files}`]) {
    expect((await stranger.get(path)).status, path).toBe(404)
  }
  const found = await stranger.get(`${mlflow}/model-versions/search?filter=${encodeURIComponent(`name = '${name}'`)}`)
  expect(found.body.model_versions).toEqual([])
})
