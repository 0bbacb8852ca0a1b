import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { makeSignInLink } from '../../../cli/admin/sign-in-link.ts'
import { openDatabase } from '../../../store/postgres/database.ts'
import { aPoint } from '../../kit/builders.ts'
import { eventually } from '../../kit/eventually.ts'
import { createClient } from '../../kit/http/client.ts'
import { openTestService, storesWith, uniqueName } from '../../kit/service.ts'

let service: Awaited<ReturnType<typeof openTestService>>
/** Another process on the same stores, at a public address below a path. */
let other: typeof service
let organizationName: string
beforeAll(async () => {
  const settings = { SVC_PUBLIC_URL: 'https://svc.invalid/below/', SVC_SESSION_DAYS: '2' }
  service = await openTestService({ isAdmin: true })
  other = await openTestService({ roles: new Set(['api']), settings })
  organizationName = (await service.client.get('/admin/users')).body.organizationName as string
})
afterAll(async () => {
  await other?.close()
  await service?.close()
})

const crossSite = 8000111
const ended = 8000110
const own = { 'sec-fetch-site': 'same-origin' }

async function call(path: string, init: RequestInit & { headers?: Record<string, string> } = {}, url = service.url) {
  const headers = { ...(init.body && { 'content-type': 'application/json' }), ...init.headers }
  const answer = await fetch(url + path, { redirect: 'manual', ...init, headers })
  const text = await answer.text()
  const body = (text.startsWith('{') ? JSON.parse(text) : {}) as Record<string, unknown>
  return { status: answer.status, headers: answer.headers, code: body.sdk_error_code, body }
}

async function signIn(apiKey = service.apiKey, url = service.url, headers: Record<string, string> = {}) {
  const init = { method: 'POST', body: JSON.stringify({ apiKey }), headers: { ...own, ...headers } }
  const answer = await call('/session', init, url)
  expect(answer.status, JSON.stringify(answer.body)).toBe(200)
  const setCookie = answer.headers.get('set-cookie') ?? ''
  // The cookie's name has the port of the address; the session is the same at another one.
  const cookieFor = (at: string) => setCookie.split(';')[0]?.replace(/^\w+=/, `svc_session_${new URL(at).port}=`) ?? ''
  return { ...answer, setCookie, cookieFor, cookie: cookieFor(url) }
}

async function withDatabase<T>(work: (database: ReturnType<typeof openDatabase>) => Promise<T>): Promise<T> {
  const database = openDatabase({
    url: storesWith('postgres').postgresUrl,
    connectionsMax: 1,
    onError: () => undefined,
  })
  try {
    return await work(database)
  } finally {
    await database.close()
  }
}

const aLink = (userName?: string) =>
  makeSignInLink({
    postgresUrl: storesWith('postgres').postgresUrl,
    url: service.url,
    organization: organizationName,
    userName,
    actor: 'test',
  })

