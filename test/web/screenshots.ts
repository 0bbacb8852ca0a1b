/**
 * Takes a picture of each page, light and dark, into docs/screenshots, from a service of its own with data that are the same
 * each time. `--only runs` takes those whose name begins so.
 *
 *   npm run screenshots
 */
import { mkdirSync } from 'node:fs'
import path from 'node:path'
import { parseArgs } from 'node:util'
import type { Page } from 'playwright-core'
import { openBrowser } from '../kit/browser.ts'
import { createClient } from '../kit/http/client.ts'
import { aFolder, startUp } from '../kit/processes/svc.ts'
import { logOneRun } from './kit/one-run.ts'
import { logSweep } from './kit/sweep.ts'

type Picture = { name: string; url: string; act?(page: Page): Promise<unknown> }

/** Time for what is read after a page is there, such as the points of its charts. */
const settledMs = 1_500
const sweep = '/default/cifar10-sweep'
const pictures: Picture[] = [
  { name: 'projects', url: '/default', act: (page) => page.getByRole('link', { name: 'cifar10-sweep' }).waitFor() },
  { name: 'empty-project', url: '/default/new-idea', act: (page) => page.getByRole('heading').first().waitFor() },
  { name: 'runs', url: sweep, act: showRuns },
  {
    name: 'runs-grouped',
    url: `${sweep}?${new URLSearchParams({ group: '["p:optimizer","p:lr"]', open: '[["adamw"],["adamw","0.003"]]' })}`,
    act: (page) => page.getByText('optimizer:').first().waitFor(),
  },
  {
    name: 'runs-columns',
    url: sweep,
    async act(page) {
      await showRuns(page)
      await page.getByRole('button', { name: 'Columns' }).click()
    },
  },
  {
    name: 'runs-query',
    url: `${sweep}?${new URLSearchParams({ search: 'param.optimizer = adamw' })}`,
    async act(page) {
      await showRuns(page)
      await page.getByLabel('Search runs').fill('param.optimizer = adamw and metric.')
      await page.getByRole('option').first().waitFor()
    },
  },
  {
    name: 'export',
    url: `${sweep}?${new URLSearchParams({ search: 'param.optimizer = adamw' })}`,
    async act(page) {
      await showRuns(page)
      await page.getByRole('button', { name: 'More', exact: true }).click()
      await page.getByRole('menuitem', { name: 'Export' }).click()
      await page.getByText('12 runs of the table').waitFor()
    },
  },
  {
    name: 'search',
    url: sweep,
    async act(page) {
      await showRuns(page)
      await page.keyboard.press('Control+k')
      await page.keyboard.type('res')
      await page.getByRole('dialog').getByRole('option').nth(2).waitFor()
    },
  },
]

function showRuns(page: Page) {
  return page
    .getByRole('link', { name: /resnet/ })
    .first()
    .waitFor()
}

const { values } = parseArgs({ options: { only: { type: 'string' } } })
const folder = path.resolve(import.meta.dirname, '../../docs/screenshots')
const closers: (() => unknown)[] = []
try {
  mkdirSync(folder, { recursive: true })
  const onClose = (close: () => unknown) => void closers.unshift(close)
  const up = await startUp(await aFolder(onClose), {}, onClose)
  const key = up.key as string
  const keys = await logSweep({ url: up.url, key, projectName: 'cifar10-sweep', runs: 36 })
  const ready = (page: Page) => page.getByText('val/loss').first().waitFor()
  const compared = `${sweep}/-/compare?keys=${keys.slice(0, 6).join(',')}`
  pictures.push(
    { name: 'charts', url: `${sweep}?split=0&top=36`, act: (page) => page.locator('canvas').nth(2).waitFor() },
    { name: 'run', url: `${sweep}/${keys[0]}`, act: ready },
    ...(['charts', 'system'] as const).map((tab) => ({
      name: `run-${tab}`,
      url: `${sweep}/${keys[0]}?tab=${tab}`,
      act: (page: Page) => page.locator('canvas').first().waitFor(),
    })),
    { name: 'run-output', url: `${sweep}/${keys[0]}?tab=output`, act: (page) => page.getByRole('log').waitFor() },
    ...(['code', 'notes', 'graph'] as const).map((tab) => ({
      name: `run-${tab}`,
      url: `${sweep}/${keys[0]}?tab=${tab}`,
    })),
    {
      name: 'run-files',
      url: `${sweep}/${keys[0]}?tab=files`,
      async act(page) {
        await page.getByRole('link', { name: 'train.yaml' }).click()
        await page.getByText('batch_size: 128').waitFor()
      },
    },
    {
      name: 'output-search',
      url: `${sweep}/-/output?find=learning+rate`,
      act: (page) => page.getByText('1 run found').waitFor(),
    },
    { name: 'project-notes', url: `${sweep}/-/notes` },
    {
      name: 'one-chart',
      url: `/-/embed${sweep}/-/chart?metric=${encodeURIComponent('val/loss')}`,
      act: (page) => page.locator('canvas').first().waitFor(),
    },
    { name: 'missing', url: '/default/no-such-project', act: (page) => page.getByRole('heading').first().waitFor() },
    { name: 'settings', url: '/-/settings', act: (page) => page.getByRole('heading').first().waitFor() },
    { name: 'compare', url: `${compared}&baseline=${keys[0]}`, act: ready },
    { name: 'compare-plots', url: `${compared}&view=plots` },
    { name: 'compare-code', url: `${compared}&view=code` },
  )
  const client = createClient(up.url, { apiKey: key, workspaceName: 'default' })
  const { body: project } = await client.get('/project?workspaceName=default&projectName=cifar10-sweep')
  await logOneRun({ url: up.url, key, experimentKey: keys[0] as string, projectId: project.projectId as string })
  const idea = { workspaceName: 'default', projectName: 'new-idea', isPublic: false }
  await client.post('/write/project/create', idea)
  const browser = await openBrowser()
  onClose(browser.close)
  for (const colorScheme of ['light', 'dark'] as const) {
    const context = await browser.openContext(up.url, key, { colorScheme, viewport: { width: 1280, height: 760 } })
    const page = await context.newPage()
    for (const { name, url, act } of pictures.filter((it) => it.name.startsWith(values.only ?? ''))) {
      await page.goto(url)
      await act?.(page)
      // A page that hears of new points never stops to read.
      await page.waitForTimeout(settledMs)
      // A picture of a dot that breathes is another each time.
      await page.screenshot({ path: path.join(folder, `${name}-${colorScheme}.png`), animations: 'disabled' })
      console.log(`${name}-${colorScheme}.png`)
    }
    await context.close()
  }
  // The picture of a page that is not there has a refused read.
  const faults = browser.faults.filter((it) => !it.includes('Failed to load resource'))
  if (faults.length > 0) throw new Error(faults.join('\n'))
} finally {
  for (const close of closers) await close()
}
