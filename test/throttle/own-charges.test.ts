import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type Organization, openOrganization } from '../api/accounts/organization.ts'
import { aPoint } from '../kit/builders.ts'
import { anEvent } from '../kit/clients/monitoring.ts'
import { isAtRoot, type TestClient } from '../kit/http/client.ts'
import { uniqueName } from '../kit/service.ts'

/**
 * Routes that are declared with `charge: 'own'` charge by themselves, which the server cannot see. Each is called here with a key
 * that may write one of everything a minute, until it is refused for that. A route that is missing fails the first test.
 */
let organization: Organization
let place: Place
beforeAll(async () => {
  organization = await openOrganization()
  place = await openPlace(organization.admin)
})
afterAll(() => organization?.close())

type Place = {
  workspaceName: string
  experimentKey: string
  assetIds: string[]
  versionIds: string[]
  rpcId: string
  wholeId: string
  mlflowId: string
  modelIds: string[]
}
/** A text is sent as a file. `after` is a call that is refused instead, where the route itself waits. */
type Call = {
  query?: Record<string, string>
  params?: Record<string, string>
  body?: object | string | FormData
  after?: [path: string, body: object]
}
/** @param at 0 for the first call, and so on */
type Sample = (place: Place, at: number) => Call

const mlflow = '/api/2.0/mlflow'
const files = '/api/2.0/mlflow-artifacts/artifacts'

const send =
  (fields: Record<string, unknown> = {}): Sample =>
  ({ experimentKey }) => ({ body: { experimentKey, ...fields } })
const toRun =
  (fields: Record<string, unknown> = {}): Sample =>
  ({ experimentKey }) => ({ body: { run_id: experimentKey, ...fields } })
const toModel =
  (body: object, more: Record<string, string> = {}): Sample =>
  ({ modelIds: [id = ''] }) => ({ params: { model_id: id, ...more }, body })
const byKey: Sample = ({ experimentKey }) => ({ query: { experimentKey } })
const asFile: Sample = ({ experimentKey }) => ({ query: { experimentKey, fileName: 'a.txt' }, body: 'text' })
const asClientFile: Sample = ({ experimentKey }) => ({ query: { experimentId: experimentKey }, body: 'text' })
const anEventOf = ({ workspaceName }: Place) => ({ data: [anEvent({ workspaceName, modelName: 'monitored' })] })
const asCsv =
  (column: string): Sample =>
  (of) => ({
    query: { workspaceName: of.workspaceName, modelName: 'monitored', datasetName: 'training' },
    body: `predictionId,${column}\n${randomUUID()},1\n`,
    after: ['/mpm/v2/events/batch', anEventOf(of)],
  })
const asPart =
  (part: string, toFields: (of: Place) => Record<string, string>): Sample =>
  (of) => {
    const body = new FormData()
    body.set('requestParams', JSON.stringify({ experimentKey: of.experimentKey, ...toFields(of) }))
    body.set(part, new Blob(['text']), 'a.bin')
    return { params: { assetId: of.wholeId }, body }
  }

