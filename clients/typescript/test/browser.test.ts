import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import type { Page } from 'playwright-core'
import { beforeAll, describe, expect, it } from 'vitest'
import { createClosers } from '../../../runtime/closers.ts'
import { noBrowser } from '../../../test/kit/browser.ts'
import { eventually } from '../../../test/kit/eventually.ts'
import { openReverseProxy } from '../../../test/kit/http/reverse-proxy.ts'
import { openTestService, uniqueName } from '../../../test/kit/service.ts'
import { useBrowser } from '../../../test/web/kit/use-browser.ts'
import { home, openProject } from './project.ts'
import { expectCounts, expectEvent } from './stored.ts'

/** Or else the browser asks for one. */
const icon = '<!doctype html><link rel="icon" href="data:,">'

/** Pages in Chromium that log to the service from an origin of their own. */
describe.skipIf(noBrowser)('a page of another origin', () => {
  const closers = createClosers()
  const browser = useBrowser(() => closers.closeAll())
  let site: Awaited<ReturnType<typeof openSite>>
  let service: Awaited<ReturnType<typeof openTestService>>
  let closedService: Awaited<ReturnType<typeof openTestService>>
  beforeAll(async () => {
    site = await openSite()
    service = await openTestService({ settings: { SVC_CORS_ORIGINS: site.origin } })
    closers.push(service.close)
    closedService = await openTestService()
    closers.push(closedService.close)
  })

  /** Serves the package as it is built, and pages. */
  async function openSite() {
    const { installed } = await openProject((close) => closers.push(async () => void (await close())))
    const pages: Record<string, string> = {}
    const server = createServer(async (request, answer) => {
      if (request.url?.endsWith('.js')) {
        answer
          .setHeader('content-type', 'text/javascript')
          .end(await readFile(path.join(installed, 'dist', request.url)))
      } else answer.setHeader('content-type', 'text/html').end(pages[request.url ?? ''] ?? icon)
    })
    await once(server.listen(0, '127.0.0.1'), 'listening')
    closers.push(async () => void server.close())
    const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    return {
      origin,
      /** Shows a page with a script, which finds the package and the connection to the service. */
      async show(opener: Page, script: string, to: Service = service) {
        pages['/'] = toPage(script, to)
        pages['/next'] = toPage(nextScript, to)
        // Only a page that another one opened may close itself.
        await opener.goto(`${origin}/empty`)
        const opened = opener.waitForEvent('popup')
        await opener.evaluate(`void window.open('/')`)
        return await opened
      },
    }
  }
  const toPage = (script: string, { url, apiKey, workspaceName }: Service) => `${icon}
    <script type="importmap">{ "imports": { "@svc/client/browser": "/browser/index.js" } }</script>
    <script type="module">
    import { Experiment, MonitoringLogger } from '@svc/client/browser'
    const connection = ${JSON.stringify({ url, apiKey, workspaceName })}
    ${script}
    document.title = 'done'
  </script>`
  const nextScript = `window.told = new MonitoringLogger({ ...connection, modelName: 'next' }).loggingErrors()`

  type Service = { url: string; apiKey: string; workspaceName: string }

  function forget(text: string) {
    const { faults } = browser.get()
    faults.splice(0, faults.length, ...faults.filter((it) => !it.includes(text)))
  }

  async function withPage(use: (page: Page) => Promise<void>) {
    const context = await browser.get().openContext(site.origin)
    try {
      await use(await context.newPage())
    } finally {
      await context.close()
    }
  }

  const aKey = () =>
    uniqueName('page')
      .replaceAll(/[^a-z0-9]/g, '')
      .padEnd(32, '0')
  const toSteps = (points: { step: number | null }[]) =>
    points.map((it) => it.step).sort((a, b) => Number(a) - Number(b))
  const firstSteps = (count: number) => [...Array(count).keys()]

  it('logs 1,000 points and 100 events, which are stored once', async () => {
    const key = aKey()
    await withPage(async (opener) => {
      const page = await site.show(
        opener,
        `const experiment = Experiment.create({ ...connection, projectName: 'pages', experimentKey: '${key}' })
         const monitoring = new MonitoringLogger({ ...connection, modelName: '${key}' })
         for (let step = 0; step < 1_000; step++) {
           experiment.logMetric('loss', 1 / (step + 1), { step })
           if (step % 10 === 0) monitoring.logEvent({ predictionId: 'event ' + step, inputFeatures: { step } })
         }
         experiment.logParameters({ rate: 0.5 })
         experiment.logText('what the model said')
         experiment.logAsset(new File(['a,b'], 'table.csv'))
         await Promise.all([experiment.end(), monitoring.end()])
         window.told = [experiment.link, ...experiment.loggingErrors(), ...monitoring.loggingErrors()]`,
      )
      await page.waitForFunction(`document.title === 'done'`)
      expect(await page.evaluate('told')).toEqual([expect.stringMatching(new RegExp(`/pages/${key}$`))])
    })
    expect(toSteps(await service.client.readPoints(key, 'loss', 1_000))).toEqual(firstSteps(1_000))
    const model = { workspaceName: service.workspaceName, modelName: key }
    await expectCounts(service.client, model, { events: 100 })
    await expectEvent(service.client, { ...model, predictionId: 'event 990' }, { features: { step: ['integer', 990] } })
    const { body } = await service.client.get(`/experiment/asset/list?experimentKey=${key}&type=all`)
    expect((body.assets as { fileName: string }[]).map((it) => it.fileName).sort()).toEqual([
      'table.csv',
      'text-sample.txt',
    ])
  })

  it('runs the start of the README as it stands there', async () => {
    const readme = await readFile(path.join(home, 'README.md'), 'utf8')
    const [, , start] = [...readme.matchAll(/```js\n([\s\S]*?)```/g)].map((it) => it[1] as string)
    const { url, apiKey, workspaceName } = service
    const script = (start as string)
      .replace(/^import .*\n/, '')
      .replace('https://svc.example', url)
      .replace('KEY', apiKey)
      .replace('default', workspaceName)
    expect(script.split('\n').filter(Boolean).length).toBeLessThan(5)
    await withPage(async (opener) => {
      await site.show(opener, script)
      const event = { workspaceName, modelName: 'sorter', predictionId: 'parcel-17' }
      await expectEvent(service.client, event, { features: { length: ['integer', 12] } })
    })
  })

  it.each([
    ['is left for another', `location.href = 'about:blank'`, 0],
    ['is closed', `window.close()`, 0],
    // Browsers have six connections, which may all be taken by what waits for the experiment.
    ['is left for another, and whose experiment comes last,', `location.href = 'about:blank'`, 1_000],
  ])('that %s at once still delivers what it logged, once', async (_, closing, createDelayMs) => {
    const key = aKey()
    const proxy = await openReverseProxy({
      toTarget: () => service.url,
      toDelayMs: ({ url = '' }) => (url.endsWith('/create') ? createDelayMs : 0),
    })
    closers.push(proxy.close)
    await withPage(async (page) => {
      await site.show(
        page,
        `const experiment = Experiment.create({ ...connection, projectName: 'pages', experimentKey: '${key}' })
         const monitoring = new MonitoringLogger({ ...connection, modelName: '${key}' })
         for (let step = 0; step < 200; step++) {
           experiment.logMetric('loss', step, { step })
           if (step % 10 === 0) monitoring.logEvent({ predictionId: 'event ' + step, inputFeatures: { step } })
         }
         for (let at = 0; at < 30; at++) experiment.logParameter('parameter ' + at, at)
         ${closing}`,
        { ...service, url: proxy.url },
      )
      await expectCounts(service.client, { workspaceName: service.workspaceName, modelName: key }, { events: 20 })
      expect(toSteps(await service.client.readPoints(key, 'loss', 200))).toEqual(firstSteps(200))
      await eventually(async () => {
        const { body } = await service.client.get(`/experiment/parameters?experimentKey=${key}`)
        expect(body.values).toHaveLength(30)
      })
      await eventually(async () => {
        const { body } = await service.client.get(`/experiment/metadata?experimentKey=${key}`)
        expect(body).toMatchObject({ running: false })
      })
      // A browser that closes a page ends its calls first, which the page may still tell of.
      forget('the service cannot be reached')
    })
  })

  it('that closes with more than browsers take then says how much is lost', async () => {
    const key = aKey()
    const points = 20_000
    await withPage(async (opener) => {
      const page = await site.show(
        opener,
        `const experiment = Experiment.create({ ...connection, projectName: 'pages', experimentKey: '${key}' })
         for (let step = 0; step < ${points}; step++) experiment.logMetric('loss', step, { step })
         location.href = '/next'`,
      )
      await page.waitForFunction('window.told')
      const [told] = (await page.evaluate('told')) as { message: string; count: number }[]
      expect(told?.message).toBe('an earlier page closed before all was sent: the rest is lost')
      const lost = told?.count as number
      expect(lost).toBeGreaterThan(points / 2)
      const stored = toSteps(await service.client.readPoints(key, 'loss', points - lost))
      expect([stored.length, new Set(stored).size]).toEqual([points - lost, points - lost])
      browser.get().faults.splice(0)
    })
  })

  it('that is hidden and comes back sends nothing twice, and goes on', async () => {
    const key = aKey()
    await withPage(async (opener) => {
      const page = await site.show(
        opener,
        `const experiment = Experiment.create({ ...connection, projectName: 'pages', experimentKey: '${key}' })
         const monitoring = new MonitoringLogger({ ...connection, modelName: '${key}' })
         for (let step = 0; step < 200; step++) {
           if (step % 50 === 49) dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true }))
           experiment.logMetric('loss', step, { step })
           monitoring.logEvent({ predictionId: 'event ' + step })
           if (step % 10 === 0) await new Promise((then) => setTimeout(then, 1))
         }
         await Promise.all([experiment.end(), monitoring.end()])
         window.told = [...experiment.loggingErrors(), ...monitoring.loggingErrors()]`,
      )
      await page.waitForFunction(`document.title === 'done'`)
      expect(await page.evaluate('told')).toEqual([])
    })
    expect(toSteps(await service.client.readPoints(key, 'loss', 200))).toEqual(firstSteps(200))
    await expectCounts(service.client, { workspaceName: service.workspaceName, modelName: key }, { events: 200 })
  })

  it('tells which setting allows it, where none does', async () => {
    await withPage(async (opener) => {
      const lines: string[] = []
      opener.context().on('console', (message) => lines.push(message.text()))
      const page = await site.show(
        opener,
        `const experiment = Experiment.create(connection)
         experiment.logMetric('loss', 1)
         await experiment.end(1_000)`,
        closedService,
      )
      await page.waitForFunction(`document.title === 'done'`)
      const told = lines.filter((it) => it.startsWith('svc: '))
      expect(told).toEqual([
        `svc: the service cannot be reached at ${closedService.url}: Failed to fetch. If it runs, its setting ` +
          `SVC_CORS_ORIGINS does not allow this page: start it with SVC_CORS_ORIGINS=${site.origin}. Up to 64 MiB wait in ` +
          'memory and are sent once it answers.',
        expect.stringContaining('were not sent within'),
      ])
      browser.get().faults.splice(0)
    })
  })
})
