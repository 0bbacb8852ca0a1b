import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { insertNewKey, type KeyFields } from '../../store/postgres/accounts/keys.ts'
import { insertServiceAccount } from '../../store/postgres/accounts/service-accounts.ts'
import { type Database, openDatabase } from '../../store/postgres/database.ts'
import { aPoint } from '../kit/builders.ts'
import { anEvent } from '../kit/clients/monitoring.ts'
import { createRegistryClient, type Source } from '../kit/clients/registry.ts'
import { eventually } from '../kit/eventually.ts'
import { createClient, isAtRoot, type TestClient } from '../kit/http/client.ts'
import { createUser, openTestService, storesWith, uniqueName } from '../kit/service.ts'
import { expectedOf, openScopedCallers, type ScopedKind, scopedKinds } from './scoped-callers.ts'

/**
 * Every route that is about a project or what is in it, for every kind of caller: store/postgres/accounts/visibility.ts says who
 * may read and write, and this holds each route to it. A route that is missing here fails the first test.
 */
type Kind = (typeof kinds)[number]
const kinds = [
  ...(['owner', 'editor', 'viewer', 'auditor', 'admin', 'colleague', 'stranger', 'visitor', 'nobody'] as const),
  // Service accounts: two for the whole organization, one restricted to this workspace, one to another.
  ...(['account', 'reader', 'insider', 'outsider'] as const),
]

/**
 * What is read with a key only is closed to those who come with a share code. `use` reads what is of the workspace. Admins of the
 * organization may `administer`, and `manage and read` what they may read; only owners of the workspace may `manage`.
 */
type Right =
  | 'read'
  | 'read with a key'
  | 'use'
  | 'use or administer'
  | 'write'
  | 'administer'
  | 'manage and read'
  | 'manage'
type Place = {
  workspaceName: string
  projectName: string
  projectId: string
  experimentKey: string
  userName: string
  /** A file of the model `net`. */
  assetId: string
  /** A file in CSV. */
  tableId: string
  /** One with a closed version, as public as the project; the other has an open one. */
  artifactId: string
  closedVersionId: string
  openVersionId: string
  /** Of what `subjects` makes for the route. */
  subjectId: string
}
/** A text is sent as a file. */
type Call = {
  method?: string
  /** Of the path, in braces. */
  params?: Record<string, string>
  query?: Record<string, unknown>
  body?: Record<string, unknown> | unknown[] | string
}
type Sample = [right: Right, call: (place: Place) => Call]

const byKey: Sample[1] = ({ experimentKey }) => ({ query: { experimentKey } })
const byAsset: Sample[1] = ({ experimentKey, assetId }) => ({ query: { experimentKey, assetId } })
const byModel: Sample[1] = ({ experimentKey }) => ({ query: { experimentKey, modelName: 'net' } })
const byArtifact: Sample[1] = ({ artifactId }) => ({ query: { artifactId } })
const byProject: Sample[1] = ({ projectId }) => ({ query: { projectId } })
const post =
  (fields: Record<string, unknown>, method = 'POST'): Sample[1] =>
  ({ experimentKey }) => ({ method, body: { experimentKey, ...fields } })

const scored = { scoreName: 'probability', labelName: 'value' }