const samples: Record<string, Sample> = {
  'POST /session': () => ({}),
  'POST /write/experiment/metric': send(aPoint()),
  'POST /write/experiment/metrics/batch': send({ metrics: [aPoint()] }),
  'POST /write/experiment/gpu-metrics': send({
    gpus: [{ gpuId: 0, freeMemory: 1, usedMemory: 1, totalMemory: 2, gpuUtilization: 50 }],
  }),
  'POST /write/experiment/ram-metrics': send({ totalRam: 1, usedRam: 1 }),
  'POST /write/experiment/cpu-metrics': send({ cpuPercentUtilization: [1] }),
  'POST /write/experiment/load-metrics': send({ loadAverage: 1 }),
  'POST /write/experiment/output': send({ outputLines: [{ output: 'a' }] }),
  'POST /clientlib/batch/logger/experiment/metric': send({ values: [aPoint()] }),
  'POST /clientlib/batch/logger/experiment/parameter': send({ values: [{ parameterName: 'a', parameterValue: 1 }] }),
  'POST /clientlib/tags/add-tags-to-experiment': send({ addedTags: ['a'] }),
  'POST /clientlib/status-report/update': send({ is_alive: true }),
  'POST /clientlib/status-report/offline-metadata': send({ endTimestamp: 1 }),
  'POST /clientlib/rpc/save-rpc-result': send({ callId: 'a', result: 'b' }),
  'POST /clientlib/asset': send({ userFileName: 'a', assetType: '3d-image' }),
  'POST /clientlib/asset/upload': asClientFile,
  'POST /clientlib/visualizations/upload': asClientFile,
  'POST /clientlib/git-patch/upload': asClientFile,
  'POST /clientlib/asset/asset-item': asPart('assetItemContent', ({ wholeId }) => ({
    assetId: wholeId,
    userFileName: 'b',
  })),
  'PUT /clientlib/asset/{assetId}/thumbnail': asPart('thumbnail', () => ({})),
  'POST /clientlib/asset/log-remote-model': send({
    modelName: 'a',
    remoteEntities: [{ remoteUrl: 's3://a/b', fileName: 'b' }],
  }),
  'POST /write/experiment/assets/remote/batch': send({ remoteAssets: [{ link: 's3://a/b' }] }),
  'POST /write/artifact/assets/remote/batch': (of) => ({
    ...byKey(of, 0),
    body: { remoteArtifactAssetRequests: [{ link: 's3://a/b' }] },
  }),
  'POST /write/experiment/upload-text-sample': send({ content: 'a' }),
  'POST /write/experiment/upload-asset': asFile,
  'GET /write/experiment/asset/delete': ({ experimentKey, assetIds }, at) => ({
    query: { experimentKey, assetId: assetIds[1 + at] ?? '' },
  }),
  'POST /write/experiment/asset/tag': ({ experimentKey, assetIds: [assetId] }) => ({
    body: { experimentKey, assetId, tags: ['a'] },
  }),
  'GET /write/experiment/asset/tag/delete': ({ experimentKey, assetIds: [assetId = ''] }) => ({
    query: { experimentKey, assetId, tag: 'a' },
  }),
  'POST /write/experiment/git/patch': (of) => ({ ...byKey(of, 0), body: 'diff' }),
  'POST /write/experiment/rpc/send': send({ method: 'm' }),
  'POST /write/experiment/rpc/result': ({ experimentKey, rpcId }) => ({ body: { experimentKey, rpcId } }),
  'POST /write/experiment/parameter': send({ parameterName: 'a', parameterValue: 1 }),
  'POST /write/experiment/parameter/delete': send({ parameterName: 'a' }),
  'POST /write/experiments/parameters/delete': ({ experimentKey }) => ({
    body: [{ experimentKey, parameterName: 'a' }],
  }),
  'POST /write/experiment/log-other': send({ key: 'a', value: 1 }),
  'POST /write/experiment/tags': send({ addedTags: ['a'] }),
  'POST /write/experiment/tags/delete': send({ tags: ['a'] }),
  'POST /write/experiment/html': send({ html: 'a' }),
  'POST /write/experiment/code': send({ code: 'a' }),
  'POST /write/experiment/graph': send({ graph: 'a' }),
  'POST /write/experiment/git/metadata': send({ user: '', root: '', branch: '', parent: '', origin: '' }),
  'POST /write/experiment/system-details': send({ os: 'a' }),
  'POST /write/experiment/cloud-details': send({ provider: 'a' }),
  'POST /write/experiment/file-path': send({ filePath: 'a' }),
  'PUT /write/experiment/dependencies': send({ logDependencies: [] }),
  'POST /write/experiment/update-status': send({ isAlive: true }),
  'GET /write/experiment/set-status': byKey,
  'POST /write/experiment/set-start-end-time': send({ startTimeMillis: 1 }),
  'POST /write/artifacts/upsert': ({ experimentKey }) => ({
    body: { experimentKey, artifactName: uniqueName('artifact') },
  }),
  'POST /write/artifacts/state': ({ experimentKey, versionIds }, at) => ({
    body: { experimentKey, artifactVersionId: versionIds[at], state: 'CLOSED' },
  }),

  'POST /mpm/v2/events/batch': (of) => ({ body: anEventOf(of) }),
  'POST /mpm/v2/labels/batch': ({ workspaceName }) => ({
    body: { data: [{ workspaceName, modelName: 'monitored', predictionId: randomUUID(), labels: 1 }] },
  }),
  'POST /mpm/v2/data/events/csv': asCsv('feature_a'),
  'POST /mpm/v2/data/labels/csv': asCsv('label_value_a'),
  'POST /mpm/v2/dataset/events/csv': asCsv('feature_a'),

  [`POST ${mlflow}/runs/log-metric`]: toRun({ key: 'loss', value: 1, timestamp: 1 }),
  [`POST ${mlflow}/runs/log-batch`]: toRun({ metrics: [{ key: 'loss', value: 1, timestamp: 1 }] }),
  [`POST ${mlflow}/runs/update`]: toRun({ run_name: 'a' }),
  [`POST ${mlflow}/runs/log-parameter`]: toRun({ key: 'p', value: 'b' }),
  [`POST ${mlflow}/runs/set-tag`]: toRun({ key: 'b', value: 'b' }),
  [`POST ${mlflow}/runs/delete-tag`]: toRun({ key: 'tag' }),
  [`POST ${mlflow}/runs/log-model`]: toRun({ model_json: '{}' }),
  [`POST ${mlflow}/runs/log-inputs`]: toRun({
    datasets: [{ dataset: { name: 'a', digest: 'b', source_type: 'c', source: 'd' } }],
  }),
  [`POST ${mlflow}/runs/outputs`]: toRun({ models: [{ model_id: 'a' }] }),
  [`POST ${mlflow}/logged-models`]: ({ mlflowId }) => ({ body: { experiment_id: mlflowId, name: 'net' } }),
  [`PATCH ${mlflow}/logged-models/{model_id}`]: toModel({ status: 'LOGGED_MODEL_READY' }),
  [`PATCH ${mlflow}/logged-models/{model_id}/tags`]: toModel({ tags: [{ key: 'b', value: 'b' }] }),
  [`DELETE ${mlflow}/logged-models/{model_id}/tags/{tag_key*}`]: toModel({}, { tag_key: 'tag' }),
  [`POST ${mlflow}/logged-models/{model_id}/params`]: toModel({ params: [{ key: 'b', value: 'b' }] }),
  [`DELETE ${mlflow}/logged-models/{model_id}`]: ({ modelIds }, at) => ({
    params: { model_id: modelIds[1 + at] ?? '' },
  }),
  [`PUT ${files}/{path*}`]: ({ mlflowId, experimentKey }) => ({
    params: { path: `${mlflowId}/${experimentKey}/artifacts/a.txt` },
    body: 'text',
  }),
  [`DELETE ${files}/{path*}`]: ({ mlflowId, experimentKey }) => ({
    params: { path: `${mlflowId}/${experimentKey}/artifacts/a.txt` },
  }),
}

