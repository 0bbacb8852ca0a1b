import { execFile } from 'node:child_process'
import path from 'node:path'
import { promisify } from 'node:util'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { noBrowser } from '../kit/browser.ts'
import { createWebhookClient } from '../kit/clients/webhooks.ts'
import { eventually } from '../kit/eventually.ts'
import { createCertificate, openReceiver } from '../kit/http/receiver.ts'
import { openOwnStores, openTestService } from '../kit/service.ts'
import { expectAccessible } from './kit/accessible.ts'
import { useBrowser } from './kit/use-browser.ts'

/** Runs when anything of a model is taken for markup. */
const attack = '<img src=x onerror="document.title=\'taken\'">'
const modelName = 'digits'
const root = path.resolve(import.meta.dirname, '../..')
const patience = 120_000
/** Not in one breath: the service runs in this process. */
const run = promisify(execFile)

describe.skipIf(noBrowser)(`models in production (${noBrowser ?? 'in Chromium'})`, () => {
  let service: Awaited<ReturnType<typeof openTestService>>
  let receiver: Awaited<ReturnType<typeof openReceiver>>
  const browser = useBrowser(() => service?.close())
  afterAll(() => receiver?.close())
  let page: Page
  let base: string
  /** Events and labels of the demo. */
  let logged: number

  const dialog = () => page.getByRole('dialog')
  const search = () => new URL(page.url()).searchParams
  const open = async (model: string, tab?: string) => {
    await page.goto(`${base}/${encodeURIComponent(model)}${tab ? `?tab=${tab}` : ''}`)
    await page.getByRole('heading', { name: model, exact: true }).waitFor()
  }
  const map = () => page.getByRole('application', { name: /^Drift of \d+ features in/ })
  const send = async (what: 'events' | 'labels', data: Record<string, unknown>[]) => {
    const { workspaceName } = service
    const answer = await service.client.post(`/mpm/v2/${what}/batch`, {
      data: data.map((it) => ({ workspaceName, ...it })),
    })
    expect(answer.status, answer.text).toBe(200)
  }

  async function runDemo() {
    const args = ['cli/svc.ts', 'demo', 'production', '--url', service.url, '--key', service.apiKey]
    args.push('--workspace', service.workspaceName, '--json')
    const { stdout } = await run(process.execPath, args, { cwd: root })
    return JSON.parse(stdout) as { events: number; labels: number; duplicates: number; page: string }
  }

  beforeAll(async () => {
    const certificate = await createCertificate()
    const stores = await openOwnStores('postgres')
    service = await openTestService({ stores, settings: certificate.settings, intervals: { webhooksMs: 50 } })
    receiver = await openReceiver(certificate)
    base = `/${service.workspaceName}/-/production`
    const context = await browser.get().openContext(service.url, service.apiKey)
    page = await context.newPage()
    page.setDefaultTimeout(patience)
  }, patience)

  it('an empty list and a model without events say how to send one, with a line that works', async () => {
    await page.goto(base)
    await page.getByRole('heading', { name: 'No model reports yet' }).waitFor()
    expect(await page.getByRole('navigation', { name: 'Parts of the workspace' }).textContent()).toContain('Production')
    await expectAccessible(page)
    const name = `it's "new" ${attack}`
    await open(name)
    await page.getByRole('heading', { name: `${name} has sent no event yet` }).waitFor()
    const line = (await page.locator('pre').textContent()) as string
    const env = { ...process.env, SVC_API_KEY: service.apiKey }
    const { stdout } = await run('sh', ['-c', line], { env })
    const answer = JSON.parse(stdout)
    expect(answer).toMatchObject({ accepted: 1, rejected: 0 })
    await page.getByRole('heading', { name: 'Nothing to compare with yet' }).waitFor()
    await expectAccessible(page)
    expect(await page.title()).not.toBe('taken')
  })

  it('the demo of a model that drifts fills the list', async () => {
    const webhooks = createWebhookClient(service)
    await webhooks.add({ url: receiver.url, triggers: ['ALERT_FIRED'] })
    const first = await runDemo()
    expect(first).toMatchObject({ duplicates: 0, page: `${service.url}${base}/${modelName}` })
    expect(first.events).toBeGreaterThan(10_000)
    expect(first.labels).toBeGreaterThan(5_000)
    logged = first.events + first.labels
    await page.goto(base)
    const row = page.getByRole('row', { name: /^digits/ })
    await row.getByText(/\d+ of \d+ features drifted/).waitFor()
    await row.getByRole('link', { name: 'Registered' }).waitFor()
    await row.getByRole('img', { name: /^Events by day/ }).waitFor()
    await page.getByText('Reference: digits-training').waitFor()
    await expectAccessible(page)
    await row.getByRole('link', { name: modelName }).click()
    await page.waitForURL(`**${base}/${modelName}`)
  })

  it('the demo is what its page says: the drift, the firings, the versions', async () => {
    const query = new URLSearchParams({ workspaceName: service.workspaceName, modelName })
    await eventually(async () => {
      const { body } = await service.client.get(`/mpm/v2/drift/map?${query}`)
      const features = body.features as { name: string; drifted: (boolean | null)[] }[]
      const share = (name: string, from: number, to: number) => {
        const some = features.find((it) => it.name === name)?.drifted.slice(from, to) ?? []
        return some.filter(Boolean).length / some.length
      }
      // The new scanner came a month ago; the height of the digits stays the same.
      expect(share('scanner', 0, 50)).toBe(0)
      expect(share('scanner', 62, 88)).toBe(1)
      expect(share('height', 0, 89)).toBeLessThan(0.2)
    }, patience)
    await eventually(async () => {
      const { body } = await service.client.get(`/mpm/v2/alerts/firings?${query}`)
      const names = (body.firings as { name: string }[]).map((it) => it.name)
      expect(new Set(names)).toEqual(new Set(['Images get darker', 'Edges are missing', 'Accuracy']))
    }, patience)
    const { body: registered } = await service.client.get(`/registry-model/items?${query}`)
    expect((registered.items as { version: string }[]).map((it) => it.version).toSorted()).toEqual(['1.0.0', '1.1.0'])
  })

  it('the map of features and windows is read by keyboard, and leads to a feature', async () => {
    await open(modelName)
    await map().waitFor()
    await page.getByText('Compared with digits-training').waitFor()
    await expectAccessible(page)
    await page.getByRole('link', { name: 'Drift', exact: true }).focus()
    await map().focus()
    await page.keyboard.press('ArrowUp')
    const tip = map().getByRole('status')
    await tip.waitFor()
    await page.keyboard.press('End')
    await page.keyboard.press('ArrowLeft')
    expect(await tip.textContent()).toMatch(/drifted.*\d events/)
    for (let at = 0; at < 30 && !(await tip.textContent())?.startsWith('scanner'); at++) {
      await page.keyboard.press('ArrowDown')
    }
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'scanner' }).waitFor()
    expect(search().get('feature')).toBe('scanner')
    // The reference knows two scanners, and production has a third one.
    await page.getByText('New: east').waitFor()
    await page.getByText('As a table').click()
    await page.getByRole('row', { name: /^east new 0 \(0 %\) / }).waitFor()
    await expectAccessible(page)

    await page.getByRole('button', { name: 'ink', exact: true }).click()
    await page.getByRole('heading', { name: 'ink' }).waitFor()
    await page.getByRole('img', { name: /^The distribution of ink in the reference and/ }).waitFor()
    await page.getByRole('row', { name: /^median/ }).waitFor()
    await page.getByRole('application', { name: 'Quantiles' }).focus()
    await page.keyboard.press('ArrowLeft')
    expect(await page.getByRole('application', { name: 'Quantiles' }).getByRole('status').textContent()).toContain(
      'median',
    )
    await page.getByLabel('Segment').selectOption('east scanner')
    await page.getByText('It has no event of the segment').waitFor()
    await page.reload()
    await page.getByRole('heading', { name: 'ink' }).waitFor()
    expect(search().get('segment')).toBe('east scanner')
  })

  it('one click from the drifted model is its version in the registry, and one more the run that trained it', async () => {
    await open(modelName)
    await page.getByRole('link', { name: 'Version 1.1.0 in the registry' }).click()
    await page.getByRole('heading', { name: 'digits 1.1.0' }).waitFor()
    await page.getByRole('link', { name: 'digits 1.1.0, 15 epochs' }).click()
    await page.waitForURL(/\/demo\/[0-9a-zA-Z]+$/)
    expect(page.url()).toContain(`/${service.workspaceName}/demo/`)
    await page.goBack()
    await page.getByRole('link', { name: 'In production' }).click()
    await page.waitForURL(`**${base}/${modelName}`)
  })

  it('versions and segments stand side by side; a segment is added, counted meanwhile, and deleted', async () => {
    await open(modelName, 'compare')
    await page.getByRole('img', { name: /^1\.0\.0: drifted in/ }).waitFor()
    await page.getByRole('img', { name: /^north scanner: drifted in/ }).waitFor()
    await page.getByRole('button', { name: 'Add a segment' }).click()
    await dialog().getByLabel('Name').fill(attack)
    await dialog().getByLabel('Feature').fill('ink')
    await dialog().getByLabel('Operator').selectOption('below')
    await dialog().getByLabel('Value').fill('0.2')
    await dialog()
      .getByText(/^[\d,]+ events meet it$/)
      .waitFor()
    await expectAccessible(page)
    // Its reads reach the service after it was deleted, and before the list without it.
    const deleted = Promise.withResolvers<void>()
    const read = Promise.withResolvers<void>()
    const isOfIt = (url: URL) => url.searchParams.get('segment') === attack
    await page.route(isOfIt, async (it) => {
      await deleted.promise
      await it.continue().catch(() => undefined)
    })
    await dialog().getByRole('button', { name: 'Save segment' }).click()
    await page.getByRole('link', { name: attack }).waitFor()
    await page.getByText('ink < 0.2').waitFor()
    await expectAccessible(page)
    await page.getByRole('button', { name: `Delete ${attack}` }).click()
    await page.route(/\/mpm\/v2\/segments\?/, async (it) => {
      await read.promise
      await it.continue()
    })
    const answer = page.waitForResponse((it) => it.request().method() === 'DELETE')
    await dialog().getByRole('button', { name: 'Delete segment' }).click()
    await answer
    deleted.resolve()
    await page.waitForTimeout(500)
    read.resolve()
    await page.getByRole('link', { name: attack }).waitFor({ state: 'detached' })
    await page.unrouteAll()
    await page.getByRole('link', { name: '1.0.0' }).click()
    await map().waitFor()
    expect(search().get('version')).toBe('1.0.0')
  })

  it('the quality of labels has its coverage and delay', async () => {
    await open(modelName, 'labels')
    for (const name of ['Quality', 'Coverage', 'Delay of labels']) {
      await page.getByRole('application', { name }).waitFor()
    }
    await page.getByRole('application', { name: 'Quality' }).focus()
    // Labels come days later: early on a day, the one before may have none yet.
    for (let day = 0; day < 14; day++) await page.keyboard.press('ArrowLeft')
    expect(await page.getByRole('application', { name: 'Quality' }).getByRole('status').textContent()).toMatch(
      /accuracy .*%/,
    )
    await page.getByRole('cell', { name: 'seven', exact: true }).waitFor()
    await expectAccessible(page)
  })

  it('a rule is made beside a preview of when it would have fired; firings say who was told', async () => {
    await open(modelName)
    await page.getByRole('button', { name: 'ink', exact: true }).click()
    await page.getByRole('button', { name: 'Add an alert' }).click()
    // Where it says something else, that is what the failure tells.
    const said = dialog().getByRole('status').or(dialog().getByRole('alert'))
    await eventually(async () => {
      expect(await said.textContent({ timeout: 1_000 })).toMatch(/^It would have fired for \d+ of the last 90 windows/)
    }, 120_000)
    expect(await dialog().getByLabel('Feature').inputValue()).toBe('ink')
    await dialog().getByLabel('Threshold', { exact: true }).fill('1000')
    await dialog().getByText('It would have fired for 0 of the last 90 windows').waitFor()
    await dialog().getByLabel('Measure').selectOption('accuracy')
    await dialog().getByLabel('Threshold', { exact: true }).fill('0.97')
    await dialog()
      .getByText(/It would have fired for [1-9]\d* of the last 90 windows/)
      .waitFor()
    await expectAccessible(page)
    await dialog().getByLabel('Name').fill(attack)
    await dialog().getByRole('button', { name: 'Save rule' }).click()
    await page.getByRole('row', { name: new RegExp(`^${RegExp.escape(attack)}.*accuracy below 97 %`) }).waitFor()
    await page.getByRole('button', { name: `Pause ${attack}` }).click()
    await page.getByRole('button', { name: `Resume ${attack}` }).waitFor()
    await page.getByRole('button', { name: `Delete ${attack}` }).click()
    await dialog().getByRole('button', { name: 'Delete rule' }).click()
    await page.getByRole('button', { name: `Delete ${attack}` }).waitFor({ state: 'detached' })

    const firing = page
      .getByRole('table', { name: 'Firings' })
      .getByRole('row', { name: /Images get darker ink/ })
      .first()
    await firing.getByText(new URL(receiver.url).host).waitFor()
    await firing.getByText('delivered').waitFor()
    await page.getByRole('row', { name: /Images get darker Wasserstein of ink above 0\.4/ }).waitFor()
    await expectAccessible(page)
    expect(await page.title()).not.toBe('taken')
  })

  it('one prediction is found by its id; errors and a reference that is uploaded are there', async () => {
    await send('events', [
      {
        modelName: attack,
        predictionId: attack,
        features: { [attack]: attack, amount: 3 },
        prediction: { value: 'ok' },
      },
    ])
    await open(attack, 'events')
    await page.getByLabel('Prediction id').fill(attack)
    await page.getByRole('button', { name: 'Find' }).click()
    await page.getByRole('definition').filter({ hasText: attack }).waitFor()
    await page.getByRole('heading', { name: 'No error' }).waitFor()
    await page.getByLabel('Name of the reference').fill(`${attack} training`)
    const lines = Array.from({ length: 5_000 }, (_, at) => `${at},${at % 7}`)
    await page.getByLabel('File of the reference').setInputFiles({
      name: 'training.csv',
      mimeType: 'text/csv',
      buffer: Buffer.from(`predictionId,feature_amount\n${lines.join('\n')}\nbroken\n`),
    })
    await page.getByRole('button', { name: 'Upload' }).click()
    await page.getByText(/5,000 events were stored, 1 lines are wrong/).waitFor()
    await expectAccessible(page)
    await open(attack)
    await page.getByText(`Compared with ${attack} training`).waitFor()
    await page.getByRole('button', { name: attack }).click()
    await page.getByRole('heading', { name: attack, exact: true }).nth(1).waitFor()
    await expectAccessible(page)
    expect(await page.title()).not.toBe('taken')

    await open(modelName, 'events')
    await page.getByRole('cell', { name: 'prediction.probability: must be a number from 0 to 1' }).waitFor()
    await expectAccessible(page)
  })

  it('a repetition of the demo adds nothing', async () => {
    const query = new URLSearchParams({ workspaceName: service.workspaceName, modelName })
    const again = await runDemo()
    // Of today there may be a few more by now.
    expect(again.events).toBeLessThan(20)
    expect(again.duplicates).toBeGreaterThanOrEqual(logged)
    const { body: rules } = await service.client.get(`/mpm/v2/alerts?${query}`)
    expect(rules.alerts).toHaveLength(3)
  })
})