const samples: Record<string, Sample> = {
  '/project': ['read', byProject],
  '/project/notes': ['read', byProject],
  '/project/default-views': ['read', byProject],
  '/project/column-names': ['read', byProject],
  '/experiments': ['read', byProject],
  '/viz-instance/store': ['read', ({ projectId }) => ({ query: { projectId, instanceId: 'a' } })],
  '/write/viz-instance/store/save': [
    'write',
    ({ projectId }) => ({ method: 'POST', body: { projectId, instanceId: 'a', store: {} } }),
  ],
  '/views/get-all': ['read', byProject],
  '/views/chart-templates': ['read', byProject],
  '/write/views/upsert': ['write', ({ projectId }) => ({ method: 'POST', body: { projectId, templateName: 'a' } })],
  '/write/chart-templates/upsert': [
    'write',
    ({ projectId }) => ({ method: 'POST', body: { projectId, templateName: 'a' } }),
  ],
  '/write/views/delete': [
    'write',
    ({ projectId, subjectId }) => ({ method: 'POST', body: { projectId, templateId: subjectId } }),
  ],
  '/experiments/search': ['read', ({ projectId }) => ({ method: 'POST', body: { projectId, rulesTree: null } })],
  '/project/runs': ['read', ({ projectId }) => ({ method: 'POST', body: { projectId, columns: [] } })],
  '/project/output/search': ['read', ({ projectId }) => ({ method: 'POST', body: { projectId, search: 'x' } })],
  '/project/query-completion': ['read', ({ projectId }) => ({ method: 'POST', body: { projectId, query: '' } })],
  '/project/run-columns': ['read', ({ projectId }) => ({ method: 'POST', body: { projectId } })],
  '/export/runs': ['read with a key', byProject],
  '/export/metrics': ['read with a key', byProject],
  '/export/system-metrics': ['read with a key', byProject],
  '/export/output': ['read with a key', byProject],
  '/export/events': ['use', byMonitored()],
  '/export/labels': ['use', byMonitored()],
  '/export/archive': ['manage and read', byProject],
  '/export/manifest': ['read with a key', ({ projectId }) => ({ query: { projectId, what: 'metrics' } })],
  '/project/query': ['read', ({ projectId }) => ({ method: 'POST', body: { projectId, predicates: [] } })],
  '/experiment/metadata': ['read', byKey],
  '/experiment/counters': ['read', byKey],
  '/experiment/parameters': ['read', byKey],
  '/experiment/log-other': ['read', byKey],
  '/experiment/tags': ['read', byKey],
  '/experiment/html': ['read', byKey],
  '/experiment/code': ['read', byKey],
  '/experiment/graph': ['read', byKey],
  '/experiment/git/metadata': ['read', byKey],
  '/experiment/system-details': ['read', byKey],
  '/experiment/cloud-details': ['read', byKey],
  '/experiment/dependencies': ['read', byKey],
  '/experiment/metrics/summary': ['read', byKey],
  '/experiment/metrics/get-metric': ['read', ({ experimentKey }) => ({ query: { experimentKey, metricName: 'loss' } })],
  '/experiment/metrics/get-all': ['read', byKey],
  '/experiment/output': ['read', byKey],
  '/experiment/output/lines': ['read', byKey],

  '/experiment/git/patch': ['read', byKey],
  '/experiment/asset/list': ['read', byKey],
  '/experiment/asset/get-by-name': ['read', ({ experimentKey }) => ({ query: { experimentKey, assetName: 'a' } })],
  '/experiment/asset/get-asset': ['read', byAsset],
  '/experiment/asset/page': ['read', byAsset],
  '/experiment/asset/rows': ['read', ({ experimentKey, tableId }) => ({ query: { experimentKey, assetId: tableId } })],
  '/experiment/asset/tree': ['read', byKey],
  '/experiment/asset/zip': ['read', byKey],
  '/experiment/html/page': ['read', byKey],
  '/experiment/model': ['read', byKey],
  '/experiment/model/asset/list': ['read', byModel],
  '/experiment/model/download': ['read', byModel],

  '/write/experiment/upload-asset': [
    'write',
    ({ experimentKey }) => ({ method: 'POST', query: { experimentKey, fileName: 'a.txt' }, body: 'text' }),
  ],
  '/write/experiment/git/patch': [
    'write',
    ({ experimentKey }) => ({ method: 'POST', query: { experimentKey }, body: 'diff' }),
  ],
  '/write/experiment/upload-text-sample': ['write', post({ content: 'a' })],
  '/write/experiment/assets/remote/batch': ['write', post({ remoteAssets: [{ link: 's3://a/b' }] })],
  '/write/artifact/assets/remote/batch': [
    'write',
    ({ experimentKey }) => ({
      method: 'POST',
      query: { experimentKey },
      body: { remoteArtifactAssetRequests: [{ link: 's3://a/b' }] },
    }),
  ],
  '/clientlib/asset/log-remote-model': [
    'write',
    post({ modelName: 'a', remoteEntities: [{ remoteUrl: 's3://a/b', fileName: 'b' }] }),
  ],
  '/write/experiment/asset/tag': [
    'write',
    ({ experimentKey, assetId }) => ({ method: 'POST', body: { experimentKey, assetId, tags: ['a'] } }),
  ],
  '/write/experiment/asset/tag/delete': [
    'write',
    ({ experimentKey, assetId }) => ({ query: { experimentKey, assetId, tag: 'a' } }),
  ],
  '/write/experiment/asset/delete': ['write', byAsset],

  '/get/artifacts': ['read with a key', byKey],
  '/artifacts/get': ['read with a key', byArtifact],
  '/artifacts/version': ['read with a key', byArtifact],
  '/artifacts/version/files': ['read with a key', byArtifact],
  '/artifacts/version/download': ['read with a key', byArtifact],
  '/artifacts/version/consumers': ['read with a key', byArtifact],
  '/artifacts/version/tree': ['read with a key', byArtifact],
  '/artifacts/version/diff': [
    'read with a key',
    ({ closedVersionId }) => ({ query: { fromVersionId: closedVersionId, toVersionId: closedVersionId } }),
  ],
  '/lineage': ['read with a key', byKey],
  '/write/artifacts/upsert': ['write', post({ artifactName: uniqueName('artifact') })],
  '/write/artifacts/state': [
    'write',
    ({ experimentKey, openVersionId }) => ({
      method: 'POST',
      body: { experimentKey, artifactVersionId: openVersionId, state: 'CLOSED' },
    }),
  ],
  '/write/artifacts/version/labels': [
    'write',
    ({ closedVersionId }) => ({ method: 'POST', body: { artifactVersionId: closedVersionId, alias: ['a'] } }),
  ],
  '/write/artifacts/details': ['write', ({ artifactId }) => ({ method: 'POST', body: { artifactId, tags: ['a'] } })],
  '/write/artifacts/version/delete': [
    'write',
    ({ closedVersionId }) => ({ query: { artifactVersionId: closedVersionId } }),
  ],
  '/write/artifacts/delete': ['write', byArtifact],

  '/write/experiment/metric': ['write', post(aPoint())],
  '/write/experiment/metrics/batch': ['write', post({ metrics: [aPoint()] })],
  '/write/experiment/output': ['write', post({ outputLines: [] })],
  '/write/experiment/gpu-metrics': ['write', post({ gpus: [] })],
  '/write/experiment/ram-metrics': ['write', post({ totalRam: 1, usedRam: 1 })],
  '/write/experiment/cpu-metrics': ['write', post({ cpuPercentUtilization: [] })],
  '/write/experiment/load-metrics': ['write', post({ loadAverage: 1 })],
  '/write/experiment/parameter': ['write', post({ parameterName: 'a', parameterValue: 1 })],
  '/write/experiment/parameter/delete': ['write', post({ parameterName: 'a' })],
  '/write/experiments/parameters/delete': [
    'write',
    ({ experimentKey }) => ({ method: 'POST', body: [{ experimentKey, parameterName: 'a' }] }),
  ],
  '/write/experiment/log-other': ['write', post({ key: 'a', value: 1 })],
  '/write/experiment/tags': ['write', post({ addedTags: ['a'] })],
  '/write/experiment/tags/delete': ['write', post({ tags: ['a'] })],
  '/write/experiment/html': ['write', post({ html: 'a' })],
  '/write/experiment/code': ['write', post({ code: 'a' })],
  '/write/experiment/graph': ['write', post({ graph: 'a' })],
  '/write/experiment/git/metadata': ['write', post({ user: '', root: '', branch: '', parent: '', origin: '' })],
  '/write/experiment/system-details': ['write', post({ os: 'a' })],
  '/write/experiment/cloud-details': ['write', post({ provider: 'a' })],
  '/write/experiment/file-path': ['write', post({ filePath: 'a' })],
  '/write/experiment/dependencies': ['write', post({ logDependencies: [] }, 'PUT')],
  '/write/experiment/update-status': ['write', post({ isAlive: true })],
  '/write/experiment/set-start-end-time': ['write', post({ startTimeMillis: 1 })],
  '/write/experiment/set-status': ['write', byKey],
  '/write/experiment/rpc/send': ['write', post({ method: 'm' })],
  '/write/experiment/rpc/result': [
    'write',
    ({ experimentKey, subjectId }) => ({ method: 'POST', body: { experimentKey, rpcId: subjectId } }),
  ],
  '/experiment/rpc': ['write', ({ experimentKey, subjectId }) => ({ query: { experimentKey, rpcId: subjectId } })],
  '/write/experiment/stop': ['write', byKey],
  '/write/experiment/{experimentKey}/mark-not-throttled': [
    'write',
    ({ experimentKey }) => ({ method: 'POST', params: { experimentKey } }),
  ],
  '/write/experiment/archive': ['write', byKey],
  '/write/experiment/restore': ['write', byKey],
  '/write/experiment/delete': ['write', byKey],
  '/write/experiment/move': [
    'write',
    ({ workspaceName, projectName, experimentKey }) => ({
      method: 'POST',
      body: {
        targetWorkspaceName: workspaceName,
        targetProjectName: projectName,
        experimentKeys: [experimentKey],
        symlink: false,
      },
    }),
  ],
  '/write/experiment/create': [
    'write',
    ({ workspaceName, projectName }) => ({ method: 'POST', body: { workspaceName, projectName } }),
  ],
  '/write/project/create': [
    'write',
    ({ workspaceName }) => ({
      method: 'POST',
      body: { workspaceName, projectName: uniqueName('made'), projectDescription: '', isPublic: false },
    }),
  ],
  '/write/project/symlink': [
    'write',
    ({ experimentKey, projectName }) => ({ query: { exerimentKey: experimentKey, projectName } }),
  ],
  '/write/project/update': ['write', ({ projectId }) => ({ method: 'POST', body: { projectId } })],
  '/write/project/archive': ['write', ({ projectId }) => ({ method: 'POST', body: { projectId, archived: false } })],
  '/write/project/update-owner': [
    'manage',
    ({ projectId, userName }) => ({ method: 'POST', body: { projectId, userName } }),
  ],
  '/write/project/notes': ['write', ({ projectId }) => ({ method: 'POST', body: { projectId, notes: '' } })],
  '/write/project/add-share-link': ['write', byProject],
  '/project/get-project-share-links': ['write', byProject],
  '/write/template/set-default': [
    'write',
    ({ projectId }) => ({ method: 'POST', body: { projectId, templateId: 'a' } }),
  ],
  '/write/dashboard-template/set-default': [
    'write',
    ({ projectId }) => ({ method: 'POST', body: { projectId, templateId: 'a' } }),
  ],
  '/write/project/delete': [
    'write',
    ({ workspaceName, projectName }) => ({
      method: 'POST',
      body: { workspaceName, projectName, deleteAllExperiments: false },
    }),
  ],
  '/projects/deleted': ['use', ({ workspaceName }) => ({ query: { workspaceName } })],
  '/write/project/restore': ['write', ({ projectId }) => ({ method: 'POST', body: { projectId } })],
  '/templates': ['use', ({ workspaceName }) => ({ query: { teamName: workspaceName } })],
  '/write/template/upload': [
    'write',
    ({ workspaceName }) => ({ method: 'POST', query: { teamName: workspaceName }, body: emptyZip }),
  ],
  '/template/download': ['use', ({ subjectId }) => ({ query: { templateId: subjectId } })],
  '/write/template/delete': ['write', ({ subjectId }) => ({ query: { templateId: subjectId } })],
  '/mpm/v2/events/batch': [
    'write',
    ({ workspaceName }) => ({ method: 'POST', body: { data: [anEventOf(workspaceName)] } }),
  ],
  '/mpm/v2/labels/batch': [
    'write',
    ({ workspaceName }) => ({
      method: 'POST',
      body: { data: [{ workspaceName, modelName: 'monitored', predictionId: uniqueName('p'), labels: 1 }] },
    }),
  ],
  '/mpm/v2/data/events/csv': ['write', toCsv('predictionId,feature_a\n1,2\n')],
  '/mpm/v2/data/labels/csv': ['write', toCsv('predictionId,label_value_a\n1,2\n')],
  '/mpm/v2/dataset/events/csv': ['write', toCsv('predictionId,feature_a\n1,2\n')],
  '/mpm/v2/models': ['use', ({ workspaceName }) => ({ query: { workspaceName } })],
  '/mpm/v2/errors': ['use', ({ workspaceName }) => ({ query: { workspaceName } })],
  '/mpm/v2/events/count': ['use', ({ workspaceName }) => ({ query: { workspaceName, modelName: 'monitored' } })],
  '/mpm/v2/event': [
    'use',
    ({ workspaceName, subjectId }) => ({
      query: { workspaceName, modelName: 'monitored', predictionId: subjectId },
    }),
  ],
  '/mpm/v2/features': ['use', byMonitored()],
  '/mpm/v2/distribution': ['use', byMonitored({ feature: 'age' })],
  '/mpm/v2/drift': ['use', byMonitored({ datasetName: 'training' })],
  '/mpm/v2/labels/quality': ['use', byMonitored()],
  '/mpm/v2/labels/delay': ['use', byMonitored()],
  '/mpm/v2/drift/map': ['use', byMonitored({ datasetName: 'training' })],
  '/mpm/v2/overview': ['use', ({ workspaceName }) => ({ query: { workspaceName } })],
  '/mpm/v2/segments': [
    'write',
    ({ workspaceName }) => ({
      method: 'POST',
      body: {
        ...{ workspaceName, modelName: 'monitored', name: uniqueName('segment') },
        filters: [{ feature: 'age', operator: 'present' }],
      },
    }),
  ],
  '/mpm/v2/alerts/preview': [
    'write',
    ({ workspaceName }) => ({
      method: 'POST',
      body: { workspaceName, modelName: 'monitored', name: 'a', measure: 'events', windowMs: 60_000 },
    }),
  ],
  '/mpm/v2/alerts': [
    'write',
    ({ workspaceName }) => ({
      method: 'POST',
      body: { workspaceName, name: 'a', modelName: 'monitored', measure: 'events', windowMs: 86_400_000 },
    }),
  ],
  '/mpm/v2/alerts/firings': ['use', byMonitored()],
  '/write/registry-model/allowed_status_values': [
    'administer',
    ({ workspaceName }) => ({ method: 'POST', body: { workspaceName, allowedStatus: ['QA'] } }),
  ],
  '/workspaces/members': ['use', ({ workspaceName }) => ({ query: { workspaceName } })],
  '/workspace/usage': ['use or administer', ({ workspaceName }) => ({ query: { workspaceName } })],
  '/api/mpm/v2/model/details': ['use', ({ subjectId }) => ({ query: { modelId: subjectId } })],
  '/api/mpm/v2/model/numberOfPredictions': ['use', byModelId()],
  '/api/mpm/v2/features/drift': ['use', byModelId({ name: 'age' })],
  '/api/mpm/v2/features/distribution': ['use', byModelId({ name: 'age' })],
  '/api/mpm/v2/features/numerical-distribution-pdf': ['use', byModelId({ name: 'age' })],
  '/api/mpm/v2/custom-metrics/query': ['use', byModelId({ cometSql: 'SELECT count(*) FROM MODEL' })],
  '/api/mpm/v2/model/classification-curve': ['use', byModelId(scored)],
  '/api/mpm/v2/model/gains-table': ['use', byModelId(scored)],
  '/clientlib/logger/add/run': [
    'write',
    ({ workspaceName, projectName }) => ({
      method: 'POST',
      body: { experimentKey: randomUUID().replaceAll('-', ''), teamName: workspaceName, projectName },
    }),
  ],
  '/clientlib/logger/get/run': [
    'write',
    ({ experimentKey }) => ({ method: 'POST', body: { previousExperiment: experimentKey } }),
  ],
  '/clientlib/status-report/update': ['write', post({ is_alive: true })],
  '/clientlib/status-report/offline-metadata': ['write', post({ endTimestamp: 1 })],
  '/clientlib/batch/logger/experiment/metric': ['write', post({ values: [aPoint()] })],
  '/clientlib/batch/logger/experiment/parameter': [
    'write',
    post({ values: [{ parameterName: 'a', parameterValue: 1 }] }),
  ],
  '/clientlib/tags/add-tags-to-experiment': ['write', post({ addedTags: ['a'] })],
  '/clientlib/symlink/new': ['write', ({ experimentKey, projectName }) => ({ query: { experimentKey, projectName } })],
  '/clientlib/asset/upload': ['write', asUpload],
  '/clientlib/visualizations/upload': ['write', asUpload],
  '/clientlib/git-patch/upload': ['write', asUpload],
  '/clientlib/asset': ['write', post({ userFileName: 'a', assetType: '3d-image' })],
  '/clientlib/rpc/get-pending-rpcs': ['write', byKey],
  '/clientlib/rpc/register-rpc': ['write', post({ functionName: 'a' })],
  '/clientlib/rpc/save-rpc-result': ['write', post({ callId: 'a', result: 'b' })],
  '/write/add-workspace-member': [
    'administer',
    ({ workspaceName, userName }) => ({ method: 'POST', body: { workspaceName, userName, admin: false } }),
  ],
}