/** Calls that may be needed: a bucket fills up again while a busy machine is slow. */
const callsMax = 4

/** A run of MLflow is an experiment: one place does for all routes. */
async function openPlace(client: TestClient): Promise<Place> {
  const done = async (answer: Promise<{ status: number; text: string; body: Record<string, unknown> }>) => {
    const { status, text, body } = await answer
    expect(status, text).toBe(200)
    return body as Record<string, string>
  }
  const many = async <T>(make: () => Promise<T>): Promise<T[]> => {
    const made: T[] = []
    while (made.length <= callsMax) made.push(await make())
    return made
  }
  const { workspaceName } = organization
  const made = await done(client.post(`${mlflow}/experiments/create`, { name: uniqueName('experiment') }))
  const mlflowId = made.experiment_id as string
  const run = (await client.post(`${mlflow}/runs/create`, { experiment_id: mlflowId })).body.run
  const experimentKey = (run as { info: { run_id: string } }).info.run_id
  await done(client.post(`${mlflow}/runs/set-tag`, { run_id: experimentKey, key: 'tag', value: 'b' }))
  await done(client.post('/mpm/v2/events/batch', anEventOf({ workspaceName } as Place)))
  const upload = `/write/experiment/upload-asset?${new URLSearchParams({ experimentKey, fileName: 'a' })}`
  const aFile = { headers: { 'content-type': 'application/zip' } }
  const assetIds = await many(async () => (await done(client.postRaw(upload, 'text', aFile))).assetId as string)
  const versionIds = await many(async () => {
    const artifact = { experimentKey, artifactName: uniqueName('artifact') }
    return (await done(client.post('/write/artifacts/upsert', artifact))).artifactVersionId as string
  })
  const tags = [{ key: 'tag', value: 'b' }]
  const modelIds = await many(async () => {
    const { body } = await client.post(`${mlflow}/logged-models`, { experiment_id: mlflowId, name: 'net', tags })
    return (body.model as { info: { model_id: string } }).info.model_id
  })
  const { rpcId } = await done(client.post('/write/experiment/rpc/send', { experimentKey, method: 'm' }))
  const whole = { experimentKey, userFileName: 'whole', assetType: '3d-image' }
  const { assetId: wholeId } = await done(client.post('/clientlib/asset', whole))
  const ids = { rpcId: rpcId as string, wholeId: wholeId as string }
  return { workspaceName, experimentKey, assetIds, versionIds, mlflowId, modelIds, ...ids }
}

