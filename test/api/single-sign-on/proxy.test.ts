import { once } from 'node:events'
import { request } from 'node:http'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openDatabase } from '../../../store/postgres/database.ts'
import { aPoint } from '../../kit/builders.ts'
import { eventually } from '../../kit/eventually.ts'
import { openReverseProxy } from '../../kit/http/reverse-proxy.ts'
import { openTestService, storesWith, uniqueName } from '../../kit/service.ts'

/** The header of a reverse proxy that signs people in. The tests themselves are the proxy: they call from 127.0.0.1. */
type Service = Awaited<ReturnType<typeof openTestService>>
const organizationName = uniqueName('organization')
const secret = 'a-secret-that-only-the-proxy-has'
const [team, board] = [uniqueName('team'), uniqueName('board')]
const groups = [
  { provider: 'proxy', group: 'trainers', workspace: team, role: 'editor' },
  { provider: 'proxy', group: 'leads', workspace: team, role: 'owner' },
  { provider: 'proxy', group: 'leads', workspace: board, role: 'viewer' },
  { provider: 'proxy', group: 'chairs', workspace: board, role: 'owner' },
  { provider: 'proxy', group: 'svc-admins', organizationRole: 'admin' },
  { provider: 'proxy', group: 'svc-auditors', organizationRole: 'auditor' },
]

const services: Service[] = []
const openWith = async (proxy: Record<string, unknown>, more: Record<string, string> = {}): Promise<Service> => {
  const document = JSON.stringify({ proxy: { organization: organizationName, ...proxy }, groups })
  const settings = { SVC_SSO: document, PROXY_SECRET: secret, ...more }
  const service = await openTestService({
    settings,
    organizationName,
    isAdmin: true,
    intervals: { identitiesMs: 200 },
  })
  services.push(service)
  return service
}

let byAddress: Service
beforeAll(async () => {
  byAddress = await openWith({ addresses: ['127.0.0.1'], createUsers: true })
})
afterAll(async () => {
  for (const service of services) await service.close()
})

type Headers = Record<string, string | string[]>
const own = { 'sec-fetch-site': 'same-origin' }

/** By Node's own client: fetch joins two headers of a name. */
async function call(
  service: Pick<Service, 'url'>,
  path: string,
  headers: Headers = {},
  method = 'GET',
  body?: unknown,
) {
  const json = body === undefined ? undefined : JSON.stringify(body)
  const type = json === undefined ? {} : { 'content-type': 'application/json' }
  const asked = request(service.url + path, { method, headers: { ...type, ...headers } })
  asked.end(json)
  const [answer] = await once(asked, 'response')
  const text = Buffer.concat(await answer.toArray()).toString()
  const answered = (text.startsWith('{') ? JSON.parse(text) : {}) as Record<string, unknown>
  return { status: answer.statusCode as number, body: answered, code: answered.sdk_error_code }
}

const as = (user: string, more: Headers = {}): Headers => ({ 'x-forwarded-user': user, ...more })
const inGroups = (user: string, ...names: string[]) => as(user, { 'x-forwarded-groups': names.join(',') })

const readMetrics = async (service: Service) => (await fetch(`${service.url}/metrics`)).text()

async function readAudit(service: Service, userName: string) {
  const { entries } = (await service.client.get('/admin/audit?pageSize=1000')).body as {
    entries: { userName: string; act: string; subject: string; details: Record<string, unknown> }[]
  }
  return entries.filter((it) => it.subject === userName).toReversed()
}

async function inDatabase<Row>(sql: string, values: unknown[]): Promise<Row[]> {
  const { postgresUrl } = storesWith('postgres')
  const database = openDatabase({ url: postgresUrl, connectionsMax: 1, onError: () => undefined })
  return await database.rows<Row>(sql, values).finally(() => database.close())
}

