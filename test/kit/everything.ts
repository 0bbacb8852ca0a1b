import { createHash } from 'node:crypto'
import { expect } from 'vitest'
import { aPoint } from './builders.ts'
import { createAssetClient } from './clients/assets.ts'
import { anEvent } from './clients/monitoring.ts'
import { createRegistryClient } from './clients/registry.ts'
import { eventually } from './eventually.ts'
import { isAtRoot, type TestClient } from './http/client.ts'
import { uniqueName } from './service.ts'

type Service = { url: string; apiKey: string; workspaceName: string; client: TestClient }

/** One call that changes nothing. */
export type Read = { path: string; body?: unknown }

/** Read routes that are left out. */
const neverRead = new Set([
  // About the service as it is now, for those who look after it: test/api/operations.
  '/admin/dead-letters',
  '/admin/dead-letters/{deadLetterId}',
  '/admin/queue',
  '/admin/health',
  '/admin/backups',
  // What is sent in this minute.
  '/admin/usage',
  '/workspace/usage',
  // Their answers have no end.
  '/experiment/stream',
  '/experiments/stream',
  '/mpm/isAlive/ping',
  // About the caller, below no prefix.
  '/session',
  '/session/providers',
  '/clientlib/health/ping',
  // They list every workspace, also those that somebody writes to meanwhile; `findModelId` reads the first.
  '/api/mpm/v3/workspaces',
  '/admin/workspaces',
  // The same calls as `/experiment/rpc`, as logging clients ask for them.
  '/clientlib/rpc/get-pending-rpcs',
  // An archive has an id of its own each time; test/api/archive reads what one holds.
  '/export/archive',
  // It changes something.
  '/clientlib/symlink/new',
])

const minute = 60_000

/**
 * Writes something of every kind into a service, with an admin's key, and returns the reads that show it. Fails unless these
 * cover every read route.
 */
