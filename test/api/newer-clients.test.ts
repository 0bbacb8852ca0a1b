import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openDatabase } from '../../store/postgres/database.ts'
import { createAssetClient } from '../kit/clients/assets.ts'
import { createRegistryClient } from '../kit/clients/registry.ts'
import { storesWith, uniqueName } from '../kit/service.ts'
import { openTwoUsers, type TwoUsers } from './accounts/two-users.ts'

/** Routes that clients call when the service names a newer version of the interface. */

let service: TwoUsers
let assets: ReturnType<typeof createAssetClient>
let registry: ReturnType<typeof createRegistryClient>
beforeAll(async () => {
  service = await openTwoUsers()
  assets = createAssetClient(service)
  registry = createRegistryClient(service)
})
afterAll(() => service?.close())

async function get(path: string, query: Record<string, string> = {}) {
  const answer = await service.client.get(`${path}?${new URLSearchParams(query)}`)
  expect(answer.status, answer.text).toBe(200)
  return answer.body
}

async function post(path: string, body: Record<string, unknown>) {
  const answer = await service.client.post(path, body)
  expect(answer.status, answer.text).toBe(200)
  return answer.body
}

async function refused(path: string, body: Record<string, unknown>) {
  const answer = await service.client.post(path, body)
  expect(answer.status, answer.text).toBe(400)
  return answer.body.msg as string
}

it('isAlive/ver names the version whose routes are all here', async () => {
  const answer = await fetch(`${service.url}/clientlib/isAlive/ver`)
  expect(await answer.json()).toEqual({ version: '4.35.0' })
})