describe('the header of a trusted proxy', () => {
  it('signs a person in at first sight, with mail and name, and writes it down', async () => {
    const subject = uniqueName('subject')
    const userName = uniqueName('ada')
    const headers = as(subject, {
      'x-forwarded-preferred-username': userName,
      'x-forwarded-email': `${userName}@example.org`,
    })
    const answer = await call(byAddress, '/session', headers)
    expect([answer.status, answer.body]).toMatchObject([
      200,
      { userName, organizationName, isAdmin: false, sessionId: null, workspaceNames: [userName] },
    ])
    expect((await readAudit(byAddress, userName)).map((it) => [it.act, it.details.provider])).toEqual([
      ['user.created', 'proxy'],
      ['session.opened', 'proxy'],
    ])
    expect(await readMetrics(byAddress)).toMatch(/^svc_sign_ins_total\{way="proxy",outcome="opened"\} [1-9]/m)
    // The subject is the person: a new name changes nothing, and the old name belongs to nobody else.
    expect((await call(byAddress, '/session', as(subject))).body.userName).toBe(userName)
    const namesake = as(uniqueName('other'), { 'x-forwarded-preferred-username': userName })
    expect((await call(byAddress, '/session', namesake)).body.userName).toBe(`${userName}-2`)
  })

  it('counts neither off, nor from other addresses, nor without the secret, nor with a wrong one', async () => {
    const off = await openTestService({ organizationName, isAdmin: true })
    services.push(off)
    const elsewhere = await openWith({ addresses: ['10.0.0.0/8', '::1', '203.0.113.7'], createUsers: true })
    const bySecret = await openWith({ secretEnv: 'PROXY_SECRET', createUsers: true })
    const byBoth = await openWith({ secretEnv: 'PROXY_SECRET', addresses: ['10.0.0.0/8'], createUsers: true })
    const user = uniqueName('mallory')
    const withSecret = { 'x-svc-proxy-secret': secret }
    const refused: [Service, Headers][] = [
      [off, as(user)],
      [off, as(user, withSecret)],
      [elsewhere, as(user)],
      [elsewhere, as(user, { 'x-forwarded-for': '10.0.0.1', 'x-real-ip': '10.0.0.1', forwarded: 'for=10.0.0.1' })],
      [bySecret, as(user)],
      [bySecret, as(user, { 'x-svc-proxy-secret': `${secret}x` })],
      [bySecret, as(user, { 'x-svc-proxy-secret': '' })],
      [bySecret, as(user, { 'x-svc-proxy-secret': [secret, 'x'] })],
      [byBoth, as(user, withSecret)],
    ]
    for (const [service, headers] of refused) {
      const answer = await call(service, '/session', headers)
      // As if the header were not there.
      const without = await call(service, '/session')
      expect([answer.status, answer.body]).toEqual([without.status, without.body])
      expect(answer.status).toBe(401)
      expect((await readAudit(service, user)).length).toBe(0)
    }
    // Nor does it change whose key or session it is.
    const mine = await call(elsewhere, '/session', as(user, { authorization: elsewhere.apiKey }))
    expect(mine.body.userName).toBe(elsewhere.userName)
    expect((await call(bySecret, '/session', as(user, withSecret))).body.userName).toBe(user)
  })

  it('is refused when it comes twice, as when a proxy adds its own to that of its client', async () => {
    const user = uniqueName('eve')
    for (const name of ['x-forwarded-user', 'x-forwarded-groups', 'x-forwarded-email']) {
      const answer = await call(byAddress, '/session', { ...as(user), [name]: ['svc-admins', user] })
      expect([answer.status, answer.body.msg]).toMatchObject([400, expect.stringContaining(name)])
    }
    expect(await readAudit(byAddress, user)).toEqual([])
  })

  it('makes nobody without the setting, says so, and hides neither key, session nor share code', async () => {
    const closed = await openWith({ addresses: ['127.0.0.0/8'] })
    const user = uniqueName('nobody')
    const answer = await call(closed, '/session', as(user))
    expect([answer.status, answer.code]).toEqual([401, 8000115])
    expect(answer.body.msg).toContain('no such user')
    expect(await readMetrics(closed)).toMatch(/^svc_sign_ins_total\{way="proxy",outcome="unknown-user"\} 1$/m)
    const byKey = await call(closed, '/session', as(user, { authorization: closed.apiKey }))
    expect(byKey.body.userName).toBe(closed.userName)
    const opened = await fetch(`${closed.url}/session`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...own, 'x-forwarded-user': user },
      body: JSON.stringify({ apiKey: closed.apiKey }),
    })
    const cookie = opened.headers.get('set-cookie')?.split(';')[0] ?? ''
    expect((await call(closed, '/session', as(user, { cookie }))).body.userName).toBe(closed.userName)
    await closed.client.createExperiment()
    const project = { workspaceName: closed.workspaceName, projectName: 'project' }
    const { projectId } = (await closed.client.get(`/project?${new URLSearchParams(project)}`)).body
    const { shareCode } = (await closed.client.get(`/write/project/add-share-link?projectId=${projectId}`)).body
    const shared = `/api/rest/v2/project?projectId=${projectId}&shareCode=${shareCode}`
    expect((await call(closed, shared, as(user))).status).toBe(200)
  })

  it('wins over the session of another person in the same browser', async () => {
    const user = uniqueName('next')
    const opened = await fetch(`${byAddress.url}/session`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...own },
      body: JSON.stringify({ apiKey: byAddress.apiKey }),
    })
    const cookie = opened.headers.get('set-cookie')?.split(';')[0] ?? ''
    expect((await call(byAddress, '/session', { cookie })).body.userName).toBe(byAddress.userName)
    expect((await call(byAddress, '/session', as(user, { cookie }))).body.userName).toBe(user)
  })

  it('lets no foreign page change anything, and works for acts of admins and for slow writes', async () => {
    const user = uniqueName('grace')
    const admin = inGroups(user, 'svc-admins')
    const made = { userName: uniqueName('made') }
    const path = '/api/rest/v2/admin/users'
    for (const site of ['cross-site', 'same-site', 'none']) {
      const answer = await call(byAddress, path, { ...admin, 'sec-fetch-site': site }, 'POST', made)
      expect([answer.status, answer.code]).toEqual([403, 8000111])
    }
    expect((await call(byAddress, path, { ...admin, ...own }, 'POST', made)).status).toBe(200)
    expect((await readAudit(byAddress, made.userName)).map((it) => it.userName)).toEqual([user])

    const workspace = { 'x-forwarded-groups': 'svc-admins,leads' }
    const fields = { workspaceName: team, projectName: 'project' }
    const headers = { ...as(user, workspace), ...own }
    const experiment = await call(byAddress, '/api/rest/v2/write/experiment/create', headers, 'POST', fields)
    const { experimentKey } = experiment.body
    const metric = '/api/rest/v2/write/experiment/metric'
    const write = (it: Headers) => call(byAddress, metric, it, 'POST', { experimentKey, ...aPoint() })
    // Without a key the fast path leaves a write to the server, which knows the proxy.
    expect((await write(as(user, workspace))).code).toBe(8000111)
    expect((await write({ 'sec-fetch-site': 'same-origin' })).status).toBe(401)
    expect((await write(headers)).status).toBe(200)
  })
})