export async function fillEverything(service: Service, receiverUrl?: string): Promise<Read[]> {
  const { client, workspaceName } = service
  const assets = createAssetClient(service)
  const registry = createRegistryClient(service)
  const post = async (path: string, body: unknown, method = 'POST') => {
    const answer = await client.send(method, path, JSON.stringify(body))
    expect([200, 204], `${path}: ${answer.text}`).toContain(answer.status)
    return answer.body
  }
  const reads: Read[] = []
  const read = (path: string, query: Record<string, string> = {}) => {
    reads.push({ path: `${path}?${new URLSearchParams(query)}` })
  }

  if (receiverUrl) {
    const webhookUrls = [{ url: receiverUrl, header: { 'x-secret': 'a secret of a receiver' } }]
    await post('/webhooks/config', { webhookConfigs: [{ workspaceName, webhookUrls }] })
  }
  const projectName = uniqueName('everything')
  const { projectId } = (await post('/write/project/create', {
    workspaceName,
    projectName,
    projectDescription: 'described',
    isPublic: false,
  })) as { projectId: string }
  await post('/write/project/notes', { projectId, notes: 'notes äöü' })
  await post('/write/template/set-default', { projectId, templateId: 'a' })
  await client.get(`/write/project/add-share-link?projectId=${projectId}`)
  await post('/write/viz-instance/store/save', { projectId, instanceId: 'a', store: { deep: [1, { b: null }] } })
  const keys = [await client.createExperiment({ projectName }), await client.createExperiment({ projectName })]
  await post('/write/views/upsert', { projectId, templateName: 'a view', v2: { deep: [1, null] } })
  const chartView = { projectId, experimentKey: keys[0], templateName: 'of charts', dashboardChartState: '{"a":1}' }
  await post('/write/chart-templates/upsert', chartView)
  for (const experimentKey of keys) await fillExperiment(experimentKey)

  async function fillExperiment(experimentKey: string) {
    const write = (name: string, body: object, method?: string) =>
      post(`/write/experiment/${name}`, { experimentKey, ...body }, method)
    const values = [0.5, 'NaN', 'Infinity', '-Infinity', '-0', 5e-324, 1.7976931348623157e308, 0.1]
    const at = 1_700_000_000_000
    const metrics = values.map((metricValue, step) => ({ metricName: 'loss', metricValue, step, timestamp: at + step }))
    await write('metrics/batch', {
      metrics: [
        ...metrics,
        { metricName: 'loss', metricValue: 1, context: 'validate', step: '9223372036854775807', epoch: 3 },
        { metricName: 'loss', metricValue: 1, step: '-9223372036854775808', timestamp: at },
        { metricName: 'äöü', metricValue: 'nan' },
        // It only looks like the one before it.
        { metricName: 'äöü', metricValue: 'nan' },
      ],
    })
    await write('metric', aPoint())
    await write('gpu-metrics', {
      gpus: [{ gpuId: 0, freeMemory: 1, usedMemory: 1, totalMemory: 2, gpuUtilization: 50 }],
    })
    await write('ram-metrics', { totalRam: 2, usedRam: 1 })
    await write('cpu-metrics', { cpuPercentUtilization: [1, 2.5] })
    await write('load-metrics', { loadAverage: 0.25 })
    const outputLines = ['first', 'zweite ü', ''].map((output, offset) => ({ output, offset, stderr: offset === 1 }))
    await write('output', { outputLines })
    await write('parameter', { parameterName: 'rate', parameterValue: 0.1 })
    await write('log-other', { key: 'note', value: 'other' })
    await write('tags', { addedTags: ['b', 'a'] })
    await write('html', { html: '<b>bold</b>' })
    await write('code', { code: 'print(1)' })
    await write('graph', { graph: '{"a": 1}' })
    await write('git/metadata', { user: 'u', root: 'r', branch: 'b', parent: 'p', origin: 'o' })
    await write('system-details', { user: 'u', os: 'os', pid: 1, command: ['python'] })
    await write('cloud-details', { provider: 'cloud', metadata: { zone: 'z' } })
    await write('file-path', { filePath: '/a/b.py' })
    await write('dependencies', { logDependencies: [{ name: 'numpy', version: '1' }] }, 'PUT')
    await write('upload-text-sample', { content: 'a text' })
    await write('assets/remote/batch', { remoteAssets: [{ link: 's3://bucket/file', fileName: 'remote' }] })
    const { rpcId } = (await write('rpc/send', { method: 'm', arguments: { a: 1 } })) as { rpcId: string }
    const bytes = Buffer.from(Array.from({ length: 70_000 }, (_, it) => it * 31))
    const sent = { body: bytes, headers: { 'content-type': 'application/octet-stream' } }
    const plain = await assets.upload({ experimentKey, fileName: 'weights.bin', metadata: '{"a": 1.0}' }, sent)
    const aTable = { body: Buffer.from('a,b\n1,"x\ny"\n'), headers: { 'content-type': 'text/csv' } }
    const table = await assets.upload({ experimentKey, fileName: 'a/table.csv', type: 'dataframe', step: '3' }, aTable)
    await assets.upload({ experimentKey, fileName: 'a', type: 'model-element', groupingName: 'net' }, sent)
    await client.postRaw(`/write/experiment/git/patch?experimentKey=${experimentKey}`, 'diff --git', {
      headers: { 'content-type': 'text/plain' },
    })
    const opened = (await post('/write/artifacts/upsert', {
      experimentKey,
      artifactName: `artifact-${experimentKey}`,
      versionMetadata: '{"b": 2}',
    })) as { artifactId: string; artifactVersionId: string }
    const { artifactId, artifactVersionId } = opened
    await assets.upload({ experimentKey, fileName: 'in artifact', artifactVersionId }, sent)
    await post('/write/artifacts/state', { experimentKey, artifactVersionId, state: 'CLOSED' })
    await post('/write/artifacts/version/labels', { artifactVersionId, alias: ['best'], versionTags: ['t'] })
    await write('set-start-end-time', { startTimeMillis: at, endTimeMillis: at + 5 })

    for (const name of ['metadata', 'counters', 'parameters', 'log-other', 'tags', 'html', 'code', 'graph']) {
      read(`/experiment/${name}`, { experimentKey })
    }
    for (const name of [
      'git/metadata',
      'git/patch',
      'system-details',
      'cloud-details',
      'dependencies',
      'output',
      'output/lines',
    ]) {
      read(`/experiment/${name}`, { experimentKey })
    }
    read('/experiment/metrics/summary', { experimentKey })
    read('/experiment/metrics/get-all', { experimentKey })
    for (const metricName of ['loss', 'äöü', 'sys.load.average']) {
      read('/experiment/metrics/get-metric', { experimentKey, metricName })
    }
    read('/experiment/metrics/get-metric', { experimentKey, metricName: 'loss', maxPoints: '10' })
    read('/experiment/rpc', { experimentKey, rpcId })
    read('/experiment/asset/list', { experimentKey })
    read('/experiment/asset/get-by-name', { experimentKey, assetName: plain.body.fileName as string })
    read('/experiment/asset/get-asset', { experimentKey, assetId: plain.body.assetId as string })
    read('/experiment/asset/tree', { experimentKey })
    read('/experiment/asset/tree', { experimentKey, search: 'WEIGHTS' })
    read('/experiment/asset/zip', { experimentKey, folder: 'models' })
    read('/experiment/asset/rows', { experimentKey, assetId: table.body.assetId as string })
    read('/experiment/asset/page', { experimentKey, assetId: table.body.assetId as string })
    read('/experiment/html/page', { experimentKey })
    reads.push({ path: '/experiments/media/names', body: { experimentKeys: [experimentKey] } })
    reads.push({ path: '/experiments/media/steps', body: { experimentKeys: [experimentKey] } })
    reads.push({ path: '/experiments/media', body: { experimentKeys: [experimentKey] } })
    read('/experiment/model', { experimentKey })
    read('/experiment/model/asset/list', { experimentKey, modelName: 'net' })
    read('/experiment/model/download', { experimentKey, modelName: 'net' })
    read('/get/artifacts', { experimentKey })
    read('/artifacts/get', { artifactId })
    read('/artifacts/version', { versionId: artifactVersionId })
    read('/artifacts/version/files', { versionId: artifactVersionId })
    read('/artifacts/version/download', { versionId: artifactVersionId })
    read('/artifacts/version/consumers', { versionId: artifactVersionId })
    read('/artifacts/version/tree', { versionId: artifactVersionId })
    read('/artifacts/version/diff', { fromVersionId: artifactVersionId, toVersionId: artifactVersionId })
    read('/lineage', { experimentKey })
  }

  const template = await client.postRaw(
    `/write/template/upload?teamName=${workspaceName}`,
    `PK\x05\x06${'\0'.repeat(18)}`,
    { headers: { 'content-type': 'application/zip' } },
  )
  const source = await registry.aSource()
  const model = await registry.aModel({ stages: ['staging'], description: 'd' }, source)
  const { registryModelName: modelName } = model
  await post('/write/registry-model/item', {
    experimentModelId: source.experimentModelId,
    registryModelName: modelName,
    comment: 'second',
    stages: ['production'],
  })
  await post('/write/registry-model/notes', { workspaceName, registryModelName: modelName, notes: 'of a model' })
  const itemPath = `/registry-model/item/${model.registryModelItemId}`
  await post(`/write${itemPath}/metadata`, { metadata: [{ key: 'k', value: [1, null] }] })
  await post(`/write${itemPath}/status-configuration`, {
    status: 'QA',
    statusConfiguration: [{ key: 'a', value: 'b' }],
  })
  const { organizationId, organizationName } = (await client.get('/admin/users')).body as Record<string, string>
  await post(`/write/organization/${organizationId}/secrets`, { secretName: 'token', secretValue: 'xyz' }, 'PUT')
  await post('/admin/users', { userName: uniqueName('colleague') })
  await post('/write/service-account', { name: uniqueName('account'), teamName: workspaceName, organizationName })
  await post('/admin/limits', { workspaceName, limits: { metricsPerMinute: 1_000_000 } }, 'PUT')

  const monitored = uniqueName('monitored')
  const at = Math.floor(Date.now() / minute) * minute - 30 * minute
  const events = Array.from({ length: 40 }, (_, it) =>
    anEvent({
      workspaceName,
      modelName: monitored,
      predictionId: `prediction ${it}`,
      timestamp: at + it * 1000,
      labels: it % 2 === 0 ? { value: 'ok' } : undefined,
    }),
  )
  await post('/mpm/v2/events/batch', { data: events })
  await post('/mpm/v2/labels/batch', {
    data: [{ workspaceName, modelName: monitored, predictionId: 'prediction 1', labels: { value: 'fraud' } }],
  })
  // One that is wrong, so that there is an error to read.
  await client.post('/mpm/v2/events/batch', { data: [{ workspaceName, modelName: monitored }, events[0]] })
  const reference = new URLSearchParams({ workspaceName, modelName: monitored, datasetName: 'training' })
  const lines = Array.from({ length: 30 }, (_, it) => `${it},${20 + it},NL`)
  const csv = await client.postRaw(
    `/mpm/v2/dataset/events/csv?${reference}`,
    `predictionId,feature_age,feature_country\n${lines.join('\n')}\n`,
    { headers: { 'content-type': 'text/csv' } },
  )
  expect(csv.status, csv.text).toBe(200)
  const members = [{ feature: 'isMember', operator: 'equals', values: [true] }]
  await post('/mpm/v2/segments', { workspaceName, modelName: monitored, name: 'members', filters: members })
  const { alertId } = await post('/mpm/v2/alerts', {
    workspaceName,
    name: 'events',
    modelName: monitored,
    measure: 'events',
    windowMs: minute,
    graceMs: 0,
    from: at - 10 * minute,
  })

  for (const path of [
    '/workspaces',
    '/account-details',
    '/account/keys',
    '/account/sessions',
    '/account/notifications',
    '/admin/users',
    '/admin/audit',
    '/admin/keys',
  ])
    read(path)
  for (const path of ['/projects', '/projects/deleted', '/registry-model', '/webhooks/config', '/workspaces/members'])
    read(path, { workspaceName })
  for (const path of ['count', 'allowed_status_values', 'search']) read(`/registry-model/${path}`, { workspaceName })
  read('/artifacts/get-all', { workspace: workspaceName })
  read('/admin/limits', { workspaceName })
  read('/admin/retention', { workspaceName })
  read('/webhooks/deliveries', { workspaceName })
  read(`/organization/${organizationId}/secrets`)
  for (const path of ['', '/notes', '/default-views', '/column-names', '/get-project-share-links']) {
    read(`/project${path}`, { projectId })
  }
  read('/experiments', { projectId })
  read('/viz-instance/store', { projectId, instanceId: 'a' })
  read('/views/get-all', { projectId })
  read('/views/chart-templates', { projectId, experimentKey: keys[0] as string })
  read('/templates', { teamName: workspaceName })
  read('/template/download', { templateId: template.body.templateId as string })
  for (const path of ['details', 'notes', 'latest_version', 'history', 'item/download', 'item/download-instructions']) {
    read(`/registry-model/${path}`, { workspaceName, modelName })
  }
  for (const path of ['compact-details', 'items', 'item/details']) {
    read(`/registry-model/${path}`, { workspaceName, modelName })
  }
  for (const path of ['metadata', 'status-configuration']) read(`${itemPath}/${path}`)
  reads.push({ path: '/registry-model/history/item', body: { registryModelItemId: model.registryModelItemId } })
  const { body: instructions } = await registry.read('/registry-model/item/download-instructions', modelName, {
    version: '1.0.0',
  })
  const [{ assets: files } = { assets: [] }] = instructions.versions as { assets: Record<string, string>[] }[]
  for (const { assetId } of files) {
    read('/registry-model/item/get-asset', { modelItemId: model.registryModelItemId, assetId: assetId as string })
  }
  for (const path of ['models', 'errors', 'alerts', 'alerts/firings', 'overview'])
    read(`/mpm/v2/${path}`, { workspaceName })
  for (const path of ['events/count', 'features', 'drift', 'drift/map', 'labels/quality', 'labels/delay', 'segments']) {
    read(`/mpm/v2/${path}`, { workspaceName, modelName: monitored, datasetName: 'training' })
  }
  read('/api/mpm/v2/model/details', { modelId: await findModelId(client, monitored) })
  read('/api/mpm/v2/admin/model/schema', { workspaceName, modelName: monitored })
  read('/mpm/v2/distribution', { workspaceName, modelName: monitored, feature: 'age' })
  read('/mpm/v2/event', { workspaceName, modelName: monitored, predictionId: 'prediction 1' })
  const metrics = { targetedExperiments: keys, metrics: ['loss'], params: ['rate'], fetchFull: true }
  reads.push({ path: '/experiments/multi-metric-chart', body: metrics })
  const series = keys.map((experimentKey) => ({ experimentKey, metricName: 'loss' }))
  reads.push({ path: '/experiments/series', body: { series, x: 'step', points: 5 } })
  reads.push({ path: '/project/query', body: { projectId, predicates: [] } })
  const columns = [
    { source: 'parameter', name: 'rate' },
    { source: 'metric', name: 'loss', of: 'min' },
  ]
  reads.push({ path: '/project/runs', body: { projectId, columns } })
  reads.push({ path: '/project/runs', body: { projectId, columns, query: 'rate > 0 or has metric.loss:min or a' } })
  reads.push({ path: '/project/query-completion', body: { projectId, query: 'param.rate = ' } })
  reads.push({ path: '/project/run-columns', body: { projectId } })
  for (const what of ['runs', 'metrics', 'system-metrics', 'output']) {
    read(`/export/${what}`, { projectId, format: 'jsonl' })
  }
  for (const what of ['events', 'labels']) {
    read(`/export/${what}`, { workspaceName, modelName: monitored, format: 'jsonl' })
  }
  read('/export/audit', { format: 'jsonl' })
  read('/export/manifest', { projectId, what: 'metrics' })
  reads.push({ path: '/project/output/search', body: { projectId, search: 'line' } })

  await logWithMlflow()

  await expectEveryRoute(service.url, reads)
  const hasFired = async () => {
    const { body } = await client.get(`/mpm/v2/alerts/firings?workspaceName=${workspaceName}`)
    expect((body.firings as unknown[]).length).toBeGreaterThan(0)
  }
  await eventually(hasFired, 4 * minute)
  // It would fire again later.
  await post(`/mpm/v2/alerts/${alertId}`, { workspaceName, paused: true }, 'PUT')
  return reads

  /** What only clients of MLflow know of the project and its first run. */
  async function logWithMlflow() {
    const mlflow = '/api/2.0/mlflow'
    const [run_id] = keys
    const experiment_id = projectId
    const params = [{ key: 'depth', value: '3' }]
    const made = await post(`${mlflow}/logged-models`, { experiment_id, name: 'net', source_run_id: run_id, params })
    const { model_id } = (made.model as { info: { model_id: string } }).info
    const dataset = { name: 'digits', digest: 'abc', source_type: 'local', source: '{}', schema: '{}' }
    const tags = [{ key: 'mlflow.data.context', value: 'train' }]
    await post(`${mlflow}/experiments/set-experiment-tag`, { experiment_id, key: 'team', value: 'a' })
    await post(`${mlflow}/runs/log-inputs`, { run_id, datasets: [{ dataset, tags }], models: [{ model_id }] })
    await post(`${mlflow}/runs/outputs`, { run_id, models: [{ model_id, step: 7 }] })
    for (const value of [0.25, 'NaN']) {
      const metric = { key: `of ${value}`, value, timestamp: at, step: 1, model_id, run_id }
      await post(`${mlflow}/runs/log-batch`, { run_id, metrics: [metric] })
    }
    read(`${mlflow}/logged-models/${model_id}`)
    read(`${mlflow}/runs/get`, { run_id: run_id as string })
    read(`${mlflow}/experiments/get`, { experiment_id })
  }
}

