import { pino } from 'pino'
import type { Page } from 'playwright-core'
import { beforeAll, describe, expect, it } from 'vitest'
import { openDatabase } from '../../store/postgres/database.ts'
import { noBrowser } from '../kit/browser.ts'
import { eventually } from '../kit/eventually.ts'
import { createClient } from '../kit/http/client.ts'
import { openIdentityProvider } from '../kit/http/identity-provider.ts'
import { openReverseProxy } from '../kit/http/reverse-proxy.ts'
import { openTestService, storesWith, uniqueName } from '../kit/service.ts'
import { expectAccessible } from './kit/accessible.ts'
import { answered, useBrowser } from './kit/use-browser.ts'

/** On a machine where everything waits for the processor. */
const waitMs = 120_000

describe.skipIf(noBrowser)(`single sign-on (${noBrowser ?? 'in Chromium'})`, () => {
  type Service = Awaited<ReturnType<typeof openTestService>>
  type IdentityProvider = Awaited<ReturnType<typeof openIdentityProvider>>
  const organizationName = uniqueName('organization')
  const [team, board] = [uniqueName('team'), uniqueName('board')]
  const closers: (() => Promise<unknown>)[] = []
  let service: Service
  /** Every line that the service has logged. */
  const logged: string[] = []
  /** The address that browsers see, below a path. */
  let publicUrl: string
  let corp: IdentityProvider
  let lab: IdentityProvider
  let late: IdentityProvider
  /** The outcomes of sign-ins at providers in `/metrics`. */
  const listCounted = async () => {
    const text = await (await fetch(`${service.url}/metrics`)).text()
    return [...text.matchAll(/^svc_sign_ins_total\{way="oidc",outcome="([\w-]+)"\} [1-9]/gm)].map((it) => it[1])
  }
  const browser = useBrowser(async () => {
    for (const close of closers.toReversed()) await close()
  }, [answered(400, 401, 403, 404)])

  beforeAll(async () => {
    let target = ''
    const proxy = await openReverseProxy({ toTarget: () => target, prefix: '/ml/svc' })
    closers.push(proxy.close)
    publicUrl = proxy.url
    const open = async (id: string, more: Partial<Parameters<typeof openIdentityProvider>[0]> = {}) => {
      const provider = await openIdentityProvider({ clientId: 'svc', clientSecret: `of ${id}`, publicUrl, id, ...more })
      closers.push(provider.close)
      return provider
    }
    corp = await open('corp')
    lab = await open('lab', { hasClaimsInIdToken: true })
    late = await open('late', { behindSeconds: 3_600 })
    const of = { organization: organizationName, clientId: 'svc' }
    const offline = { authorizationParameters: { prompt: 'consent' } }
    const document = {
      providers: [
        {
          ...of,
          ...offline,
          id: 'corp',
          name: 'Example Corp',
          issuer: corp.issuer,
          clientSecretEnv: 'CORP_SECRET',
          createUsers: true,
          linkByVerifiedEmail: true,
          refreshSeconds: 5,
        },
        {
          ...of,
          id: 'lab',
          name: 'The Lab',
          issuer: lab.issuer,
          clientSecretEnv: 'LAB_SECRET',
          createUsers: true,
          allowedEmailDomains: ['lab.example'],
          refreshSeconds: 5,
        },
        { ...of, id: 'late', name: 'A late clock', issuer: late.issuer, clientSecretEnv: 'LATE_SECRET' },
        // At a private address that no setting allows.
        { ...of, id: 'inside', name: 'Inside', issuer: corp.issuer.replace('localhost', '127.0.0.1') },
      ],
      groups: [
        { provider: 'corp', group: 'ml', workspace: team, role: 'editor' },
        { provider: 'corp', group: 'leads', workspace: team, role: 'owner' },
        { provider: 'corp', group: 'leads', workspace: board, role: 'editor' },
        { provider: 'corp', group: 'platform', organizationRole: 'admin' },
      ],
    }
    service = await openTestService({
      organizationName,
      isAdmin: true,
      log: pino({ level: 'trace' }, { write: (line: string) => void logged.push(line) }),
      intervals: { identitiesMs: 300 },
      settings: {
        SVC_PUBLIC_URL: publicUrl,
        SVC_SSO: JSON.stringify(document),
        SVC_SSO_PRIVATE_HOSTS: 'localhost',
        CORP_SECRET: 'of corp',
        LAB_SECRET: 'of lab',
        LATE_SECRET: 'of late',
      },
    })
    closers.push(service.close)
    target = service.url
  }, waitMs)

  const open = async (work: (page: Page) => Promise<void>) => {
    const context = await browser.get().openContext(publicUrl)
    context.setDefaultTimeout(waitMs)
    try {
      await work(await context.newPage())
    } finally {
      await context.close()
    }
  }

  const choose = (page: Page, name: string) => page.getByRole('link', { name: `Sign in with ${name}` }).click()
  const press = (page: Page, name: string) => page.getByRole('button', { name, exact: true }).click()
  /** Signs in at the provider, and agrees where it asks. */
  async function signInThere(page: Page, login: string) {
    await page.getByLabel('Name').fill(login)
    await press(page, 'Continue')
    const consent = page.getByRole('button', { name: 'Cancel' })
    const back = page.waitForURL((it) => it.href.startsWith(publicUrl))
    await Promise.race([
      back,
      consent
        .waitFor()
        .then(() => press(page, 'Continue'))
        .catch(() => undefined),
    ])
    await back
  }
  const whoAmI = (page: Page) =>
    page.evaluate(async (url) => (await fetch(`${url}/session`)).json(), publicUrl) as Promise<Record<string, unknown>>

  async function readAudit(userName: string) {
    const { entries } = (await service.client.get('/admin/audit?pageSize=1000')).body as {
      entries: { act: string; subject: string; details: Record<string, unknown> }[]
    }
    return entries.filter((it) => it.subject === userName).toReversed()
  }
  async function inDatabase<Row>(sql: string, values: unknown[] = []): Promise<Row[]> {
    const { postgresUrl } = storesWith('postgres')
    const database = openDatabase({ url: postgresUrl, connectionsMax: 1, onError: () => undefined })
    return await database.rows<Row>(sql, values).finally(() => database.close())
  }

  it('each provider has a button; signing in makes a user and comes back to the page that was asked for; signing out ends both', async () => {
    const name = uniqueName('ada')
    corp.people.set(name, {
      email: `${name}@corp.example`,
      email_verified: true,
      preferred_username: name,
      groups: ['ml'],
    })
    await open(async (page) => {
      await page.goto(`${publicUrl}/-/settings?section=sessions`)
      await page.getByRole('link', { name: 'Sign in with The Lab' }).waitFor()
      await expectAccessible(page)
      await choose(page, 'Example Corp')
      await signInThere(page, name)
      await page.getByText('this one').waitFor()
      expect(page.url()).toBe(`${publicUrl}/-/settings?section=sessions`)
      await page.getByRole('cell', { name: 'corp', exact: true }).waitFor()
      const cookies = await page.context().cookies(publicUrl)
      expect(cookies.map((it) => [it.httpOnly, it.sameSite, it.path])).toEqual([[true, 'Strict', '/ml/svc']])
      expect(await whoAmI(page)).toMatchObject({
        userName: name,
        organizationName,
        workspaceNames: [team],
        isAdmin: false,
      })
      const audit = await readAudit(name)
      expect(audit.map((it) => [it.act, it.details.provider])).toEqual([
        ['user.created', 'corp'],
        ['workspace-member.set', 'corp'],
        ['session.opened', 'corp'],
      ])
      expect(await listCounted()).toContain('opened')
      // Of what the provider gave, nothing is stored in clear text.
      const [row] = await inDatabase<{ text: string }>(
        `SELECT string_agg(i::text || s::text, ' ') AS text FROM identities i JOIN sessions s ON s.identity_id = i.id
         WHERE i.subject = $1`,
        [name],
      )
      expect(row?.text).toContain(name)
      expect(row?.text).not.toContain(Buffer.from('"refreshToken"').toString('hex'))
      expect(row?.text).not.toContain(Buffer.from('eyJ').toString('hex'))

      await page.getByRole('button', { name: `Signed in as ${name}` }).click()
      await page.getByRole('menuitem', { name: 'Sign out' }).click()
      await press(page, 'Sign out there')
      await page.getByText('You are signed out.').waitFor()
      expect(page.url()).toBe(`${publicUrl}/-/sign-in?reason=signed-out`)
      // There too: it asks for the name again.
      await choose(page, 'Example Corp')
      await page.getByLabel('Name').waitFor()
    })
  }, 300_000)

  it('what goes wrong is said in plain words, and nobody gets a session', async () => {
    lab.people.set('guest', { email: 'guest@elsewhere.example', email_verified: true })
    lab.people.set('fresh', { email: 'fresh@lab.example', email_verified: false })
    lab.people.set('member', { email: `${uniqueName('m')}@lab.example`, email_verified: true })
    late.people.set('anybody', { email: 'anybody@late.example' })
    const isRefused = async (page: Page, words: string) => {
      await page.getByRole('status').getByText(words).waitFor()
      await page.getByRole('link', { name: 'Sign in with The Lab' }).waitFor()
      expect((await page.context().cookies(publicUrl)).map((it) => it.name)).toEqual([])
    }
    const tries: [provider: string, login: string, words: string][] = [
      ['The Lab', 'guest', 'may not use this service'],
      ['The Lab', 'fresh', 'not verified'],
      ['A late clock', 'anybody', 'clocks'],
    ]
    for (const [provider, login, words] of tries) {
      await open(async (page) => {
        await page.goto(`${publicUrl}/`)
        await choose(page, provider)
        await signInThere(page, login)
        await isRefused(page, words)
        await expectAccessible(page)
      })
    }
    await open(async (page) => {
      await page.goto(`${publicUrl}/`)
      await choose(page, 'The Lab')
      await press(page, 'Cancel')
      await isRefused(page, 'did not agree')
    })
    // An answer that this browser has not asked for, as when somebody else's is given to it.
    await open(async (page) => {
      await page.goto(`${publicUrl}/-/oidc/lab/callback?code=x&state=y`)
      await isRefused(page, 'another browser')
    })
    await open(async (page) => {
      await page.goto(`${publicUrl}/`)
      await choose(page, 'The Lab')
      await page.getByLabel('Name').waitFor()
      await page.context().clearCookies({ domain: '127.0.0.1' })
      await signInThere(page, 'member')
      await isRefused(page, 'another browser')
    })
    const counted = await listCounted()
    for (const outcome of ['not-allowed', 'email-not-verified', 'clock', 'denied', 'expired']) {
      expect(counted).toContain(outcome)
    }
    // Whoever wrote the link, it leads back to this service only.
    for (const to of ['https://evil.example', '//evil.example', '/\\evil.example', '/-/oidc/lab/start']) {
      await open(async (page) => {
        await page.goto(`${publicUrl}/-/oidc/lab/start?${new URLSearchParams({ to })}`)
        await signInThere(page, 'member')
        await page.getByRole('button', { name: /Signed in as/ }).waitFor()
        expect(page.url()).toBe(`${publicUrl}/`)
      })
    }
    const asked = corp.asked.count
    await open(async (page) => {
      await page.goto(`${publicUrl}/`)
      await choose(page, 'Inside')
      await isRefused(page, 'does not answer')
    })
    expect(corp.asked.count).toBe(asked)
    const nobody = await fetch(`${service.url}/-/oidc/nobody/start`, { redirect: 'manual' })
    expect([nobody.status, nobody.headers.get('location')]).toEqual([404, null])
  }, 600_000)

  it('groups are read again; who is taken away at the provider loses sessions and keys', async () => {
    const name = uniqueName('grace')
    corp.people.set(name, { preferred_username: name, groups: ['ml'] })
    await open(async (page) => {
      await page.goto(`${publicUrl}/`)
      await choose(page, 'Example Corp')
      await signInThere(page, name)
      await page.getByRole('button', { name: `Signed in as ${name}` }).waitFor()
      const { apiKey } = (await service.client.post('/admin/users/keys', { userName: name })).body as { apiKey: string }
      const byKey = createClient(service.url, { apiKey, workspaceName: team })
      const mine = async () => (await byKey.get(`${service.url}/session`)).body
      expect(await mine()).toMatchObject({ isAdmin: false, workspaceNames: [team] })

      corp.people.set(name, { preferred_username: name, groups: ['leads', 'platform'] })
      await eventually(
        async () => expect(await mine()).toMatchObject({ isAdmin: true, workspaceNames: [board, team].sort() }),
        waitMs,
      )
      corp.people.set(name, { preferred_username: name, groups: [] })
      await eventually(async () => expect(await mine()).toMatchObject({ isAdmin: false, workspaceNames: [] }), waitMs)

      // A provider that does not answer takes nothing away.
      corp.setAnswers(false)
      const before = corp.asked.count
      await eventually(() => expect(corp.asked.count).toBeGreaterThan(before + 1), waitMs)
      corp.setAnswers(true)
      expect((await byKey.get(`${service.url}/session`)).status).toBe(200)

      corp.people.delete(name)
      await eventually(async () => {
        expect((await byKey.get(`${service.url}/session`)).status).toBe(401)
        expect(await whoAmI(page)).toMatchObject({ sdk_error_code: 8000110 })
      }, waitMs)
      expect((await readAudit(name)).at(-1)).toMatchObject({
        act: 'user.suspended',
        details: { provider: 'corp', reason: 'ended there' },
      })

      // Whoever is taken in again signs in again, and the keys work.
      corp.people.set(name, { preferred_username: name, groups: ['ml'] })
      await open(async (another) => {
        await another.goto(`${publicUrl}/`)
        await choose(another, 'Example Corp')
        await signInThere(another, name)
        await another.getByRole('button', { name: `Signed in as ${name}` }).waitFor()
      })
      await eventually(async () => expect((await byKey.get(`${service.url}/session`)).status).toBe(200), waitMs)
      expect((await readAudit(name)).map((it) => it.act)).toContain('user.restored')
    })
  }, 600_000)

  it('a provider without offline tokens is asked by its profile: it ends sessions, and keys of whom it does not admit', async () => {
    const name = `${uniqueName('m')}@lab.example`
    lab.people.set(name, { email: name, email_verified: true })
    /** Each time in a browser that the provider does not know. */
    const signIn = (work: (page: Page) => Promise<void>) =>
      open(async (page) => {
        await page.goto(`${publicUrl}/`)
        await choose(page, 'The Lab')
        await signInThere(page, name)
        await page.getByRole('button', { name: `Signed in as ${name}` }).waitFor()
        await work(page)
      })
    let apiKey = ''
    const status = async () => (await service.client.get(`${service.url}/session`, { apiKey })).status
    await signIn(async (page) => {
      apiKey = (await service.client.post('/admin/users/keys', { userName: name })).body.apiKey as string
      lab.people.delete(name)
      await eventually(async () => expect(await whoAmI(page)).toMatchObject({ sdk_error_code: 8000110 }), waitMs)
      // Its session there may have ended by itself: that is no reason to stop what trains.
      expect(await status()).toBe(200)
    })
    lab.people.set(name, { email: name, email_verified: true })
    await signIn(async (page) => {
      lab.people.set(name, { email: 'm@elsewhere.example', email_verified: true })
      await eventually(async () => {
        expect(await whoAmI(page)).toMatchObject({ sdk_error_code: 8000110 })
        expect(await status()).toBe(401)
      }, waitMs)
    })
    expect((await readAudit(name)).at(-1)).toMatchObject({ act: 'user.suspended', details: { reason: 'not allowed' } })
  }, 600_000)

  it('a session that the provider has not confirmed in time ends, and its keys stay until they are too old', async () => {
    const name = `${uniqueName('m')}@lab.example`
    lab.people.set(name, { email: name, email_verified: true })
    await open(async (page) => {
      await page.goto(`${publicUrl}/`)
      await choose(page, 'The Lab')
      await signInThere(page, name)
      await page.getByRole('button', { name: `Signed in as ${name}` }).waitFor()
      const { apiKey } = (await service.client.post('/admin/users/keys', { userName: name })).body as { apiKey: string }
      const status = async () => (await service.client.get(`${service.url}/session`, { apiKey })).status
      const lapse = (column: string) =>
        inDatabase(`UPDATE identities SET check_at = NULL, ${column} = now() WHERE subject = $1`, [name])
      await lapse('sessions_until')
      await eventually(async () => expect(await whoAmI(page)).toMatchObject({ sdk_error_code: 8000110 }), waitMs)
      expect(await status()).toBe(200)
      await lapse('keys_until')
      await eventually(async () => expect(await status()).toBe(401), waitMs)
    })
  }, 300_000)

  it('a verified address finds the user that an admin made, where a setting allows it, and no other does', async () => {
    const address = `${uniqueName('joan')}@corp.example`
    await service.client.post('/admin/users', { userName: address })
    const subject = uniqueName('joan')
    const claims = { email: address, preferred_username: address }
    corp.people.set(subject, { ...claims, email_verified: false })
    lab.people.set(subject, { email: `x@lab.example`, preferred_username: address, email_verified: true })
    const signIn = (provider: string, check: (page: Page) => Promise<unknown>) =>
      open(async (page) => {
        await page.goto(`${publicUrl}/`)
        await choose(page, provider)
        await signInThere(page, subject)
        await check(page)
      })
    await signIn('Example Corp', (page) => page.getByRole('status').getByText('not verified').waitFor())
    // The same name at another provider is another person.
    await signIn('The Lab', (page) => page.getByRole('button', { name: 'Signed in as x@lab.example' }).waitFor())
    corp.people.set(subject, { ...claims, email_verified: true })
    await signIn('Example Corp', (page) =>
      page.getByRole('button', { name: `Signed in as ${address}`, exact: true }).waitFor(),
    )
    expect((await readAudit(address)).map((it) => it.act)).toContain('identity.linked')

    // Of all that the service has logged, no line has a secret, a code or a token.
    const text = logged.join('')
    expect(text).toContain('a sign-in failed at the provider')
    for (const secret of ['of corp', 'of lab', 'of late', 'eyJ', 'code=']) expect(text).not.toContain(secret)
  }, 600_000)

  it('behind a proxy that signs people in there is no sign-in page; whom the service does not admit is told why', async () => {
    let target = ''
    let groups = 'ml'
    const user = uniqueName('lin')
    const secret = 'a secret of the proxy only'
    const toHeaders = () => ({ 'x-forwarded-user': user, 'x-forwarded-groups': groups, 'x-svc-proxy-secret': secret })
    const proxy = await openReverseProxy({ toTarget: () => target, prefix: '/behind/svc', toHeaders })
    closers.push(proxy.close)
    const document = {
      proxy: {
        organization: organizationName,
        secretEnv: 'SECRET',
        createUsers: true,
        allowedGroups: ['ml'],
        signOutUrl: '/gone',
      },
      groups: [{ provider: 'proxy', group: 'ml', workspace: team, role: 'editor' }],
    }
    const behind = await openTestService({
      organizationName,
      roles: new Set(['api', 'ingest']),
      settings: { SVC_PUBLIC_URL: proxy.url, SVC_SSO: JSON.stringify(document), SECRET: secret },
    })
    closers.push(behind.close)
    target = behind.url
    await open(async (page) => {
      await page.goto(`${proxy.url}/-/settings`)
      await page.getByRole('heading', { name: 'API keys' }).waitFor()
      // A change, by a page of the service.
      const { apiKey } = (await page.evaluate(async (url) => {
        const headers = { 'content-type': 'application/json' }
        return (await fetch(url, { method: 'POST', headers, body: JSON.stringify({ name: 'laptop' }) })).json()
      }, `${proxy.url}/api/rest/v2/account/keys`)) as { apiKey: string }
      const mine = await createClient(behind.url, { apiKey, workspaceName: team }).get(`${behind.url}/session`)
      expect(mine.body).toMatchObject({ userName: user, workspaceNames: [team] })
      expect(await page.context().cookies()).toEqual([])
      await page.goto(`${proxy.url}/${team}`)
      await page.getByRole('button', { name: `Signed in as ${user}` }).click()
      await page.getByRole('menuitem', { name: 'Sign out' }).click()
      await page.waitForURL((it) => it.pathname === '/gone')

      groups = 'guests'
      await page.goto(`${proxy.url}/${team}`)
      await page.getByRole('status').getByText('may not use this service').waitFor()
      await expectAccessible(page)
    })
  }, 300_000)
})
