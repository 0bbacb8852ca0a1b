import { readdirSync } from 'node:fs'
import path from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { noBrowser } from '../kit/browser.ts'
import { openTestService, uniqueName } from '../kit/service.ts'
import { expectAccessible } from './kit/accessible.ts'
import { answered, useBrowser } from './kit/use-browser.ts'

describe.skipIf(noBrowser)(`pages (${noBrowser ?? 'in Chromium'})`, () => {
  let service: Awaited<ReturnType<typeof openTestService>>
  const browser = useBrowser(() => service?.close(), [answered(400, 401, 403, 404, 409)])
  beforeAll(async () => {
    service = await openTestService({ settings: { SVC_PUBLIC_URL: 'https://svc.example/tracking/' } })
  })

  it('every address of the interface is the page, under a strict policy; programs get JSON', async () => {
    const open = (url: string, accept = 'text/html,*/*;q=0.8') => fetch(service.url + url, { headers: { accept } })
    for (const url of ['/', '/team/vision', '/team/vision/-/compare', '/-/settings', '/team/a%20b/key?tab=charts']) {
      const answer = await open(url)
      expect(answer.status, url).toBe(200)
      expect(answer.headers.get('cache-control')).toBe('no-cache')
      const policy = answer.headers.get('content-security-policy') as string
      expect(policy).toContain("default-src 'none'")
      expect(policy).toMatch(/script-src 'self' 'sha256-[\w+/=]+';/)
      expect(policy).toContain("require-trusted-types-for 'script'")
      expect(policy).not.toContain('unsafe')
      expect(await answer.text()).toContain('<base href="/tracking/">')
    }
    for (const url of [
      '/api/rest/v2/nothing',
      '/clientlib/rest/v2/nothing',
      '/mpm/v2/nothing',
      '/-/static/nothing.js',
    ]) {
      const answer = await open(url)
      expect(answer.status, url).toBe(404)
      expect(await answer.json()).toMatchObject({ code: 404 })
    }
    expect((await open('/team/vision', '*/*')).status).toBe(404)
    expect((await fetch(`${service.url}/team/vision`, { method: 'POST' })).status).toBe(404)
    expect((await open('/reference')).url).toMatch(/\/reference\/?$/)
  })

  it('files are immutable and compressed', async () => {
    const folder = path.resolve(import.meta.dirname, '../../web/dist/static')
    const names = readdirSync(folder).filter((name) => /\.(js|css)$/.test(name))
    expect(names.length).toBeGreaterThan(2)
    for (const name of names) {
      expect(name).toMatch(/-[A-Z0-9]{8}\.(js|css)$/)
      const answer = await fetch(`${service.url}/-/static/${name}`, { headers: { 'accept-encoding': 'br' } })
      expect(answer.headers.get('content-encoding')).toBe('br')
      expect(answer.headers.get('cache-control')).toBe('public, max-age=31536000, immutable')
    }
  })

  async function open() {
    const context = await browser.get().openContext(service.url, service.apiKey)
    // As a proxy that removes its prefix.
    await context.route('**/tracking/**', (route) =>
      route.continue({ url: route.request().url().replace('/tracking/', '/') }),
    )
    return { context, page: await context.newPage() }
  }

  it('projects are made, described, found and deleted with undo', async () => {
    const { workspaceName } = service
    const { context, page } = await open()
    await page.goto(`/tracking/${workspaceName}`)
    await page.getByRole('heading', { name: 'No project yet' }).waitFor()
    const projectName = uniqueName('<b>vision</b>')
    await page.getByRole('button', { name: 'New project' }).first().click()
    await page.getByLabel('Name').fill(projectName)
    await page.getByLabel('Description').fill('<img src=x onerror=alert(1)>')
    await page.getByRole('button', { name: 'Create project' }).click()
    await page.getByRole('link', { name: projectName }).waitFor()
    await page.getByRole('button', { name: 'New project' }).first().click()
    await page.getByLabel('Name').fill(projectName)
    await page.getByRole('button', { name: 'Create project' }).click()
    await page.getByRole('alert').getByText('already').waitFor()
    await page.keyboard.press('Escape')

    await page.getByRole('button', { name: `Actions for ${projectName}` }).click()
    await page.getByRole('menuitem', { name: 'Notes' }).click()
    await page.getByRole('button', { name: 'Write notes' }).click()
    await page
      .getByLabel('Notes in Markdown')
      .fill(
        '## What to try\n\n- [x] a baseline\n- [ ] a warmup\n\n<img src=x onerror=alert(1)><b onclick="alert(1)">bold</b>',
      )
    await page.getByRole('region', { name: 'Preview' }).getByRole('heading', { name: 'What to try' }).waitFor()
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('button', { name: 'Edit' }).waitFor()
    await page.reload()
    await page.getByRole('heading', { name: 'What to try' }).waitFor()
    expect(await page.getByText('bold').evaluate((it) => it.outerHTML)).toBe('<b>bold</b>')
    expect(await page.locator('img').count()).toBe(0)
    expect(await page.getByRole('listitem').allTextContents()).toEqual(['☑ a baseline', '☐ a warmup'])
    await expectAccessible(page)

    await page.goto('/tracking/')
    await page.getByText('1 project', { exact: true }).waitFor()
    await page.keyboard.press('Control+k')
    await page.keyboard.type('vision')
    await page.getByRole('option', { name: projectName }).waitFor()
    await page.keyboard.press('Escape')

    await page.getByRole('button', { name: `Actions for ${projectName}` }).click()
    await page.getByRole('menuitem', { name: 'Delete' }).click()
    await page.getByRole('button', { name: 'Delete project' }).click()
    await page.getByRole('button', { name: 'Undo' }).click()
    await page.getByRole('link', { name: projectName }).waitFor()
    await page.getByRole('button', { name: `Actions for ${projectName}` }).click()
    await page.getByRole('menuitem', { name: 'Delete' }).click()
    await page.getByRole('button', { name: 'Delete project' }).click()
    await page.getByRole('heading', { name: 'No project yet' }).waitFor()
    const { body } = await service.client.get(`/projects?workspaceName=${workspaceName}`)
    expect(body.projects).toEqual([])
    await context.close()
  })

  it('a deleted project is restored with its runs, also later, and under another name when its own is taken', async () => {
    const workspaceName = uniqueName('team')
    const { client } = service
    await client.post('/write/workspace/new', { name: workspaceName })
    const create = () =>
      client.post('/write/experiment/create', { workspaceName, projectName: 'vision', experimentName: 'a run' })
    const { experimentKey } = (await create()).body
    const placeOf = async () =>
      (await client.get(`/experiment/metadata?experimentKey=${experimentKey}`)).body.projectName
    const { context, page } = await open()
    const row = page.getByRole('row').filter({ has: page.getByRole('link', { name: 'vision', exact: true }) })
    const remove = async () => {
      await page.getByRole('button', { name: 'Actions for vision' }).click()
      await page.getByRole('menuitem', { name: 'Delete' }).click()
      await page.getByLabel('Delete the runs too').check()
      await page.getByRole('button', { name: 'Delete project' }).click()
      await row.waitFor({ state: 'detached' })
    }
    await page.goto(`/tracking/${workspaceName}`)
    await remove()
    expect(await placeOf()).toBeUndefined()
    await page.getByRole('button', { name: 'Undo' }).click()
    await row.waitFor()
    expect(await placeOf()).toBe('vision')
    expect(await page.getByRole('button', { name: 'Undo' }).count()).toBe(0)

    await remove()
    await create()
    await page.reload()
    await row.waitFor()
    await page.getByLabel('Deleted (1)').check()
    await page.getByRole('heading', { name: 'Deleted projects' }).waitFor()
    await expectAccessible(page)
    await page.getByRole('button', { name: 'Restore vision' }).click()
    await page.getByRole('button', { name: 'Restore project' }).click()
    await page.getByRole('alert').getByText('has another project').waitFor()
    await page.getByLabel('Name').fill('vision 1')
    await page.getByRole('button', { name: 'Restore project' }).click()
    await page.getByRole('link', { name: 'vision 1' }).waitFor()
    await page.getByText('None that could be restored').waitFor()
    expect(await placeOf()).toBe('vision 1')
    await context.close()
  })

  it('an archived project is hidden until the URL asks for it, and comes back', async () => {
    const workspaceName = uniqueName('team')
    await service.client.post('/write/workspace/new', { name: workspaceName })
    for (const projectName of ['new', 'old']) {
      const fields = { workspaceName, projectName, projectDescription: '', isPublic: false }
      expect((await service.client.post('/write/project/create', fields)).status).toBe(200)
    }
    const { context, page } = await open()
    const old = page.getByRole('link', { name: 'old', exact: true })
    const act = async (name: string) => {
      await page.getByRole('button', { name: 'Actions for old' }).click()
      await page.getByRole('menuitem', { name, exact: true }).click()
    }
    await page.goto(`/tracking/${workspaceName}`)
    await act('Archive')
    await page.getByText('Archived old').waitFor()
    await old.waitFor({ state: 'detached' })
    await page.getByRole('button', { name: 'Undo' }).click()
    await old.waitFor()
    expect(await page.getByText(/Archived \(/).count()).toBe(0)
    await act('Archive')
    await old.waitFor({ state: 'detached' })

    await page.getByLabel('Archived (1)').check()
    await old.waitFor()
    expect(page.url()).toBe(`${service.url}/tracking/${workspaceName}?archived=true`)
    expect(await page.getByRole('row').last().textContent()).toContain('oldarchived')
    await expectAccessible(page)
    await page.goto('/tracking/')
    await page.getByLabel('Archived (1)').waitFor()
    await page.getByRole('link', { name: 'new', exact: true }).waitFor()
    expect(await old.count()).toBe(0)
    await page.goto('/tracking/?archived=true')
    await old.waitFor()
    await expectAccessible(page)
    await act('Bring back')
    await page.getByText('Brought back old').waitFor()
    const { body } = await service.client.get(`/projects?workspaceName=${workspaceName}&archived=false`)
    expect((body.projects as object[]).length).toBe(2)
    await context.close()
  })
})