function asUpload({ experimentKey }: Place): Call {
  return { method: 'POST', query: { experimentId: experimentKey }, body: 'text' }
}

function byMonitored(more: Record<string, string> = {}): Sample[1] {
  return ({ workspaceName }) => ({ query: { workspaceName, modelName: 'monitored', ...more } })
}

function byModelId(more: Record<string, string> = {}): Sample[1] {
  return ({ subjectId }) => ({
    method: 'POST',
    body: { modelId: subjectId, from: '2023-11-14', to: '2023-11-16', ...more },
  })
}

function toCsv(body: string): Sample[1] {
  return ({ workspaceName }) => ({
    method: 'POST',
    query: { workspaceName, modelName: 'monitored', datasetName: 'monitored' },
    body,
  })
}

function anEventOf(workspaceName: string) {
  return anEvent({ workspaceName, modelName: 'monitored' })
}

const emptyZip = `PK\x05\x06${'\0'.repeat(18)}`

const aStoredEvent = once(storeEvent)
const aReference = once(storeReference)
const aModelId = once(storeModel)

/** What has to be there before a route can be called, made by the owner; its id. */
const subjects: Record<string, (place: Place) => Promise<string>> = {
  '/write/views/delete': async ({ projectId }) => {
    const { body } = await service.client.post('/write/views/upsert', { projectId, templateName: 'a' })
    return body.templateId as string
  },
  '/write/project/restore': async ({ workspaceName, projectName, projectId }) => {
    await service.client.post('/write/project/delete', { workspaceName, projectName, deleteAllExperiments: false })
    return projectId
  },
  '/template/download': aPanel,
  '/write/template/delete': aPanel,
  '/experiment/rpc': aCall,
  '/export/events': aStoredEvent,
  '/export/labels': aStoredEvent,
  '/mpm/v2/events/count': aStoredEvent,
  '/mpm/v2/event': aStoredEvent,
  '/mpm/v2/features': aStoredEvent,
  '/mpm/v2/distribution': aStoredEvent,
  '/mpm/v2/drift': aReference,
  '/mpm/v2/labels/quality': aStoredEvent,
  '/mpm/v2/labels/delay': aStoredEvent,
  '/mpm/v2/drift/map': aReference,
  '/write/experiment/rpc/result': aCall,
  ...Object.fromEntries(
    Object.keys(samples)
      .filter((it) => it.startsWith('/api/mpm/'))
      .map((it) => [it, aModelId]),
  ),
}

/** Made for the first place only: all are of one workspace, and what is asked about these changes nothing. */
function once(make: (place: Place) => Promise<string>) {
  let made: Promise<string> | undefined
  return (place: Place) => {
    made ??= make(place)
    return made
  }
}

async function storeEvent({ workspaceName }: Place): Promise<string> {
  const event = anEventOf(workspaceName)
  await service.client.post('/mpm/v2/events/batch', { data: [event] })
  const { modelName, predictionId } = event as Record<string, string>
  const query = new URLSearchParams({ workspaceName, modelName, predictionId } as Record<string, string>)
  await eventually(async () => expect((await service.client.get(`/mpm/v2/event?${query}`)).status).toBe(200))
  return predictionId as string
}