describe('signing in', () => {
  it('with a key sets a cookie that scripts and other sites cannot have, and tells who it is', async () => {
    const { cookie, setCookie, body } = await signIn()
    expect(setCookie).toMatch(/^svc_session_\d+=[\w-]{43}; Path=\/; Max-Age=2592000; HttpOnly; SameSite=Strict$/)
    const { userName, workspaceName } = service
    const facts = { userName, isAdmin: true, kind: 'user', organizationName, workspaceNames: [workspaceName] }
    expect(body).toMatchObject(facts)
    const read = await call('/session', { headers: { cookie } })
    expect(read.body).toEqual(body)
    // A key answers the same, but is no session.
    const byKey = await call('/session', { headers: { authorization: service.apiKey } })
    expect(byKey.body).toEqual({ ...body, sessionId: null, expiresAt: null })
  })

  it('at a public address with TLS and a path, the cookie is for that path and TLS only', async () => {
    const { setCookie, body } = await signIn(service.apiKey, other.url)
    expect(setCookie).toMatch(/; Path=\/below; Max-Age=172800; HttpOnly; SameSite=Strict; Secure$/)
    expect(body.publicUrl).toBe('https://svc.invalid/below')
    const behindTls = await signIn(service.apiKey, service.url, { 'x-forwarded-proto': 'https' })
    expect(behindTls.setCookie).toMatch(/; Secure$/)
  })

  it('with a wrong key, no key, or by a foreign page is refused and sets nothing', async () => {
    const post = (body: unknown, headers: Record<string, string> = own) =>
      call('/session', { method: 'POST', body: JSON.stringify(body), headers })
    const tries = [
      [await post({ apiKey: 'svc_nobody-has-this-one' }), 401, 90212],
      [await post({}), 400, 8000001],
      [await post({ apiKey: service.apiKey }, { 'sec-fetch-site': 'cross-site' }), 403, crossSite],
      [await post({ apiKey: service.apiKey }, { 'sec-fetch-site': 'same-site' }), 403, crossSite],
    ] as const
    for (const [answer, status, code] of tries) {
      expect([answer.status, answer.code]).toEqual([status, code])
      expect(answer.headers.get('set-cookie')).toBeNull()
    }
  })

  it('with a link works once, within ten minutes, and leaves the address bar', async () => {
    const link = new URL(await aLink())
    const [first, second] = [await call(link.pathname + link.search), await call(link.pathname + link.search)]
    expect([first.status, first.headers.get('location')]).toEqual([303, './'])
    expect([second.status, second.headers.get('location')]).toEqual([303, './-/sign-in?reason=link-used'])
    expect(second.headers.get('set-cookie')).toBeNull()
    const cookie = first.headers.get('set-cookie')?.split(';')[0] ?? ''
    expect((await call('/session', { headers: { cookie } })).body).toMatchObject({ userName: service.userName })
    // It may do what the user may do: the session is no key, but counts for admins' acts.
    const user = { method: 'POST', body: JSON.stringify({ userName: uniqueName('user') }), headers: { cookie, ...own } }
    expect((await call('/api/rest/v2/admin/users', user)).status).toBe(200)

    const late = new URL(await aLink(service.userName))
    await withDatabase((it) => it.row(`UPDATE sign_in_links SET expires_at = now()`))
    expect((await call(late.pathname + late.search)).headers.get('set-cookie')).toBeNull()
    await expect(aLink('nobody')).rejects.toThrow('There is no user "nobody"')
  })

  it('keeps no token in clear text', async () => {
    const { cookie } = await signIn()
    const token = cookie.split('=')[1] ?? ''
    const link = new URL(await aLink())
    const linkToken = link.searchParams.get('token') ?? ''
    const stored = await withDatabase((it) =>
      it.rows<{ text: string }>(
        `SELECT s::text AS text FROM sessions s UNION ALL SELECT l::text FROM sign_in_links l UNION ALL SELECT a::text FROM audit_log a`,
      ),
    )
    const text = JSON.stringify(stored)
    const inHex = (it: string) => Buffer.from(it).toString('hex')
    for (const it of [token, linkToken]) for (const form of [it, inHex(it)]) expect(text).not.toContain(form)
  })
})

