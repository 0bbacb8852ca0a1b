import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { BrowserContext, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { makeSignInLink } from '../../cli/admin/sign-in-link.ts'
import { noBrowser } from '../kit/browser.ts'
import { eventually } from '../kit/eventually.ts'
import { openTestService, storesWith, uniqueName } from '../kit/service.ts'
import { expectAccessible } from './kit/accessible.ts'
import { answered, useBrowser } from './kit/use-browser.ts'

describe.skipIf(noBrowser)(`signing in and settings (${noBrowser ?? 'in Chromium'})`, () => {
  let service: Awaited<ReturnType<typeof openTestService>>
  const browser = useBrowser(() => service?.close(), [answered(400, 401, 403, 404), /frame-ancestors/])
  beforeAll(async () => {
    service = await openTestService({ isAdmin: true })
  })
  const closers: (() => unknown)[] = []
  afterAll(async () => {
    for (const close of closers) close()
  })

  const open = async (work: (page: Page, context: BrowserContext) => Promise<void>) => {
    const context = await browser.get().openContext(service.url)
    try {
      await work(await context.newPage(), context)
    } finally {
      await context.close()
    }
  }
  const signIn = async (page: Page, apiKey = service.apiKey) => {
    await page.getByLabel('API key', { exact: true }).fill(apiKey)
    await page.getByRole('button', { name: 'Sign in' }).click()
  }
  it('the page that was asked for stands there after the key is given; nothing keeps the key', async () => {
    await open(async (page, context) => {
      await page.goto('/-/settings?section=sessions')
      await page.getByRole('heading', { name: 'Sign in' }).waitFor()
      await expectAccessible(page)
      await signIn(page, 'svc_nobody-has-this')
      await page.getByRole('alert').getByText('not registered').waitFor()
      await signIn(page)
      await page.getByRole('heading', { name: 'Sessions' }).waitFor()
      await page.getByText('this one').waitFor()
      expect(page.url()).toBe(`${service.url}/-/settings?section=sessions`)
      const kept = await page.evaluate(
        'JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie, location.href])',
      )
      expect(kept).not.toContain('svc_')
      expect((await context.cookies()).map((it) => [it.httpOnly, it.sameSite])).toEqual([[true, 'Strict']])

      await page.getByRole('button', { name: `Signed in as ${service.userName}` }).click()
      await page.getByRole('menuitem', { name: 'Sign out' }).click()
      await page.getByText('You are signed out.').waitFor()
      expect(await context.cookies()).toEqual([])
    })
  })

  it('a link signs in once, and says so the second time; a session that is ended elsewhere is noticed', async () => {
    const { organizationName } = (await service.client.get('/admin/users')).body as { organizationName: string }
    const { postgresUrl } = storesWith('postgres')
    const wanted = { postgresUrl, url: service.url, organization: organizationName, userName: undefined, actor: 'test' }
    const link = await makeSignInLink(wanted)
    await open(async (page) => {
      await page.goto(link)
      await page.getByRole('heading', { name: service.workspaceName }).waitFor()
      expect(page.url()).toBe(`${service.url}/`)
      await page.goto('/api/my/settings/')
      await page.getByRole('heading', { name: 'API keys' }).waitFor()
      await expectAccessible(page)

      const { sessions } = (await service.client.get('/account/sessions')).body as {
        sessions: { sessionId: string; shownPrefix: string | null }[]
      }
      const { sessionId } = sessions.find((it) => it.shownPrefix === null) ?? {}
      await service.client.post('/account/sessions/end', { sessionId })
      await eventually(async () => expect(await page.evaluate("fetch('session').then((it) => it.status)")).toBe(401))
      await page.getByRole('link', { name: 'Sessions' }).click()
      await page.getByText('Your session has ended').waitFor()
      await page.goto(link)
      await page.getByText('This link was used already').waitFor()
      await signIn(page)
      await page.getByRole('heading', { name: service.workspaceName }).waitFor()
    })
  })

  it('keys are made, shown once and ended; admins add users, service accounts and limits; hostile names stay text', async () => {
    const hostile = '<img src=x onerror=alert(1)>'
    await service.client.createExperiment({ projectName: 'keyed' })
    await open(async (page) => {
      await page.goto('/-/settings')
      await signIn(page)
      await page.getByRole('button', { name: 'New key' }).click()
      await expectAccessible(page)
      await page.getByLabel('Name').fill('of a project')
      await page.getByLabel('May', { exact: true }).selectOption('read')
      await page.getByLabel('Workspace', { exact: true }).selectOption(service.workspaceName)
      await page.getByLabel('Project', { exact: true }).selectOption('keyed')
      await page.getByLabel('Ends', { exact: true }).selectOption('After 30 days')
      await page.getByRole('button', { name: 'Make key' }).click()
      await page.getByRole('cell', { name: `${service.workspaceName}/keyed` }).waitFor()
      const ofProject = (await page.getByRole('status').locator('pre').textContent()) as string
      const created = { workspaceName: service.workspaceName, projectName: 'keyed' }
      const refused = await service.client.post('/write/experiment/create', created, { apiKey: ofProject })
      expect([refused.status, refused.body.sdk_error_code]).toEqual([403, 8000152])
      await expectAccessible(page)
      await page.reload()
      await page.getByRole('button', { name: 'New key' }).click()
      await page.getByLabel('Name').fill(hostile)
      await page.getByRole('button', { name: 'Make key' }).click()
      const apiKey = (await page.getByRole('status').locator('pre').textContent()) as string
      expect((await service.client.get('/account-details', { apiKey })).status).toBe(200)
      await page.reload()
      await page.getByRole('cell', { name: hostile, exact: true }).waitFor()
      expect(await page.content()).not.toContain(apiKey)
      await page.getByRole('button', { name: `End key ${hostile}` }).click()
      await page.getByRole('button', { name: 'End key', exact: true }).click()
      await page.getByRole('cell', { name: hostile, exact: true }).waitFor({ state: 'detached' })
      await eventually(async () => expect((await service.client.get('/account-details', { apiKey })).status).toBe(401))

      await page.goto('/-/settings?section=clients')
      await page.getByRole('button', { name: 'Make a key and fill it in' }).click()
      await page.getByText(/SVC_API_KEY"\] = "svc_\w{49}"/).waitFor()
      await page.getByLabel('comet_ml').check()
      await page.getByText(`COMET_URL_OVERRIDE=${service.url}/clientlib/`).waitFor()

      const userName = uniqueName('user')
      await page.goto('/-/admin/users')
      await page.getByRole('button', { name: 'New user' }).click()
      await page.getByLabel('Name').fill(userName)
      await page.getByRole('button', { name: 'Add user' }).click()
      await page.getByText(`The new key of ${userName}`).waitFor()
      await page.getByRole('cell', { name: userName }).first().waitFor()

      await page.goto('/-/settings?section=members')
      await page.getByRole('button', { name: 'Add a member' }).click()
      await page.getByLabel('User name').fill(userName)
      await page.getByRole('button', { name: 'Add member' }).click()
      await page.getByRole('button', { name: `Remove ${userName}` }).waitFor()
      await expectAccessible(page)
      await page.getByLabel(`Role of ${userName}`).selectOption('viewer')
      const roleOf = async () => {
        const path = `/workspaces/members?workspaceName=${service.workspaceName}`
        const { members } = (await service.client.get(path)).body as { members: { userName: string; role: string }[] }
        return members.find((it) => it.userName === userName)?.role
      }
      await eventually(async () => expect(await roleOf()).toBe('viewer'))

      await page.goto('/-/admin/service-accounts')
      await page.getByRole('button', { name: 'New service account' }).click()
      await page.getByLabel('Name').fill('pipeline')
      await page.getByRole('button', { name: 'Add service account' }).click()
      await page.getByText('The new key of pipeline').waitFor()
      await page.getByRole('cell', { name: service.workspaceName }).waitFor()

      await page.goto('/-/admin/limits')
      await page.getByLabel('Points of a metric').fill('1000')
      await page.getByRole('button', { name: 'Save limits' }).click()
      await page.getByText('The limits are saved.').waitFor()
      const { body } = await service.client.get(`/admin/limits?workspaceName=${service.workspaceName}`)
      expect(body.limits).toEqual({ pointsPerMetricMax: 1000 })

      for (const section of ['clients', 'sessions', 'members', 'usage', 'theme']) {
        for (const colorScheme of ['light', 'dark'] as const) {
          await page.emulateMedia({ colorScheme })
          await page.goto(`/-/settings?section=${section}`)
          await page.getByRole('heading', { level: 1 }).waitFor()
          await expectAccessible(page)
        }
      }
    })
  })

  it('a share link shows its project without signing in, and nothing once it is deleted', async () => {
    const { workspaceName, client } = service
    const projectName = uniqueName('shared')
    await client.createExperiment({ projectName, experimentName: 'a shared run' })
    let link = ''
    const visit = (status: number) =>
      open(async (page) => {
        const asked = page.waitForResponse((it) => it.url().includes('/rest/v2/project?'))
        await page.goto(link)
        expect((await asked).status()).toBe(status)
        expect(await page.getByRole('heading', { name: 'Sign in' }).count()).toBe(0)
      })
    await open(async (page) => {
      await page.goto(`/${workspaceName}`)
      await signIn(page)
      await page.getByRole('button', { name: `Actions for ${projectName}` }).click()
      await page.getByRole('menuitem', { name: 'Share' }).click()
      await page.getByRole('button', { name: 'New link' }).click()
      link = (await page.getByText('shareCode=').textContent()) as string
      expect(link).toMatch(new RegExp(`^${service.url}/${workspaceName}/${projectName}\\?shareCode=[\\w-]{32}$`))
      await visit(200)
      await page.getByRole('button', { name: /Delete the link/ }).click()
      await page.getByText('shareCode=').waitFor({ state: 'detached' })
      await visit(404)
    })
  })

  it('a notebook shows a page in a frame, which changes nothing; no other page may be framed', async () => {
    const { workspaceName, client } = service
    const projectName = uniqueName('embedded')
    await client.createExperiment({ projectName })
    const { projectId } = (await client.get(`/project?${new URLSearchParams({ workspaceName, projectName })}`)).body
    const { shareCode } = (await client.get(`/write/project/add-share-link?projectId=${projectId}`)).body
    const head = await fetch(`${service.url}/${workspaceName}`, { headers: { accept: 'text/html' } })
    expect(head.headers.get('content-security-policy')).toContain("frame-ancestors 'none'")
    expect(head.headers.get('x-frame-options')).not.toBeNull()
    await open(async (page) => {
      const frame = (path: string) => `<iframe src="${service.url}${path}" width="900" height="500"></iframe>`
      let html = ''
      // Of another origin on this machine, as Jupyter is.
      const server = createServer((_request, answer) => answer.setHeader('content-type', 'text/html').end(html))
      await once(server.listen(0, '127.0.0.1'), 'listening')
      closers.push(() => server.close())
      const notebook = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`

      html = frame(`/-/embed/${workspaceName}/${projectName}?shareCode=${shareCode}`)
      await page.goto(notebook)
      const shown = page.frameLocator('iframe')
      const out = shown.getByRole('link', { name: 'Open in a tab' })
      await out.waitFor()
      expect(await out.getAttribute('href')).toBe(
        `${service.url}/${workspaceName}/${projectName}?shareCode=${shareCode}`,
      )
      expect(await shown.getByRole('banner').count()).toBe(0)

      html = frame(`/-/embed/${workspaceName}/${projectName}`)
      await page.goto(notebook)
      await shown.getByText('Not signed in here').waitFor()

      html = frame(`/${workspaceName}/${projectName}`)
      await page.goto(notebook)
      await eventually(() => expect(browser.get().faults.join()).toContain('frame-ancestors'))
    })
  })
})