async function storeReference(place: Place): Promise<string> {
  const { workspaceName } = place
  const query = new URLSearchParams({ workspaceName, modelName: 'monitored', datasetName: 'training' })
  await service.client.postRaw(`/mpm/v2/dataset/events/csv?${query}`, 'predictionId,feature_age\n1,2\n', {
    headers: { 'content-type': 'text/csv' },
  })
  const id = await aStoredEvent(place)
  await eventually(async () => expect((await service.client.get(`/mpm/v2/drift?${query}`)).status).toBe(200))
  return id
}

/** The id of the model, with a label and a reference. */
async function storeModel(place: Place): Promise<string> {
  const { workspaceName } = place
  const predictionId = await aStoredEvent(place)
  const label = { workspaceName, modelName: 'monitored', predictionId, labels: { value: 1 } }
  await service.client.post('/mpm/v2/labels/batch', { data: [label] })
  await aReference(place)
  const { body } = await service.client.get('/api/mpm/v3/workspaces')
  const workspaces = body.workspaces as { workspaceName: string; models: { modelName: string; modelId: string }[] }[]
  const of = workspaces.find((it) => it.workspaceName === workspaceName)?.models ?? []
  const modelId = of.find((it) => it.modelName === 'monitored')?.modelId as string
  await eventually(async () => {
    const details = await service.client.get(`/api/mpm/v2/model/details?modelId=${modelId}`)
    expect((details.body.model as { labels: unknown[] }).labels).not.toEqual([])
  })
  return modelId
}

async function aCall({ experimentKey }: Place): Promise<string> {
  const answer = await service.client.post('/write/experiment/rpc/send', { experimentKey, method: 'm' })
  return answer.body.rpcId as string
}

async function aPanel({ workspaceName }: Place): Promise<string> {
  const query = new URLSearchParams({ teamName: workspaceName })
  const answer = await service.client.postRaw(`/write/template/upload?${query}`, emptyZip)
  return answer.body.templateId as string
}

/** Routes about nothing that belongs to a project: what each of them shows is the caller's own, or for admins. */
const elsewhere = new Set([
  '/account-details',
  // Of the caller only: `accounts/sessions.test.ts`.
  '/session',
  '/session/providers',
  '/account/sessions',
  '/account/sessions/end',
  '/account/keys',
  // Of the caller, and of workspaces that the caller may use: `accounts/notifications.test.ts`.
  '/account/notifications',
  '/account/notifications/seen',
  '/account/keys/revoke',
  '/workspaces',
  '/projects',
  '/artifacts/get-all',
  '/write/workspace/new',
  '/mpm/isAlive/ping',
  // They leave out what the caller may not see, or need an admin: `monitoring/reader.test.ts`.
  '/api/mpm/v3/workspaces',
  '/api/mpm/v2/admin/model/schema',
  '/api/mpm/v2/admin/query',
  '/clientlib/health/ping',
  '/clientlib/asset/3d-limits',
  // Of a workspace that the caller may use: `test/monitoring/alerts.test.ts`, `segments.test.ts`.
  '/mpm/v2/alerts/{alertId}',
  '/mpm/v2/segments/{segmentId}',
])
const needsMoreThanAKey = (path: string) =>
  /^\/(admin|export\/audit|organization|write\/(service-account|organization|api|project\/import))(\/|$)/.test(path)
/**
 * They leave out what the caller may not see, and answer the same as if it were not there: `charts.test.ts`, `ranges.test.ts`,
 * `media.test.ts`.
 */
const leavingOut = new Set([
  ...['/experiments/multi-metric-chart', '/experiments/series'],
  ...['/experiments/media', '/experiments/media/names', '/experiments/media/steps'],
])
/** Its answer has no end; nor has that of `/experiments/stream`: `changes.test.ts`. */
const endless = '/experiment/stream'
/** Tested with what they are about: they need something that is there already. */
const withTheirSubject = new Set([
  '/write/project/delete-project-share-link',
  // `accounts/workspaces.test.ts`
  '/write/remove-workspace-member',
  '/clientlib/asset/asset-item',
  '/clientlib/asset/{assetId}/thumbnail',
])

/** Clients that log live read the code of an error from 400 only. */
const withoutKey = (path: string) => (path.startsWith('/clientlib/') ? 400 : 401)

const editors = new Set<Kind>(['editor', 'account', 'insider'])
const viewers = new Set<Kind>(['viewer', 'auditor', 'reader'])
const isReading = (right: Right) => right.startsWith('read') || right.startsWith('use')
/** Whoever has a role in the workspace knows that it is there; so does its admin. */
const knowsWorkspace = (kind: Kind) => kind === 'owner' || editors.has(kind) || viewers.has(kind)

function mayDo(right: Right, kind: Kind, isPublic: boolean): boolean {
  if (kind === 'owner') return true
  if (kind === 'admin' && right.endsWith('administer')) return true
  if (kind === 'admin' && right === 'manage and read') return isPublic
  if (editors.has(kind)) return isReading(right) || right === 'write'
  if (viewers.has(kind)) return isReading(right)
  if (kind === 'visitor') return right === 'read'
  return (kind === 'colleague' || kind === 'admin') && isPublic && right.startsWith('read')
}

let service: Awaited<ReturnType<typeof openTestService>>
let editorName: string
let viewerName: string
let insiderName: string
type KeyHolder = Exclude<Kind, 'visitor' | 'nobody'>
let users: Record<KeyHolder, Awaited<ReturnType<typeof createUser>>>
let clients: Record<KeyHolder, TestClient>
let scoped: Awaited<ReturnType<typeof openScopedCallers>>
let database: Database
beforeAll(async () => {
  service = await openTestService({ settings: { SVC_EXPORTS_PER_USER_MAX: '100' } })
  const stores = storesWith('postgres')
  database = openDatabase({ url: stores.postgresUrl, connectionsMax: 1, onError: () => undefined })
  const inOrganization = async () => {
    const user = await createUser(stores)
    await database.row(
      `UPDATE users SET organization_id = (SELECT organization_id FROM users WHERE user_name = $2) WHERE user_name = $1`,
      [user.userName, service.userName],
    )
    return user
  }
  const editor = await inOrganization()
  const viewer = await inOrganization()
  const auditor = await inOrganization()
  const admin = await inOrganization()
  editorName = editor.userName
  viewerName = viewer.userName
  await letPeopleIn(service.workspaceName)
  await database.row('UPDATE users SET is_auditor = true WHERE user_name = $1', [auditor.userName])
  await database.row('UPDATE users SET is_admin = true WHERE user_name = $1', [admin.userName])
  const other = uniqueName('other')
  await service.client.post('/write/workspace/new', { name: other })
  const owner = await database.row<{ organizationId: string }>(
    'SELECT organization_id AS "organizationId" FROM users WHERE user_name = $1',
    [service.userName],
  )
  const { organizationId } = owner as { organizationId: string }
  insiderName = uniqueName('insider')
  const openAccount = async (authorizedWorkspaces?: string[], name = uniqueName('account'), role?: 'viewer') => {
    const account = { name, defaultWorkspaceName: service.workspaceName, authorizedWorkspaces, role }
    const made = await insertServiceAccount(database, { organizationId, userName: 'test' }, account)
    const { apiKey } = made as { apiKey: string }
    return { apiKey, workspaceName: service.workspaceName, userName: account.name }
  }
  users = {
    owner: service,
    editor,
    viewer,
    auditor,
    admin,
    colleague: await inOrganization(),
    stranger: await createUser(stores),
    account: await openAccount(),
    reader: await openAccount(undefined, undefined, 'viewer'),
    insider: await openAccount([service.workspaceName], insiderName),
    outsider: await openAccount([other]),
  }
  clients = Object.fromEntries(
    Object.entries(users).map(([kind, user]) => [kind, createClient(service.url, user)]),
  ) as typeof clients
  const { url, workspaceName } = service
  scoped = await openScopedCallers({ database, url, owner: service, workspaceName, otherWorkspaceName: other })
})
afterAll(async () => {
  await database?.close()
  await service?.close()
})

