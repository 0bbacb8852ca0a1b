import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { noBrowser } from '../kit/browser.ts'
import { anEvent } from '../kit/clients/monitoring.ts'
import { createRegistryClient, type Source } from '../kit/clients/registry.ts'
import { eventually } from '../kit/eventually.ts'
import { createCertificate, openReceiver } from '../kit/http/receiver.ts'
import { openOwnStores, openTestService, uniqueName } from '../kit/service.ts'
import { expectAccessible } from './kit/accessible.ts'
import { useBrowser } from './kit/use-browser.ts'

/** Runs when anything of a model is taken for markup. */
const attack = '<img src=x onerror="document.title=\'taken\'">'
const modelName = 'digits'

describe.skipIf(noBrowser)(`the registry (${noBrowser ?? 'in Chromium'})`, () => {
  let service: Awaited<ReturnType<typeof openTestService>>
  let receiver: Awaited<ReturnType<typeof openReceiver>>
  const browser = useBrowser(() => service?.close())
  afterAll(() => receiver?.close())
  let page: Page
  let source: Source
  let runPath: string
  let isReceiverUp = true

  const menu = async (of: string, item: string) => {
    await page.getByRole('button', { name: of, exact: true }).click()
    await page.getByRole('menuitem', { name: item }).click()
  }
  const dialog = () => page.getByRole('dialog')
  const read = async (path: string, query: Record<string, string>) =>
    (await service.client.get(`${path}?${new URLSearchParams({ workspaceName: service.workspaceName, ...query })}`))
      .body
  const expectStages = (version: string, stages: string[]) =>
    eventually(async () => {
      const { stages: found } = await read('/registry-model/item/details', { modelName, version })
      expect(found).toEqual(stages)
    })

  beforeAll(async () => {
    const certificate = await createCertificate()
    const stores = await openOwnStores('postgres')
    const intervals = { webhooksMs: 50, webhooksFinishMs: 500 }
    service = await openTestService({ stores, settings: certificate.settings, isAdmin: true, intervals })
    receiver = await openReceiver(certificate, () => ({ status: isReceiverUp ? 200 : 500 }))
    const registry = createRegistryClient(service)
    source = await registry.aSource({ 'model.bin': Buffer.from('weights'), 'labels.txt': Buffer.from('0 1 2') })
    const { body } = await service.client.get(`/experiment/metadata?experimentKey=${source.experimentKey}`)
    runPath = `/${service.workspaceName}/${body.projectName}/${source.experimentKey}`
    const context = await browser.get().openContext(service.url, service.apiKey)
    page = await context.newPage()
  })

  it('a run’s model is registered from its page, twice; the second is the next version', async () => {
    await page.goto(`/${service.workspaceName}/-/models`)
    await page.getByRole('heading', { name: 'No model is registered' }).waitFor()
    await expectAccessible(page)
    await page.goto(runPath)
    for (const [comment, stages] of [
      [attack, 'staging, production'],
      ['more epochs', ''],
    ] as const) {
      await menu('Actions', 'Register a model')
      await dialog().getByLabel('Registered model').fill(modelName)
      await dialog().getByLabel('Stages').fill(stages)
      await dialog().getByLabel('Comment').fill(comment)
      if (stages === '') await dialog().getByText('It is registered as').waitFor()
      await dialog()
        .getByRole('button', { name: stages === '' ? 'Add version 1.0.1' : 'Register model' })
        .click()
      await dialog().waitFor({ state: 'detached' })
    }
    await page.getByRole('button', { name: 'Show' }).last().click()
    await page.getByRole('heading', { name: 'digits 1.0.1' }).waitFor()
    await page
      .getByRole('link', { name: (await read('/experiment/metadata', source)).experimentName as string })
      .click()
    await page.waitForURL(`**${runPath}`)
  })

  it('a run without a model says how to log one', async () => {
    const experimentKey = await service.client.createExperiment({ projectName: uniqueName('empty') })
    const { projectName } = await read('/experiment/metadata', { experimentKey })
    await page.goto(`/${service.workspaceName}/${projectName}/${experimentKey}`)
    await menu('Actions', 'Register a model')
    await dialog().getByText('has logged no model').waitFor()
    await expectAccessible(page)
  })

  it('the list finds models by stage and leads to the one in production', async () => {
    const { workspaceName } = service
    await service.client.post('/mpm/v2/events/batch', { data: [anEvent({ workspaceName, modelName })] })
    await createRegistryClient(service).aModel({ registryModelName: 'churn', description: attack }, source)
    await page.goto(`/${workspaceName}/-/models?order=name`)
    await page.getByRole('link', { name: 'Monitored' }).waitFor()
    expect(await page.getByRole('row').allInnerTexts()).toEqual([
      expect.stringMatching(/^Model/),
      expect.stringMatching(/^churn/),
      expect.stringMatching(/digits.*1\.0\.1.*production.*1\.0\.0.*staging.*1\.0\.0/s),
    ])
    await expectAccessible(page)
    await page.getByLabel('Search models').fill('PRODUCT')
    await page.getByRole('link', { name: 'churn' }).waitFor({ state: 'detached' })
    expect(new URL(page.url()).searchParams.get('search')).toBe('PRODUCT')
    await page.getByRole('link', { name: 'digits' }).click()
    await page.getByRole('heading', { name: 'digits' }).waitFor()
  })

  it('stages are added, removed and brought back; the history says who', async () => {
    await page.goto(`/${service.workspaceName}/-/models/${modelName}`)
    await page.getByRole('button', { name: 'Add a stage to 1.0.1' }).click()
    await page.getByLabel('New stage').fill('canary')
    await page.keyboard.press('Enter')
    await expectStages('1.0.1', ['canary'])
    await page.getByRole('button', { name: 'Remove the stage canary' }).click()
    await expectStages('1.0.1', [])
    await page.getByRole('button', { name: 'Undo' }).click()
    await expectStages('1.0.1', ['canary'])
    const history = page.getByRole('list', { name: 'History' })
    await history.getByText('1.0.1 got the stage canary').first().waitFor()
    expect(await history.textContent()).toContain(service.userName)
    await page.getByRole('button', { name: 'Write notes' }).click()
    await page.getByLabel('Notes in Markdown').fill(`# Card\n\n${attack} for *mail*`)
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('heading', { name: 'Card' }).waitFor()
    await history.getByText('The notes were changed').waitFor()
    await expectAccessible(page)
  })

  it('a version has files to download, its run, and a status', async () => {
    await page.goto(`/${service.workspaceName}/-/models/${modelName}/1.0.0`)
    await page.getByRole('heading', { name: 'digits 1.0.0' }).waitFor()
    const toBytes = async (name: string) => {
      const href = await page.getByRole('link', { name }).getAttribute('href')
      return await (await page.request.get(href as string)).body()
    }
    expect((await toBytes('Download model.bin')).toString()).toBe('weights')
    expect((await toBytes('Download all')).subarray(0, 2).toString()).toBe('PK')
    await page.getByText(attack).first().waitFor()
    await page.getByRole('button', { name: 'Edit the comment' }).click()
    await page.getByLabel('Comment').fill('baseline')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('baseline').waitFor()
    const statuses = { workspaceName: service.workspaceName, allowedStatus: ['Approved'] }
    await service.client.post('/write/registry-model/allowed_status_values', statuses)
    await page.reload()
    await page.getByLabel('Status').selectOption('Approved')
    await page.getByText('to Approved').waitFor()
    await expectAccessible(page)
    expect(await page.title()).not.toBe('taken')
  })

  it('a webhook is added, tested and told; what failed is sent again; secrets have names only', async () => {
    await page.goto(`/${service.workspaceName}/-/webhooks`)
    await page.getByRole('button', { name: 'Add a secret' }).click()
    await dialog().getByLabel('Name').fill('deploy-token')
    await dialog().getByLabel('Value').fill('Bearer hidden-value')
    await dialog().getByRole('button', { name: 'Add secret' }).click()
    await page.getByRole('button', { name: 'Workspaces of deploy-token' }).click()
    await dialog().getByLabel('Every workspace, those to come too').uncheck()
    await dialog().getByLabel(service.workspaceName, { exact: true }).check()
    await expectAccessible(page)
    await dialog().getByRole('button', { name: 'Save' }).click()
    await page.getByRole('row', { name: `deploy-token ${service.workspaceName}` }).waitFor()
    const { organizationId } = (await page.request.get('/session').then((it) => it.json())) as {
      organizationId: string
    }
    const { secrets } = (await service.client.get(`/organization/${organizationId}/secrets`)).body
    expect(secrets).toMatchObject([{ secretName: 'deploy-token', workspaceNames: [service.workspaceName] }])
    await page.getByRole('button', { name: 'Workspaces of deploy-token' }).click()
    await dialog().getByLabel('Every workspace, those to come too').check()
    await dialog().getByRole('button', { name: 'Save' }).click()
    await page.getByRole('row', { name: 'deploy-token every workspace' }).waitFor()
    await page.getByRole('cell', { name: 'deploy-token', exact: true }).waitFor()
    await page.getByRole('button', { name: 'Add a webhook' }).click()
    await dialog().getByLabel('Address').fill(receiver.url)
    await dialog().getByLabel('Authorization from a secret').fill('deploy-token')
    await expectAccessible(page)
    await dialog().getByRole('button', { name: 'Add webhook' }).click()
    await page.getByText('Authorization: deploy-token').waitFor()
    expect(await page.content()).not.toContain('hidden-value')

    isReceiverUp = false
    await page.getByRole('button', { name: `Send a test to ${receiver.url}` }).click()
    const delivery = page.getByRole('table', { name: 'Deliveries' }).getByRole('row', { name: /WEBHOOK_TEST/ })
    await delivery.getByText(/^500/).waitFor()
    isReceiverUp = true
    await delivery.getByRole('button', { name: /again/ }).click()
    await delivery.getByText('delivered').waitFor()
    expect(receiver.received.at(-1)?.headers.authorization).toBe('Bearer hidden-value')

    await menu(`Actions for ${receiver.url}`, 'Edit')
    await dialog().getByLabel('version created').check()
    await dialog().getByRole('button', { name: 'Save' }).click()
    await page.getByText('version created').waitFor()
    await expectAccessible(page)

    await page.goto(`/${service.workspaceName}/-/models/${modelName}/1.0.0`)
    await page.getByRole('button', { name: 'Add a stage to 1.0.0' }).click()
    await page.getByLabel('New stage').fill('live')
    await page.keyboard.press('Enter')
    await page.getByRole('table', { name: 'Deliveries' }).getByText('MODEL_VERSION_STAGE_CHANGED').waitFor()

    await page.goto(`/${service.workspaceName}/-/webhooks`)
    await menu(`Actions for ${receiver.url}`, 'Delete')
    await dialog().getByRole('button', { name: 'Delete webhook' }).click()
    await page.getByRole('heading', { name: 'No webhook' }).waitFor()
    await page.getByRole('button', { name: 'Delete deploy-token' }).click()
    await dialog().getByRole('button', { name: 'Delete deploy-token' }).click()
    await page.getByRole('cell', { name: 'deploy-token', exact: true }).waitFor({ state: 'detached' })
  })

  it('a model is renamed, and deleted with a dialog that names it', async () => {
    await page.goto(`/${service.workspaceName}/-/models/${modelName}/1.0.1`)
    await menu('Actions', 'Delete 1.0.1')
    await dialog().getByRole('heading', { name: 'Delete digits 1.0.1?' }).waitFor()
    await dialog().getByRole('button', { name: 'Delete 1.0.1' }).click()
    await page.waitForURL(`**/-/models/${modelName}`)
    await menu('Actions', 'Rename or edit')
    await dialog().getByLabel('Name').fill('digits/2')
    await dialog().getByRole('button', { name: 'Save' }).click()
    await page.getByRole('heading', { name: 'digits/2', exact: true }).waitFor()
    expect(page.url()).toContain('/-/models/digits%2F2')
    await page.getByText('Renamed from digits to digits/2').waitFor()
    await menu('Actions', 'Delete')
    await dialog().getByRole('button', { name: 'Delete digits/2' }).click()
    await page.getByRole('link', { name: 'churn' }).waitFor()
    expect(await page.getByRole('link', { name: 'digits/2' }).count()).toBe(0)
  })
})
