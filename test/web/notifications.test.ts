import { beforeAll, describe, expect, it } from 'vitest'
import { noBrowser } from '../kit/browser.ts'
import { openTestService, uniqueName } from '../kit/service.ts'
import { expectAccessible } from './kit/accessible.ts'
import { useBrowser } from './kit/use-browser.ts'

const hostile = '<img src=x onerror=alert(1)>"\''

describe.skipIf(noBrowser)(`notifications (${noBrowser ?? 'in Chromium'})`, () => {
  let service: Awaited<ReturnType<typeof openTestService>>
  const browser = useBrowser(() => service?.close())
  beforeAll(async () => {
    service = await openTestService()
  })

  it('tell of runs that ended, once, by keyboard too, and lead to them', async () => {
    const { client } = service
    const projectName = uniqueName('told')
    const context = await browser.get().openContext(service.url, service.apiKey)
    const page = await context.newPage()
    await page.goto('/')
    await page.getByRole('button', { name: 'Notifications', exact: true }).click()
    await page.getByText('Nothing yet.').waitFor()
    await expectAccessible(page)
    await page.keyboard.press('Escape')

    const experimentKey = await client.createExperiment({ projectName, experimentName: hostile })
    const end = { experimentKey, isAlive: false, hasCrashed: true, error: `out of memory ${hostile}` }
    expect((await client.post('/write/experiment/update-status', end)).status).toBe(200)
    await page.reload()
    const bell = page.getByRole('button', { name: 'Notifications, 1 new' })
    await bell.focus()
    await page.keyboard.press('Enter')
    const panel = page.getByRole('dialog', { name: 'Notifications' })
    const told = panel.getByRole('link')
    expect(await told.textContent()).toContain(`${hostile} crashed`)
    expect(await told.textContent()).toContain('out of memory')
    await expectAccessible(page)
    await page.keyboard.press('Tab')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: hostile }).waitFor()
    expect(decodeURIComponent(new URL(page.url()).pathname)).toBe(
      `/${service.workspaceName}/${projectName}/${experimentKey}`,
    )
    expect(await panel.count()).toBe(0)

    // Seen once, it is no longer new, in any browser. The panel is opened before they have come.
    const isOpen = Promise.withResolvers<void>()
    await page.route('**/account/notifications', async (it) => {
      await isOpen.promise
      await it.continue()
    })
    await page.goto('/')
    await page.getByRole('button', { name: 'Notifications', exact: true }).click()
    await panel.waitFor()
    isOpen.resolve()
    await told.waitFor()
    expect(await told.textContent()).toContain('crashed')
    await context.close()
  })
})