async function makeKey(perMinute: Record<string, number> = {}): Promise<string> {
  const { apiKey, keyId } = (await organization.admin.post('/account/keys', {})).body as Record<string, string>
  const types = ['metrics', 'systemMetrics', 'output', 'parameters', 'other', 'events']
  const limits = Object.fromEntries(types.map((it) => [`${it}PerMinute`, perMinute[it] ?? 1]))
  const limited = await organization.admin.send('PUT', '/admin/limits', JSON.stringify({ keyId, limits }))
  expect(limited.status, limited.text).toBe(200)
  return apiKey as string
}

const ofRoute = (it: { method: string; path: string }) => `${it.method} ${it.path}`

it('every route that charges by itself is here', () => {
  const own = organization.routes.filter((it) => it.charge === 'own').map(ofRoute)
  expect(Object.keys(samples).toSorted()).toEqual(own.toSorted())
})

it.each(Object.keys(samples))('%s is charged to the key', async (name) => {
  const [method = '', path = ''] = name.split(' ')
  const apiKey = await makeKey()
  const client = organization.as(apiKey)
  const call = async (at: number) => {
    const { query = {}, params = {}, body, after } = (samples[name] as Sample)(place, at)
    const filled = path.replaceAll(/\{(\w+)\*?\}/g, (_, param) => params[param] as string)
    const root = isAtRoot(path) || path === '/session' ? organization.url : `${organization.url}/api/rest/v2`
    const sent = path === '/session' ? { apiKey } : body
    const isJson = typeof sent === 'object' && !(sent instanceof FormData)
    const type = typeof sent === 'string' ? 'application/zip' : isJson ? 'application/json' : undefined
    const answer = await fetch(`${root}${filled}?${new URLSearchParams(query)}`, {
      method,
      headers: { authorization: apiKey, ...(type && { 'content-type': type }) },
      ...(sent !== undefined && { body: isJson ? JSON.stringify(sent) : (sent as string | FormData) }),
    })
    const text = await answer.text()
    if (at === 0) expect(answer.status, text).toBe(200)
    if (!after) return { status: answer.status, text, retryAfter: answer.headers.get('retry-after') }
    const next = await client.post(...after)
    return { status: next.status, text: next.text, retryAfter: next.headers.get('retry-after') }
  }
  let refused: Awaited<ReturnType<typeof call>> | undefined
  for (let at = 0; at < callsMax && refused?.status !== 429; at++) refused = await call(at)
  expect(refused?.status, refused?.text).toBe(429)
  expect(refused?.text).toMatch(/Too much was sent for this API key: the limit is 1 [\w ]+ a minute/)
  expect(Number(refused?.retryAfter)).toBeGreaterThan(0)
})

it('of a batch whose tags are refused no parameter is stored or charged', async () => {
  const client = organization.as(await makeKey({ parameters: 3 }))
  const { experimentKey } = place
  const params = ['a', 'b', 'c'].map((name) => ({ key: `refused ${name}`, value: '1' }))
  const tags = ['a', 'b', 'c'].map((name) => ({ key: `batch ${name}`, value: '1' }))
  const log = (body: object) => client.post(`${mlflow}/runs/log-batch`, { run_id: experimentKey, ...body })
  const readNames = async () => {
    const { text } = await organization.admin.get(`/experiment/parameters?experimentKey=${experimentKey}`)
    return params.map((it) => it.key).filter((it) => text.includes(it))
  }
  // A full bucket admits more than it holds: there is none left for the next three minutes.
  expect((await log({ tags })).status).toBe(200)
  const refused = await log({ params, tags: [{ key: 'one more', value: '1' }] })
  expect([refused.status, refused.text]).toEqual([429, expect.stringMatching(/the limit is 1 other calls a minute/)])
  expect(await readNames()).toEqual([])
  // They are all that the key may write in a minute.
  expect((await log({ params })).status).toBe(200)
  expect(await readNames()).toEqual(params.map((it) => it.key))
})