describe('a session ends', () => {
  const isOver = async (headers: Record<string, string>, url: string) => {
    const { status, code } = await call('/api/rest/v2/account-details', { headers }, url)
    expect([status, code]).toEqual([401, ended])
  }

  it('by signing out, from the list, and with its key: in every process, and no other session does', async () => {
    const { client } = service
    const made = (await client.post('/account/keys', { name: 'of the test' })).body
    const stays = await signIn()
    const ways: Record<string, (it: Awaited<ReturnType<typeof signIn>>) => Promise<{ status: number }>> = {
      'DELETE /session': ({ cookie }) => call('/session', { method: 'DELETE', headers: { cookie, ...own } }),
      'from the list': ({ body: { sessionId } }) => client.post('/account/sessions/end', { sessionId }),
      'with its key': () => client.post('/account/keys/revoke', { keyId: made.keyId }),
    }
    for (const [way, end] of Object.entries(ways)) {
      const session = await signIn(way === 'with its key' ? (made.apiKey as string) : undefined)
      const there = { cookie: session.cookieFor(other.url) }
      // Both processes know it, and remember it.
      expect((await call('/session', { headers: { cookie: session.cookie } })).status).toBe(200)
      expect((await call('/session', { headers: there }, other.url)).status).toBe(200)
      expect([200, 204], way).toContain((await end(session)).status)
      await eventually(() => isOver({ cookie: session.cookie }, service.url))
      await eventually(() => isOver(there, other.url))
    }
    expect((await call('/session', { headers: { cookie: stays.cookie } })).status).toBe(200)
    expect((await client.post('/account/sessions/end', { sessionId: 'a' })).body.sdk_error_code).toBe(8000112)
  })

  it('by its age, and with its user', async () => {
    const userName = uniqueName('user')
    await service.client.post('/admin/users', { userName })
    const { apiKey } = (await service.client.post('/admin/users/keys', { userName })).body
    const [old, removed] = [await signIn(apiKey as string), await signIn(apiKey as string)]
    const cookieOf = ({ cookie }: typeof old) => ({ cookie })
    expect((await call('/session', { headers: cookieOf(old) })).status).toBe(200)
    await withDatabase((it) =>
      it.row('UPDATE sessions SET expires_at = now() WHERE id = $1', [(old.body as { sessionId: string }).sessionId]),
    )
    await eventually(() => isOver(cookieOf(old), service.url))
    expect((await call('/session', { headers: cookieOf(removed) })).status).toBe(200)
    await service.client.send('DELETE', `/admin/users/${userName}`, undefined)
    await eventually(() => isOver(cookieOf(removed), service.url))
  })

  it('and its cookie, which a browser keeps, does not hide what a share code shows', async () => {
    const { client, workspaceName } = service
    const projectName = uniqueName('project')
    const fields = { workspaceName, projectName, projectDescription: '', isPublic: false }
    const { projectId } = (await client.post('/write/project/create', fields)).body
    const { shareCode } = (await client.get(`/write/project/add-share-link?projectId=${projectId}`)).body
    const path = `/api/rest/v2/project?projectId=${projectId}`
    for (const cookie of [`svc_session_${new URL(service.url).port}=gone`, '']) {
      const headers = { ...(cookie && { cookie }) }
      expect((await call(path, { headers })).status).toBe(401)
      expect((await call(`${path}&shareCode=${shareCode}`, { headers })).status).toBe(200)
    }
  })
})