describe('a registered version', () => {
  /** Registers the versions of a new model, the newest way. */
  async function aModel(versions: Record<string, Record<string, unknown>>) {
    const source = await registry.aSource()
    const modelName = uniqueName('Model')
    const ids: Record<string, string> = {}
    for (const [version, fields] of Object.entries(versions)) {
      const made = await post('/write/registry-model/item/create', {
        experimentKey: source.experimentKey,
        experimentModelName: source.modelName,
        registryModelName: modelName,
        registryModelDescription: 'described',
        version,
        publicModel: false,
        ...fields,
      })
      ids[version] = made.registryModelItemId as string
    }
    return { ...source, modelName, ids, query: { workspaceName: service.workspaceName, modelName } }
  }

  it('is created by the names of its experiment and model, which makes the registered model when it is the first', async () => {
    const { modelName, experimentKey, ids, query } = await aModel({
      '1.0.0': { versionComment: 'first', tags: ['a', 'b'], status: 'QA' },
      '1.1.0': { tags: null, status: null },
    })
    expect(await get('/registry-model/compact-details', query)).toMatchObject({
      modelName,
      description: 'described',
      numberOfVersions: 2,
    })
    expect(await get('/registry-model/item/details', { ...query, version: '1.0.0' })).toMatchObject({
      registryModelItemId: ids['1.0.0'],
      registryModelName: modelName,
      experimentKey,
      version: '1.0.0',
      comment: 'first',
      tags: ['a', 'b'],
      stages: ['a', 'b'],
      status: 'QA',
      assets: [{ fileName: 'model.bin' }],
    })
    const newest = await get('/registry-model/item/details', query)
    expect(newest).toMatchObject({ version: '1.1.0', tags: [], status: 'None' })
  })

  it('is made by one of two that come first at once, and each has its version', async () => {
    const source = await registry.aSource()
    const registryModelName = uniqueName('model')
    const { experimentKey, modelName: experimentModelName } = source
    const versions = ['1.0.0', '2.0.0', '3.0.0', '4.0.0']
    await Promise.all(
      versions.map((version) =>
        post('/write/registry-model/item/create', { experimentKey, experimentModelName, registryModelName, version }),
      ),
    )
    expect(await registry.listVersions(registryModelName)).toEqual(versions)
    const again = { experimentKey, experimentModelName, registryModelName, version: '1.0.0' }
    expect(await refused('/write/registry-model/item/create', again)).toContain('has a version 1.0.0 already')
  })

  it('is found by prefix, tag and status, the highest first', async () => {
    const { query } = await aModel({
      '2.0.0': { tags: ['a'] },
      '2.1.0': { status: 'QA' },
      '2.10.0': { tags: ['a'], status: 'QA' },
      '3.0.0': {},
    })
    const find = async (filter: Record<string, string>) =>
      ((await get('/registry-model/items', { ...query, ...filter })).items as { version: string }[]).map(
        (it) => it.version,
      )
    expect(await find({ versionPrefix: '' })).toEqual(['3.0.0', '2.10.0', '2.1.0', '2.0.0'])
    expect(await find({ versionPrefix: '2.1.' })).toEqual(['2.1.0'])
    expect(await find({ versionPrefix: '2' })).toEqual(['2.10.0', '2.1.0', '2.0.0'])
    expect(await find({ tag: 'a' })).toEqual(['2.10.0', '2.0.0'])
    expect(await find({ status: 'QA' })).toEqual(['2.10.0', '2.1.0'])
    expect(await find({ tag: 'a', status: 'QA' })).toEqual(['2.10.0'])
    // No character of the prefix means another.
    expect(await find({ versionPrefix: '2%' })).toEqual([])
  })

  it('has a status of the list that its workspace has, and its history tells of each change', async () => {
    const { query, ids } = await aModel({ '1.0.0': {} })
    const modelItemId = ids['1.0.0'] as string
    const { workspaceName } = service
    const setStatus = (status: string) => post('/write/registry-model/item/status', { modelItemId, status })
    const first = (await get('/registry-model/allowed_status_values', { workspaceName })).allowedStatus
    expect(first).toEqual(['None', 'Development', 'Staging', 'QA', 'Production', 'Archived'])
    await setStatus('Production')
    await setStatus('Production')
    const wrong = await refused('/write/registry-model/item/status', { modelItemId, status: 'Prodcution' })
    expect(wrong).toBe('status: must be one of None, Development, Staging, QA, Production, Archived, not "Prodcution"')

    await post('/write/registry-model/allowed_status_values', { workspaceName, allowedStatus: ['Live', 'Live'] })
    expect((await get('/registry-model/allowed_status_values', { workspaceName })).allowedStatus).toEqual([
      'None',
      'Live',
    ])
    // It keeps the one that is no longer on the list.
    expect(await get('/registry-model/item/details', query)).toMatchObject({ status: 'Production' })
    await setStatus('Live')
    await post('/write/registry-model/allowed_status_values', { workspaceName, allowedStatus: first })

    const days = await post('/registry-model/history/item', { registryModelItemId: modelItemId, groupedBy: 'DAY' })
    expect(Object.keys(days).every((it) => /^[A-Z][a-z]+ \d{1,2}, \d{4}$/.test(it))).toBe(true)
    const events = Object.values(days).flat() as Record<string, unknown>[]
    expect(events.map((it) => [it.actionType, it.newValue])).toEqual([
      ['MODEL_VERSION_STATUS_CHANGED', { status: 'Live', registryModelStatus: 'Live' }],
      ['MODEL_VERSION_STATUS_CHANGED', { status: 'Production', registryModelStatus: 'Production' }],
      ['MODEL_VERSION_CREATED', expect.objectContaining({ version: '1.0.0', status: 'None' })],
    ])
  })

  it('takes a configured status at once, or waits for whoever reviews it', async () => {
    const { query, ids } = await aModel({ '1.0.0': {} })
    const path = `/registry-model/item/${ids['1.0.0']}/status-configuration`
    const status = async () => (await get('/registry-model/item/details', query)).status
    expect(await get(path)).toMatchObject({ status: null, statusConfiguration: [] })

    const statusConfiguration = [{ key: 'replicas', value: '3' }]
    await post(`/write${path}`, { status: 'Staging', isReviewRequired: false, statusConfiguration })
    expect(await status()).toBe('Staging')
    await post(`/write${path}`, { status: 'Production', isReviewRequired: true, comment: 'please' })
    expect(await status()).toBe('Staging')
    expect(await get(path)).toEqual({
      modelItemId: ids['1.0.0'],
      status: 'Production',
      isReviewRequired: true,
      statusConfiguration: [],
      comment: 'please',
    })
    await post('/write/registry-model/item/status', { modelItemId: ids['1.0.0'], status: 'Production' })
    expect(await status()).toBe('Production')
  })

  it('keeps metadata of any kind, key by key', async () => {
    const { ids } = await aModel({ '1.0.0': {} })
    const path = `/registry-model/item/${ids['1.0.0']}/metadata`
    expect(await get(path)).toEqual({ metadata: [] })
    await post(`/write${path}`, {
      metadata: [
        { key: 'a', value: 1.5 },
        { key: 'b', value: { c: [null, 'x'] } },
        { key: 'n', value: null },
      ],
    })
    const large = '{"metadata":[{"key":"b","value":9007199254740993},{"key":"é\\"","value":"y"}]}'
    expect((await service.client.postRaw(`/write${path}`, large)).status).toBe(200)
    const answer = await service.client.get(path)
    expect(answer.text).toContain('{"key":"b","value":9007199254740993}')
    expect((answer.body.metadata as { key: string; value: unknown }[]).map((it) => it.key)).toEqual([
      'a',
      'b',
      'n',
      'é"',
    ])
    const most = { metadata: [{ key: 'a', value: 'x'.repeat(99_000) }] }
    await post(`/write${path}`, most)
    const more = Array.from({ length: 11 }, (_, at) => ({ key: `k${at}`, value: 'x'.repeat(99_000) }))
    expect(await refused(`/write${path}`, { metadata: more })).toContain('metadata: must have 1000000 bytes or fewer')
  })
})

