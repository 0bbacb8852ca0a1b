import type { Page } from 'playwright-core'
import { beforeAll, describe, expect, it } from 'vitest'
import { noBrowser } from '../kit/browser.ts'
import { openTestService, uniqueName } from '../kit/service.ts'
import { answered, useBrowser } from './kit/use-browser.ts'

describe.skipIf(noBrowser)(`links that clients of MLflow print (${noBrowser ?? 'in Chromium'})`, () => {
  let service: Awaited<ReturnType<typeof openTestService>>
  const browser = useBrowser(() => service?.close(), [answered(400)])
  let page: Page
  let experimentId: string
  let runId: string
  const name = uniqueName('digits')

  beforeAll(async () => {
    service = await openTestService()
    const call = async (path: string, body: object) => (await service.client.post(`/api/2.0/mlflow/${path}`, body)).body
    experimentId = (await call('experiments/create', { name })).experiment_id as string
    const { run } = await call('runs/create', { experiment_id: experimentId, run_name: 'first' })
    runId = (run as { info: { run_id: string } }).info.run_id
    page = await (await browser.get().openContext(service.url, service.apiKey)).newPage()
  })

  it.each([
    ['of a run', () => `/experiments/${experimentId}/runs/${runId}`, () => `/${name}/${runId}`],
    ['of an experiment', () => `/experiments/${experimentId}`, () => `/${name}`],
  ])('the link %s leads to our page of it', async (_of, link, path) => {
    await page.goto('about:blank')
    await page.goto(`${service.url}/#${link()}`)
    await page.waitForURL(`${service.url}/${service.workspaceName}${path()}`)
    await page.getByText('first').first().waitFor()
    expect(page.url()).not.toContain('#')
  })

  it('a link of what is not there leaves the list of projects', async () => {
    await page.goto('about:blank')
    await page.goto(`${service.url}/#/experiments/0a/runs/0b`)
    await page.getByRole('heading', { name: 'Projects' }).waitFor()
    expect(new URL(page.url()).pathname).toBe('/')
  })
})