/** What a call names of the files of an experiment: making them is most of the time of this test. */
const ofFiles = ['assetId', 'tableId', 'artifactId', 'closedVersionId', 'openVersionId'] as const
const noFiles = { assetId: '', tableId: '', artifactId: '', closedVersionId: '', openVersionId: '' }

function asksForFiles(toCall: Sample[1]): boolean {
  const asked = new Set<PropertyKey>()
  toCall(new Proxy({} as Place, { get: (_place, name) => void asked.add(name) }))
  return ofFiles.some((it) => asked.has(it))
}

/** A path whose call needs all kinds of files. */
const withFiles = '/experiment/model'

async function openPlace(isPublic: boolean, path: string): Promise<Place & { shareCode: string }> {
  const { client, workspaceName, userName } = service
  const projectName = uniqueName('project')
  const fields = { workspaceName, projectName, projectDescription: '', isPublic }
  const projectId = (await client.post('/write/project/create', fields)).body.projectId as string
  const experimentKey = await client.createExperiment({ projectName })
  const { body } = await client.get(`/write/project/add-share-link?projectId=${projectId}`)
  const place = { workspaceName, projectName, projectId, experimentKey, userName, subjectId: '' }
  const needsFiles =
    asksForFiles(samples[path]?.[1] ?? byKey) || path === '/experiment/git/patch' || path.includes('model')
  const filled = { ...place, ...(needsFiles ? await fill(experimentKey, isPublic) : noFiles) }
  const subjectId = (await subjects[path]?.(filled)) ?? ''
  return { ...filled, subjectId, shareCode: body.shareCode as string }
}

/** Gives an experiment files of all kinds. */
async function fill(experimentKey: string, isPublic: boolean) {
  const { client } = service
  const model = { experimentKey, type: 'model-element', groupingName: 'net', fileName: 'weights' }
  const upload = `/write/experiment/upload-asset?${new URLSearchParams(model)}`
  const asset = await client.postRaw(upload, 'text', { headers: { 'content-type': 'text/plain' } })
  const table = `/write/experiment/upload-asset?${new URLSearchParams({ experimentKey, fileName: 'a.csv' })}`
  const { body: tabled } = await client.postRaw(table, 'a,b\n1,2\n', { headers: { 'content-type': 'text/csv' } })
  const patch = `/write/experiment/git/patch?${new URLSearchParams({ experimentKey })}`
  await client.postRaw(patch, 'diff', { headers: { 'content-type': 'text/plain' } })
  const open = async () => {
    const artifactName = uniqueName('artifact')
    const { body } = await client.post('/write/artifacts/upsert', { experimentKey, artifactName, isPublic })
    return body as { artifactId: string; artifactVersionId: string }
  }
  const { artifactId, artifactVersionId } = await open()
  await client.post('/write/artifacts/state', { experimentKey, artifactVersionId, state: 'CLOSED' })
  const { artifactVersionId: openVersionId } = await open()
  const ids = { assetId: asset.body.assetId as string, tableId: tabled.assetId as string }
  return { ...ids, artifactId, closedVersionId: artifactVersionId, openVersionId }
}

/** After these a place is not what it was: the next caller would be refused for another reason than who it is. */
const spoilsItsPlace = (path: string) =>
  /\/(delete|state|archive|restore|move|stop|rpc|result|stage)(\/|$)|registry-model$/.test(path)

/** One place for all; whoever deletes it or changes its state leaves the next caller another one. */
function createPlaces<P>(open: () => Promise<P>, path: string, shared?: Promise<P>) {
  let place = shared
  return {
    async next(mayDoIt: boolean): Promise<P> {
      place ??= open()
      const current = await place
      if (mayDoIt && spoilsItsPlace(path)) place = undefined
      return current
    },
  }
}

/** Those with a role are answered the same in a public project: there only the others ask. */
const concernedBy = (isPublic: boolean) =>
  isPublic ? kinds.filter((it) => !(editors.has(it) || viewers.has(it) || it === 'owner')) : kinds

/** Whoever changes the place asks alone, after the others, who ask at once. */
async function forEachKind(right: Right, isPublic: boolean, ask: (kind: Kind) => Promise<void>) {
  const changesIt = (kind: Kind) => !isReading(right) && mayDo(right, kind, isPublic)
  const asking = concernedBy(isPublic)
  await Promise.all(asking.filter((it) => !changesIt(it)).map(ask))
  for (const kind of asking.filter(changesIt)) await ask(kind)
}

function toRequest(path: string, { params = {}, query = {}, body }: Call, more: Record<string, string> = {}) {
  const search = new URLSearchParams({ ...(query as Record<string, string>), ...more })
  const sent = typeof body === 'object' ? JSON.stringify(body) : body
  const type = typeof body === 'string' ? 'application/zip' : 'application/json'
  const headers = sent === undefined ? undefined : { 'content-type': type }
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name) => params[name] as string)
  return { address: `${filled}?${search}`, sent, headers }
}

/** What a kind of caller is answered: the status, and the code. */
async function call(path: string, asked: Call, kind: Kind, shareCode: string) {
  const { method = 'GET' } = asked
  const { address, sent, headers } = toRequest(path, asked, kind === 'visitor' ? { shareCode } : {})
  if (kind !== 'visitor' && kind !== 'nobody') {
    const answer = await clients[kind].send(method, address, sent, headers && { headers })
    return { status: answer.status, code: answer.body.sdk_error_code, answer: answer.body }
  }
  return await fetchAnswer(path, address, { method, body: sent, ...(headers && { headers }) })
}

async function fetchAnswer(path: string, address: string, init: RequestInit) {
  const answer = await fetch(`${service.url}${isAtRoot(path) ? '' : '/api/rest/v2'}${address}`, init)
  const isJson = answer.headers.get('content-type') === 'application/json'
  const answered = isJson ? ((await answer.json()) as Record<string, unknown>) : {}
  return { status: answer.status, code: answered.sdk_error_code, answer: answered }
}

it('every route is here', async () => {
  const { paths } = (await (await fetch(`${service.url}/openapi.json`)).json()) as { paths: Record<string, unknown> }
  const missing = Object.keys(paths)
    .map((it) => it.replace('/api/rest/v2', ''))
    .filter((path) => !samples[path] && !elsewhere.has(path) && !needsMoreThanAKey(path))
    .filter((path) => !withTheirSubject.has(path) && !registrySamples[path] && !leavingOut.has(path))
    .filter((path) => path !== endless && path !== '/experiments/stream')
    // Clients of MLflow: `mlflow/` has the same for them.
    .filter((path) => !/^\/api\/[23]\.0\/mlflow/.test(path))
    .filter((path) => !webhookSamples.some(([, it]) => it === path))
  expect(missing).toEqual([])
})

// 90210: an experiment to resume that is not there, or that may not be written to.
/** An experiment, a project, a workspace, an artifact, a version of one, a panel or a model that is not there. */
const notThere = [90210, 90211, 8000007, 90219, 624522, 624523, 8000040, 8000090]
const restricted = 7000023
/** May be read, but not changed; for owners only. */
const notAllowed = [90210, 8000016, 8000017, 8000050, 8000150]

const needsOf = (right: Right) => (isReading(right) ? 'read' : right === 'write' ? 'write' : 'manage')

/** Calls as each who has less than a whole key, those who may change the place last. */
async function forEachScope(
  path: string,
  right: Right,
  toCall: () => Call,
  callers: Partial<Record<ScopedKind, Record<string, string>>>,
) {
  const ask = async (kind: ScopedKind) => {
    const expected = expectedOf(kind, needsOf(right), isOfProject(path, right))
    const asked = toCall()
    const { address, sent, headers } = toRequest(path, asked)
    const init = { method: asked.method ?? 'GET', body: sent, headers: { ...headers, ...callers[kind] } }
    const { status, code } = await fetchAnswer(path, address, init)
    const what = `${kind}: ${status} ${code}`
    if (expected !== true)
      return expect([code, expected], what).toEqual([expect.any(Number), expect.arrayContaining([code])])
    // What is gone already is not refused for the key.
    const outcomes = spoilsItsPlace(path) ? [200, 204, 400] : [200, 204]
    expect(outcomes, what).toContain(status)
  }
  const kinds = scopedKinds.filter((it) => callers[it])
  const isAllowed = (kind: ScopedKind) => expectedOf(kind, needsOf(right), isOfProject(path, right)) === true
  await Promise.all(kinds.filter((it) => !isAllowed(it)).map(ask))
  if (isReading(right)) await Promise.all(kinds.filter(isAllowed).map(ask))
  else for (const kind of kinds.filter(isAllowed)) await ask(kind)
}