describe('saved views', () => {
  async function aProject() {
    const { workspaceName } = service
    const projectName = uniqueName('project')
    const fields = { workspaceName, projectName, projectDescription: '', isPublic: false }
    const { projectId } = await post('/write/project/create', fields)
    const experimentKey = await service.client.createExperiment({ projectName })
    return { projectId: projectId as string, projectName, experimentKey }
  }
  const names = async (path: string, query: Record<string, string>) =>
    ((await get(path, query)).views as { templateName: string }[]).map((it) => it.templateName)

  it('are read as they were saved, changed by their id, and deleted', async () => {
    const { projectId } = await aProject()
    const states = { experimentQueryState: '{"a": 1}', dashboardChartState: '[]', v2: { big: [1, { b: null }] } }
    const made = await post('/write/views/upsert', { projectId, templateName: 'one', ...states })
    expect(made).toMatchObject({ templateName: 'one', projectDefault: false, reactGridTableState: null, ...states })
    const { templateId } = made
    await post('/write/dashboard-template/set-default', { projectId, templateId })
    await post('/write/views/upsert', { projectId, templateName: 'two', templateId, v3: 3 })
    await post('/write/views/upsert', { projectId, templateName: 'another' })
    const { views } = await get('/views/get-all', { projectId })
    expect(views).toMatchObject([
      { templateName: 'another', projectDefault: false },
      { templateId, templateName: 'two', projectDefault: true, experimentQueryState: null, v2: null, v3: 3 },
    ])
    await post('/write/views/delete', { projectId, templateId })
    expect(await names('/views/get-all', { projectId })).toEqual(['another'])
    expect(await refused('/write/views/delete', { projectId, templateId })).toContain('templateId: the project has no')
    const gone = { projectId, templateId, templateName: 'a' }
    expect(await refused('/write/views/upsert', gone)).toContain('templateId: the project has no')
  })

  it('replaced from what is no longer there are refused, and two who change one at once do not both get through', async () => {
    const { projectId } = await aProject()
    const view = { projectId, templateName: 'board' }
    const { templateId, lastUpdate: first } = await post('/write/views/upsert', { ...view, v3: 0 })
    const change = (v3: number, ifLastUpdate: unknown) =>
      service.client.post('/write/views/upsert', { ...view, templateId, v3, ifLastUpdate })
    const answers = await Promise.all([1, 2, 3, 4].map((v3) => change(v3, first)))
    expect(answers.map((it) => it.status).sort()).toEqual([200, 409, 409, 409])
    const kept = answers.find((it) => it.status === 200)?.body
    expect(answers.find((it) => it.status === 409)?.body).toMatchObject({ sdk_error_code: 8000046 })
    const read = async () => (await get('/views/get-all', { projectId, templateId: String(templateId) })).views
    expect(await read()).toMatchObject([{ v3: kept?.v3, lastUpdate: kept?.lastUpdate }])
    expect((await change(5, kept?.lastUpdate)).status).toBe(200)
    await post('/write/views/upsert', { projectId, templateName: 'another' })
    expect(await read()).toMatchObject([{ templateId, v3: 5 }])
    expect((await get('/views/get-all', { projectId, templateId: 'none' })).views).toEqual([])
  })

  it('of an experiment go with it, and those of other projects are read when asked for', async () => {
    const [one, other] = [await aProject(), await aProject()]
    const { projectId, experimentKey } = one
    await post('/write/chart-templates/upsert', { projectId, experimentKey, templateName: 'of the experiment' })
    await post('/write/chart-templates/upsert', { projectId, templateName: 'of the project' })
    await post('/write/views/upsert', { projectId: other.projectId, templateName: 'of the other' })

    expect(await names('/views/chart-templates', { projectId, experimentKey })).toEqual(['of the experiment'])
    expect(await names('/views/chart-templates', { projectId })).toEqual(['of the project'])
    expect(await names('/views/get-all', { projectId })).toEqual([])
    const all = await names('/views/get-all', { projectId, includeWorkspaceViews: 'true' })
    expect(all).toContain('of the other')

    await post('/write/experiment/move', {
      targetWorkspaceName: service.workspaceName,
      targetProjectName: other.projectName,
      experimentKeys: [experimentKey],
      symlink: false,
    })
    const moved = { projectId: other.projectId, experimentKey }
    expect((await get('/views/chart-templates', moved)).views).toMatchObject([
      { templateName: 'of the experiment', projectId: other.projectId, viewSource: 'chart_template' },
    ])
  })
})

