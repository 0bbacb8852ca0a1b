import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openDatabase } from '../../store/postgres/database.ts'
import { aPoint } from '../harness/builders.ts'
import { createClient, type TestClient } from '../harness/client.ts'
import { createUser, openTestService, storesWith, uniqueName } from '../harness/service.ts'

/**
 * Every route that is about a project or what is in it, for every kind of caller: store/postgres/visibility.ts says who
 * may read and write, and this holds each route to it. A route that is missing here fails the first test.
 */
type Kind = (typeof kinds)[number]
const kinds = ['owner', 'member', 'colleague', 'stranger', 'visitor', 'nobody'] as const

type Right = 'read' | 'write' | 'manage'
type Place = {
  workspaceName: string
  projectName: string
  projectId: string
  experimentKey: string
  userName: string
  /** Of what `subjects` makes for the route. */
  subjectId: string
}
type Call = { method?: string; query?: Record<string, unknown>; body?: Record<string, unknown> | string }
type Sample = [right: Right, call: (place: Place) => Call]

const byKey: Sample[1] = ({ experimentKey }) => ({ query: { experimentKey } })
const byProject: Sample[1] = ({ projectId }) => ({ query: { projectId } })
const post =
  (fields: Record<string, unknown>, method = 'POST'): Sample[1] =>
  ({ experimentKey }) => ({ method, body: { experimentKey, ...fields } })

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
  '/experiment/output': ['read', byKey],

  '/write/experiment/metric': ['write', post(aPoint())],
  '/write/experiment/metrics/batch': ['write', post({ metrics: [aPoint()] })],
  '/write/experiment/output': ['write', post({ outputLines: [] })],
  '/write/experiment/gpu-metrics': ['write', post({ gpus: [] })],
  '/write/experiment/ram-metrics': ['write', post({ totalRam: 1, usedRam: 1 })],
  '/write/experiment/cpu-metrics': ['write', post({ cpuPercentUtilization: [] })],
  '/write/experiment/load-metrics': ['write', post({ loadAverage: 1 })],
  '/write/experiment/parameter': ['write', post({ parameterName: 'a', parameterValue: 1 })],
  '/write/experiment/log-other': ['write', post({ key: 'a', value: 1 })],
  '/write/experiment/tags': ['write', post({ addedTags: ['a'] })],
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
  '/templates': ['write', ({ workspaceName }) => ({ query: { teamName: workspaceName } })],
  '/write/template/upload': [
    'write',
    ({ workspaceName }) => ({ method: 'POST', query: { teamName: workspaceName }, body: emptyZip }),
  ],
  '/template/download': ['write', ({ subjectId }) => ({ query: { templateId: subjectId } })],
  '/write/template/delete': ['write', ({ subjectId }) => ({ query: { templateId: subjectId } })],
  '/write/add-workspace-member': [
    'manage',
    ({ workspaceName, userName }) => ({ method: 'POST', body: { workspaceName, userName, admin: false } }),
  ],
}

const emptyZip = `PK\x05\x06${'\0'.repeat(18)}`

