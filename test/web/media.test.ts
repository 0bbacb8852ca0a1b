import { buffer } from 'node:stream/consumers'
import type { Page } from 'playwright-core'
import { beforeAll, describe, expect, it } from 'vitest'
import { toPng } from '../../cli/demo/media/png.ts'
import { toSound } from '../../cli/demo/media/sound.ts'
import { openClickHouse } from '../../store/clickhouse/connection.ts'
import { noBrowser } from '../kit/browser.ts'
import { createAssetClient } from '../kit/clients/assets.ts'
import { eventually } from '../kit/eventually.ts'
import { openTestService, storesWith, uniqueName } from '../kit/service.ts'
import { expectAccessible } from './kit/accessible.ts'
import { useBrowser } from './kit/use-browser.ts'

/** Runs when anything that a run has logged is taken for markup of the page. */
const attack = '<img src=x onerror="document.title=\'taken\'">'
const name = `a/${attack.replaceAll('/', '')}`

describe.skipIf(noBrowser)(`media (${noBrowser ?? 'in Chromium'})`, () => {
  let service: Awaited<ReturnType<typeof openTestService>>
  const browser = useBrowser(() => service?.close())
  let page: Page
  let projectName: string
  let first: string
  let second: string
  let upload: (key: string, fileName: string, type: string, content: Buffer | string, more?: object) => Promise<string>

  const group = (of: string) => page.getByRole('region', { name: of, exact: true })
  const open = (key: string, search = '?tab=media') =>
    page.goto(`/${service.workspaceName}/${projectName}/${key}${search}`)
  const grey = (value: number) => toPng(16, new Uint8Array(256).fill(value))
  /** Tells by its title what its script could reach. */
  const spy = (says: string) => `<title>${says}</title><p>${says}</p><iframe src="/-/settings"></iframe><script>
    const tries = {
      cookie: () => document.cookie,
      storage: () => localStorage.length,
      session: () => sessionStorage.length,
      parent: () => parent.document.title,
      ...(top !== self && { top: () => { top.location.href = '/-/settings' } }),
    }
    const reached = Object.keys(tries).filter((it) => { try { tries[it](); return true } catch { return false } })
    const ask = (path) => fetch(path, { credentials: 'include' }).then(() => reached.push(path), () => undefined)
    const load = new Promise((done) => {
      const image = new Image()
      image.onload = image.onerror = (it) => { if (it.type === 'load') reached.push('image'); done() }
      image.src = '/api/rest/v2/experiment/asset/get-asset?experimentKey=' + new URLSearchParams(location.search).get('experimentKey')
    })
    Promise.all([ask('/api/rest/v2/workspaces'), ask('https://example.org/'), load]).then(() => {
      document.body.dataset.reached = reached.join()
      document.querySelector('p').textContent = 'ran; reached: ' + reached.join()
    })
  </script>`

  beforeAll(async () => {
    service = await openTestService()
    const assets = createAssetClient(service)
    upload = async (experimentKey, fileName, type, content, more = {}) => {
      const sent = { body: Buffer.from(content), headers: { 'content-type': 'application/octet-stream' } }
      const answer = await assets.upload({ experimentKey, fileName, type, ...more }, sent)
      expect(answer.status, answer.text).toBe(200)
      return answer.body.assetId as string
    }
    projectName = uniqueName('media')
    first = await service.client.createExperiment({ projectName, experimentName: 'first' })
    second = await service.client.createExperiment({ projectName, experimentName: attack })
    for (const [step, value] of [
      ['1', 0],
      ['5', 90],
      ['9', 255],
    ] as const) {
      await upload(first, 'sample.png', 'image', grey(value), { step, metadata: JSON.stringify({ caption: attack }) })
    }
    await upload(second, 'sample.png', 'image', grey(200), { step: '5' })
    const json = (it: unknown) => JSON.stringify(it)
    await upload(first, 'said.wav', 'audio', toSound([1, 2]), { step: '9' })
    await upload(first, 'text-0123456789abcdef.txt', 'text-sample', `${attack}\nand more`, { step: '9' })
    await upload(first, 'report.html', 'asset', spy('report'), { step: '9' })
    await service.client.post('/write/experiment/html', { experimentKey: first, html: spy('document') })
    await upload(first, 'rows.csv', 'dataframe', `name,"x,\ny"\n"${attack.replaceAll('"', '""')}",1\n`, { step: '9' })
    await upload(first, 'roc.json', 'curve', '{"name": "roc", "x": [0, 0.5, 1], "y": [0, NaN, 1]}', { step: '9' })
    const histogram = { version: 1, name: 'w', edges: [-1, 0, 1], counts: [3, 7], count: 10, nonFinite: 2 }
    await upload(first, 'w.json', 'histogram3d', json(histogram), { step: '9' })
    const matrix = {
      title: attack,
      labels: [attack, 'dog'],
      matrix: [
        [5, 1],
        [2, 8],
      ],
      rowLabel: 'Is',
      columnLabel: 'Said',
    }
    await upload(first, 'confusion.json', 'confusion-matrix', json(matrix), { step: '9' })
    const segments = [
      [
        [0, 0, 0],
        [1, 1, 1],
      ],
    ]
    const scene = {
      points: [
        [0, 0, 0],
        [1, 2, 3],
      ],
      boxes: [{ segments, color: [255, 0, 0], name: attack }],
    }
    await upload(first, 'scene.json', '3d-points', json(scene), { step: '9' })
    const at = async (fileName: string, content: string) => {
      const assetId = await upload(first, fileName, 'asset', content, { step: '9' })
      return `https://example.org/get-asset?${new URLSearchParams({ experimentKey: first, assetId })}`
    }
    const tensorPath = await at('e-vectors.tsv', '1\t0\t0\n0\t1\t0\n0\t0\t1\n1\t1\t0\n')
    const metadataPath = await at('e-labels.tsv', `${attack}\ndog\ndog\ncat\n`)
    const embedding = { embeddings: [{ tensorName: 'e', tensorShape: [4, 3], tensorPath, metadataPath }] }
    await upload(first, 'e.json', 'embeddings', json(embedding), { step: '9' })
    await upload(first, `${name}.png`, 'image', 'no image', { step: '9' })
    await upload(first, 'no.json', 'histogram3d', `{"edges": "${attack.replaceAll('"', '\\"')}"}`, { step: '9' })
    const context = await browser.get().openContext(service.url, service.apiKey)
    page = await context.newPage()
  })

  it('of every kind are drawn, and what is none is said to be', async () => {
    await open(first)
    await page.getByText('12 names').waitFor()
    // What is out of sight is read when it comes into view.
    const see = async (of: string, what: () => ReturnType<Page['locator']>) => {
      await group(of).scrollIntoViewIfNeeded()
      await what().first().waitFor()
    }
    await see('sample.png', () => group('sample.png').getByRole('img', { name: 'sample.png, step 9' }))
    await see('text', () => page.getByText('and more'))
    await see('said.wav', () => group('said.wav').getByLabel('said.wav, step 9'))
    await see('rows.csv', () => group('rows.csv').getByRole('cell', { name: '<img' }))
    await see('roc.json', () => group('roc.json').getByRole('img', { name: /3 points, y from 0 to 1/ }))
    await group('roc.json').getByText('1 points are not finite').waitFor()
    await see('w.json', () => group('w.json').getByRole('img', { name: /2 bins from −1 to 1, 7 in the highest/ }))
    await group('w.json').getByText('2 not finite').waitFor()
    await see('confusion.json', () => group('confusion.json').getByRole('columnheader', { name: 'dog' }))
    await group('confusion.json').getByText('16 counted, 81.25 % on the diagonal').waitFor()
    await see('scene.json', () => group('scene.json').getByRole('img', { name: /2 points and 1 box/ }))
    await see('e.json', () => group('e.json').getByRole('img', { name: /4 vectors of 3 numbers/ }))
    await group('e.json').getByText('dog (2)').waitFor()
    await see(`${name}.png`, () => group(`${name}.png`).getByText('The browser cannot show it'))
    await see('no.json', () => group('no.json').locator('pre').getByText('edges'))
    await expectAccessible(page)
    await page.emulateMedia({ colorScheme: 'dark' })
    await expectAccessible(page, ['color-contrast'])
    await page.emulateMedia({ colorScheme: null })
    expect(await page.locator('main img[src="x"], main script').count()).toBe(0)
    expect(await page.title()).not.toBe('taken')
    // The image that is none was asked for, and that is all that the browser has to report.
    browser.get().faults.length = 0
  })

  it('in HTML run in a frame that reaches nothing, nor do they in a tab of their own', async () => {
    await open(first)
    for (const [of, title] of [
      ['report.html', 'report.html, step 9'],
      ['HTML of the run', 'HTML of the run'],
    ] as const) {
      await group(of).scrollIntoViewIfNeeded()
      const frame = group(of).locator(`iframe[title="${title}"]`)
      expect(await frame.getAttribute('sandbox')).toBe('allow-scripts')
      await frame
        .contentFrame()
        .getByText(/^ran; reached: $/)
        .waitFor()
    }
    expect(new URL(page.url()).pathname).toContain(first)
    const { faults } = browser.get()
    const src = (await group('report.html').locator('iframe').getAttribute('src')) as string
    // Its parent is itself there.
    const tab = await page.context().newPage()
    await tab.goto(src)
    await tab.getByText(/^ran; reached: parent$/).waitFor()
    expect(await tab.evaluate('self.origin')).toBe('null')
    await tab.close()
    // All that they tried was refused loudly, and nothing else was.
    expect(faults.length).toBeGreaterThan(0)
    expect(
      faults.filter((it) => !/CSP|Content Security Policy|sandbox|Failed to load|net::ERR|CORS/i.test(it)),
    ).toEqual([])
    faults.length = 0
  })

  it('follow the slider over steps by keyboard, and the address keeps the step', async () => {
    await open(first, `?tab=media&media=${encodeURIComponent('{"find":"sample"}')}`)
    const item = (step: number) => group('sample.png').getByRole('img', { name: `sample.png, step ${step}` })
    await item(9).waitFor()
    await page.getByRole('slider', { name: 'Step' }).focus()
    await page.keyboard.press('Home')
    await item(1).waitFor()
    await eventually(() => expect(page.url()).toContain('step'))
    await page.keyboard.press('ArrowRight')
    await item(5).waitFor()
    await page.reload()
    await item(5).waitFor()
    await page.getByRole('button', { name: 'Show all 3' }).click()
    for (const step of [1, 5, 9]) await item(step).waitFor()
    await page.getByRole('button', { name: 'Back to all names' }).click()
    await page.getByLabel('Kind').selectOption('Tables')
    await page.getByRole('heading', { name: 'No media match' }).waitFor()
    await page.getByLabel('Search media').fill('')
    await group('rows.csv').waitFor()
    await page.getByText('1 name', { exact: true }).waitFor()
  })

  it('of runs stand side by side, from the page that compares them', async () => {
    await page.goto(`/${service.workspaceName}/${projectName}/-/compare?keys=${first},${second}`)
    await page.getByRole('link', { name: 'Media', exact: true }).click()
    await page.getByRole('heading', { name: 'Media of 2 runs' }).waitFor()
    await group('sample.png').getByRole('link', { name: 'first' }).waitFor()
    await group('sample.png').getByRole('link', { name: attack }).waitFor()
    expect(await group('sample.png').getByRole('img').count()).toBe(2)
    await group('sample.png').getByText('4 at 3 steps of 2 of 2 runs').waitFor()
    await expectAccessible(page)
    await page.goto(`/${service.workspaceName}/${projectName}/-/media`)
    await page.getByRole('heading', { name: 'No run is chosen' }).waitFor()
    const empty = await service.client.createExperiment({ projectName, experimentName: 'empty' })
    await open(empty)
    await page.getByRole('heading', { name: 'No media' }).waitFor()
    await expectAccessible(page)
    expect(await page.title()).not.toBe('taken')
    browser.get().faults.length = 0
  })

  it('in tables of a million rows are read by ranges', async () => {
    const lines = Array.from({ length: 1_000_000 }, (_, at) => `${at},"row ""${at}"",\n${at % 7}"`)
    await upload(second, 'long.csv', 'dataframe', `at,text\n${lines.join('\n')}\n`)
    const bytes: number[] = []
    page.on('response', (it) => {
      if (it.url().includes('/asset/'))
        void it.body().then(
          (body) => bytes.push(body.length),
          () => undefined,
        )
    })
    await open(second, `?tab=media&media=${encodeURIComponent('{"kind":"table"}')}`)
    const rows = page.getByRole('region', { name: 'Rows of long.csv' })
    await page.getByText('1,000,000 rows, 2 columns').waitFor()
    await rows.getByRole('cell', { name: 'row "0", 0' }).waitFor()
    await page.getByLabel('Go to row').fill('765432')
    await page.keyboard.press('Enter')
    await rows.getByRole('cell', { name: `row "765431", ${765_431 % 7}` }).waitFor()
    await rows.focus()
    await page.keyboard.press('End')
    await rows.getByRole('cell', { name: `row "999999", ${999_999 % 7}` }).waitFor()
    expect(await rows.getByRole('row').count()).toBeLessThan(60)
    // A block of rows is some ten kilobytes, and the file has forty megabytes.
    expect(bytes.reduce((a, b) => a + b, 0)).toBeLessThan(2_000_000)
    await expectAccessible(page)
  })

  it('in Parquet files are read as tables by ranges, of every compression, and a broken one says so', async () => {
    const key = await service.client.createExperiment({ projectName, experimentName: 'parquet' })
    const clickhouse = openClickHouse({ url: storesWith('postgres').clickhouseUrl })
    const toParquet = async (select: string, compression: string) => {
      const settings = `output_format_parquet_compression_method = '${compression}'`
      return await buffer(await clickhouse.stream(`${select} FORMAT Parquet SETTINGS ${settings}`))
    }
    const long = await toParquet(
      "SELECT number AS at, concat('row ', toString(cityHash64(number))) AS text FROM numbers(1000000)",
      'zstd',
    )
    const mixed = `SELECT {text:String} AS text, [1, 2] AS list, CAST(NULL AS Nullable(Int8)) AS none, toDate('2026-11-25') AS day, 18446744073709551615 AS big`
    const select = mixed.replace('{text:String}', `'${attack.replaceAll("'", "\\'")}'`)
    const kinds = ['none', 'snappy', 'lz4', 'brotli', 'zstd', 'gzip']
    for (const kind of kinds) await upload(key, `${kind}.parquet`, 'dataframe', await toParquet(select, kind))
    const hash = await clickhouse.rows<{ text: string }>("SELECT concat('row ', toString(cityHash64(765431))) AS text")
    await clickhouse.close()
    await upload(key, 'long.parquet', 'dataframe', long)
    await upload(key, 'cut.parquet', 'dataframe', long.subarray(0, 5000))
    await upload(key, 'nothing.parquet', 'dataframe', '')
    await open(key, `?tab=media&media=${encodeURIComponent('{"kind":"table"}')}`)
    for (const kind of kinds) {
      const row = page
        .getByRole('region', { name: `Rows of ${kind}.parquet` })
        .getByRole('row')
        .nth(1)
      await row.getByRole('cell', { name: '[1,2]' }).waitFor()
      expect(await row.getByRole('cell').allTextContents()).toEqual(
        expect.arrayContaining([attack, '18446744073709551615', expect.stringContaining('2026-11-25')]),
      )
    }
    for (const name of ['cut.parquet', 'nothing.parquet']) {
      await group(name).getByText('It cannot be read as a Parquet file').waitFor()
    }
    await expectAccessible(page)
    let bytes = 0
    page.on('response', (it) => {
      if (it.status() === 206) bytes += Number(it.headers()['content-length'])
    })
    await page.goto(`/${service.workspaceName}/${projectName}/${key}?tab=files`)
    await page.getByRole('link', { name: /^long\.parquet/ }).click()
    const rows = page.getByRole('region', { name: 'Rows of long.parquet' })
    await page.getByText('1,000,000 rows, 2 columns').waitFor()
    await page.getByLabel('Go to row').fill('765432')
    await page.keyboard.press('Enter')
    await rows.getByRole('cell', { name: hash[0]?.text as string }).waitFor()
    expect(bytes).toBeLessThan(long.length / 2)
    await expectAccessible(page)
    browser.get().faults.length = 0
  })
})