/** Whether the key of one project opens a route. */
const isOfProject = (path: string, right: Right) => !right.startsWith('use') && !ofWorkspace.test(path)
const ofWorkspace =
  /^\/((write\/|get\/)?artifacts\/|(write\/)?template\/(upload|download|delete)|write\/project\/create|mpm\/|(write\/)?registry)/

let toRead: ReturnType<typeof openPlace> | undefined
it.each(Object.entries(samples).map(([path, [right, toCall]]) => ({ path, right, toCall })))(
  '$path ($right) by each scope of a key and by sessions',
  async ({ path, right, toCall }) => {
    const isShared = isReading(right) && !subjects[path]
    if (isShared) toRead ??= openPlace(false, withFiles)
    const place = isShared && toRead ? await toRead : await openPlace(false, path)
    await forEachScope(path, right, () => toCall(place), await scoped.toProject(place.projectId))
  },
)

describe.each([
  ['private', false],
  ['public', true],
])('in a %s project', (_visibility, isPublic) => {
  /** Reading changes nothing: one place does for all of it. */
  let readOnly: ReturnType<typeof openPlace> | undefined

  it.each(Object.entries(samples).map(([path, [right, toCall]]) => ({ path, right, toCall })))(
    '$path ($right)',
    async ({ path, right, toCall }) => {
      if (isReading(right) && !subjects[path]) readOnly ??= openPlace(isPublic, withFiles)
      const shared = isReading(right) && !subjects[path] ? readOnly : undefined
      const places = createPlaces(() => openPlace(isPublic, path), path, shared)
      await forEachKind(right, isPublic, async (kind) => {
        const place = await places.next(mayDo(right, kind, isPublic))
        const { status, code } = await call(path, toCall(place), kind, place.shareCode)
        const what = `${kind}: ${status} ${code}`
        if (mayDo(right, kind, isPublic)) expect(status, what).toBe(200)
        else if (kind === 'nobody' || kind === 'visitor') expect(status, what).toBe(withoutKey(path))
        else if (kind === 'outsider') expect([status, code], what).toEqual([403, restricted])
        else if (status === 400) expect(notThere, what).toContain(code)
        else expect([status, notAllowed], what).toEqual([403, expect.arrayContaining([code])])
        // Whoever may not even read it must not learn that it is there; a restricted account may know why.
        const mayKnow = mayDo('read', kind, isPublic) || kind === 'outsider' || mayDo(right, kind, isPublic)
        if (!mayKnow && status !== 401) expect(status, what).toBe(400)
      })
    },
  )
})

it.each([
  ['private', false],
  ['public', true],
])('charts, series and media show what is in a %s project to those who may read it', async (_it, isPublic) => {
  const { shareCode, experimentKey } = await openPlace(isPublic, '')
  await clients.owner.post('/write/experiment/metric', { experimentKey, ...aPoint() })
  await clients.owner.waitForSummary(experimentKey, 'loss')
  await clients.owner.post('/write/experiment/parameter', { experimentKey, parameterName: 'a', parameterValue: 1 })
  const sample = await clients.owner.post('/write/experiment/upload-text-sample', {
    experimentKey,
    content: 'a',
    step: 1,
  })
  expect(sample.status).toBe(200)
  const body = { targetedExperiments: [experimentKey], params: ['a'] }
  for (const kind of kinds) {
    const { status, answer } = await call('/experiments/multi-metric-chart', { method: 'POST', body }, kind, shareCode)
    expect(status, kind).toBe(kind === 'nobody' ? 401 : 200)
    if (kind !== 'nobody') expect(answer.empty, kind).toBe(!mayDo('read', kind, isPublic))
    const asked = { method: 'POST', body: { series: [{ experimentKey, metricName: 'loss' }] } }
    const series = await call('/experiments/series', asked, kind, shareCode)
    if (kind === 'nobody') continue
    const seen = mayDo('read', kind, isPublic) ? 1 : 0
    expect(series.answer.series, kind).toHaveLength(seen)
    const ofRun = { method: 'POST', body: { experimentKeys: [experimentKey] } }
    expect((await call('/experiments/media', ofRun, kind, shareCode)).answer.media, kind).toHaveLength(seen)
    expect((await call('/experiments/media/names', ofRun, kind, shareCode)).answer.names, kind).toHaveLength(seen)
    expect((await call('/experiments/media/steps', ofRun, kind, shareCode)).answer.steps, kind).toHaveLength(seen)
  }
})

it.each([
  ['private', false],
  ['public', true],
])('/experiment/stream of a %s project is opened for those who may read it', async (_it, isPublic) => {
  const { shareCode, experimentKey } = await openPlace(isPublic, '')
  for (const kind of kinds) {
    const query = new URLSearchParams({ experimentKey, ...(kind === 'visitor' && { shareCode }) })
    const headers = kind === 'visitor' || kind === 'nobody' ? {} : { authorization: users[kind].apiKey }
    const answer = await fetch(`${service.url}/api/rest/v2${endless}?${query}`, { headers })
    await answer.body?.cancel()
    const refused = kind === 'nobody' ? 401 : kind === 'outsider' ? 403 : 400
    expect(answer.status, kind).toBe(mayDo('read', kind, isPublic) ? 200 : refused)
  }
})

async function listCalls(isListed: (path: string) => boolean): Promise<{ path: string; method: string }[]> {
  const { paths } = (await (await fetch(`${service.url}/openapi.json`)).json()) as { paths: Record<string, object> }
  return Object.entries(paths)
    .map(([path, methods]) => ({ path: path.replace('/api/rest/v2', ''), methods: Object.keys(methods) }))
    .filter(({ path }) => isListed(path))
    .flatMap(({ path, methods }) => methods.map((method) => ({ path, method: method.toUpperCase() })))
}

const forOperators = /^\/admin\/(health|backups|queue|dead-letters)/

it('what is for admins is refused to everybody else, whatever the request is like', async () => {
  const calls = await listCalls(needsMoreThanAKey)
  expect(calls.length).toBeGreaterThanOrEqual(17)
  for (const { path, method } of calls) {
    const address = path.replaceAll(/\{\w+\}/g, 'x')
    // What an auditor may read of it is tested with an admin's right below.
    const isRead = method === 'GET' && !path.startsWith('/write/') && !forOperators.test(path)
    const refused = Object.entries(clients).filter(([kind]) => kind !== 'admin' && !(kind === 'auditor' && isRead))
    for (const [kind, client] of refused) {
      const answer = await client.send(method, address, method === 'GET' ? undefined : '{}')
      expect([answer.status, answer.body.sdk_error_code], `${kind}: ${method} ${path}`).toEqual([403, 8000015])
    }
    const stranger = await fetch(`${service.url}/api/rest/v2${address}?shareCode=x`, { method })
    expect(stranger.status, `${method} ${path} without a key`).toBe(401)
  }
})

it('what is for admins needs a whole key: one of scope read or write reads only, one of a place does nothing', async () => {
  const calls = await listCalls(needsMoreThanAKey)
  const keysOf = async (userName: string) => {
    const row = await database.row<{ id: string }>('SELECT id FROM users WHERE user_name = $1', [userName])
    const workspace = await database.row<{ id: string }>('SELECT id FROM workspaces LIMIT 1')
    const make = async (fields: KeyFields) => (await insertNewKey(database, row?.id as string, fields)).apiKey
    return {
      read: await make({ scope: 'read' }),
      write: await make({ scope: 'write' }),
      placed: await make({ workspaceId: workspace?.id }),
    }
  }
  const keys = await keysOf(users.admin.userName)
  for (const { path, method } of calls.filter((it) => !forOperators.test(it.path))) {
    const address = path.replaceAll(/\{\w+\}/g, 'x')
    const writes = method !== 'GET' || path.startsWith('/write/')
    for (const [scope, authorization] of Object.entries(keys)) {
      const init = {
        method,
        headers: { authorization, 'content-type': 'application/json' },
        ...(method !== 'GET' && { body: '{}' }),
      }
      const { status, code } = await fetchAnswer(path, address, init)
      const what = `${scope}: ${method} ${path}: ${status} ${code}`
      if (scope === 'placed') expect([status, code], what).toEqual([403, 8000151])
      else if (writes && path !== '/api/mpm/v2/admin/query') expect([status, code], what).toEqual([403, 8000152])
      else expect(status, what).not.toBe(403)
    }
  }
})

