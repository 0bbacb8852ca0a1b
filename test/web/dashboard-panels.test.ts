import { execFile } from 'node:child_process'
import path from 'node:path'
import { promisify } from 'node:util'
import type { Locator, Page } from 'playwright-core'
import { beforeAll, describe, expect, it } from 'vitest'
import { noBrowser } from '../kit/browser.ts'
import { eventually } from '../kit/eventually.ts'
import { openOwnStores, openTestService } from '../kit/service.ts'
import { expectAccessible } from './kit/accessible.ts'
import { answered, useBrowser } from './kit/use-browser.ts'

const root = path.resolve(import.meta.dirname, '../..')
const patience = 180_000
/** Not in one breath: the service runs in this process. */
const run = promisify(execFile)

type Panel = { content: Record<string, unknown> & { kind: string } }
type View = { templateId: string; v3: { dashboard: { panels: Panel[] } } }

describe.skipIf(noBrowser)(`panels of models, media and artifacts (${noBrowser ?? 'in Chromium'})`, () => {
  let service: Awaited<ReturnType<typeof openTestService>>
  const browser = useBrowser(() => service?.close(), [answered(401)])
  let page: Page
  let projectId: string
  let dashboards: string

  const dialog = () => page.getByRole('dialog')
  const panel = (name: string | RegExp) => page.getByRole('article', { name, exact: true })
  const panels = async () => {
    const { body } = await service.client.get(`/views/get-all?projectId=${projectId}`)
    return ((body.views as View[])[0] as View).v3.dashboard.panels.map((it) => it.content)
  }
  /** Opens the form of a kind from the menu, by keyboard as anybody may. */
  const add = async (kind: RegExp) => {
    await page.getByRole('button', { name: 'Add a panel' }).press('Enter')
    await page.getByRole('menuitem', { name: kind }).press('Enter')
    await dialog().waitFor()
  }
  const choose = async (label: string, option: string | { label: string }) => {
    const field = dialog().getByLabel(label, { exact: true })
    await field.selectOption(option)
  }
  const done = async () => {
    await dialog().getByRole('button', { name: 'Add panel' }).click()
    await dialog().waitFor({ state: 'detached' })
  }

  beforeAll(async () => {
    service = await openTestService({ stores: await openOwnStores('postgres') })
    const { url, apiKey: key, workspaceName } = service
    const args = [
      'cli/svc.ts',
      'demo',
      'production',
      '--url',
      url,
      '--key',
      key,
      '--workspace',
      workspaceName,
      '--json',
    ]
    await run(process.execPath, args, { cwd: root })
    const query = new URLSearchParams({ workspaceName, projectName: 'demo' })
    projectId = (await service.client.get(`/project?${query}`)).body.projectId as string
    const experimentKey = await service.client.createExperiment({ projectName: 'demo' })
    const asked = { experimentKey, artifactName: 'scans', artifactType: 'dataset' }
    const { artifactVersionId } = (await service.client.post('/write/artifacts/upsert', asked)).body
    await service.client.post('/write/artifacts/state', { experimentKey, artifactVersionId, state: 'CLOSED' })
    const dashboard = { projectId, templateName: 'All of it', v3: { dashboard: { panels: [] } } }
    const made = await service.client.post('/write/views/upsert', dashboard)
    expect(made.status, made.text).toBe(200)
    page = await (await browser.get().openContext(url, key)).newPage()
    page.setDefaultTimeout(patience)
    dashboards = `/${workspaceName}/demo/-/dashboards`
    await page.goto(dashboards)
    await page.getByRole('link', { name: 'All of it' }).click()
    await page.getByRole('heading', { name: 'No panel' }).waitFor()
    await page.getByRole('button', { name: 'Edit', exact: true }).click()
  }, patience)

  it('a model in production: its events, verdict and alerts, with a link to its page', async () => {
    await add(/^Model in production/)
    await dialog().getByLabel('Model', { exact: true }).waitFor()
    await expectAccessible(page)
    await done()
    await panel('digits')
      .getByText(/\d+ of \d+ features drifted/)
      .waitFor()
    await panel('digits')
      .getByRole('img', { name: /^Drifted on/ })
      .waitFor()
    await panel('digits')
      .getByRole('img', { name: /^Events by day/ })
      .waitFor()
    const link = panel('digits').getByRole('link', { name: 'digits' })
    expect(await link.getAttribute('href')).toContain('/-/production/digits')
  })

  it('the heat map of a model, whose cells lead to a feature by keyboard', async () => {
    await add(/^Heat map/)
    await choose('Windows', '14')
    await done()
    const map = panel('Drift of digits').getByRole('application', { name: /^Drift of \d+ features in/ })
    await map.waitFor()
    await expectAccessible(page)
    await map.focus()
    await page.keyboard.press('ArrowUp')
    await page.keyboard.press('Enter')
    await page.waitForURL(/-\/production\/digits\?.*feature=/)
    await page.getByRole('button', { name: 'Add an alert' }).waitFor()
    await page.goBack()
    await panel('Drift of digits').waitFor()
  })

  it('a feature against its reference and over time, picked by model and feature', async () => {
    await add(/^Feature/)
    await dialog().getByLabel('Feature', { exact: true }).waitFor()
    await choose('Feature', { label: 'ink' })
    await done()
    const values = panel('ink of digits: values against the reference')
    await values.getByRole('img', { name: /^The distribution of ink in the reference and/ }).waitFor()
    for (const shown of ['distance from the reference', 'quantiles', 'missing values']) {
      await add(/^Feature/)
      await dialog().getByLabel('Feature', { exact: true }).waitFor()
      await choose('Feature', { label: 'ink' })
      await choose('Shown', { label: shown })
      await done()
      await panel(`ink of digits: ${shown}`).getByRole('application').waitFor()
    }
    expect((await panels()).filter((it) => it.kind === 'feature').map((it) => it.show)).toEqual([
      ...['values', 'distance', 'quantiles', 'missing'],
    ])
    await expectAccessible(page)
  })

  it('labels of a model, and what alerts found in it and in the runs of the project', async () => {
    for (const [shown, chart] of [
      ['quality', 'Quality'],
      ['coverage', 'Coverage'],
      ['delay', 'Delay of labels'],
    ] as const) {
      await add(/^Labels/)
      await dialog().getByLabel('Model', { exact: true }).waitFor()
      await choose('Shown', { label: shown })
      await done()
      await panel(`Labels of digits: ${shown}`).getByRole('application', { name: chart }).waitFor()
    }
    await add(/^Alerts/)
    await choose('Alerts of', { label: 'digits in production' })
    await done()
    await panel('Alerts of digits').getByRole('table', { name: 'Firings' }).waitFor()
    await add(/^Alerts/)
    await done()
    await panel('Alerts of the project').getByText('None has fired yet.').waitFor()
    await expectAccessible(page)
  })

  it('media of runs side by side by step, and versions of an artifact and of a registered model', async () => {
    await add(/^Media/)
    const media = dialog().getByLabel('Media', { exact: true })
    await media.waitFor()
    const option = (await media.locator('option').allTextContents()).find((it) => it.endsWith('(image)')) as string
    await choose('Media', { label: option })
    await done()
    const name = option.slice(0, -' (image)'.length)
    // What is far below the screen is read once it is scrolled to.
    await panel(name).scrollIntoViewIfNeeded()
    await panel(name).getByRole('img').first().waitFor()
    await panel(name).getByRole('slider', { name: 'Step' }).waitFor()
    await add(/^Artifact/)
    await dialog().getByLabel('Artifact', { exact: true }).waitFor()
    await done()
    await panel('scans').getByRole('link', { name: '1.0.0' }).waitFor()
    await add(/^Registered model/)
    await dialog().getByLabel('Model', { exact: true }).waitFor()
    await done()
    await panel('Versions of digits').getByRole('link', { name: '1.1.0' }).waitFor()
    await expectAccessible(page)
  })

  it('a panel is edited with what it has, and reading needs no more rights than the pages do', async () => {
    await page.getByRole('button', { name: 'Actions for Labels of digits: delay' }).click()
    await page.getByRole('menuitem', { name: 'Edit' }).click()
    expect(await dialog().getByLabel('Shown', { exact: true }).inputValue()).toBe('delay')
    await choose('Windows', '60')
    await dialog().getByRole('button', { name: 'Save' }).click()
    await dialog().waitFor({ state: 'detached' })
    await eventually(async () =>
      expect(await panels()).toContainEqual(expect.objectContaining({ kind: 'labels', show: 'delay', windows: 60 })),
    )
    // A share link opens the project, not the models and artifacts of the workspace.
    const { shareCode } = (await service.client.get(`/write/project/add-share-link?projectId=${projectId}`)).body
    const reader = await (await browser.get().openContext(service.url)).newPage()
    const { pathname } = new URL(page.url())
    await reader.goto(`${pathname}?shareCode=${shareCode}`)
    await reader.getByText('This is for the members of the workspace.').first().waitFor({ timeout: patience })
    await reader.locator('article[data-kind="media"]').scrollIntoViewIfNeeded()
    await reader.locator('article[data-kind="media"]').getByRole('img').first().waitFor({ timeout: patience })
    expect(await reader.getByRole('application').count()).toBe(0)
    await reader.close()
  })

  it('a viewer finds the same pages, and on none of them a button or an entry of a menu that writes', async () => {
    const { workspaceName: workspace, url } = service
    const made = await service.client.post('/account/keys', { name: 'reader', scope: 'read' })
    const reader = await (await browser.get().openContext(url, made.body.apiKey as string)).newPage()
    reader.setDefaultTimeout(patience)
    expect(made.status, made.text).toBe(200)
    const [model, versions] = [`/${workspace}/-/production/digits`, `/${workspace}/-/models/digits`]
    const project = `/${workspace}/demo`
    const heading = (name: string | RegExp) => reader.getByRole('heading', { name })
    const pages: [string, Locator][] = [
      [`/${workspace}`, reader.getByRole('button', { name: 'Actions for demo' })],
      [`/${workspace}?deleted=true`, heading('Deleted projects')],
      [`${project}/-/notes`, heading('Notes of demo')],
      [`${project}/-/alerts`, heading('Alerts')],
      [`${project}/-/dashboards`, reader.getByRole('link', { name: 'All of it' })],
      [new URL(page.url()).pathname, reader.getByRole('article').first()],
      [`${model}?windows=14`, reader.getByRole('application', { name: /^Drift of/ })],
      [`${model}?tab=compare&windows=14`, heading('Segments')],
      [`${model}?tab=alerts`, heading('Rules')],
      [`${model}?tab=events`, heading('Reference')],
      [versions, heading('digits')],
      [`${versions}/1.1.0`, heading('digits 1.1.0')],
      [`/${workspace}/-/artifacts/scans`, heading('scans')],
      [`/${workspace}/-/artifacts/scans/1.0.0`, heading('scans 1.0.0')],
    ]
    const menus = reader.locator('button[aria-haspopup="menu"]')
    const look = async () => {
      const names = await reader
        .locator('button:visible')
        .evaluateAll((all) => all.map((it) => it.getAttribute('aria-label') ?? it.textContent ?? ''))
      const alike = new Set<string>()
      for (const menu of await menus.all()) {
        // Those of many charts or rows have the same entries.
        const kind = (await menu.textContent()) || `${await menu.getAttribute('aria-label')}`.split(/ (of|for) /)[0]
        if (alike.has(`${kind}`)) continue
        alike.add(`${kind}`)
        await menu.click()
        await reader.getByRole('menu').waitFor()
        names.push(...(await reader.locator('[role^="menuitem"]').allTextContents()))
        await reader.keyboard.press('Escape')
        await reader.getByRole('menu').waitFor({ state: 'detached' })
      }
      expect(
        names.filter((it) => writes.test(it)),
        reader.url(),
      ).toEqual([])
    }
    for (const [path, ready] of pages) {
      await reader.goto(path)
      await ready.first().waitFor()
      await look()
    }
    await reader.goto(project)
    await reader.getByRole('row').nth(1).getByRole('checkbox').check()
    await reader.getByRole('toolbar', { name: 'Actions on the selected runs' }).waitFor()
    await look()
    await reader.getByRole('row').nth(1).getByRole('link').first().click()
    await reader.getByRole('button', { name: 'Actions', exact: true }).waitFor()
    await look()
    await reader.close()
  })
})

/** What buttons and menus say that change something: each is a name, or the beginning of one, that editors find there. */
const writes =
  /^(New (?!(version|window))|Add|Edit|Delete|Rename|Archive$|Restore|Bring back|Remove|Save|Register|Upload|Choose a file|Stop|Share|Write|Pause|Resume|Tag$|Move$|Make default|Copy$|Send|Test$)/
