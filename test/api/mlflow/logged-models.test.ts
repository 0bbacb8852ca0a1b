import { afterAll, beforeAll, expect, it } from 'vitest'
import { createAssetClient } from '../../kit/clients/assets.ts'
import { createClient } from '../../kit/http/client.ts'
import { createUser, openTestService, storesWith, uniqueName } from '../../kit/service.ts'

/** Models that runs log. `test/clients` has the same with MLflow's own packages. */

let service: Awaited<ReturnType<typeof openTestService>>
beforeAll(async () => {
  service = await openTestService()
})
afterAll(() => service?.close())

const mlflow = '/api/2.0/mlflow'
const proxy = '/api/2.0/mlflow-artifacts/artifacts'
const call = (method: string, path: string, body?: object) =>
  service.client.send(method, `${mlflow}/${path}`, body && JSON.stringify(body))

type Pair = { key: string; value: string }
type Model = {
  info: { model_id: string; name: string; artifact_uri: string; source_run_id?: string; status: string; tags: Pair[] }
  data: { params: Pair[]; metrics: Record<string, unknown>[] }
}

async function createRun(experiment?: string) {
  const experimentId =
    experiment ??
    ((await call('POST', 'experiments/create', { name: uniqueName('experiment') })).body.experiment_id as string)
  const run = await call('POST', 'runs/create', { experiment_id: experimentId })
  const { info } = run.body.run as { info: { run_id: string } }
  return { experimentId, runId: info.run_id }
}

async function createModel(fields: object) {
  const { status, text, body } = await call('POST', 'logged-models', { name: 'model', ...fields })
  expect(status, text).toBe(200)
  const model = body.model as Model
  return { ...model, root: model.info.artifact_uri.replace('mlflow-artifacts:/', '') }
}

const read = async (id: string) => (await call('GET', `logged-models/${id}`)).body.model as Model

const put = (path: string, body: string) =>
  service.client.send('PUT', `${proxy}/${path}`, body, { headers: { 'content-type': 'text/plain' } })

async function search(fields: object) {
  const { status, text, body } = await call('POST', 'logged-models/search', fields)
  expect(status, text).toBe(200)
  return (body.models as Model[]).map((it) => it.info.name)
}

it('a logged model is a model of its experiment: its files are read under both names', async () => {
  const { experimentId, runId } = await createRun()
  const { info, root } = await createModel({ experiment_id: experimentId, source_run_id: runId })
  expect(info).toMatchObject({ source_run_id: runId, status: 'LOGGED_MODEL_PENDING' })
  expect(root).toBe(`${experimentId}/models/${info.model_id}/artifacts`)
  for (const path of ['MLmodel', 'data/weights.bin']) expect((await put(`${root}/${path}`, path)).status).toBe(200)
  const ours = await createAssetClient(service).list(runId)
  expect(ours.map(({ dir, fileName, type }) => [dir, fileName, type])).toEqual([
    ['models/model', 'MLmodel', 'model-element'],
    ['models/model', 'data/weights.bin', 'model-element'],
  ])
  const listed = await call('GET', `logged-models/${info.model_id}/artifacts/directories?artifact_directory_path=data`)
  expect(listed.body).toEqual({
    root_uri: info.artifact_uri,
    files: [{ path: 'data/weights.bin', is_dir: false, file_size: 16 }],
  })
  expect((await service.client.get(`${proxy}/${root}/data/weights.bin`)).text).toBe('data/weights.bin')
  // Clients look for it under the model.
  expect((await call('GET', `artifacts/list?run_id=${runId}`)).body.files).toEqual([])
})

it('models of one name in one run keep their files apart', async () => {
  const { experimentId, runId } = await createRun()
  const made = { experiment_id: experimentId, source_run_id: runId }
  const [one, two] = [await createModel(made), await createModel(made)]
  await put(`${one.root}/MLmodel`, 'one')
  await put(`${two.root}/MLmodel`, 'two')
  for (const [{ root }, text] of [
    [one, 'one'],
    [two, 'two'],
  ] as const) {
    expect((await service.client.get(`${proxy}/${root}/MLmodel`)).text).toBe(text)
  }
  expect((await call('DELETE', `logged-models/${one.info.model_id}`)).status).toBe(200)
  expect((await service.client.get(`${proxy}/${two.root}/MLmodel`)).text).toBe('two')
  const gone = await call('GET', `logged-models/${one.info.model_id}`)
  expect([gone.status, gone.body.error_code]).toEqual([404, 'RESOURCE_DOES_NOT_EXIST'])
  expect((await call('GET', `logged-models/${one.info.model_id}?allow_deleted=true`)).status).toBe(200)
  expect((await put(`${one.root}/MLmodel`, 'one')).status).toBe(404)
  expect(await createAssetClient(service).list(runId)).toHaveLength(1)
})