describe('links of files elsewhere', () => {
  it('of an artifact version are stored in one request', async () => {
    const experimentKey = await service.client.createExperiment()
    const artifact = await post('/write/artifacts/upsert', { experimentKey, artifactName: uniqueName('artifact') })
    const artifactVersionId = artifact.artifactVersionId as string
    const answer = await service.client.post(`/write/artifact/assets/remote/batch?experimentKey=${experimentKey}`, {
      remoteArtifactAssetRequests: [
        { link: 's3://a/b.csv', type: 'asset', fileName: 'b.csv', artifactVersionId, metadata: '{"k":1}', step: 3 },
        { link: 's3://a/c.csv', type: 'asset', fileName: 'c.csv', artifactVersionId },
      ],
    })
    expect(answer.status, answer.text).toBe(200)
    await post('/write/artifacts/state', { experimentKey, artifactVersionId, state: 'CLOSED' })
    const { files } = await get('/artifacts/version/files', { versionId: artifactVersionId })
    expect(files).toMatchObject([
      { fileName: 'b.csv', link: 's3://a/b.csv', remote: true, metadata: '{"k":1}' },
      { fileName: 'c.csv', link: 's3://a/c.csv', remote: true },
    ])
    expect(await assets.list(experimentKey)).toMatchObject([{ step: 3 }, { step: null }])
  })

  it('make a model of an experiment, which can be registered', async () => {
    const experimentKey = await service.client.createExperiment()
    const answer = await fetch(`${service.url}/clientlib/asset/log-remote-model`, {
      method: 'POST',
      headers: { authorization: service.apiKey, 'content-type': 'application/json' },
      body: JSON.stringify({
        apiKey: service.apiKey,
        experimentKey,
        modelName: 'net',
        remoteEntities: [{ assetId: 'a1', remoteUrl: 's3://a/w.bin', fileName: 'w.bin', metadata: '{"k":1}' }],
      }),
    })
    expect(answer.status).toBe(200)
    const listed = await get('/experiment/model/asset/list', { experimentKey, modelName: 'net' })
    expect(listed.assets).toMatchObject([
      { assetId: 'a1', fileName: 'w.bin', remote: true, link: 's3://a/w.bin', type: 'model-element' },
    ])
    const registryModelName = uniqueName('model')
    const fields = { experimentKey, experimentModelName: 'net', registryModelName }
    await post('/write/registry-model/item/create', fields)
    expect(await registry.listVersions(registryModelName)).toEqual(['1.0.0'])
  })
})

