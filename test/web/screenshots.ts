/**
 * Takes a picture of each page, light and dark, into docs/screenshots, from a service of its own with data that are the same
 * each time. `--only runs` takes those whose name begins so; it may be given again.
 *
 *   npm run screenshots
 */
import { mkdirSync } from 'node:fs'
import path from 'node:path'
import { parseArgs } from 'node:util'
import type { Page } from 'playwright-core'
import { openBrowser } from '../kit/browser.ts'
import { createClient } from '../kit/http/client.ts'
import { aFolder, startUp, svc } from '../kit/processes/svc.ts'
import { logOneRun } from './kit/one-run.ts'
import { logSweep } from './kit/sweep.ts'

type Picture = { name: string; url: string; act?(page: Page): Promise<unknown> }
type Client = ReturnType<typeof createClient>

/** Time for what is read after a page is there, such as the points of its charts. */
const settledMs = 1_500
/** How long a machine with other work may take for one page. */
const readMsMax = 60_000
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

const main = '/default/demo'
const model = '/default/-/production/digits'
const heading = (name: string | RegExp) => (page: Page) => page.getByRole('heading', { name }).first().waitFor()
/** What both demos fill, and the same pages empty. */
const ofWorkspace: Picture[] = [
  {
    name: 'media',
    url: main,
    async act(page) {
      await page.getByRole('link', { name: 'digits, learning rate 0.05' }).first().click()
      await page.getByRole('link', { name: 'Media' }).click()
      await page.locator('main').getByRole('img').nth(2).waitFor()
    },
  },
  { name: 'artifacts', url: '/default/-/artifacts', act: (page) => page.getByRole('table').waitFor() },
  {
    name: 'artifact-version',
    url: '/default/-/artifacts',
    async act(page) {
      await page.getByRole('table').getByRole('link').first().click()
      await page.getByRole('link', { name: '1.0.0' }).click()
      await heading(/1\.0\.0/)(page)
    },
  },
  {
    name: 'lineage',
    url: main,
    async act(page) {
      await page.getByRole('link', { name: 'digits, learning rate 0.05' }).first().click()
      await page.getByRole('link', { name: 'Lineage' }).click()
      await page.getByRole('region', { name: 'Lineage' }).getByRole('link').nth(1).waitFor()
    },
  },
  { name: 'models', url: '/default/-/models/digits', act: heading('digits') },
  {
    name: 'production',
    url: '/default/-/production',
    act: (page) => page.getByText(/of \d+ features drifted/).waitFor(),
  },
  {
    name: 'production-drift',
    url: `${model}?feature=scanner`,
    act: (page) => page.getByRole('img', { name: /^The distribution of scanner/ }).waitFor(),
  },
  {
    name: 'production-compare',
    url: `${model}?tab=compare`,
    act: (page) =>
      page
        .getByRole('img', { name: /drifted in/ })
        .nth(5)
        .waitFor(),
  },
  {
    name: 'production-labels',
    url: `${model}?tab=labels`,
    act: (page) => page.getByRole('application').first().waitFor(),
  },
  {
    name: 'production-alerts',
    url: `${model}?tab=alerts`,
    act: (page) => page.getByRole('table', { name: 'Firings' }).waitFor(),
  },
  { name: 'production-events', url: `${model}?tab=events`, act: heading('Reference') },
  {
    name: 'dashboard',
    url: `${main}/-/dashboards`,
    async act(page) {
      await page.getByRole('link', { name: 'Digits' }).click()
      await page.locator('article canvas').first().waitFor()
      await page.getByRole('application', { name: /^Drift of/ }).waitFor()
      await page.locator('article[data-kind="feature"]').getByRole('img').first().waitFor()
    },
  },
  { name: 'alerts', url: `${main}/-/alerts`, act: (page) => page.getByRole('table', { name: 'Alerts' }).waitFor() },
  {
    name: 'notifications',
    url: main,
    async act(page) {
      await page.getByRole('button', { name: /^Notifications/ }).click()
      await page.getByRole('dialog').getByRole('link').first().waitFor()
    },
  },
  ...['users', 'keys', 'limits', 'audit', 'health', 'queue', 'backups'].map((section) => ({
    name: `admin-${section}`,
    url: `/-/admin/${section}`,
    act: (page: Page) => page.getByRole('heading', { level: 1 }).waitFor(),
  })),
  ...(['production', 'artifacts', 'models'] as const).map((part) => ({
    name: `empty-${part}`,
    url: `/empty/-/${part}`,
    act: heading(/^No/),
  })),
  { name: 'empty-dashboards', url: '/default/new-idea/-/dashboards', act: heading('No dashboard') },
  { name: 'empty-alerts', url: '/default/new-idea/-/alerts', act: (page) => page.getByText('No alert').waitFor() },
]