/** What has to be there before a route can be called, made by the owner; its id. */
const subjects: Record<string, (place: Place) => Promise<string>> = {
  '/template/download': aPanel,
  '/write/template/delete': aPanel,
  '/experiment/rpc': aCall,
  '/write/experiment/rpc/result': aCall,
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
const elsewhere = new Set(['/account-details', '/workspaces', '/projects', '/write/workspace/new'])
/** They leave out what the caller may not see, and answer the same as if it were not there: `charts.test.ts`. */
const leavingOut = new Set(['/experiments/multi-metric-chart'])
/** Its answer has no end. */
const endless = '/experiment/stream'
const needsMoreThanAKey = (path: string) => path.startsWith('/admin/')
/** Tested with what they are about: they need something that is there already. */
const withTheirSubject = new Set(['/write/project/delete-project-share-link'])
const ofAssets = /asset|git\/patch|upload|\/model/

function mayDo(right: Right, kind: Kind, isPublic: boolean): boolean {
  if (kind === 'owner') return true
  if (kind === 'member') return right !== 'manage'
  if (right !== 'read') return false
  return kind === 'visitor' || (kind === 'colleague' && isPublic)
}

let service: Awaited<ReturnType<typeof openTestService>>
type KeyHolder = Exclude<Kind, 'visitor' | 'nobody'>
let users: Record<KeyHolder, Awaited<ReturnType<typeof createUser>>>
let clients: Record<KeyHolder, TestClient>
beforeAll(async () => {
  service = await openTestService()
  const stores = storesWith('postgres')
  const database = openDatabase({ url: stores.postgresUrl, connectionsMax: 1, onError: () => undefined })
  const inOrganization = async () => {
    const user = await createUser(stores)
    await database.row(
      `UPDATE users SET organization_id = (SELECT organization_id FROM users WHERE user_name = $2) WHERE user_name = $1`,
      [user.userName, service.userName],
    )
    return user
  }
  const member = await inOrganization()
  await service.client.post('/write/add-workspace-member', {
    workspaceName: service.workspaceName,
    userName: member.userName,
    admin: false,
  })
  users = { owner: service, member, colleague: await inOrganization(), stranger: await createUser(stores) }
  clients = {
    owner: service.client,
    member: createClient(service.url, users.member),
    colleague: createClient(service.url, users.colleague),
    stranger: createClient(service.url, users.stranger),
  }
  await database.close()
})
afterAll(() => service?.close())

async function openPlace(isPublic: boolean, path: string): Promise<Place & { shareCode: string }> {
  const { client, workspaceName, userName } = service
  const projectName = uniqueName('project')
  const fields = { workspaceName, projectName, projectDescription: '', isPublic }
  const projectId = (await client.post('/write/project/create', fields)).body.projectId as string
  const experimentKey = await client.createExperiment({ projectName })
  const { body } = await client.get(`/write/project/add-share-link?projectId=${projectId}`)
  const place = { workspaceName, projectName, projectId, experimentKey, userName, subjectId: '' }
  const subjectId = (await subjects[path]?.(place)) ?? ''
  return { ...place, subjectId, shareCode: body.shareCode as string }
}

/** What a kind of caller is answered: the status, and the code. */
async function call(path: string, { method = 'GET', query = {}, body }: Call, kind: Kind, shareCode: string) {
  const search = new URLSearchParams({
    ...(query as Record<string, string>),
    ...(kind === 'visitor' && { shareCode }),
  })
  const sent = typeof body === 'object' ? JSON.stringify(body) : body
  const address = `${path}?${search}`
  if (kind !== 'visitor' && kind !== 'nobody') {
    const answer = await clients[kind].send(method, address, sent)
    return { status: answer.status, code: answer.body.sdk_error_code, answer: answer.body }
  }
  const headers = sent === undefined ? undefined : { 'content-type': 'application/json' }
  const answer = await fetch(`${service.url}/api/rest/v2${address}`, { method, headers, body: sent })
  const answered = (await answer.json()) as Record<string, unknown>
  return { status: answer.status, code: answered.sdk_error_code, answer: answered }
}

it('every route is here', async () => {
  const { paths } = (await (await fetch(`${service.url}/openapi.json`)).json()) as { paths: Record<string, unknown> }
  const missing = Object.keys(paths)
    .map((it) => it.replace('/api/rest/v2', ''))
    .filter((path) => !samples[path] && !elsewhere.has(path) && !needsMoreThanAKey(path))
    .filter((path) => !withTheirSubject.has(path) && !ofAssets.test(path) && !leavingOut.has(path))
    .filter((path) => path !== endless)
  expect(missing).toEqual([])
})

/** An experiment, a project, a workspace or a panel that is not there. */
const notThere = [90211, 8000007, 90219, 8000040]
/** May be read, but not changed; for owners only. */
const notAllowed = [90210, 8000016, 8000017]

describe.each([
  ['private', false],
  ['public', true],
])('in a %s project', (_visibility, isPublic) => {
  it.each(Object.entries(samples).map(([path, [right, toCall]]) => ({ path, right, toCall })))(
    '$path ($right)',
    async ({ path, right, toCall }) => {
      for (const kind of kinds) {
        const place = await openPlace(isPublic, path)
        const { status, code } = await call(path, toCall(place), kind, place.shareCode)
        const what = `${kind}: ${status} ${code}`
        if (mayDo(right, kind, isPublic)) expect(status, what).toBe(200)
        else if (kind === 'nobody' || kind === 'visitor') expect(status, what).toBe(401)
        else if (status === 400) expect(notThere, what).toContain(code)
        else expect([status, notAllowed], what).toEqual([403, expect.arrayContaining([code])])
        // Whoever may not even read it must not learn that it is there.
        if (!mayDo('read', kind, isPublic) && status !== 401) expect(status, what).toBe(400)
      }
    },
  )
})

it.each([
  ['private', false],
  ['public', true],
])('/experiments/multi-metric-chart shows what is in a %s project to those who may read it', async (_it, isPublic) => {
  for (const kind of kinds) {
    const { shareCode, experimentKey } = await openPlace(isPublic, '')
    await clients.owner.post('/write/experiment/parameter', { experimentKey, parameterName: 'a', parameterValue: 1 })
    const body = { targetedExperiments: [experimentKey], params: ['a'] }
    const { status, answer } = await call('/experiments/multi-metric-chart', { method: 'POST', body }, kind, shareCode)
    expect(status, kind).toBe(kind === 'nobody' ? 401 : 200)
    if (kind !== 'nobody') expect(answer.empty, kind).toBe(!mayDo('read', kind, isPublic))
  }
})

it.each([
  ['private', false],
  ['public', true],
])('/experiment/stream of a %s project is opened for those who may read it', async (_it, isPublic) => {
  for (const kind of kinds) {
    const { shareCode, experimentKey } = await openPlace(isPublic, '')
    const query = new URLSearchParams({ experimentKey, ...(kind === 'visitor' && { shareCode }) })
    const headers = kind === 'visitor' || kind === 'nobody' ? {} : { authorization: users[kind].apiKey }
    const answer = await fetch(`${service.url}/api/rest/v2${endless}?${query}`, { headers })
    await answer.body?.cancel()
    const refused = kind === 'nobody' ? 401 : 400
    expect(answer.status, kind).toBe(mayDo('read', kind, isPublic) ? 200 : refused)
  }
})

it.each(['/admin/limits?workspaceName=x', '/admin/keys'])('%s is for admins only', async (path) => {
  for (const kind of ['owner', 'member', 'colleague', 'stranger'] as const) {
    expect((await clients[kind].get(path)).status, kind).toBe(403)
  }
})