it('a file of a registered version is read as it was registered, by what a client takes out of its link', async () => {
  const source = await registry.aSource({ 'model.bin': Buffer.from('registered') })
  const { registryModelName } = await registry.aModel({}, source)
  const { body } = await registry.read('/registry-model/item/download-instructions', registryModelName)
  const [version] = body.versions as [{ assets: [{ assetId: string; link: string }] }]
  const [{ assetId, link }] = version.assets
  const named = new URL(link).searchParams.get('experimentKey') as string
  const read = async () => {
    const answer = await service.client.get(
      `/experiment/asset/get-asset?${new URLSearchParams({ experimentKey: named, assetId, allow301: 'False' })}`,
    )
    expect(answer.status, answer.text).toBe(200)
    return answer.text
  }
  await registry.addFile(source, 'model.bin', Buffer.from('changed since'), { assetId })
  expect(await read()).toBe('registered')
  await get('/write/experiment/delete', { experimentKey: source.experimentKey })
  expect(await read()).toBe('registered')
  const foreign = await service.stranger.get(
    `/experiment/asset/get-asset?${new URLSearchParams({ experimentKey: named, assetId })}`,
  )
  expect([foreign.status, foreign.body.sdk_error_code]).toEqual([400, 8000063])
})

it('a file of an artifact version needs no experiment, not even an empty key', async () => {
  const experimentKey = await service.client.createExperiment()
  const artifact = await post('/write/artifacts/upsert', { experimentKey, artifactName: uniqueName('artifact') })
  const artifactVersionId = artifact.artifactVersionId as string
  const file = { body: Buffer.from('content'), headers: { 'content-type': 'application/octet-stream' } }
  const { body } = await assets.upload({ experimentKey, fileName: 'a', artifactVersionId }, file)
  await post('/write/artifacts/state', { experimentKey, artifactVersionId, state: 'CLOSED' })
  const query = { experimentKey: '', artifactVersionId, assetId: body.assetId as string }
  const answer = await service.client.get(`/experiment/asset/get-asset?${new URLSearchParams(query)}`)
  expect([answer.status, answer.text]).toEqual([200, 'content'])
})

it('additional system information is added key by key, of any type', async () => {
  const experimentKey = await service.client.createExperiment()
  const log = (key: string, value: unknown) =>
    post('/write/experiment/system-details', { experimentKey, logAdditionalSystemInfoList: [{ key, value }] })
  await log('cores', 8)
  await log('rack', 'b')
  await log('cores', [16, null])
  await post('/write/experiment/system-details', { experimentKey, os: 'Linux' })
  const details = await get('/experiment/system-details', { experimentKey })
  expect(details.logAdditionalSystemInfoList).toEqual([
    { key: 'rack', value: 'b' },
    { key: 'cores', value: '[16,null]' },
  ])
})

it('an experiment is no longer marked as throttled when its owner says so', async () => {
  const experimentKey = await service.client.createExperiment()
  const database = openDatabase({ url: storesWith('postgres').postgresUrl, onError: () => undefined })
  try {
    await database.row(
      `INSERT INTO experiment_throttles (experiment_id, reason, last_at_ms)
       SELECT id, 'metricsPerMinute', extract(epoch FROM now()) * 1000 FROM experiments WHERE key = $1`,
      [experimentKey],
    )
  } finally {
    await database.close()
  }
  expect(await get('/experiment/metadata', { experimentKey })).toMatchObject({ throttle: true })
  await post(`/write/experiment/${experimentKey}/mark-not-throttled`, {})
  expect(await get('/experiment/metadata', { experimentKey })).toMatchObject({ throttle: false })
})