it('an auditor reads what is of the whole organization as an admin does', async () => {
  const { organizationId } = (await clients.auditor.get('/admin/users')).body
  for (const path of [
    ...['/admin/users', '/admin/keys', '/admin/audit', '/admin/workspaces'],
    `/admin/usage?workspaceName=${service.workspaceName}`,
    `/admin/retention?workspaceName=${service.workspaceName}`,
    `/admin/limits?workspaceName=${service.workspaceName}`,
    `/organization/${organizationId}/secrets`,
    '/export/audit?format=csv',
  ]) {
    expect((await clients.auditor.get(path)).status, path).toBe(200)
    expect((await clients.admin.get(path)).status, path).toBe(200)
  }
})

/** A workspace of its own with a registered model, and a model of an experiment in a project as public as that. */
type Registry = {
  workspaceName: string
  modelName: string
  registryModelId: string
  modelItemId: string
  assetId: string
  experimentModelId: string
  experimentKey: string
}

const byRegistryModel = ({ workspaceName, modelName }: Registry): Call => ({ query: { workspaceName, modelName } })
const byVersionPath = ({ modelItemId }: Registry): Call => ({ params: { registryModelItemId: modelItemId } })
const byWorkspace = ({ workspaceName }: Registry): Call => ({ query: { workspaceName } })

/** Routes of the registry. A share code opens none of them. */
const registrySamples: Record<string, [right: Right, call: (registry: Registry) => Call]> = {
  '/registry-model': ['read', byWorkspace],
  '/registry-model/search': ['read', byWorkspace],
  '/registry-model/count': ['read', byWorkspace],
  '/registry-model/details': ['read', byRegistryModel],
  '/registry-model/notes': ['read', byRegistryModel],
  '/registry-model/latest_version': ['read', byRegistryModel],
  '/registry-model/item/download': ['read', byRegistryModel],
  '/registry-model/item/download-instructions': ['read', byRegistryModel],
  '/registry-model/item/get-asset': ['read', ({ modelItemId, assetId }) => ({ query: { modelItemId, assetId } })],
  '/registry-model/history': ['use', byRegistryModel],
  '/registry-model/history/item': [
    'use',
    ({ modelItemId }) => ({ method: 'POST', body: { registryModelItemId: modelItemId } }),
  ],
  '/registry-model/compact-details': ['read', byRegistryModel],
  '/registry-model/item/details': ['read', byRegistryModel],
  '/registry-model/items': ['read', byRegistryModel],
  '/registry-model/item/{registryModelItemId}/metadata': ['read', byVersionPath],
  '/registry-model/item/{registryModelItemId}/status-configuration': ['read', byVersionPath],
  '/write/registry-model/item/{registryModelItemId}/metadata': [
    'write',
    (registry) => ({ ...byVersionPath(registry), method: 'POST', body: { metadata: [{ key: 'a', value: 1 }] } }),
  ],
  '/write/registry-model/item/{registryModelItemId}/status-configuration': [
    'write',
    (registry) => ({ ...byVersionPath(registry), method: 'POST', body: { status: 'QA' } }),
  ],
  '/registry-model/allowed_status_values': ['read', byWorkspace],
  '/write/registry-model/item/status': [
    'write',
    ({ modelItemId }) => ({ method: 'POST', body: { modelItemId, status: 'QA' } }),
  ],
  '/write/registry-model/item/create': [
    'write',
    ({ experimentKey }) => ({
      method: 'POST',
      body: { experimentKey, experimentModelName: 'source', registryModelName: 'another' },
    }),
  ],
  '/write/registry-model': [
    'write',
    ({ experimentModelId }) => ({ method: 'POST', body: { experimentModelId, registryModelName: 'another' } }),
  ],
  '/write/registry-model/item': [
    'write',
    ({ experimentModelId, modelName }) => ({
      method: 'POST',
      body: { experimentModelId, registryModelName: modelName },
    }),
  ],
  '/write/registry-model/item/update': [
    'write',
    ({ modelItemId }) => ({ method: 'POST', body: { registryModelItemId: modelItemId, comment: 'a' } }),
  ],
  '/write/registry-model/item/stage': ['write', ({ modelItemId }) => ({ query: { modelItemId, stage: 'b' } })],
  '/write/registry-model/item/stage/delete': ['write', ({ modelItemId }) => ({ query: { modelItemId, stage: 'a' } })],
  '/write/registry-model/item/delete': ['write', ({ modelItemId }) => ({ query: { modelItemId } })],
  '/write/registry-model/update': [
    'write',
    ({ registryModelId }) => ({ method: 'POST', body: { registryModelId, description: 'a' } }),
  ],
  '/write/registry-model/notes': [
    'write',
    ({ workspaceName, modelName }) => ({
      method: 'POST',
      body: { workspaceName, registryModelName: modelName, notes: 'a' },
    }),
  ],
  '/write/registry-model/delete': ['write', byRegistryModel],
}

async function letPeopleIn(workspaceName: string) {
  for (const [userName, role] of [
    [editorName, 'editor'],
    [viewerName, 'viewer'],
  ]) {
    const added = await service.client.post('/write/add-workspace-member', { workspaceName, userName, role })
    expect(added.status).toBe(200)
  }
}

/** A restricted account is a member of the workspaces it was made for. */
async function letInsiderIn(workspaceName: string) {
  const { postgresUrl: url } = storesWith('postgres')
  const database = openDatabase({ url, connectionsMax: 1, onError: () => undefined })
  await database.row(
    `INSERT INTO workspace_members (workspace_id, user_id) SELECT w.id, u.id FROM workspaces w, users u
     WHERE w.name = $1 AND u.user_name = $2`,
    [workspaceName, insiderName],
  )
  await database.close()
}

async function openRegistry(isPublic: boolean): Promise<Registry & { shareCode: string }> {
  const { client } = service
  const workspaceName = uniqueName('workspace')
  await client.post('/write/workspace/new', { name: workspaceName })
  await letPeopleIn(workspaceName)
  await letInsiderIn(workspaceName)
  const projectName = uniqueName('project')
  const fields = { workspaceName, projectName, projectDescription: '', isPublic }
  const { projectId } = (await client.post('/write/project/create', fields)).body
  const { body } = await client.get(`/write/project/add-share-link?projectId=${projectId}`)
  const registry = createRegistryClient({ ...service, workspaceName })
  const experimentKey = await client.createExperiment({ workspaceName, projectName })
  const assetId = await registry.addFile({ experimentKey, modelName: 'source' }, 'a.bin', Buffer.from('a'))
  const { models } = (await client.get(`/experiment/model?experimentKey=${experimentKey}`)).body
  const [source] = models as [Source]
  const model = await registry.aModel({ isPublic, stages: ['a'] }, source)
  const { registryModelName: modelName, registryModelId, registryModelItemId: modelItemId, experimentModelId } = model
  const shareCode = body.shareCode as string
  return {
    workspaceName,
    modelName,
    registryModelId,
    modelItemId,
    assetId,
    experimentModelId,
    experimentKey,
    shareCode,
  }
}

/** A registered model or version, an experiment or its model, or a workspace that is not there. */
const notRegistered = [90211, 42008, 42006, 8000063, 8000066, 90219]
/** The model may be read, but not changed; the experiment may. */
const notToBeChanged = [8000061, 90210, 8000150]