async function findModelId({ get }: Pick<TestClient, 'get'>, name: string): Promise<string> {
  const { body } = await get('/api/mpm/v3/workspaces')
  const workspaces = body.workspaces as { models: { modelId: string; modelName: string }[] }[]
  return workspaces.flatMap((it) => it.models).find((it) => it.modelName === name)?.modelId as string
}

async function expectEveryRoute(url: string, reads: Read[]) {
  type Operations = Record<string, unknown>
  const { paths } = (await (await fetch(`${url}/openapi.json`)).json()) as { paths: Record<string, Operations> }
  const routes = Object.entries(paths)
    .filter(([, it]) => 'get' in it)
    .map(([path]) => path.replace('/api/rest/v2', ''))
    // Clients of MLflow read the same with other words.
    .filter((path) => !/^\/(write|api\/[23]\.0\/mlflow)/.test(path) && !neverRead.has(path))
  const asked = reads.map((it) => it.path.replace(/\?.*/, ''))
  const isAsked = (path: string) => {
    const pattern = new RegExp(`^${path.replaceAll(/\{\w+\}/g, '[^/]+')}$`)
    return asked.some((it) => pattern.test(it))
  }
  expect(routes.filter((path) => !isAsked(path))).toEqual([])
}

/** What changes without anybody writing: with each read, and with each start of the service. */
const changesByItself: [path: string, part: RegExp][] = [
  ['/export/manifest', /"until":\d+|"part":"[^"]*"/g],
  ['/export/audit', /\{"time":"[^"]*","user_name":"svc up","act":"sign-in-link\.made"[^\n]*\n/g],
  ['/admin/users', /"lastActivityAt":(\d+|null)/g],
  ['/admin/keys', /"lastUsedAt":(\d+|null)/g],
  ['/account/keys', /"lastUsedAt":(\d+|null)/g],
  ['/admin/audit', /\{"at":\d+,"userName":"svc up","act":"sign-in-link\.made"[^{}]*\{\}\},?/g],
]

/** Every answer, byte for byte, without what changes by itself. */
export async function readEverything({ url, apiKey }: Pick<Service, 'url' | 'apiKey'>, reads: Read[]) {
  const answers: Record<string, string> = {}
  const refused: string[] = []
  for (const { path, body } of reads) {
    const base = isAtRoot(path) ? url : `${url}/api/rest/v2`
    const answer = await fetch(base + path, {
      method: body === undefined ? 'GET' : 'POST',
      headers: { authorization: apiKey, ...(body !== undefined && { 'content-type': 'application/json' }) },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    const bytes = Buffer.from(await answer.arrayBuffer())
    if (answer.status !== 200) refused.push(`${path}: ${answer.status} ${bytes.subarray(0, 300)}`)
    const type = answer.headers.get('content-type') ?? ''
    const text = bytes.toString()
    const isText = Buffer.from(text).equals(bytes)
    const shown = isText ? text : `${bytes.length} bytes ${createHash('sha256').update(bytes).digest('hex')}`
    const seen = shown.replace(changesByItself.find(([it]) => path.startsWith(it))?.[1] ?? /$^/, '')
    answers[body === undefined ? path : `POST ${path}`] = `${type} ${seen}`
  }
  expect(refused).toEqual([])
  return answers
}

/** Fails with the reads whose answers differ. */
export function expectSame(now: Record<string, string>, before: Record<string, string>) {
  const differing = Object.keys({ ...before, ...now }).filter((it) => now[it] !== before[it])
  const shorten = (text = '') => (text.length > 2_000 ? `${text.slice(0, 2_000)} ...` : text)
  const differences = differing.map((it) => [it, shorten(before[it]), shorten(now[it])])
  expect(differences).toEqual([])
}

/** Reads until two rounds in a row give the same answers: then everything is stored. A round takes half a minute on a busy machine. */
export async function readSettled(service: Pick<Service, 'url' | 'apiKey'>, reads: Read[]) {
  let before: Record<string, string> = {}
  return await eventually(async () => {
    const now = await readEverything(service, reads)
    const last = before
    before = now
    await new Promise((resolve) => setTimeout(resolve, 1_500))
    expectSame(now, last)
    return now
  }, 4 * minute)
}
