import type { Page } from 'playwright-core'
import { beforeAll, describe, expect, it } from 'vitest'
import { noBrowser } from '../kit/browser.ts'
import { eventually } from '../kit/eventually.ts'
import { openTestService, uniqueName } from '../kit/service.ts'
import { expectAccessible } from './kit/accessible.ts'
import { answered, useBrowser } from './kit/use-browser.ts'

const esc = '\u001b'
/** Runs when anything of a run is taken for markup. */
const attack = '<img src=x onerror="document.title=\'taken\'"><script>document.title="taken"</script>'
const projectName = uniqueName('run')

describe.skipIf(noBrowser)(`the page of a run (${noBrowser ?? 'in Chromium'})`, () => {
  let service: Awaited<ReturnType<typeof openTestService>>
  // The frame of a logged page does not load what the markup in it asks for.
  const browser = useBrowser(() => service?.close(), [answered(400), /asset\/x[' ].*/])
  let page: Page
  let first: string
  let second: string

  async function post(path: string, body: object) {
    const answer = await service.client.post(path, body)
    expect(answer.status, answer.text).toBe(200)
    return answer.body
  }
  async function create(experimentName: string): Promise<string> {
    const { workspaceName } = service
    return (await post('/write/experiment/create', { workspaceName, projectName, experimentName }))
      .experimentKey as string
  }
  async function upload(path: string, body: string) {
    const headers = { authorization: service.apiKey, 'content-type': 'application/octet-stream' }
    const answer = await fetch(`${service.url}/api/rest/v2/write/experiment/${path}`, { method: 'POST', headers, body })
    expect(answer.status, await answer.text()).toBe(200)
  }
  const open = (key: string, rest = '') => page.goto(`/${service.workspaceName}/${projectName}/${key}${rest}`)
  const seen = (text: string | RegExp) => page.getByText(text).first().waitFor()

  beforeAll(async () => {
    service = await openTestService()
    first = await create('baseline')
    second = await create(`hostile ${attack}`)
    for (const [experimentKey, lr] of [
      [first, 0.1],
      [second, 0.2],
    ]) {
      await post('/write/experiment/parameter', { experimentKey, parameterName: 'lr', parameterValue: lr })
      await post('/write/experiment/parameter', { experimentKey, parameterName: 'depth', parameterValue: 18 })
      const metrics = [5, 2, 3].map((it, step) => ({ metricName: 'loss', metricValue: it * Number(lr), step }))
      await post('/write/experiment/metrics/batch', { experimentKey, metrics })
    }
    const lines = Array.from({ length: 3_000 }, (_, offset) => ({ output: `line ${offset + 1}\n`, offset }))
    lines[0] = { output: `${esc}[31mred${esc}[0m  0%|   |\r100%|###|${esc}[K\n`, offset: 0 }
    lines[1_499] = { output: 'line 1500\n', offset: 1_499, stderr: true } as (typeof lines)[number]
    lines[1] = { output: `${attack}${esc}]0;title\u0007\n`, offset: 1 }
    await post('/write/experiment/output', { experimentKey: first, outputLines: lines })
    await post('/write/experiment/output', {
      experimentKey: second,
      outputLines: [{ output: `line 3\n${attack}\n`, offset: 0 }],
    })
    await post('/write/experiment/code', { experimentKey: second, code: `print("${attack}")\n` })
    await post('/write/experiment/log-other', { experimentKey: second, key: attack, value: attack })
    await post('/write/experiment/tags', { experimentKey: second, addedTags: [attack] })
    await post('/write/experiment/log-other', {
      experimentKey: second,
      key: 'notes',
      value: `# Plan\n\n${attack} <a href="javascript:document.title='taken'">press</a> <p style="color:red">x</p>`,
    })
    await upload(`upload-asset?experimentKey=${second}&fileName=page.html`, attack)
    await upload(
      `upload-asset?experimentKey=${second}&fileName=a.svg&type=image`,
      '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><script>document.title="taken"</script></svg>',
    )
    await upload(
      `git/patch?experimentKey=${second}`,
      `diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-old\n+${attack}\n`,
    )
    const context = await browser.get().openContext(service.url, service.apiKey)
    page = await context.newPage()
    await eventually(async () => {
      const { body } = await service.client.get(`/experiment/output?experimentKey=${first}`)
      expect(body.output).toContain('line 3000')
    })
  })

  it('the overview has parameters and metrics with last, least and most; tags, name and state change', async () => {
    await open(first)
    const row = page.getByRole('region', { name: 'Metrics' }).getByRole('row', { name: /loss/ })
    await row.waitFor()
    expect(await row.getByRole('cell').allInnerTexts()).toEqual(['0.3', '0.2', '0.5', '2'])
    await page.getByRole('button', { name: 'Add a tag' }).click()
    await page.keyboard.type('kept')
    await page.keyboard.press('Enter')
    await eventually(async () => {
      const { body } = await service.client.get(`/experiment/tags?experimentKey=${first}`)
      expect(body.tags).toEqual(['kept'])
    })
    await page.getByRole('button', { name: 'Actions' }).click()
    await page.getByRole('menuitem', { name: 'Rename' }).click()
    await page.getByRole('textbox', { name: 'Name' }).fill('renamed')
    await page.getByRole('dialog').getByRole('button', { name: 'Rename' }).click()
    await page.getByRole('heading', { name: 'renamed' }).waitFor()
    await page.getByRole('button', { name: 'Actions' }).click()
    await page.getByRole('menuitem', { name: 'Archive' }).click()
    await page.getByText('Archived', { exact: true }).waitFor()
    await page.getByRole('button', { name: 'Undo' }).click()
    await page.getByText('Archived', { exact: true }).waitFor({ state: 'detached' })
    const { body } = await service.client.get(`/experiment/metadata?experimentKey=${first}`)
    expect(body).toMatchObject({ experimentName: 'renamed', archived: false })
  })

  it('output has colours and no stale progress; a link leads to a line, a search to lines', async () => {
    await open(first, '?tab=output#L2500')
    await seen('line 2500')
    expect(await page.getByRole('link', { name: 'Line 2500' }).isVisible()).toBe(true)
    expect(await page.getByRole('log').getByRole('link').count()).toBeLessThan(200)
    await page.getByRole('button', { name: 'Top' }).click()
    await seen('100%|###|')
    expect(await page.getByText('0%|   |').count()).toBe(0)
    await page.getByLabel('Search the output').fill('LINE 299')
    await seen('11 of 3,000 lines')
    expect(new URL(page.url()).searchParams.get('find')).toBe('LINE 299')
    await page.reload()
    await seen('11 of 3,000 lines')
    await page.getByRole('link', { name: 'Line 2991' }).click()
    expect(new URL(page.url()).hash).toBe('#L2991')
    await page.getByLabel('Search the output').fill('')
    await page.getByLabel('stderr only').check()
    await seen('1 of 3,000 lines')
    await seen('line 1500')
    expect(new URL(page.url()).searchParams.get('stderr')).toBe('true')
  })

  it('lines behind long ones, which come in several pages, are there', async () => {
    const { client } = service
    const own = uniqueName('long')
    const experimentKey = await client.createExperiment({ projectName: own })
    const toLine = (offset: number) => ({ output: offset < 18 ? 'x'.repeat(1_000_000) : `short ${offset + 1}`, offset })
    const lines = Array.from({ length: 450 }, (_, offset) => ({ ...toLine(offset), localTimestamp: 5 }))
    for (const outputLines of [lines.slice(0, 6), lines.slice(6, 12), lines.slice(12)]) {
      expect((await client.post('/write/experiment/output', { experimentKey, outputLines })).status).toBe(200)
    }
    await eventually(async () => {
      const { body } = await client.get(`/experiment/output/lines?experimentKey=${experimentKey}&limit=1`)
      expect(body.total).toBe(450)
    })
    await page.goto(`/${service.workspaceName}/${own}/${experimentKey}?tab=output#L440`)
    await seen('short 440')
  })

  it('a search in the output of the project leads to the line of a run', async () => {
    await page.goto(`/${service.workspaceName}/${projectName}`)
    await page.getByRole('button', { name: 'More' }).click()
    await page.getByRole('menuitem', { name: 'Search the output' }).click()
    await seen('Which runs printed it?')
    await page.getByLabel('Text that runs printed').fill('LINE 150')
    await seen('1 run found, 2 of 2 searched')
    await page.getByText('line 1500').click()
    await page.getByRole('link', { name: 'Line 1500', exact: true }).waitFor()
    expect(new URL(page.url()).hash).toBe('#L1500')
  })

  it('axe finds nothing to mend in any part of a run, nor in what compares two, light and dark', async () => {
    const compare = `/${service.workspaceName}/${projectName}/-/compare?keys=${first},${second}`
    const output = `/${service.workspaceName}/${projectName}/-/output?find=line+150`
    const tabs = ['overview', 'charts', 'media', 'system', 'output', 'files', 'lineage', 'code', 'notes', 'graph']
    // Not the output: it is drawn like code, and takes axe ten seconds for its 3,000 lines.
    const views = ['values', 'plots', 'code', 'patch']
    const faults: unknown[] = []
    for (const [url, loaded] of [
      ...tabs.map((it) => [`/${service.workspaceName}/${projectName}/${second}?tab=${it}`, ''] as const),
      ...views.map((it) => [`${compare}&view=${it}`, '2 runs compared'] as const),
      [output, '1 run found'] as const,
    ]) {
      await page.goto(url)
      await page.getByRole('heading', { level: 1 }).waitFor()
      if (loaded) await seen(loaded)
      await eventually(async () => expect(await page.getByRole('status', { name: 'Loading' }).count()).toBe(0))
      await page.emulateMedia({ colorScheme: 'light' })
      await expectAccessible(page).catch((it) => faults.push(url, it.actual))
      await page.emulateMedia({ colorScheme: 'dark' })
      await expectAccessible(page, ['color-contrast']).catch((it) => faults.push(url, it.actual))
    }
    await page.emulateMedia({ colorScheme: null })
    expect(faults).toEqual([])
  })

  it('names, notes, output, code, patches and files that hold markup stay text', async () => {
    for (const tab of ['overview', 'output', 'files', 'code', 'notes', 'charts', 'system', 'lineage', 'graph']) {
      await open(second, tab === 'overview' ? '' : `?tab=${tab}`)
      await page.getByRole('heading', { level: 1 }).waitFor()
      if (tab === 'output') await page.getByRole('log').getByText(attack).waitFor()
      if (tab === 'code') await page.getByRole('region', { name: 'Git patch' }).getByText(attack).waitFor()
      if (tab === 'notes') {
        await page.getByRole('heading', { name: 'Plan' }).waitFor()
        expect(await page.locator('main a[href^="javascript"], main [style*="red"], main img').count()).toBe(0)
        await page.getByRole('button', { name: 'Edit' }).click()
        await page.getByLabel('Notes in Markdown').fill('## Saved\n<script>1</script>')
        await page.getByRole('region', { name: 'Preview' }).getByRole('heading', { name: 'Saved' }).waitFor()
        await page.getByRole('button', { name: 'Save', exact: true }).click()
        await page.getByRole('button', { name: 'Edit' }).waitFor()
      }
      if (tab === 'files') {
        await page.getByRole('link', { name: 'page.html' }).click()
        await page.getByRole('button', { name: 'Source' }).click()
        await page.locator('main pre').getByText('onerror').waitFor()
        await page.getByRole('link', { name: 'a.svg' }).click()
        await page.getByRole('img', { name: 'a.svg' }).waitFor()
      }
      expect(await page.locator('main script, main iframe, main img[src="x"]').count()).toBe(0)
      expect(await page.title()).not.toBe('taken')
    }
  })

  it('the keyboard goes to the next run in the same tab; a deleted run comes back by undo', async () => {
    await open(first, '?tab=code')
    await seen('1 of 2')
    await page.keyboard.press('j')
    await page.waitForURL(new RegExp(`${second}\\?tab=code`))
    await page.getByRole('button', { name: 'Actions' }).click()
    await page.getByRole('menuitem', { name: 'Delete' }).click()
    await page.getByRole('button', { name: 'Delete the run' }).click()
    await page.waitForURL(new RegExp(`/${projectName}$`))
    const gone = await service.client.get(`/experiment/metadata?experimentKey=${second}`)
    expect(gone.status).toBe(400)
    await page.getByRole('button', { name: 'Undo' }).click()
    await eventually(async () => {
      const back = await service.client.get(`/experiment/metadata?experimentKey=${second}`)
      expect(back.status).toBe(200)
    })
    await open('0'.repeat(32))
    await page.getByRole('heading', { name: 'Not found' }).waitFor()
  })

  it('runs are compared: what differs, percentages of a baseline, plots, and their texts; the URL keeps it', async () => {
    const compare = `/${service.workspaceName}/${projectName}/-/compare`
    await page.goto(`${compare}?keys=${first},${second}`)
    const cells = (name: string) => page.getByRole('row', { name: new RegExp(`^${name}`) }).getByRole('cell')
    await cells('depth').first().waitFor()
    await page.getByLabel('Differences only').check()
    await cells('depth').first().waitFor({ state: 'detached' })
    await page.getByLabel('Baseline').selectOption(first)
    await page.waitForURL(/baseline=/)
    await page.reload()
    await cells('lr').first().waitFor()
    expect(await cells('lr').allInnerTexts()).toEqual(['0.1', '0.2+100%'])
    expect(await cells('loss').allInnerTexts()).toEqual(['0.3', '0.6+100%'])
    expect(await cells('depth').count()).toBe(0)
    await page.getByRole('link', { name: 'Plots' }).click()
    await page.getByRole('img', { name: 'loss over lr' }).waitFor()
    expect(await page.getByRole('img', { name: 'loss over lr' }).locator('circle').count()).toBe(2)
    expect(
      await page
        .getByRole('img', { name: /Parallel/ })
        .locator('polyline')
        .count(),
    ).toBe(2)
    await page.getByRole('link', { name: 'Output' }).click()
    await page.locator('[data-kind="remove"]').getByText('line 3000', { exact: true }).waitFor()
    await page.getByRole('link', { name: 'Code' }).click()
    await page.locator('[data-kind="add"]').getByText(attack).waitFor()
    expect(new URL(page.url()).searchParams.get('view')).toBe('code')
    expect(await page.title()).not.toBe('taken')
    await page.goto(compare)
    await page.getByRole('heading', { name: 'Nothing to compare' }).waitFor()
  })
})
