import type { Page } from 'playwright-core'
import { beforeAll, describe, expect, it } from 'vitest'
import { type ClickHouse, openClickHouse } from '../../store/clickhouse/connection.ts'
import { firstOrganization } from '../../store/postgres/accounts/accounts.ts'
import { type Database, openDatabase } from '../../store/postgres/database.ts'
import { insertDeadLetter } from '../../store/postgres/dead-letters.ts'
import { insertFinishedBackup } from '../../store/postgres/finished-backups.ts'
import { noBrowser } from '../kit/browser.ts'
import { aPoint } from '../kit/builders.ts'
import { eventually } from '../kit/eventually.ts'
import { createClient } from '../kit/http/client.ts'
import { createUser, openOwnStores, openTestService, uniqueName } from '../kit/service.ts'
import { expectAccessible } from './kit/accessible.ts'
import { useBrowser } from './kit/use-browser.ts'

/** Runs when any name or text is taken for markup. */
const attack = '<img src=x onerror="document.title=\'taken\'">'
const sections = ['users', 'service-accounts', 'keys', 'limits', 'retention', 'audit']
const ofService = ['health', 'queue', 'dead-letters', 'backups']

describe.skipIf(noBrowser)(`the administration (${noBrowser ?? 'in Chromium'})`, () => {
  let stores: Awaited<ReturnType<typeof openOwnStores>>
  let service: Awaited<ReturnType<typeof openTestService>>
  let database: Database
  let clickhouse: ClickHouse
  const browser = useBrowser(async () => {
    await service?.close()
    await database?.close()
    await clickhouse?.close()
  })
  let page: Page

  const dialog = () => page.getByRole('dialog')
  const open = async (section: string, query: Record<string, string> = {}) => {
    await page.goto(`/-/admin/${section}?${new URLSearchParams(query)}`)
    await page.getByRole('heading', { level: 1 }).waitFor()
  }
  const table = (name: string) => page.getByRole('table', { name })
  const searched = () => Object.fromEntries(new URL(page.url()).searchParams)
  const expectInBothThemes = async () => {
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme })
      await expectAccessible(page)
    }
  }

  beforeAll(async () => {
    stores = await openOwnStores('postgres')
    database = openDatabase({ url: stores.postgresUrl, connectionsMax: 2, onError: () => undefined })
    clickhouse = openClickHouse({ url: stores.clickhouseUrl })
    service = await openTestService({ stores, isAdmin: true, organizationName: firstOrganization })
    const context = await browser.get().openContext(service.url, service.apiKey)
    page = await context.newPage()
  })

  it('is in the bar of admins only; others are told so, and refused by the service as well', async () => {
    await page.goto('/')
    await page.getByRole('link', { name: 'Administration' }).click()
    await page.getByRole('heading', { name: 'Users', level: 1 }).waitFor()
    const titles = await page.getByRole('navigation', { name: 'Administration' }).getByRole('link').allInnerTexts()
    expect(titles).toHaveLength(sections.length + ofService.length)

    const member = await createUser(stores, { organizationName: firstOrganization })
    const foreign = await createUser(stores, { isAdmin: true })
    for (const [reader, isAdmin] of [
      [member, false],
      [foreign, true],
    ] as const) {
      const context = await browser.get().openContext(service.url, reader.apiKey)
      const other = await context.newPage()
      await other.goto('/')
      await other.getByRole('button', { name: `Signed in as ${reader.userName}` }).waitFor()
      expect(await other.getByRole('link', { name: 'Administration' }).count()).toBe(isAdmin ? 1 : 0)
      const client = createClient(service.url, reader)
      expect((await client.get('/admin/audit')).status).toBe(isAdmin ? 200 : 403)
      expect((await client.get('/admin/dead-letters')).status).toBe(403)
      if (isAdmin) {
        await other.goto('/-/admin')
        await other.getByRole('heading', { name: 'Users', level: 1 }).waitFor()
        const links = other.getByRole('navigation', { name: 'Administration' }).getByRole('link')
        await eventually(async () => expect(await links.count()).toBe(sections.length))
        await other.goto('/-/admin/dead-letters')
        await other.getByRole('heading', { name: 'For those who look after the service' }).waitFor()
      } else {
        await other.goto('/-/admin/audit')
        await other.getByRole('heading', { name: 'For admins only' }).waitFor()
      }
      await expectAccessible(other)
      await context.close()
    }
  })

  it('every page is there while nothing has happened yet, in light and dark', async () => {
    for (const section of [...sections, ...ofService]) {
      await open(section)
      await page.getByRole('status', { name: 'Loading' }).waitFor({ state: 'detached' })
      await expectInBothThemes()
    }
    await open('dead-letters')
    await page.getByRole('heading', { name: 'No dead letter' }).waitFor()
    await open('backups')
    await page.getByRole('heading', { name: 'No backup is known' }).waitFor()
    await open('limits')
    await page.getByText('Nothing was sent to this workspace in the last minute.').waitFor()
    await open('nowhere')
    await page.getByRole('heading', { name: 'There is no such page' }).waitFor()
  })

  it('an auditor sees users, accounts, keys and the audit log, and no way to change them', async () => {
    const userName = uniqueName('auditor')
    await service.client.post('/admin/users', { userName, role: 'auditor' })
    const { apiKey } = (await service.client.post('/admin/users/keys', { userName })).body as { apiKey: string }
    const context = await browser.get().openContext(service.url, apiKey)
    const own = await context.newPage()
    try {
      for (const section of ['users', 'service-accounts', 'keys', 'audit']) {
        await own.goto(`/-/admin/${section}`)
        await own.getByRole('heading', { level: 1 }).waitFor()
        await own.getByRole('status', { name: 'Loading' }).waitFor({ state: 'detached' })
        await expectAccessible(own)
        const main = own.getByRole('main')
        expect(await main.getByRole('button', { name: /^(New|Actions for|End the key)/ }).count(), section).toBe(0)
      }
      const links = own.getByRole('navigation', { name: 'Administration' }).getByRole('link')
      expect(await links.allTextContents()).toEqual(['Users', 'Service accounts', 'API keys', 'Audit log'])
    } finally {
      await context.close()
    }
  })

  it('users, service accounts and keys of hostile names are text; keys are found and ended', async () => {
    await open('users')
    await page.getByRole('button', { name: 'New user' }).click()
    await dialog().getByLabel('Name').fill(attack)
    await dialog().getByRole('button', { name: 'Add user' }).click()
    await page.getByText('The new key of').waitFor()
    const apiKey = (await page.getByRole('status').locator('pre').textContent()) as string
    const client = createClient(service.url, { apiKey, workspaceName: attack })
    await client.post('/account/keys', { name: attack })
    await open('service-accounts')
    await page.getByRole('button', { name: 'New service account' }).click()
    await dialog().getByLabel('Name').fill(`${attack} account`)
    await dialog().getByRole('button', { name: 'Add service account' }).click()
    await table('Service accounts').getByText(`${attack} account`).waitFor()

    await open('keys', { search: 'onerror' })
    const rows = table('API keys').getByRole('row')
    await eventually(async () => expect(await rows.count()).toBe(1 + 3))
    await page.getByLabel('Search keys').fill(`${attack} account`)
    await eventually(async () => expect(await rows.count()).toBe(1 + 1))
    expect(searched()).toEqual({ search: `${attack} account` })
    await page.getByLabel('Search keys').fill(attack)
    await eventually(async () => expect(await rows.count()).toBe(1 + 3))
    // By keyboard: the first key of the user, which has no name.
    const end = table('API keys')
      .getByRole('row', { name: /no name/ })
      .getByRole('button', { name: /^End the key/ })
    await end.first().focus()
    await page.keyboard.press('Enter')
    await dialog().getByRole('button', { name: 'End key' }).waitFor()
    await page.keyboard.press('Escape')
    await dialog().waitFor({ state: 'detached' })
    expect((await client.get('/account-details')).status).toBe(200)
    await end.first().click()
    await dialog().getByRole('button', { name: 'End key' }).click()
    await eventually(async () => expect((await client.get('/account-details')).status).toBe(401))
    await eventually(async () => expect(await rows.allInnerTexts()).toHaveLength(1 + 2))
    await expectInBothThemes()
    expect(await page.title()).not.toBe('taken')
  })

  it('limits stand beside what is used of them now, and what was held back', async () => {
    const { client, workspaceName } = service
    const projectName = uniqueName('busy')
    const experimentKey = await client.createExperiment({ projectName, experimentName: attack })
    await open('limits', { workspace: workspaceName })
    await page.getByLabel('Points of metrics a minute').fill('50')
    await page.getByRole('button', { name: 'Save limits' }).click()
    await page.getByText('The limits are saved.').waitFor()
    await page.getByLabel('Experiments', { exact: true }).first().fill('1000')
    await page.getByRole('button', { name: 'Save limits' }).click()
    await table('Usage of the workspace').getByText('1,000').waitFor()
    await page.getByLabel('Exports at once').last().fill('77')
    await page.getByRole('button', { name: 'Save for the organization' }).click()
    await table('Usage of the organization').getByText('77').waitFor()
    const send = (count: number) =>
      client.post('/write/experiment/metrics/batch', {
        experimentKey,
        metrics: Array.from({ length: count }, (_, step) => aPoint({ step })),
      })
    // The page looks every five seconds; after a minute nothing is used any more.
    await eventually(async () => {
      await eventually(async () => expect((await send(40)).status).toBe(200), 100_000)
      expect((await send(40)).status).toBe(429)
      await table('Used now').getByText('Metrics').waitFor({ timeout: 15_000 })
    }, 240_000)
    await table('Used now').getByRole('link', { name: attack }).waitFor()
    await table('Metrics of these experiments').getByRole('link', { name: attack }).waitFor()
    await table('Held back in the last hour').getByText('over 50 a minute for this experiment').first().waitFor()
    await expectInBothThemes()
    await table('Held back in the last hour').getByRole('link', { name: attack }).first().click()
    await page.waitForURL(`**/${workspaceName}/${projectName}/${experimentKey}`)
    await client.send(
      'PUT',
      '/admin/limits',
      JSON.stringify({ workspaceName, limits: { metricsPerMinute: null, experimentsMax: null } }),
    )
    await client.send('PUT', '/admin/limits', JSON.stringify({ organization: true, limits: { exportsMax: null } }))
  })

  it('a shorter retention is asked for once more, and says what it deletes', async () => {
    const { client, workspaceName } = service
    const days = async () => (await client.get(`/admin/retention?workspaceName=${workspaceName}`)).body.keptDays
    await open('retention')
    await page.getByLabel('Output lines, days').fill('90')
    await page.getByRole('button', { name: 'Save retention' }).click()
    await dialog().getByText('Output lines accepted more than 90 days ago').waitFor()
    await expectAccessible(page)
    await page.keyboard.press('Escape')
    await dialog().waitFor({ state: 'detached' })
    expect(await days()).toEqual({})
    await page.getByRole('button', { name: 'Save retention' }).click()
    await dialog().getByRole('button', { name: 'Save and delete' }).click()
    await dialog().waitFor({ state: 'detached' })
    expect(await days()).toEqual({ output: 90 })
    const read = Promise.withResolvers<void>()
    await page.route('**/admin/retention?*', async (route) => {
      await read.promise
      await route.continue()
    })
    await page.getByLabel('Output lines, days').fill('365')
    const asked = page.waitForRequest((it) => it.method() === 'GET' && it.url().includes('/admin/retention?'))
    await page.getByRole('button', { name: 'Save retention' }).click()
    await asked
    expect(await days()).toEqual({ output: 365 })
    // Not what was before until the new one has come: digits that are typed then would be added to that.
    expect(await page.getByLabel('Output lines, days').inputValue()).toBe('365')
    read.resolve()
    await page.getByText('The retention is saved.').last().waitFor()
    await page.unroute('**/admin/retention?*')
    await page.getByLabel('Output lines, days').fill('0')
    await page.getByRole('button', { name: 'Save retention' }).click()
    expect(await days()).toEqual({ output: 365 })
  })

  it('the audit log is filtered by its address, paged and downloaded', async () => {
    const { workspaceName, userName } = service
    await database.row(
      `INSERT INTO audit_log (organization_id, actor, act, subject, details, at)
       SELECT id, $2, 'secret.set', 'secret ' || n, jsonb_build_object('note', $3::text), now() - interval '400 days' * n / 150
       FROM organizations, generate_series(1, 150) n WHERE name = $1`,
      [firstOrganization, `${attack} actor`, attack],
    )
    await open('audit')
    const rows = table('Audit log').getByRole('row')
    await eventually(async () => expect(await rows.count()).toBe(1 + 100))
    await page.getByRole('button', { name: 'Show older entries' }).click()
    await page.getByText('This is the first entry.').waitFor()
    expect(await rows.count()).toBeGreaterThan(1 + 150)
    await expectInBothThemes()

    await page.getByLabel('What').selectOption('set the retention')
    await eventually(async () => expect(await rows.allInnerTexts()).toHaveLength(1 + 2))
    await table('Audit log').getByText('set: output 365').waitFor()
    await table('Audit log').getByRole('cell', { name: workspaceName }).first().waitFor()
    await page.getByLabel('Workspace').selectOption(workspaceName)
    await page.getByLabel('Who').fill(userName)
    await eventually(() =>
      expect(searched()).toEqual({ act: 'retention.set', workspace: workspaceName, user: userName }),
    )
    await eventually(async () => expect(await rows.allInnerTexts()).toHaveLength(1 + 2))
    await page.reload()
    await eventually(async () => expect(await rows.allInnerTexts()).toHaveLength(1 + 2))

    await page.getByRole('button', { name: 'Download' }).click()
    const href = await page.getByRole('menuitem', { name: 'CSV' }).getAttribute('href')
    const file = await (await page.request.get(href as string)).text()
    expect(file.trim().split('\n')).toHaveLength(1 + 2)
    await page.keyboard.press('Escape')

    await page.getByLabel('To').fill('2001-01-01')
    await page.getByRole('heading', { name: 'Nothing matches' }).waitFor()
    await expectInBothThemes()
    await page.getByRole('button', { name: 'Show everything' }).click()
    await eventually(async () => expect(await rows.count()).toBe(1 + 100))
    expect(searched()).toEqual({})
    // Of a day in the past, by the clock of the browser.
    const day = new Date(Date.now() - 200 * 86_400_000).toISOString().slice(0, 10)
    await open('audit', { from: day, to: day, user: `${attack} actor` })
    await eventually(async () => expect([1, 2]).toContain(await rows.count()))
    expect(await page.title()).not.toBe('taken')
  })

  it('dead letters are looked at, replayed once their reason is gone, and discarded', async () => {
    const { client } = service
    const constrain = (change: string) => clickhouse.command(`ALTER TABLE ${clickhouse.database}.points ${change}`)
    await constrain('ADD CONSTRAINT no_thirteens CHECK reinterpretAsFloat64(value_bits) != 13')
    const experimentKey = await client.createExperiment()
    const metrics = [12, 13, 14].map((step) => aPoint({ step, metricValue: step, metricName: 'loss' }))
    await client.post('/write/experiment/metrics/batch', { experimentKey, metrics })
    const receivedMs = Date.now()
    const torn = { queue: 'output', rows: 2, receivedMs, reason: attack, bytes: Buffer.from(attack) }
    await insertDeadLetter(database, torn)
    await open('dead-letters')
    const letters = table('Dead letters')
    await letters.getByText('no_thirteens').waitFor()
    await letters.getByText(attack).waitFor()
    await expectInBothThemes()

    await letters
      .getByRole('row', { name: /no_thirteens/ })
      .getByRole('button', { name: /^Look at/ })
      .click()
    await dialog().getByText('"value":13').waitFor()
    await dialog().getByRole('region', { name: 'First bytes' }).getByText('experiment_id').waitFor()
    await expectInBothThemes()
    await page.goBack()
    await dialog().waitFor({ state: 'detached' })

    await letters
      .getByRole('row', { name: /onerror/ })
      .getByRole('button', { name: /^Look at/ })
      .click()
    await dialog().getByText('The block is damaged').waitFor()
    await dialog().getByRole('region', { name: 'First bytes' }).getByText('<img src=x onerr').waitFor()
    await dialog().getByRole('button', { name: 'Discard' }).click()
    await dialog().getByRole('button', { name: 'Discard for good' }).waitFor()
    await page.keyboard.press('Escape')
    await dialog().waitFor({ state: 'detached' })
    expect(await letters.getByText(attack).count()).toBe(1)

    await constrain('DROP CONSTRAINT no_thirteens')
    await letters
      .getByRole('row', { name: /no_thirteens/ })
      .getByRole('checkbox')
      .check()
    await page.getByRole('button', { name: 'Replay chosen' }).click()
    await dialog().getByRole('button', { name: 'Replay', exact: true }).click()
    await page.getByText('Replayed 1 dead letter').waitFor()
    await letters.getByText('no_thirteens').waitFor({ state: 'detached' })
    const points = await client.readPoints(experimentKey, 'loss', 3)
    expect(points.map((it) => it.metricValue)).toEqual(['12.0', '13.0', '14.0'])

    await page.getByLabel('Choose all shown').check()
    await page.getByRole('button', { name: 'Discard chosen' }).click()
    await dialog().getByRole('button', { name: 'Discard for good' }).click()
    await page.getByRole('heading', { name: 'No dead letter' }).waitFor()
    await open('audit', { act: 'dead-letter.discarded' })
    await table('Audit log').getByText(service.userName).waitFor()
    expect(await page.title()).not.toBe('taken')
  })

  it('queue, health and backups are told in plain sentences', async () => {
    await open('queue')
    await page.getByText('Everything that was accepted is stored.').waitFor()
    const letter = { queue: 'metrics', rows: 7, receivedMs: 1, reason: 'x', bytes: Buffer.alloc(0) }
    await insertDeadLetter(database, letter)
    await page.getByText('ClickHouse refused 7 rows for good').waitFor()
    await expectInBothThemes()
    await page.getByRole('link', { name: '1 dead letter' }).click()
    await page.getByRole('heading', { name: 'Dead letters', level: 1 }).waitFor()

    await page.getByRole('link', { name: 'Health' }).click()
    const findings = page.getByRole('list', { name: 'Findings' }).getByRole('listitem')
    await findings.first().getByText('1 with 7 rows that ClickHouse refused for good').waitFor()
    await page
      .getByText(/warning/)
      .first()
      .waitFor()
    await expectInBothThemes()
    await database.row('DELETE FROM dead_letters')
    await page.getByRole('button', { name: 'Check again' }).click()
    await page.getByText('1 with 7 rows').waitFor({ state: 'detached' })

    const at = Date.now() - 3 * 3_600_000
    const times = { startedAt: new Date(at), finishedAt: new Date(at + 95_000) }
    const backup = { id: '2026-11-24T02-17-00Z-abcd', place: attack, ...times, bytes: 5.2e9, version: '1.0.0' }
    await insertFinishedBackup(database, backup)
    await page.getByRole('link', { name: 'Backups' }).click()
    await page.getByText('The last one has everything that was acknowledged until').waitFor()
    const row = await table('Backups').getByRole('row').nth(1).textContent()
    expect(row).toContain('5.2 GB')
    expect(row).toContain(attack)
    expect(row).toContain('1 min 35 s')
    await expectInBothThemes()
    expect(await page.title()).not.toBe('taken')
  })
})