it.each(Object.entries(registrySamples).map(([path, [right, toCall]]) => ({ path, right, toCall })))(
  '$path ($right) by each scope of a key and by sessions',
  async ({ path, right, toCall }) => {
    if (isReading(right)) modelToRead ??= openRegistry(false)
    const registry = await (isReading(right) && modelToRead ? modelToRead : openRegistry(false))
    await forEachScope(path, right, () => toCall(registry), await scoped.toWorkspace(registry.workspaceName))
  },
)
let modelToRead: ReturnType<typeof openRegistry> | undefined

describe.each([
  ['private', false],
  ['public', true],
])('of a %s registered model', (_visibility, isPublic) => {
  let readOnly: ReturnType<typeof openRegistry> | undefined
  it.each(Object.entries(registrySamples).map(([path, [right, toCall]]) => ({ path, right, toCall })))(
    '$path ($right)',
    async ({ path, right, toCall }) => {
      if (isReading(right)) readOnly ??= openRegistry(isPublic)
      const places = createPlaces(() => openRegistry(isPublic), path, isReading(right) ? readOnly : undefined)
      await forEachKind(right, isPublic, async (kind) => {
        const { shareCode, ...registry } = await places.next(mayDo(right, kind, isPublic))
        const { status, code } = await call(path, toCall(registry), kind, shareCode)
        const what = `${kind}: ${status} ${code}`
        if (kind === 'nobody' || kind === 'visitor') expect(status, what).toBe(401)
        else if (kind === 'outsider') expect([status, code], what).toEqual([403, restricted])
        else if (mayDo(right, kind, isPublic)) expect(status, what).toBe(200)
        else if (mayDo('read', kind, isPublic))
          expect([status, notToBeChanged], what).toEqual([403, expect.arrayContaining([code])])
        else expect([status, notRegistered], what).toEqual([400, expect.arrayContaining([code])])
      })
    },
  )
})

it('what may not be read of the registry is not told with a public experiment either', async () => {
  const { registryModelId, workspaceName, modelName, shareCode } = await openRegistry(true)
  const latest = `/registry-model/latest_version?${new URLSearchParams({ workspaceName, modelName })}`
  const { experimentModel } = (await clients.owner.get(latest)).body as { experimentModel: { experimentKey: string } }
  const countRecords = async (kind: 'owner' | 'editor' | 'viewer' | 'colleague' | 'visitor') => {
    const query = new URLSearchParams({ experimentKey: experimentModel.experimentKey, shareCode })
    const path = `/experiment/model?${query}`
    const body =
      kind === 'visitor'
        ? await (await fetch(`${service.url}/api/rest/v2${path}`)).json()
        : (await clients[kind].get(path)).body
    return (body as { models: { registryRecords: unknown[] }[] }).models[0]?.registryRecords.length
  }
  const countEach = async () =>
    await Promise.all((['owner', 'editor', 'viewer', 'colleague', 'visitor'] as const).map(countRecords))
  expect(await countEach()).toEqual([1, 1, 1, 1, 0])
  await clients.owner.post('/write/registry-model/update', { registryModelId, isPublic: false })
  expect(await countEach()).toEqual([1, 1, 1, 0, 0])
})

it('a restricted account may use what is for every key, and sees only what it was made for', async () => {
  // Further ones it was let in to by the tests of the registry.
  const own = expect.arrayContaining([service.workspaceName])
  for (const [kind, names] of Object.entries({ insider: own, outsider: [expect.any(String)] })) {
    const client = clients[kind as 'insider']
    expect((await client.get('/workspaces')).body, kind).toEqual({ workspaceNames: names })
    expect((await client.get('/account-details')).status, kind).toBe(200)
    const made = await client.post('/write/workspace/new', { name: uniqueName('made') })
    expect([made.status, made.body.sdk_error_code], kind).toEqual([403, restricted])
  }
  const projects = `/projects?workspaceName=${service.workspaceName}`
  expect((await clients.insider.get(projects)).status).toBe(200)
  expect((await clients.outsider.get(projects)).body.sdk_error_code).toBe(restricted)
})

it('alert rules and segments are changed by editors, whoever made them', async () => {
  const { workspaceName } = service
  const rule = { workspaceName, name: 'a', modelName: 'monitored', measure: 'events', windowMs: 86_400_000 }
  const { alertId } = (await clients.owner.post('/mpm/v2/alerts', rule)).body
  const filters = [{ feature: 'age', operator: 'present' }]
  const segment = { workspaceName, modelName: 'monitored', name: uniqueName('segment'), filters }
  const { segmentId } = (await clients.owner.post('/mpm/v2/segments', segment)).body
  const query = `?${new URLSearchParams({ workspaceName })}`
  const calls = [
    ['PUT', `/mpm/v2/alerts/${alertId}`, JSON.stringify({ workspaceName, name: 'b' })],
    ['DELETE', `/mpm/v2/alerts/${alertId}${query}`, undefined],
    ['DELETE', `/mpm/v2/segments/${segmentId}${query}`, undefined],
  ] as const
  for (const [method, path, body] of calls) {
    for (const kind of ['viewer', 'auditor', 'reader'] as const) {
      const { status, body: answer } = await clients[kind].send(method, path, body)
      expect([status, answer.sdk_error_code], `${kind}: ${method} ${path}`).toEqual([403, 8000150])
    }
    for (const kind of ['colleague', 'admin', 'stranger'] as const) {
      expect((await clients[kind].send(method, path, body)).status, `${kind}: ${method} ${path}`).toBe(400)
    }
    expect((await clients.outsider.send(method, path, body)).status).toBe(403)
    expect((await clients.editor.send(method, path, body)).status, `editor: ${method} ${path}`).toBe(200)
  }
})

const hook = { url: 'https://hook.invalid/' }
/** What the owner makes again after each who may delete it. */
const otherHook = { url: 'https://other.invalid/' }
const ofHook = ({ workspaceName }: Place): Call => ({ body: { workspaceName, ...hook } })
const config = ({ workspaceName }: Place): Call => ({
  body: { webhookConfigs: [{ workspaceName, webhookUrls: [hook, otherHook] }] },
})
const inWorkspace = ({ workspaceName }: Place): Call => ({ query: { workspaceName } })

/** Webhooks of a workspace are for those who manage it, the log and what is configured included. */
const webhookSamples: [method: string, path: string, toCall: (place: Place) => Call][] = [
  ['POST', '/webhooks/config', config],
  ['PUT', '/webhooks/config', config],
  ['GET', '/webhooks/config', inWorkspace],
  ['GET', '/webhooks/deliveries', inWorkspace],
  ['POST', '/webhooks/signing-secret', ofHook],
  ['POST', '/webhooks/test', ofHook],
  ['POST', '/webhooks/enable', ofHook],
  ['POST', '/webhooks/redeliver', () => ({ body: { deliveryId } })],
  ['POST', '/webhooks/delete', ({ workspaceName }) => ({ body: { workspaceName, ...otherHook } })],
]
let deliveryId: unknown

describe('webhooks', () => {
  beforeAll(async () => {
    const { client, workspaceName } = service
    expect((await client.post('/webhooks/config', config(service as unknown as Place).body)).status).toBe(204)
    deliveryId = (await client.post('/webhooks/test', { workspaceName, ...hook })).body.deliveryId
  })

  it.each(webhookSamples)('%s %s (administer)', async (method, path, toCall) => {
    const place = await openPlace(true, '')
    for (const kind of kinds) {
      if (path === '/webhooks/delete') await service.client.post('/webhooks/config', config(place).body)
      const { status, code } = await call(path, { method, ...toCall(place) }, kind, place.shareCode)
      const what = `${kind}: ${status} ${code}`
      if (kind === 'nobody' || kind === 'visitor') expect(status, what).toBe(401)
      else if (mayDo('administer', kind, true)) expect([200, 204], what).toContain(status)
      // A delivery has no name: what may not be sent again is not there, for everybody.
      else if (path === '/webhooks/redeliver') expect([status, code], what).toEqual([400, 8000083])
      else if (kind === 'outsider') expect([status, code], what).toEqual([403, restricted])
      else if (knowsWorkspace(kind)) expect([status, code], what).toEqual([403, 8000017])
      else expect([status, code], what).toEqual([400, 90219])
    }
  })
})