it('status, tags and parameters are kept, and what a run says it made is read with the run', async () => {
  const { experimentId, runId } = await createRun()
  const pair = (key: string, value: string) => ({ key, value })
  const { info } = await createModel({
    experiment_id: experimentId,
    source_run_id: runId,
    params: [pair('depth', '3')],
    tags: [pair('team', 'a')],
  })
  const path = `logged-models/${info.model_id}`
  await call('POST', `${path}/params`, { params: [pair('width', '4')] })
  await call('PATCH', `${path}/tags`, { tags: [pair('team', 'b'), pair('a/b', 'c')] })
  await call('PATCH', path, { model_id: info.model_id, status: 'LOGGED_MODEL_READY' })
  expect((await call('DELETE', `${path}/tags/a/b`)).status).toBe(200)
  expect((await call('DELETE', `${path}/tags/absent`)).status).toBe(404)
  const model = await read(info.model_id)
  expect([model.info.status, model.info.tags, model.data.params]).toEqual([
    'LOGGED_MODEL_READY',
    [pair('team', 'b')],
    [pair('depth', '3'), pair('width', '4')],
  ])
  const refused = await call('PATCH', path, { status: 'DONE' })
  expect([refused.status, refused.body.message]).toEqual([400, expect.stringMatching(/^status: must be one of /)])
  await call('POST', 'runs/outputs', { run_id: runId, models: [{ model_id: info.model_id, step: 5 }] })
  const { body } = await call('GET', `runs/get?run_id=${runId}`)
  expect((body.run as { outputs: object }).outputs).toEqual({ model_outputs: [{ model_id: info.model_id, step: 5 }] })
})

it('models are found by name, parameter, metric and run, and sorted by a metric on a dataset', async () => {
  const { experimentId, runId } = await createRun()
  const other = await createRun(experimentId)
  for (const [name, run, score] of [
    ['low', runId, 0.1],
    ['high', runId, 0.9],
    ['else', other.runId, 0.5],
  ] as const) {
    const params = [{ key: 'kind', value: name }]
    const { info } = await createModel({ experiment_id: experimentId, source_run_id: run, name, params })
    const on = (dataset_name: string, value: number) => ({
      key: 'score',
      value,
      timestamp: 1,
      step: 1,
      model_id: info.model_id,
      dataset_name,
      dataset_digest: 'd',
    })
    await call('POST', 'runs/log-batch', { run_id: run, metrics: [on('test', score), on('train', 1 - score)] })
  }
  const find = (fields: object) => search({ experiment_ids: [experimentId], ...fields })
  expect(await find({ filter: "name = 'low'" })).toEqual(['low'])
  expect(await find({ filter: `source_run_id = '${other.runId}'` })).toEqual(['else'])
  expect(await find({ filter: "status = 'READY'" })).toEqual([])
  expect(await find({ filter: "status = 'PENDING'" })).toHaveLength(3)
  expect(await find({ filter: "params.kind LIKE '%i%'" })).toEqual(['high'])
  expect((await find({ filter: 'metrics.score > 0.45', datasets: [{ dataset_name: 'test' }] })).toSorted()).toEqual([
    'else',
    'high',
  ])
  expect(await find({ datasets: [{ dataset_name: 'absent' }] })).toEqual([])
  const order_by = [{ field_name: 'metrics.score', ascending: false, dataset_name: 'test' }]
  expect(await find({ order_by })).toEqual(['high', 'else', 'low'])
  expect(await find({ order_by: [{ ...order_by[0], dataset_name: 'train' }] })).toEqual(['low', 'else', 'high'])
  const page = await call('POST', 'logged-models/search', { experiment_ids: [experimentId], max_results: 2, order_by })
  const rest = { experiment_ids: [experimentId], max_results: 2, order_by, page_token: page.body.next_page_token }
  expect(await search(rest)).toEqual(['low'])
})

it('a model that no run made has an experiment of its own, and a wrong name or run is refused', async () => {
  const { experimentId } = await createRun()
  const elsewhere = await createRun()
  const { info, root } = await createModel({ experiment_id: experimentId, name: 'alone' })
  expect(info.source_run_id).toBeUndefined()
  expect((await put(`${root}/MLmodel`, 'x')).status).toBe(200)
  for (const [fields, message] of [
    [{ name: 'a/b' }, /^name: /],
    [{ source_run_id: elsewhere.runId }, /^source_run_id: /],
    [{ params: [{ key: 'a' }] }, /^params\[0\]\.value: /],
  ] as const) {
    const { status, body } = await call('POST', 'logged-models', { experiment_id: experimentId, ...fields })
    expect([status, body.message]).toEqual([400, expect.stringMatching(message)])
  }
})

it('what is of another organization looks as if it were not there', async () => {
  const { experimentId, runId } = await createRun()
  const { info, root } = await createModel({ experiment_id: experimentId, source_run_id: runId })
  await put(`${root}/MLmodel`, 'secret')
  const stranger = createClient(service.url, await createUser(storesWith('postgres')))
  const path = `${mlflow}/logged-models`
  const id = info.model_id
  for (const [method, at, body] of [
    ['POST', path, { experiment_id: experimentId }],
    ['GET', `${path}/${id}`],
    ['PATCH', `${path}/${id}`, { status: 'LOGGED_MODEL_READY' }],
    ['DELETE', `${path}/${id}`],
    ['PATCH', `${path}/${id}/tags`, { tags: [] }],
    ['DELETE', `${path}/${id}/tags/a`],
    ['POST', `${path}/${id}/params`, { params: [] }],
    ['POST', `${path}/search`, { experiment_ids: [experimentId] }],
    ['GET', `${path}/${id}/artifacts/directories`],
    ['GET', `${proxy}/${root}/MLmodel`],
    ['PUT', `${proxy}/${root}/MLmodel`, {}],
    ['DELETE', `${proxy}/${root}/MLmodel`],
    ['GET', `${proxy}?path=${root}`],
  ] as const) {
    const answer = await stranger.send(method, at, body && JSON.stringify(body))
    expect([answer.status, answer.body.error_code], `${method} ${at}`).toEqual([404, 'RESOURCE_DOES_NOT_EXIST'])
  }
})
