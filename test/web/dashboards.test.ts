import type { Page } from 'playwright-core'
import { beforeAll, describe, expect, it } from 'vitest'
import { noBrowser } from '../kit/browser.ts'
import { eventually } from '../kit/eventually.ts'
import { openTestService, uniqueName } from '../kit/service.ts'
import { expectAccessible } from './kit/accessible.ts'
import { logSweep } from './kit/sweep.ts'
import { answered, useBrowser } from './kit/use-browser.ts'

/** Runs when a text is taken for markup. */
const attack = '<img src=x onerror="document.title=\'taken\'"><script>document.title="taken"</script>'
const projectName = uniqueName('board')

type Panel = { id: string; width: number; height: number; content: { kind: string; text?: string } }
type View = { templateId: string; templateName: string; lastUpdate: number; v3: { dashboard: { panels: Panel[] } } }

describe.skipIf(noBrowser)(`dashboards (${noBrowser ?? 'in Chromium'})`, () => {
  let service: Awaited<ReturnType<typeof openTestService>>
  const browser = useBrowser(() => service?.close(), [answered(401, 409)])
  let page: Page
  let projectId: string
  let path: string

  const dialog = () => page.getByRole('dialog')
  const stored = async () => {
    const { body } = await service.client.get(`/views/get-all?projectId=${projectId}`)
    return (body.views as View[])[0] as View
  }
  const panels = async () => (await stored()).v3.dashboard.panels

  beforeAll(async () => {
    service = await openTestService()
    const { url, apiKey: key, workspaceName } = service
    await logSweep({ url, key, workspaceName, projectName, runs: 3 })
    const query = new URLSearchParams({ workspaceName, projectName })
    projectId = (await service.client.get(`/project?${query}`)).body.projectId as string
    await eventually(async () => {
      const { body } = await service.client.post('/project/run-columns', { workspaceName, projectName })
      expect(JSON.stringify(body.columns)).toContain('val/accuracy')
    })
    page = await (await browser.get().openContext(url, key)).newPage()
    path = `/${workspaceName}/${projectName}/-/dashboards`
  })

  it('a new one begins with what the project has: a best value, charts and a table of runs', async () => {
    await page.goto(path)
    await page.getByRole('heading', { name: 'No dashboard' }).waitFor()
    await expectAccessible(page)
    await page.getByRole('button', { name: 'New dashboard' }).click()
    await dialog().getByLabel('Name').fill('Overview')
    await dialog().getByRole('button', { name: 'Make dashboard' }).click()
    await page.getByRole('heading', { name: 'Overview' }).waitFor()
    await page.locator('canvas').first().waitFor()
    const rows = page.getByRole('region', { name: 'Runs', exact: true }).last().getByRole('row')
    await eventually(async () => expect(await rows.count()).toBe(4))
    await page
      .getByRole('article', { name: /^Least/ })
      .first()
      .getByRole('link', { name: /resnet/ })
      .waitFor()
    await eventually(async () =>
      expect((await panels()).map((it) => it.content.kind)).toEqual([
        ...['value', 'value', 'value'],
        ...['chart', 'chart', 'chart'],
        'runs',
      ]),
    )
    await expectAccessible(page)
  })

  it('panels are added, moved and resized by keyboard, and removed and brought back; text stays text', async () => {
    await page.getByRole('button', { name: 'Add a panel' }).click()
    await page.getByRole('menuitem', { name: /^Text/ }).click()
    await dialog().getByLabel('Text in Markdown').fill(`# What we see\n\n${attack}`)
    await dialog().getByRole('button', { name: 'Add panel' }).click()
    await dialog().waitFor({ state: 'detached' })
    await page.getByRole('heading', { name: 'What we see' }).waitFor()
    // It stands below the screen until it is scrolled to; the next Tab is its handle.
    const added = page.locator('article[data-kind="text"]:focus')
    await added.waitFor()
    const [box, height] = [await added.boundingBox(), page.viewportSize()?.height ?? 0]
    expect((box?.y ?? -1) >= 0 && (box?.y ?? 0) + (box?.height ?? 0) <= height, JSON.stringify(box)).toBe(true)
    await page.keyboard.press('Tab')
    expect(await page.locator(':focus').getAttribute('aria-label')).toMatch(/^Move text/)
    await page.getByRole('button', { name: /^Move text/ }).press('ArrowUp')
    await page.keyboard.press('ArrowUp')
    await eventually(async () => expect((await panels()).findIndex((it) => it.content.kind === 'text')).toBe(5))
    await page.getByRole('button', { name: /^Size of text/ }).press('ArrowRight')
    await page.keyboard.press('ArrowDown')
    await eventually(async () => expect((await panels())[5]).toMatchObject({ width: 7, height: 3 }))
    await page.getByRole('button', { name: 'Actions for text' }).click()
    await page.getByRole('menuitem', { name: 'Remove' }).click()
    await eventually(async () => expect(await panels()).toHaveLength(7))
    await page.getByRole('button', { name: 'Undo' }).click()
    await eventually(async () => expect((await panels())[5]?.content.kind).toBe('text'))
    expect(await page.title()).not.toBe('taken')
  })

  it('two who change it at once both get through; a panel that somebody else changed is not overwritten', async () => {
    const { templateId, templateName, v3 } = await stored()
    const save = (work: (all: Panel[]) => Panel[]) =>
      service.client.post('/write/views/upsert', {
        projectId,
        templateId,
        templateName,
        v3: { dashboard: { panels: work(v3.dashboard.panels) } },
      })
    await page.getByRole('button', { name: 'Actions for text' }).click()
    await page.getByRole('menuitem', { name: 'Edit' }).click()
    await dialog().getByLabel('Text in Markdown').fill('mine')
    const theirs = (all: Panel[]) =>
      all.map((it) => (it.content.kind === 'text' ? { ...it, content: { kind: 'text', text: 'theirs' } } : it))
    expect((await save(theirs)).status).toBe(200)
    await dialog().getByRole('button', { name: 'Save' }).click()
    await dialog().getByText('Somebody has changed the panel meanwhile').waitFor()
    await page.keyboard.press('Escape')
    await dialog().waitFor({ state: 'detached' })
    await page.getByText('theirs').waitFor()

    expect((await save((all) => theirs(all).filter((it) => it.content.kind !== 'value'))).status).toBe(200)
    await page.getByRole('button', { name: /^Size of text/ }).press('ArrowLeft')
    await eventually(async () => {
      const now = await panels()
      expect(now.map((it) => it.content.kind)).not.toContain('value')
      expect(now.find((it) => it.content.kind === 'text')).toMatchObject({ width: 6 })
    })
  })

  it('is the default of its project, is read by a share link, and is deleted with a dialog that names it', async () => {
    await page.goto(path)
    await page.getByRole('button', { name: 'Actions for Overview' }).click()
    await page.getByRole('menuitem', { name: 'Make default' }).click()
    await page.getByText('default', { exact: true }).waitFor()
    const { shareCode } = (await service.client.get(`/write/project/add-share-link?projectId=${projectId}`)).body
    const reader = await (await browser.get().openContext(service.url)).newPage()
    await reader.goto(`${path}/default?shareCode=${shareCode}`)
    await reader.getByRole('heading', { name: 'Overview' }).waitFor()
    await reader.locator('canvas').first().waitFor()
    expect(await reader.getByRole('button', { name: 'Edit' }).count()).toBe(0)
    await reader.close()
    await page.getByRole('button', { name: 'Actions for Overview' }).click()
    await page.getByRole('menuitem', { name: 'Delete' }).click()
    await dialog().getByRole('button', { name: 'Delete Overview' }).click()
    await page.getByRole('heading', { name: 'No dashboard' }).waitFor()
  })
})
