import { beforeAll, describe, expect, it } from 'vitest'
import { openDatabase } from '../../store/postgres/database.ts'
import { noBrowser } from '../kit/browser.ts'
import { openTestService, storesWith, uniqueName } from '../kit/service.ts'
import { expectAccessible } from './kit/accessible.ts'
import { useBrowser } from './kit/use-browser.ts'

const hostile = '<img src=x onerror=alert(1)>"\''

describe.skipIf(noBrowser)(`alerts on training (${noBrowser ?? 'in Chromium'})`, () => {
  let service: Awaited<ReturnType<typeof openTestService>>
  const browser = useBrowser(() => service?.close())
  beforeAll(async () => {
    // Without a worker: what fires is up to the test.
    service = await openTestService({ roles: new Set(['api', 'ingest']) })
  })

  it('are made on a run or a project, by keyboard too; what fired leads to the runs; paused and deleted', async () => {
    const { client, workspaceName } = service
    const projectName = uniqueName('alerts')
    const experimentKey = await client.createExperiment({ projectName, experimentName: hostile })
    const context = await browser.get().openContext(service.url, service.apiKey)
    const page = await context.newPage()
    await page.goto(`/${workspaceName}/${projectName}/${experimentKey}`)
    await page.getByRole('button', { name: 'Actions', exact: true }).click()
    await page.getByRole('menuitem', { name: 'Alerts' }).click()
    await page.getByRole('heading', { name: `Alerts of ${hostile}` }).waitFor()
    await page.getByText('No alert').waitFor()
    await expectAccessible(page)

    await page.getByRole('button', { name: 'Add an alert' }).focus()
    await page.keyboard.press('Enter')
    const dialog = page.getByRole('dialog', { name: 'Add an alert' })
    const save = dialog.getByRole('button', { name: 'Save alert' })
    expect(await save.isDisabled()).toBe(true)
    await dialog.getByLabel('Metric').fill('loss')
    await dialog.getByLabel('Value').fill('1e-3')
    await expectAccessible(page)
    await page.keyboard.press('Enter')
    const rules = page.getByRole('table', { name: 'Alerts' })
    await rules.getByRole('row', { name: 'loss > 1e-3 loss is above 0.001 one run each minute quiet' }).waitFor()

    await page.getByRole('button', { name: 'Add an alert' }).click()
    await dialog.getByLabel('When').selectOption({ label: 'A run crashes or falls silent' })
    await dialog.getByLabel('On', { exact: true }).selectOption({ label: 'all runs of the project' })
    await dialog.getByLabel('Name').fill(`any crash ${hostile}`)
    await save.click()
    const crash = rules.getByRole('row', { name: 'a run crashes or falls silent all runs' })
    await crash.waitFor()

    const database = openDatabase({
      url: storesWith('postgres').postgresUrl,
      connectionsMax: 1,
      onError: () => undefined,
    })
    const found = [{ feature: null, part: null, value: 1, experimentKey, experimentName: hostile }]
    await database.row(
      `INSERT INTO alert_firings (rule_id, window_from_ms, window_to_ms, fired_at_ms, found)
       SELECT r.id, 0, 60000, $2, $3 FROM alert_rules r JOIN projects p ON p.id = r.project_id WHERE p.name = $1`,
      [projectName, Date.now(), JSON.stringify(found)],
    )
    await database.close()
    await page.reload()
    const fired = page.getByRole('table', { name: 'What fired' })
    await crash.getByText('fired just now').waitFor()
    await fired.getByText('nobody').waitFor()
    await expectAccessible(page)

    await crash.getByRole('button', { name: /^Pause/ }).click()
    await crash.getByText('paused').waitFor()
    await crash.getByRole('button', { name: /^Delete/ }).click()
    await page.getByRole('button', { name: 'Delete alert' }).click()
    await crash.waitFor({ state: 'detached' })
    await page.getByRole('link', { name: 'All of the project' }).click()
    await page.getByRole('heading', { name: 'Alerts', exact: true }).waitFor()
    await rules.getByRole('link', { name: 'one run' }).click()
    await page.getByRole('heading', { name: hostile }).waitFor()
    await context.close()
  })
})
