import { afterAll, beforeAll, expect, it } from 'vitest'
import { createAssetClient } from '../../kit/clients/assets.ts'
import { createClient } from '../../kit/http/client.ts'
import { createUser, openTestService, storesWith, uniqueName } from '../../kit/service.ts'

/** Files of runs. `test/clients/mlflow` has the same with MLflow's own packages. */

let service: Awaited<ReturnType<typeof openTestService>>
let assets: ReturnType<typeof createAssetClient>
beforeAll(async () => {
  service = await openTestService()
  assets = createAssetClient(service)
})
afterAll(() => service?.close())

const mlflow = '/api/2.0/mlflow'
const proxy = '/api/2.0/mlflow-artifacts'

async function createRun() {
  const made = await service.client.post(`${mlflow}/experiments/create`, { name: uniqueName('experiment') })
  const run = await service.client.post(`${mlflow}/runs/create`, { experiment_id: made.body.experiment_id })
  const { info } = run.body.run as { info: { run_id: string; artifact_uri: string } }
  return { runId: info.run_id, root: info.artifact_uri.replace('mlflow-artifacts:/', '') }
}

const call = (method: string, path: string, body?: string | Uint8Array, extra = {}) =>
  service.client.send(method, `${proxy}/${path}`, body, extra)

const put = (path: string, body: string) =>
  call('PUT', `artifacts/${path}`, body, { headers: { 'content-type': 'text/plain' } })

async function list(path: string) {
  const { body } = await call('GET', `artifacts?path=${encodeURIComponent(path)}`)
  return (body.files as { path: string; is_dir: boolean; file_size?: number }[]).map(
    (it) => `${it.path}${it.is_dir ? '/' : ` ${it.file_size}`}`,
  )
}

it('a file that is uploaded is an asset of the experiment, and an asset is an artifact', async () => {
  const { runId, root } = await createRun()
  expect(root).toMatch(new RegExp(`^[^/]+/${runId}/artifacts$`))
  expect((await put(`${root}/plots/loss.txt`, 'first')).status).toBe(200)
  expect((await put(`${root}/plots/loss.txt`, 'second')).status).toBe(200)
  const ours = await assets.list(runId)
  expect(ours).toMatchObject([{ fileName: 'plots/loss.txt', fileSize: 6, type: 'asset', dir: 'plots' }])
  await assets.upload({ experimentKey: runId, fileName: '/data/labels.csv' }, { body: Buffer.from('a,b') })
  await assets.upload({ experimentKey: runId, fileName: '../escape' }, { body: Buffer.from('x') })
  expect([await list(root), await list(`${root}/plots`), await list(`${root}/data`)]).toEqual([
    ['data/', 'plots/'],
    ['loss.txt 6'],
    ['labels.csv 3'],
  ])
  expect(await list(`${root}/plots/loss.txt`)).toEqual([])
  const read = await call('GET', `artifacts/${root}/plots/loss.txt`, undefined, { headers: { range: 'bytes=0-2' } })
  expect([read.status, read.text]).toEqual([206, 'sec'])
  const ofRun = await service.client.get(`${mlflow}/artifacts/list?run_id=${runId}&path=plots`)
  expect(ofRun.body).toEqual({
    root_uri: `mlflow-artifacts:/${root}`,
    files: [{ path: 'plots/loss.txt', is_dir: false, file_size: 6 }],
  })
})

it('a file or a folder is deleted, and what is not there is told', async () => {
  const { root } = await createRun()
  for (const path of ['a.txt', 'b/c.txt', 'b/d/e.txt', 'bc.txt']) await put(`${root}/${path}`, path)
  expect((await call('DELETE', `artifacts/${root}/b`)).status).toBe(200)
  expect(await list(root)).toEqual(['a.txt 5', 'bc.txt 6'])
  const gone = await call('GET', `artifacts/${root}/b/c.txt`)
  expect([gone.status, gone.body.error_code]).toEqual([404, 'RESOURCE_DOES_NOT_EXIST'])
  expect((await call('DELETE', `artifacts/${root}/`)).status).toBe(200)
  expect(await list(root)).toEqual([])
})

it('a path that leads elsewhere is refused, and so is a file without a name or of a run that is deleted', async () => {
  const { runId, root } = await createRun()
  for (const path of [
    `${root}/a%2f..%2fb`,
    `${root}/a//b`,
    `${root}/a%5cb`,
    `${root}/`,
    '0/run',
    `${root}/${'a'.repeat(1_001)}`,
  ]) {
    const { status, body } = await put(path, 'x')
    expect([status, body.error_code, body.message], path).toEqual([
      400,
      'INVALID_PARAMETER_VALUE',
      expect.stringMatching(/^path: /),
    ])
  }
  await put(`${root}/kept.txt`, 'kept')
  await service.client.post(`${mlflow}/runs/delete`, { run_id: runId })
  expect((await put(`${root}/more.txt`, 'x')).status).toBe(400)
  expect((await call('GET', `artifacts/${root}/kept.txt`)).text).toBe('kept')
})

it('a model that an older client logged is a model of the experiment, under the same paths', async () => {
  const { runId, root } = await createRun()
  for (const path of ['model/MLmodel', 'model/data/weights.bin', 'models.txt']) await put(`${root}/${path}`, path)
  const logModel = { run_id: runId, model_json: JSON.stringify({ artifact_path: 'model', flavors: {} }) }
  expect((await service.client.post(`${mlflow}/runs/log-model`, logModel)).status).toBe(200)
  const { body } = await service.client.get(`/experiment/model/asset/list?experimentKey=${runId}&modelName=model`)
  expect((body.assets as { fileName: string }[]).map((it) => it.fileName)).toEqual(['MLmodel', 'data/weights.bin'])
  expect([await list(root), await list(`${root}/model`)]).toEqual([
    ['model/', 'models.txt 10'],
    ['MLmodel 13', 'data/'],
  ])
  await put(`${root}/model/MLmodel`, 'again')
  expect((await call('GET', `artifacts/${root}/model/MLmodel`)).text).toBe('again')
  expect(await list(`${root}/model`)).toEqual(['MLmodel 5', 'data/'])
})

it('uploads in parts and signed addresses are refused as clients expect that go on without them', async () => {
  const { root } = await createRun()
  const parts = { path: 'big.bin', num_parts: 3 }
  for (const step of ['create', 'complete', 'abort']) {
    const { status, body } = await call('POST', `mpu/${step}/${root}`, JSON.stringify(parts))
    expect([status, body.error_code]).toEqual([501, 'NOT_IMPLEMENTED'])
    expect(body.message).toMatch(/^Multipart upload is not supported for the current artifact repository/)
  }
  expect((await call('GET', `presigned/${root}/big.bin`)).status).toBe(501)
})

it('what is of another organization looks as if it were not there', async () => {
  const { runId, root } = await createRun()
  await put(`${root}/secret.txt`, 'secret')
  const stranger = createClient(service.url, await createUser(storesWith('postgres')))
  for (const [method, path, body] of [
    ['GET', `${proxy}/artifacts/${root}/secret.txt`],
    ['PUT', `${proxy}/artifacts/${root}/secret.txt`, 'x'],
    ['DELETE', `${proxy}/artifacts/${root}/secret.txt`],
    ['GET', `${proxy}/artifacts?path=${root}`],
    ['GET', `${mlflow}/artifacts/list?run_id=${runId}`],
  ] as const) {
    const answer = await stranger.send(method, path, body)
    expect([answer.status, answer.body.error_code], `${method} ${path}`).toEqual([404, 'RESOURCE_DOES_NOT_EXIST'])
  }
})
