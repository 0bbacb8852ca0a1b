import { readFileSync } from 'node:fs'
import type { Page } from 'playwright-core'
import { beforeAll, describe, expect, it } from 'vitest'
import { noBrowser } from '../kit/browser.ts'
import { eventually } from '../kit/eventually.ts'
import { openTestService, uniqueName } from '../kit/service.ts'
import { expectAccessible } from './kit/accessible.ts'
import { logSweep } from './kit/sweep.ts'
import { answered, useBrowser } from './kit/use-browser.ts'

const runs = 24

describe.skipIf(noBrowser)(`the runs of a project (${noBrowser ?? 'in Chromium'})`, () => {
  let service: Awaited<ReturnType<typeof openTestService>>
  const browser = useBrowser(() => service?.close(), [answered(400, 401)])
  const projectName = uniqueName('sweep')
  let page: Page
  let keys: string[]
  beforeAll(async () => {
    service = await openTestService()
    const { url, apiKey: key, workspaceName } = service
    keys = await logSweep({ url, key, workspaceName, projectName, runs })
    page = await (await browser.get().openContext(url, key)).newPage()
  })

  const address = (search: Record<string, string> = {}) =>
    `/${service.workspaceName}/${projectName}?${new URLSearchParams(search)}`
  const open = async (search: Record<string, string> = {}) => {
    await page.goto(address(search))
    await page.getByRole('grid', { name: 'Runs' }).waitFor()
  }
  /** The text of a column, from the top; the name is the first after the box and the eye. */
  const column = async (name: string): Promise<string[]> => {
    const heads = (await page.getByRole('columnheader').allTextContents()).map((it) => it.trim())
    const at = heads.findIndex((it) => it.startsWith(name))
    const rows = await page.getByRole('row', { name: /resnet/ }).all()
    return await Promise.all(rows.map(async (it) => (await it.getByRole('gridcell').nth(at).textContent()) ?? ''))
  }
  const count = (text: string) => page.getByRole('status').filter({ hasText: text }).first().waitFor()

  it('a project without runs teaches, and turns into its runs by itself when the first point comes', async () => {
    const name = uniqueName('empty "project"')
    await service.client.post('/write/project/create', {
      workspaceName: service.workspaceName,
      projectName: name,
      isPublic: false,
    })
    await page.goto(`/${service.workspaceName}/${encodeURIComponent(name)}`)
    await page.getByRole('heading', { name: 'Log the first run' }).waitFor()
    const lines = (await page.locator('pre').textContent()) as string
    expect(lines).toContain(service.url)
    expect(lines).toContain(JSON.stringify(name))
    const created = await service.client.post('/write/experiment/create', {
      workspaceName: service.workspaceName,
      projectName: name,
      experimentName: 'the first',
    })
    await service.client.post('/write/experiment/metric', {
      experimentKey: created.body.experimentKey,
      metricName: 'loss',
      metricValue: 0.25,
      step: 1,
    })
    await page.getByRole('link', { name: 'the first' }).waitFor()
    await page.getByRole('gridcell', { name: '0.25' }).waitFor()
  })

  it('the service sorts, filters and searches; the URL keeps it over a reload', async () => {
    await open()
    await count(`${runs} runs`)
    await page.getByRole('button', { name: 'val/accuracy', exact: true }).click()
    await eventually(async () => {
      const values = (await column('val/accuracy')).map(Number)
      expect(values.length).toBeGreaterThan(10)
      expect(values).toEqual(values.toSorted((a, b) => b - a))
    })
    await page.getByRole('button', { name: 'Filter' }).click()
    await page.getByLabel('Search columns').fill('lr')
    await page.keyboard.press('Enter')
    await page.getByLabel('Value').fill('0.02')
    await page.keyboard.press('Enter')
    await count('12 runs')
    await page.getByLabel('Search runs').fill('adamw')
    await count('4 runs')
    await page.reload()
    await count('4 runs')
    expect(await column('Name')).toHaveLength(4)
    expect((await column('lr')).every((it) => Number(it) < 0.02)).toBe(true)
    await page.getByRole('button', { name: 'Remove: lr < 0.02' }).click()
    await count('8 runs')
    await page.goBack()
    await count('4 runs')
  })

  it('a query is completed by keyboard, searched once it can be read, and told where it cannot', async () => {
    await open()
    await count(`${runs} runs`)
    const box = page.getByRole('combobox', { name: 'Search runs' })
    const option = (name: string) => page.getByRole('option', { name, exact: true })
    await box.pressSequentially('optim')
    await option('param.optimizer').waitFor()
    await page.keyboard.press('ArrowDown')
    await page.keyboard.press('Enter')
    await option('=').waitFor()
    await page.keyboard.press('ArrowDown')
    await page.keyboard.press('Tab')
    await option('adamw').waitFor()
    await expectAccessible(page)
    await option('adamw').click()
    expect(await box.inputValue()).toBe('param.optimizer = adamw ')
    await count('8 runs')
    expect(new Set(await column('optimizer'))).toEqual(new Set(['adamw']))

    await box.pressSequentially('and param.lr < ')
    expect(await page.getByRole('alert').count()).toBe(0)
    await page.keyboard.press('Enter')
    await page.getByRole('alert').getByText('Character 40: expected a value after <').waitFor()
    await box.pressSequentially('0.02')
    await count('4 runs')
    expect((await column('lr')).every((it) => Number(it) < 0.02)).toBe(true)
    expect(await page.getByRole('alert').count()).toBe(0)

    await page.goto(`${new URL(page.url()).pathname}?search=${encodeURIComponent('(')}`)
    await page.getByText('query, character 2: expected a test').waitFor()
    await box.fill('')
    await count(`${runs} runs`)
  })

  it('columns are chosen, pinned, moved and resized, and a named view keeps them for others', async () => {
    await open({ shareCode: 'secret' })
    await page.getByRole('button', { name: 'Columns' }).click()
    await page.getByRole('button', { name: 'min of train/loss' }).click()
    await page.keyboard.press('Escape')
    await page.getByRole('columnheader', { name: 'train/loss min' }).waitFor()
    const [last, least] = [await column('train/loss'), await column('train/lossmin')]
    await eventually(async () => expect((await column('train/lossmin')).every((it) => it !== 'none')).toBe(true))
    expect(least).toHaveLength(last.length)
    const options = async (name: string, item: string) => {
      await page
        .getByRole('button', { name: `Options of ${name}` })
        .last()
        .click()
      await page.getByRole('menuitem', { name: item, exact: true }).click()
    }
    await options('train/loss', 'Pin to the left')
    await options('train/loss', 'Wider')
    await options('lr', 'Move left')
    const heads = async () => (await page.getByRole('columnheader').allTextContents()).map((it) => it.trim()).slice(2)
    await eventually(async () => expect((await heads()).slice(0, 2)).toEqual(['Name', 'train/lossmin']))
    const before = await heads()
    await page.getByRole('button', { name: 'Views' }).click()
    await page.getByRole('menuitem', { name: 'Save as a new view' }).click()
    await page.getByRole('textbox', { name: 'Name' }).fill('losses')
    await page.getByRole('button', { name: 'Save view' }).click()
    await page.getByRole('button', { name: 'losses', exact: true }).waitFor()
    const view = new URL(page.url()).searchParams
    expect([...view.keys()].toSorted()).toEqual(['shareCode', 'view'])
    const { projectId } = (
      await service.client.get(`/project?${new URLSearchParams({ workspaceName: service.workspaceName, projectName })}`)
    ).body
    const kept = await service.client.get(`/views/get-all?projectId=${projectId}`)
    expect(kept.text).toContain('losses')
    expect(kept.text).not.toContain('secret')
    const other = await (await browser.get().openContext(service.url, service.apiKey)).newPage()
    await other.goto(page.url())
    await other.getByRole('columnheader', { name: 'train/loss min' }).waitFor()
    const seen = (await other.getByRole('columnheader').allTextContents()).map((it) => it.trim()).slice(2)
    expect(seen).toEqual(before)
    await other.context().close()
  })

  it('groups on two levels have counts, and open to their runs', async () => {
    await open({ group: '["p:optimizer","p:lr"]' })
    await count('12 groups')
    await page.getByRole('button', { name: /adamw 8 runs/ }).click()
    await page.getByRole('button', { name: /0.003 2 runs/ }).click()
    await eventually(async () => expect(await column('Name')).toHaveLength(2))
    await page.reload()
    await eventually(async () => expect(await column('Name')).toHaveLength(2))
  })

  it('keys move between runs, hide them and select them; many are tagged, archived and restored at once', async () => {
    await open()
    const eye = (name: string) => page.getByRole('button', { name: `Show ${name} on the charts` })
    const [first = '', second = ''] = await column('Name')
    for (const key of 'jjh') await page.keyboard.press(key)
    await eventually(async () => expect(await eye(second).getAttribute('aria-pressed')).toBe('false'))
    expect(await eye(first).getAttribute('aria-pressed')).toBe('true')
    await page.reload()
    await eventually(async () => expect(await eye(second).getAttribute('aria-pressed')).toBe('false'))

    await page.getByRole('checkbox', { name: `Select ${first}` }).click()
    await page
      .getByRole('checkbox', { name: /^Select resnet/ })
      .nth(3)
      .click({ modifiers: ['Shift'] })
    await page.getByText('4 runs selected').waitFor()
    await page.getByRole('button', { name: 'Tag', exact: true }).click()
    await page.getByLabel('Add').fill('chosen, <script>alert(1)</script>')
    await page.getByRole('button', { name: 'Save tags' }).click()
    await page.getByText('<script>').first().waitFor()
    await page.getByRole('button', { name: 'Archive', exact: true }).click()
    await count(`${runs - 4} runs`)
    await page.getByRole('button', { name: 'Undo' }).click()
    await count(`${runs} runs`)
    const tags = await service.client.get(`/experiment/tags?experimentKey=${keys.at(-1)}`)
    expect(tags.body.tags).toContain('chosen')
  })

  it('the runs of the table, one run, and the whole project are downloaded by the browser itself, with its session', async () => {
    const context = await browser.get().openContext(service.url)
    const other = await context.newPage()
    await other.goto(address({ search: 'param.optimizer = adamw', filter: '[["p:lr","<","0.02","double"]]' }))
    await other.getByLabel('API key', { exact: true }).fill(service.apiKey)
    await other.getByRole('button', { name: 'Sign in' }).click()
    await other.getByText('4 runs').first().waitFor()
    const download = async () => {
      const begun = other.waitForEvent('download')
      await other.getByRole('link', { name: 'Download' }).click()
      const file = await begun
      return { name: file.suggestedFilename(), bytes: readFileSync(await file.path()) }
    }
    const countRows = (text: Buffer) => text.toString().trimEnd().split('\n').length - 1
    await other.getByRole('button', { name: 'More', exact: true }).click()
    await other.getByRole('menuitem', { name: 'Export' }).click()
    await other.getByText('The 4 runs of the table').waitFor()
    await other.getByRole('dialog').getByText('param.optimizer = adamw').waitFor()
    await expectAccessible(other)
    await other.getByRole('combobox', { name: 'Format' }).selectOption('CSV')
    const table = await download()
    expect([table.name, countRows(table.bytes)]).toEqual([`${projectName}-runs.csv`, 4])
    expect(table.bytes.toString()).not.toMatch(/sgd|lion/)
    await other.getByRole('radio', { name: 'All runs of the project' }).check()
    const all = await download()
    expect(countRows(all.bytes)).toBe(runs)
    await other.getByRole('radio', { name: /^Metrics/ }).check()
    const points = await download()
    expect(countRows(points.bytes)).toBe(runs * 180)
    await other.getByRole('button', { name: 'Close' }).last().click()

    await other
      .getByRole('link', { name: /^resnet/ })
      .first()
      .click()
    await other.getByRole('button', { name: 'Actions' }).click()
    await other.getByRole('menuitem', { name: 'Export' }).click()
    await other.getByRole('radio', { name: /^Metrics/ }).check()
    const ofRun = await download()
    expect(ofRun.bytes.subarray(0, 4).toString()).toBe('PAR1')
    expect(ofRun.bytes.subarray(-4).toString()).toBe('PAR1')

    await other.goto(`/${service.workspaceName}`)
    await other.getByRole('button', { name: `Actions for ${projectName}` }).click()
    await other.getByRole('menuitem', { name: 'Download archive' }).click()
    const archive = await download()
    expect(archive.name).toBe(`${service.workspaceName}-${projectName}.tar`)
    expect(archive.bytes.subarray(0, 12).toString()).toBe('archive.json')
    expect(archive.bytes.includes('SHA256SUMS')).toBe(true)
    await context.close()
  })

  it.each(['light', 'dark'] as const)('axe finds nothing to mend (%s)', async (colorScheme) => {
    const context = await browser.get().openContext(service.url, service.apiKey, { colorScheme, bypassCSP: true })
    const other = await context.newPage()
    for (const path of ['/', address({ group: '["p:optimizer"]', open: '[["adamw"]]' })]) {
      await other.goto(path)
      await other
        .getByRole('button', { name: /New|Columns/ })
        .first()
        .waitFor()
      await other.getByRole('row').nth(1).waitFor()
      await expectAccessible(other)
    }
    await context.close()
  })
})
