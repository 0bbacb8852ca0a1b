import type { Locator, Page } from 'playwright-core'
import { beforeAll, describe, expect, it } from 'vitest'
import { openDatabase } from '../../store/postgres/database.ts'
import { noBrowser } from '../kit/browser.ts'
import { anEvent } from '../kit/clients/monitoring.ts'
import { createRegistryClient } from '../kit/clients/registry.ts'
import { eventually } from '../kit/eventually.ts'
import { openTestService, storesWith } from '../kit/service.ts'
import { useBrowser } from './kit/use-browser.ts'

const patience = 180_000
const hour = 3_600_000

/** Names something so that it runs when it is taken for markup, of HTML or of Markdown. */
const hostile = (name: string) => `<img src=x onerror="document.title='taken'">[${name}](javascript:alert(1))`

describe.skipIf(noBrowser)(`whatever is stored is text on the pages (${noBrowser ?? 'in Chromium'})`, () => {
  let service: Awaited<ReturnType<typeof openTestService>>
  const browser = useBrowser(() => service?.close())
  let page: Page
  let ids: { projectId: string; experimentKey: string; dashboard: string }
  const projectName = hostile('project').replaceAll('/', '')

  const post = async (path: string, body: object) => {
    const answer = await service.client.post(path, body)
    expect(answer.status, `${path}: ${answer.text}`).toBe(200)
    return answer.body
  }

  beforeAll(async () => {
    service = await openTestService({ isAdmin: true })
    const { client, workspaceName } = service
    const experimentKey = await client.createExperiment({ projectName, experimentName: hostile('run') })
    const { projectId } = (await client.get(`/project?${new URLSearchParams({ workspaceName, projectName })}`)).body
    await post('/write/experiment/tags', { experimentKey, addedTags: [hostile('tag')] })
    await post('/write/experiment/parameter', {
      experimentKey,
      parameterName: hostile('parameter'),
      parameterValue: hostile('value'),
    })
    const metrics = [{ metricName: hostile('metric'), metricValue: 1, step: 1 }]
    await post('/write/experiment/metrics/batch', { experimentKey, metrics })
    const { artifactVersionId } = await post('/write/artifacts/upsert', {
      ...{ experimentKey, artifactName: hostile('artifact'), artifactType: hostile('type') },
      ...{ alias: [hostile('alias')], versionTags: [hostile('version tag')] },
    })
    await post('/write/artifacts/state', { experimentKey, artifactVersionId, state: 'CLOSED' })
    const registry = createRegistryClient(service)
    await registry.aModel({ registryModelName: 'classifier', comment: hostile('comment'), stages: [hostile('stage')] })

    const modelName = hostile('model')
    const at = Date.now() - hour
    await post('/mpm/v2/events/batch', {
      data: Array.from({ length: 5 }, (_, n) =>
        anEvent({
          ...{ workspaceName, modelName, modelVersion: hostile('version'), predictionId: `p${n}`, timestamp: at },
          ...{ features: { [hostile('feature')]: hostile('category') }, prediction: { value: hostile('class') } },
        }),
      ),
    })
    const filters = [{ feature: hostile('feature'), operator: 'equals', values: [hostile('category')] }]
    await post('/mpm/v2/segments', { workspaceName, modelName, name: hostile('segment'), filters })
    const rule = { workspaceName, windowMs: hour }
    await post('/mpm/v2/alerts', { ...rule, name: hostile('rule on the model'), modelName, measure: 'events' })
    const onRuns = { name: hostile('rule on runs'), projectId, measure: 'runCrashed' }
    const { alertId } = await post('/mpm/v2/alerts', { ...rule, ...onRuns })
    const database = openDatabase({ url: storesWith('postgres').postgresUrl, connectionsMax: 1, onError: () => {} })
    const found = [{ feature: null, part: null, value: 1, experimentKey, experimentName: hostile('run') }]
    await database.row(
      `INSERT INTO alert_firings (rule_id, window_from_ms, window_to_ms, fired_at_ms, found)
       SELECT id, 0, 60000, $2, $3 FROM alert_rules WHERE id = $1`,
      [alertId, Date.now(), JSON.stringify(found)],
    )
    await database.close()
    const crash = { experimentKey, isAlive: false, hasCrashed: true, error: hostile('error') }
    await post('/write/experiment/update-status', crash)
    await post('/account/keys', { name: hostile('key') })
    await post('/admin/users', { userName: hostile('user') })

    const time = { windows: 14, interval: 24 * hour }
    const contents = [
      { kind: 'chart', metric: { name: hostile('metric') }, top: 10 },
      { kind: 'value', metric: { name: hostile('metric') }, of: 'max' },
      { kind: 'runs', columns: [{ source: 'parameter', name: hostile('parameter') }], top: 10 },
      { kind: 'model', modelName },
      { kind: 'drift', modelName, segment: hostile('segment'), ...time },
      { kind: 'feature', modelName, feature: hostile('feature'), show: 'values', ...time },
      { kind: 'labels', modelName, show: 'coverage', ...time },
      { kind: 'firings' },
      { kind: 'firings', modelName },
      { kind: 'artifact', artifactName: hostile('artifact') },
      { kind: 'versions', modelName: 'classifier' },
      { kind: 'text', text: hostile('text') },
      { kind: hostile('unknown kind') },
    ]
    const panels = contents.map((content, id) => ({ id: `p${id}`, title: '', width: 6, height: 2, content }))
    const titled = { id: 'titled', title: hostile('title'), width: 6, height: 2, content: { kind: 'firings' } }
    const made = await post('/write/views/upsert', {
      projectId,
      templateName: hostile('dashboard'),
      v3: { dashboard: { panels: [titled, ...panels] } },
    })
    ids = { projectId: projectId as string, experimentKey, dashboard: made.templateId as string }
    await eventually(async () => {
      const { body } = await client.get(`/mpm/v2/events/count?${new URLSearchParams({ workspaceName, modelName })}`)
      expect(JSON.stringify(body)).toContain(JSON.stringify(hostile('version')))
    }, patience)
    page = await (await browser.get().openContext(service.url, service.apiKey)).newPage()
    page.setDefaultTimeout(patience)
  }, patience)

  const root = () => `/${service.workspaceName}`
  const project = () => `${root()}/${encodeURIComponent(projectName)}`
  const model = () => `${root()}/-/production/${encodeURIComponent(hostile('model'))}`

  /** The page shows each of these names as they are, in its text, and has run none of them. */
  async function expectText(names: string[], within: Page | Locator = page) {
    for (const name of names) await within.getByText(name).filter({ visible: true }).first().waitFor()
    expect(await page.locator('img[src="x"]').count(), page.url()).toBe(0)
    expect(await page.locator('a[href^="javascript:" i]').count(), page.url()).toBe(0)
    expect(await page.title(), page.url()).not.toBe('taken')
  }

  const pages: [string, () => string, string[]][] = [
    ['projects', root, [projectName]],
    ['runs', project, [hostile('run'), hostile('parameter'), hostile('tag')]],
    ['a run', () => `${project()}/${ids.experimentKey}`, [hostile('run'), hostile('tag'), hostile('parameter')]],
    ['dashboards', () => `${project()}/-/dashboards`, [hostile('dashboard')]],
    ['alerts', () => `${project()}/-/alerts`, [hostile('rule on runs'), hostile('run')]],
    ['alerts of a run', () => `${project()}/-/alerts?run=${ids.experimentKey}`, [hostile('run')]],
    ['artifacts', () => `${root()}/-/artifacts`, [hostile('artifact'), hostile('type')]],
    [
      'an artifact',
      () => `${root()}/-/artifacts/${encodeURIComponent(hostile('artifact'))}`,
      [hostile('artifact'), hostile('alias'), hostile('version tag')],
    ],
    [
      'a version of an artifact',
      () => `${root()}/-/artifacts/${encodeURIComponent(hostile('artifact'))}/1.0.0`,
      [hostile('artifact'), hostile('alias'), hostile('version tag'), hostile('run')],
    ],
    [
      'a lineage',
      () => `${root()}/-/lineage?${new URLSearchParams({ run: ids.experimentKey })}`,
      [hostile('run'), hostile('artifact')],
    ],
    [
      'a lineage as a list',
      () => `${root()}/-/lineage?${new URLSearchParams({ run: ids.experimentKey, list: 'true' })}`,
      [hostile('artifact'), hostile('type')],
    ],
    ['a registered version', () => `${root()}/-/models/classifier/1.0.0`, [hostile('comment'), hostile('stage')]],
    ['models in production', () => `${root()}/-/production`, [hostile('model')]],
    ['drift', model, [hostile('model')]],
    [
      'versions and segments',
      () => `${model()}?tab=compare`,
      [hostile('model'), hostile('version'), hostile('segment')],
    ],
    ['labels', () => `${model()}?tab=labels`, [hostile('model')]],
    ['alerts of a model', () => `${model()}?tab=alerts`, [hostile('rule on the model')]],
    ['events', () => `${model()}?tab=events`, [hostile('model')]],
    ['users', () => '/-/admin/users', [hostile('user')]],
    ['keys', () => '/-/admin/keys', [hostile('key')]],
    ['the audit log', () => '/-/admin/audit', [hostile('user')]],
    ['settings', () => '/-/settings', [hostile('key')]],
  ]
  it.each(pages)('%s', async (_, path, names) => {
    await page.goto(path())
    await expectText(names)
  })

  it('each kind of panel', async () => {
    await page.goto(`${project()}/-/dashboards/${ids.dashboard}?edit=true`)
    await page.getByRole('heading', { name: hostile('dashboard'), exact: true }).waitFor()
    for (const it of await page.getByRole('article').all()) await it.scrollIntoViewIfNeeded()
    const panel = (kind: string) => page.locator(`article[data-kind="${kind}"]`)
    await expectText([hostile('title')], panel('firings').first())
    await expectText([hostile('rule on runs'), hostile('run')], panel('firings').nth(1))
    await expectText([hostile('model')], panel('firings').nth(2))
    await expectText([hostile('metric'), hostile('run')], panel('value'))
    await expectText([hostile('run'), hostile('parameter'), hostile('value')], panel('runs'))
    await expectText([hostile('metric')], panel('chart'))
    await expectText([hostile('artifact'), hostile('alias')], panel('artifact'))
    await expectText([hostile('stage')], panel('versions'))
    await expectText([hostile('model')], panel('model'))
    await expectText([hostile('model')], panel('drift'))
    await expectText([hostile('model'), hostile('feature')], panel('feature'))
    await expectText([hostile('model')], panel('labels'))
    await expectText(['This page does not know such a panel'])
    // Markdown is drawn, without what runs: its picture and its link have lost it.
    await panel('text').locator('p').first().waitFor()
    expect(await panel('text').locator('[onerror], a[href*="javascript"]').count()).toBe(0)
  })

  it('notifications and the search', async () => {
    await page.goto(project())
    await page.getByRole('button', { name: /^Notifications/ }).click()
    await expectText(
      [hostile('run'), hostile('error'), hostile('rule on runs')],
      page.getByRole('dialog', { name: 'Notifications' }),
    )
    await page.keyboard.press('Escape')
    await page.keyboard.press('Control+k')
    const search = page.getByRole('dialog', { name: 'Search' })
    await search.getByRole('combobox').fill('<img src')
    await expectText([hostile('run')], search)
  })
})