describe('groups', () => {
  const rolesOf = async (user: string) => {
    const rows = await inDatabase<{ name: string; role: string }>(
      `SELECT w.name, m.role FROM workspace_members m JOIN workspaces w ON w.id = m.workspace_id
       JOIN users u ON u.id = m.user_id WHERE u.user_name = $1 AND w.name = ANY($2)`,
      [user, [team, board]],
    )
    return Object.fromEntries(rows.map((it) => [it.name, it.role]))
  }

  it('give roles and take them away, at once, with an entry for each', async () => {
    const user = uniqueName('lin')
    const ask = async (...names: string[]) => (await call(byAddress, '/session', inGroups(user, ...names))).body
    expect(await ask('trainers', 'others')).toMatchObject({ workspaceNames: [team], defaultWorkspaceName: team })
    expect(await rolesOf(user)).toEqual({ [team]: 'editor' })
    expect(await ask('trainers', 'leads', 'svc-admins')).toMatchObject({ isAdmin: true })
    expect(await rolesOf(user)).toEqual({ [team]: 'owner', [board]: 'viewer' })
    expect(await ask('trainers', 'svc-auditors')).toMatchObject({ isAdmin: false })
    expect(await rolesOf(user)).toEqual({ [team]: 'editor' })
    expect(await ask()).toMatchObject({ workspaceNames: [] })
    expect(await rolesOf(user)).toEqual({})
    const audit = (await readAudit(byAddress, user)).filter((it) => it.act !== 'session.opened')
    expect(audit.map(({ act, details: { provider, ...it } }) => [act, provider, it])).toEqual([
      ['user.created', 'proxy', { role: 'member' }],
      ['workspace-member.set', 'proxy', { workspaceName: team, role: 'editor' }],
      ['workspace-member.set', 'proxy', { workspaceName: team, role: 'owner' }],
      ['workspace-member.set', 'proxy', { workspaceName: board, role: 'viewer' }],
      ['user.changed', 'proxy', { role: 'admin' }],
      ['workspace-member.set', 'proxy', { workspaceName: team, role: 'editor' }],
      ['workspace-member.removed', 'proxy', { workspaceName: board }],
      ['user.changed', 'proxy', { role: 'auditor' }],
      ['workspace-member.removed', 'proxy', { workspaceName: team }],
      ['user.changed', 'proxy', { role: 'member' }],
    ])
  })

  it('leave alone what was given by hand', async () => {
    const user = uniqueName('hand')
    await call(byAddress, '/session', as(user))
    const chair = { ...inGroups(uniqueName('chair'), 'chairs'), ...own }
    const member = { workspaceName: board, userName: user, admin: true }
    const added = await call(byAddress, '/api/rest/v2/write/add-workspace-member', chair, 'POST', member)
    expect(added.status, JSON.stringify(added.body)).toBe(200)
    await byAddress.client.send('PUT', `/admin/users/${user}`, JSON.stringify({ isAdmin: true }))
    await call(byAddress, '/session', inGroups(user, 'leads'))
    expect(await rolesOf(user)).toEqual({ [team]: 'owner', [board]: 'owner' })
    const { body } = await call(byAddress, '/session', inGroups(user, 'none'))
    expect(body.isAdmin).toBe(true)
    expect(await rolesOf(user)).toEqual({ [board]: 'owner' })
    // A role that a group gave, and then somebody by hand, stays too.
    const both = uniqueName('both')
    await call(byAddress, '/session', inGroups(both, 'svc-auditors'))
    const given = JSON.stringify({ isAdmin: true })
    expect((await byAddress.client.send('PUT', `/admin/users/${both}`, given)).status).toBe(200)
    expect((await call(byAddress, '/session', inGroups(both, 'none'))).body.isAdmin).toBe(true)
  })
})