describe('a foreign page', () => {
  it('changes nothing with the session of its reader: every route that may change something asks for its own pages', async () => {
    const { cookie } = await signIn()
    const foreign: Record<string, string>[] = [
      { 'sec-fetch-site': 'cross-site' },
      { 'sec-fetch-site': 'same-site' },
      { 'sec-fetch-site': 'none' },
      { 'sec-fetch-site': 'cross-site', 'x-svc-page': '1' },
      {},
    ]
    const pages: Record<string, string>[] = [own, { 'x-svc-page': '1' }]
    let changing = 0
    let gets = 0
    for (const { method, path, permission, atRoot } of service.routes) {
      if (permission === 'anyone') continue
      const mayChange = method !== 'GET' || path.startsWith('/write/') || path.startsWith('/clientlib/')
      const filled = path.replaceAll(/\{\w+\}/g, 'x')
      for (const prefix of atRoot ? [''] : ['/api/rest/v2', '/clientlib/rest/v2']) {
        const what = `${method} ${prefix}${filled}`
        await Promise.all(
          foreign.map(async (headers) => {
            const { status, code } = await call(prefix + filled, { method, headers: { cookie, ...headers } })
            if (mayChange) expect([status, code], `${what} ${JSON.stringify(headers)}`).toEqual([403, crossSite])
            else expect(code, what).not.toBe(crossSite)
          }),
        )
      }
      if (mayChange) changing++
      if (mayChange && method === 'GET') gets++
      // This one would end the session.
      if (method === 'DELETE' && path === '/session') continue
      for (const headers of pages) {
        const { code } = await call((atRoot ? '' : '/api/rest/v2') + filled, {
          method,
          headers: { cookie, ...headers },
        })
        expect([crossSite, ended, 8000004], `${method} ${path}`).not.toContain(code)
      }
    }
    expect([changing > 80, gets > 12]).toEqual([true, true])
  })

  it('nor by the fast path, which knows no sessions', async () => {
    const { cookie } = await signIn()
    const experimentKey = await service.client.createExperiment()
    const path = '/api/rest/v2/write/experiment/metric'
    const write = (headers: Record<string, string>) =>
      call(path, { method: 'POST', body: JSON.stringify({ experimentKey, ...aPoint() }), headers })
    expect((await write({ cookie, 'sec-fetch-site': 'cross-site' })).code).toBe(crossSite)
    expect((await write({ cookie })).code).toBe(crossSite)
    expect((await write({ cookie, ...own })).status).toBe(200)
    // Cookies of load balancers, and a key beside a session.
    expect((await write({ cookie: 'lb=1', authorization: service.apiKey })).status).toBe(200)
    expect((await write({ cookie, authorization: service.apiKey })).status).toBe(200)
  })
})

describe('own keys and sessions', () => {
  it('are listed, made, shown once and ended by their owner only, with an entry in the audit log for each', async () => {
    const userName = uniqueName('user')
    await service.client.post('/admin/users', { userName })
    const { apiKey } = (await service.client.post('/admin/users/keys', { userName })).body as { apiKey: string }
    const user = createClient(service.url, { apiKey, workspaceName: userName })
    const session = await signIn(apiKey, service.url, { 'user-agent': 'a browser' })
    const made = (await user.post('/account/keys', { name: 'laptop' })).body
    const { keys } = (await user.get('/account/keys')).body as { keys: Record<string, unknown>[] }
    expect(keys).toMatchObject([
      { name: null, shownPrefix: apiKey.slice(0, 12), isCurrent: true },
      { name: 'laptop', keyId: made.keyId, isCurrent: false },
    ])
    expect(JSON.stringify(keys)).not.toContain(made.apiKey)
    const { sessions } = (await user.get('/account/sessions')).body as { sessions: Record<string, unknown>[] }
    expect(sessions).toMatchObject([{ userAgent: 'a browser', shownPrefix: apiKey.slice(0, 12), isCurrent: false }])

    // Foreign ones look absent.
    const foreign = await service.client.post('/account/keys/revoke', { keyId: made.keyId })
    expect(foreign.body.sdk_error_code).toBe(8000073)
    const { sessionId } = session.body
    expect((await service.client.post('/account/sessions/end', { sessionId })).body.sdk_error_code).toBe(8000112)
    // The keys of a service account are for admins.
    const account = { name: uniqueName('account'), teamName: service.workspaceName, organizationName }
    const ofAccount = (await service.client.post('/write/service-account', account)).body.apiKey as string
    expect((await user.post('/account/keys', {}, { apiKey: ofAccount })).status).toBe(403)

    await user.post('/account/keys/revoke', { keyId: made.keyId })
    await call('/session', { method: 'DELETE', headers: { cookie: session.cookie, ...own } })
    await aLink(userName)
    const { entries } = (await service.client.get('/admin/audit')).body as { entries: Record<string, string>[] }
    const acts = entries.filter((it) => it.subject === userName).map((it) => `${it.userName}: ${it.act}`)
    expect(acts.toReversed()).toEqual([
      `${service.userName}: user.created`,
      `${service.userName}: key.created`,
      `${userName}: session.opened`,
      `${userName}: key.created`,
      `${userName}: key.revoked`,
      `${userName}: session.ended`,
      'test: sign-in-link.made',
    ])
  })
})