/** Runs both demos, and adds what they have not: a dashboard, alerts on training and a workspace without anything. */
async function fillWorkspace(client: Client, url: string, key: string, onClose: (close: () => unknown) => void) {
  for (const kind of [[], ['production']]) {
    const { code, stderr } = await svc(['demo', ...kind, '--url', url, '--key', key, '--json'], {}, onClose)
    if (code !== 0) throw new Error(stderr)
  }
  const post = async (path: string, body: object) => {
    const answer = await client.post(path, body)
    if (answer.status !== 200) throw new Error(`${path} answered ${answer.status}: ${answer.text}`)
  }
  const { body } = await client.get('/project?workspaceName=default&projectName=demo')
  const projectId = body.projectId as string
  const modelName = 'digits'
  const day = 86_400_000
  const loss = { name: 'loss', context: 'train' }
  const contents: [number, number, object][] = [
    [12, 1, { kind: 'text', text: '**Digits**: the nets of the demo, and the one of them that is in production.' }],
    [4, 3, { kind: 'chart', metric: loss, top: 10 }],
    [4, 3, { kind: 'drift', modelName, windows: 14, interval: day }],
    [4, 3, { kind: 'model', modelName }],
    [4, 3, { kind: 'feature', modelName, feature: 'ink', show: 'values', windows: 14, interval: day }],
    [4, 3, { kind: 'labels', modelName, show: 'quality', windows: 14, interval: day }],
    [4, 3, { kind: 'versions', modelName }],
  ]
  const panels = contents.map(([width, height, content], at) => ({
    id: `panel-${at}`,
    title: '',
    width,
    height,
    content,
  }))
  await post('/write/views/upsert', { projectId, templateName: 'Digits', v3: { dashboard: { panels } } })
  const rule = { workspaceName: 'default', projectId, windowMs: 60_000 }
  await post('/mpm/v2/alerts', { ...rule, name: 'a run crashed', measure: 'runCrashed' })
  await post('/mpm/v2/alerts', {
    ...rule,
    name: 'loss is not a number',
    measure: 'metricNaN',
    metricName: loss.name,
    context: loss.context,
  })
  await post('/write/workspace/new', { name: 'empty' })
}

async function take(page: Page, url: string, act: Picture['act']) {
  await page.goto(url)
  await act?.(page)
  // A page that hears of new points never stops to read.
  await page.waitForTimeout(settledMs)
}

function showRuns(page: Page) {
  return page
    .getByRole('link', { name: /resnet/ })
    .first()
    .waitFor()
}

const { values } = parseArgs({ options: { only: { type: 'string', multiple: true, default: [''] } } })
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
  await fillWorkspace(client, up.url, key, onClose)
  pictures.push(...ofWorkspace)
  const browser = await openBrowser()
  onClose(browser.close)
  const taken = pictures.filter((it) => values.only.some((name) => it.name.startsWith(name)))
  const missing: string[] = []
  for (const colorScheme of ['light', 'dark'] as const) {
    const context = await browser.openContext(up.url, key, { colorScheme, viewport: { width: 1280, height: 760 } })
    const page = await context.newPage()
    page.setDefaultTimeout(readMsMax)
    for (const { name, url, act } of taken) {
      const isThere = await take(page, url, act).then(
        () => true,
        (error: unknown) => void missing.push(`${name}-${colorScheme}: ${(error as Error).message}`),
      )
      if (!isThere) continue
      // A picture of a dot that breathes is another each time.
      await page.screenshot({ path: path.join(folder, `${name}-${colorScheme}.png`), animations: 'disabled' })
      console.log(`${name}-${colorScheme}.png`)
    }
    await context.close()
  }
  // The picture of a page that is not there has a refused read.
  const faults = browser.faults.filter((it) => !it.includes('Failed to load resource'))
  if (faults.length + missing.length > 0) throw new Error([...missing, ...faults].join('\n'))
} finally {
  for (const close of closers) await close()
}