describe('an account', () => {
  it('that an admin made is linked by a verified mail address, if a setting allows it, and never by its name', async () => {
    const address = `${uniqueName('joan')}@example.org`
    const local = uniqueName('local')
    await byAddress.client.post('/admin/users', { userName: address })
    await byAddress.client.post('/admin/users', { userName: local })
    const subject = uniqueName('subject')
    const headers = as(subject, { 'x-forwarded-email': address, 'x-forwarded-preferred-username': 'joan' })
    // Without the setting, with an address that is not verified, and by the name only.
    const unverified = await openWith({ addresses: ['127.0.0.1'], createUsers: true, linkByVerifiedEmail: true })
    expect((await call(unverified, '/session', headers)).body.msg).toContain('not verified')
    expect((await call(byAddress, '/session', as(local))).body.userName).toBe(`${local}-2`)
    const linking = await openWith({ addresses: ['127.0.0.1'], linkByVerifiedEmail: true, isEmailVerified: true })
    expect((await call(linking, '/session', headers)).body.userName).toBe(address)
    expect((await readAudit(linking, address)).map((it) => it.act)).toContain('identity.linked')
    // It has an identity now: nobody else gets it by the same address.
    const second = as(uniqueName('second'), { 'x-forwarded-email': address })
    expect((await call(linking, '/session', second)).code).toBe(8000115)
  })

  it('ends: keys stop when the proxy was silent for too long, and work again when it sends the person again', async () => {
    const user = uniqueName('away')
    await call(byAddress, '/session', as(user))
    const { apiKey } = (await byAddress.client.post('/admin/users/keys', { userName: user })).body as { apiKey: string }
    const status = async () => (await call(byAddress, '/session', { authorization: apiKey })).status
    expect(await status()).toBe(200)
    // A stream that is open ends too, although nothing else was taken from the user.
    const experiment = { workspaceName: user, projectName: 'project' }
    const headers = { authorization: apiKey }
    const made = await call(byAddress, '/api/rest/v2/write/experiment/create', headers, 'POST', experiment)
    const address = `${byAddress.url}/api/rest/v2/experiment/stream?experimentKey=${made.body.experimentKey}`
    const stream = await fetch(address, { headers })
    expect(stream.status).toBe(200)
    await inDatabase(`UPDATE identities SET keys_until = now() WHERE subject = $1`, [user])
    await eventually(async () => expect(await status()).toBe(401), 120_000)
    expect(await stream.text()).toContain('event: state')
    expect((await readAudit(byAddress, user)).at(-1)).toMatchObject({
      act: 'user.suspended',
      details: { provider: 'proxy', reason: 'not confirmed' },
    })
    await eventually(async () => {
      expect((await call(byAddress, '/session', as(user))).status).toBe(200)
      expect(await status()).toBe(200)
    }, 120_000)
  })

  it('that an admin removes stays removed, and one whose groups are not allowed loses its keys', async () => {
    const user = uniqueName('removed')
    await call(byAddress, '/session', as(user))
    await byAddress.client.send('DELETE', `/admin/users/${user}`, undefined)
    await eventually(async () => {
      const answer = await call(byAddress, '/session', as(user))
      expect([answer.status, answer.body.msg]).toMatchObject([401, expect.stringContaining('removed')])
    })
    const strict = await openWith({ addresses: ['127.0.0.1'], createUsers: true, allowedGroups: ['staff'] })
    const other = uniqueName('staff')
    expect((await call(strict, '/session', inGroups(other, 'guests'))).code).toBe(8000115)
    expect((await call(strict, '/session', inGroups(other, 'staff'))).status).toBe(200)
    const { apiKey } = (await strict.client.post('/admin/users/keys', { userName: other })).body as { apiKey: string }
    expect((await call(strict, '/session', { authorization: apiKey })).status).toBe(200)
    await eventually(async () => {
      expect((await call(strict, '/session', inGroups(other, 'guests'))).code).toBe(8000115)
      expect((await call(strict, '/session', { authorization: apiKey })).status).toBe(401)
    }, 120_000)
  })
})

it('works behind a proxy with a path prefix, which removes what its clients send', async () => {
  const user = uniqueName('below')
  let target = ''
  const toHeaders = () => ({ 'x-forwarded-user': user, 'x-forwarded-groups': 'trainers' })
  const proxy = await openReverseProxy({ toTarget: () => target, prefix: '/ml/svc', toHeaders })
  try {
    const settings = { SVC_PUBLIC_URL: proxy.url }
    const signOutUrl = '/oauth2/sign_out'
    const service = await openWith({ addresses: ['127.0.0.1'], createUsers: true, signOutUrl }, settings)
    target = service.url
    const forged = as('mallory', { 'x-forwarded-groups': 'svc-admins' })
    const answer = await call(proxy, '/session', forged)
    expect(answer.body).toMatchObject({ userName: user, isAdmin: false, workspaceNames: [team], signOutUrl })
  } finally {
    await proxy.close()
  }
})
