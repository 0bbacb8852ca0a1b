import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Locator, Page } from 'playwright-core'
import { beforeAll, describe, expect, it } from 'vitest'
import type { Axis, Series } from '../../web/api/series-answer.ts'
import { type Band, toGroupLines } from '../../web/charts/groups.ts'
import { toDashes, toRunColour } from '../../web/kit/run-colour.ts'
import { noBrowser } from '../kit/browser.ts'
import { eventually } from '../kit/eventually.ts'
import { inForm } from '../kit/form.ts'
import { openTestService, uniqueName } from '../kit/service.ts'
import { expectAccessible } from './kit/accessible.ts'
import { answered, useBrowser } from './kit/use-browser.ts'

const count = inForm({ short: 200_000, middle: 200_000, long: 10_000_000 })
const pointsAtOnce = 200_000
const spike = { step: Math.round(count * 0.61728), value: 1_000_000 }
const middle = count / 2
const waitMs = 60_000
const hostile = '<img src=x onerror=alert(1)>"\'\n'

/** Numbers that look random and are the same each time. */
function createRandom(seed: number) {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

type Point = { run: number; x: number; value: number | null }

/** What the service answers for the points of a run: buckets when there are more points than buckets. */
function toSeries(run: number, all: Point[], toBucket: (x: number) => number, isBucketed: boolean): Series {
  const buckets = [...Map.groupBy(all, (it) => toBucket(it.x)).values()]
  const finite = (some: Point[]) => some.flatMap((it) => (it.value === null ? [] : [it.value]))
  const orNull = (some: Point[], of: (values: number[]) => number) =>
    finite(some).length > 0 ? of(finite(some)) : null
  return {
    experimentKey: `run ${run}`,
    metricName: 'loss',
    context: null,
    bucketed: isBucketed,
    total: all.length,
    withoutX: 0,
    ...(isBucketed
      ? {
          x: buckets.map((it) => Math.min(...it.map(({ x }) => x))),
          xTo: buckets.map((it) => Math.max(...it.map(({ x }) => x))),
          min: buckets.map((it) => orNull(it, (values) => Math.min(...values))),
          max: buckets.map((it) => orNull(it, (values) => Math.max(...values))),
          mean: buckets.map((it) => orNull(it, toMean)),
          last: buckets.map((it) => it.at(-1)?.value ?? null),
          count: buckets.map((it) => it.length),
          nonFinite: buckets.map((it) => it.length - finite(it).length),
        }
      : { x: all.map((it) => it.x), last: all.map((it) => it.value) }),
  }
}

const toMean = (values: number[]) => values.reduce((sum, it) => sum + it, 0) / values.length

/** The relative luminance of a colour, as WCAG has it: of `oklch(...)`, beyond the screen's reach cut as browsers do, or `#rrggbb`. */
function toLuminance(colour: string): number {
  const [lightness, chroma, hue] = (colour.match(/[\d.]+/g) ?? []).map(Number) as [number, number, number]
  const [a, b] = [chroma * Math.cos((hue * Math.PI) / 180), chroma * Math.sin((hue * Math.PI) / 180)]
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3
  const [red, green, blue] = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ].map((it) => Math.min(1, Math.max(0, it))) as [number, number, number]
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue
}

const toLuminanceOfHex = (colour: string) =>
  [0.2126, 0.7152, 0.0722].reduce((sum, part, at) => {
    const value = Number.parseInt(colour.slice(1 + at * 2, 3 + at * 2), 16) / 255
    return sum + part * (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4)
  }, 0)

describe('the colours of runs', () => {
  const keys = Array.from({ length: 2_000 }, (_, at) => `run-${at}`)

  it('differ from the page by 3:1 or more in both themes', async () => {
    const css = await readFile(new URL('../../web/kit/base.css', import.meta.url), 'utf8')
    const pages = ['page', 'panel', 'raised'].map(
      (name) => new RegExp(`--${name}: light-dark\\((#\\w{6}), (#\\w{6})\\)`).exec(css) as unknown as string[],
    )
    for (const isDark of [false, true]) {
      expect(new Set(keys.map((it) => toRunColour(it, isDark))).size).toBe(144)
      for (const it of keys.map((key) => toRunColour(key, isDark))) {
        for (const page of pages) {
          const [least, most] = [toLuminance(it), toLuminanceOfHex(page[isDark ? 2 : 1] as string)].sort(
            (a, b) => a - b,
          )
          expect(((most as number) + 0.05) / ((least as number) + 0.05), `${it} on ${page[0]}`).toBeGreaterThanOrEqual(
            3,
          )
        }
      }
    }
  })

  it('are told apart by dashes where they are the same, whatever the order', () => {
    for (let from = 0; from < keys.length; from += 25) {
      const shown = keys.slice(from, from + 25)
      const dashOf = toDashes(shown)
      expect(toDashes(shown.toReversed())).toEqual(dashOf)
      const looks = shown.map((it) => `${toRunColour(it, from % 2 === 0)} ${dashOf.get(it)}`)
      expect(new Set(looks).size, `runs from ${from}`).toBe(shown.length)
    }
    expect([...toDashes(['only one']).values()]).toEqual([0])
  })
})

describe('the line of a group', () => {
  const points = 20
  const cases = Array.from({ length: 120 }, (_, seed) => seed)
  const axes: Axis[] = ['step', 'relative', { metricName: 'tokens' }]
  const kinds = axes.flatMap((axis) => (['deviation', 'extremes'] as Band[]).map((band) => ({ axis, band })))

  it.each(kinds)('is what a slow calculation finds, bucket by bucket: $axis, $band', ({ axis, band }) => {
    for (const seed of cases) {
      const random = createRandom(seed)
      const offset = seed % 3 === 0 ? 1e9 : 0
      const all = Array.from({ length: 1 + Math.floor(random() * 6) }, (_, run) => {
        const length = 1 + Math.floor(random() * (random() < 0.5 ? 60 : points))
        const step = 1 + Math.floor(random() * 4)
        const from = Math.floor(random() * 50) - 20
        return Array.from({ length }, (_, at): Point => {
          const x = axis === 'step' ? from + at * step : (from + at * step) / 1_000 + Math.floor(random() * 2) / 1_000
          return { run, x, value: random() < 0.1 ? null : offset + random() }
        }).sort((a, b) => a.x - b.x)
      })
      const xs = all.flat().map((it) => it.x)
      const [from, to] = [Math.min(...xs), Math.max(...xs)]
      const isLong = all.some((it) => it.length > points)
      const buckets = isLong ? points : Math.max(...all.map((it) => it.length))
      const unit = axis === 'relative' ? 1_000 : 1
      const whole = (x: number) => Math.round(x * unit)
      const toBucket = (x: number) =>
        typeof axis === 'string'
          ? Math.floor((whole(x) - whole(from)) / (Math.floor((whole(to) - whole(from)) / buckets) + 1))
          : Math.min(buckets - 1, Math.floor((x - from) / Math.max((to - from) / buckets, Number.MIN_VALUE)))
      const place = axis === 'step' && !isLong ? (x: number) => x : toBucket

      const series = all.map((it, run) => toSeries(run, it, toBucket, it.length > points))
      const runs = all.map((_, run) => ({
        experimentKey: `run ${run}`,
        name: `${run}`,
        group: { key: 'a', name: 'the group' },
      }))
      const [line, ...others] = toGroupLines({ from, to, series }, runs, { axis, points, band, smoothing: 0 })
      expect(others).toEqual([])

      const expected = [...Map.groupBy(all.flat(), (it) => place(it.x))].sort(([a], [b]) => a - b)
      expect(line?.x).toEqual(expected.map(([, it]) => Math.min(...it.map(({ x }) => x))))
      expect(line?.xTo).toEqual(expected.map(([, it]) => Math.max(...it.map(({ x }) => x))))
      expect(line?.count).toEqual(expected.map(([, it]) => it.length))
      for (const [at, [, members]] of expected.entries()) {
        const finite = members.filter((it): it is Point & { value: number } => it.value !== null)
        const means = [...Map.groupBy(finite, (it) => it.run).values()].map((it) =>
          toMean(it.map(({ value }) => value)),
        )
        expect(line?.runs?.[at], `seed ${seed}`).toBe(means.length)
        expect(line?.nonFinite[at]).toBe(members.length - finite.length)
        if (means.length === 0) {
          expect([line?.y[at], line?.min[at], line?.max[at]]).toEqual([null, null, null])
          continue
        }
        const mean = toMean(means)
        const squares = means.reduce((sum, it) => sum + (it - mean) ** 2, 0)
        const deviation = means.length > 1 ? Math.sqrt(squares / (means.length - 1)) : 0
        const values = finite.map((it) => it.value)
        const edges =
          band === 'deviation' ? [mean - deviation, mean + deviation] : [Math.min(...values), Math.max(...values)]
        const digits = offset > 0 ? 5 : 9
        expect(line?.y[at], `seed ${seed}`).toBeCloseTo(mean, digits)
        expect(line?.min[at], `seed ${seed}`).toBeCloseTo(edges[0] as number, digits)
        expect(line?.max[at], `seed ${seed}`).toBeCloseTo(edges[1] as number, digits)
      }
    }
  })

  it('keeps groups apart in the order of the runs, and takes no run that is not shown', () => {
    const series = [1, 2, 3].map((run) => toSeries(run, [{ run, x: 1, value: run }], (x) => x, false))
    const toRun = (run: number, name: string) => ({ experimentKey: `run ${run}`, name: '', group: { key: name, name } })
    const options = { axis: 'step', points, band: 'deviation', smoothing: 0 } as const
    const lines = toGroupLines({ from: 1, to: 1, series }, [toRun(3, 'b'), toRun(1, 'a')], options)
    expect(lines.map((it) => [it.name, it.y, it.runs])).toEqual([
      ['b', [3], [1]],
      ['a', [1], [1]],
    ])
  })
})

describe.skipIf(noBrowser)(`charts (${noBrowser ?? 'in Chromium'})`, () => {
  let service: Awaited<ReturnType<typeof openTestService>>
  const browser = useBrowser(() => service?.close(), [answered(400, 401)])
  let page: Page
  let path: string
  const keys: string[] = []
  beforeAll(async () => {
    service = await openTestService({ settings: { SVC_POINTS_PER_MINUTE: '100000000' } })
    const projectName = uniqueName('charts')
    path = `/${service.workspaceName}/${projectName}`
    for (const experimentName of ['first', 'second']) {
      keys.push(await service.client.createExperiment({ projectName, experimentName }))
    }
    for (let from = 0; from < count; from += pointsAtOnce) {
      const steps = Array.from({ length: pointsAtOnce }, (_, at) => from + at)
      const values = steps.map((step) => (step === spike.step ? spike.value : Math.sin(step / 1e4)))
      await log(0, { metricName: 'loss', steps, values })
    }
    await log(1, { metricName: 'loss', steps: [0, middle, count - 1], values: [1, 2, 3] })
    await log(1, { metricName: 'opt/norm', steps: [1, 2, 3, 4], values: [1, 'NaN', -2, 4] })
    await log(1, { metricName: hostile, steps: [1], values: [1] })
    const context = await browser.get().openContext(service.url, service.apiKey, { acceptDownloads: true })
    page = await context.newPage()
  })

  async function log(run: number, series: { metricName: string; steps: number[]; values: (number | string)[] }) {
    const answer = await service.client.post('/write/experiment/metrics/batch', {
      experimentKey: keys[run],
      series: [series],
    })
    expect(answer.status, answer.text).toBe(200)
    await eventually(async () => {
      const summary = await service.client.get(`/experiment/metrics/summary?experimentKey=${keys[run]}`)
      expect(summary.text).toContain(JSON.stringify(series.metricName).slice(1, -1))
    })
  }

  const chart = (name: string): Locator => page.getByRole('region', { name, exact: true })
  const open = (charts: object = {}) => page.goto(`${path}?charts=${encodeURIComponent(JSON.stringify(charts))}`)
  const state = () => JSON.parse(new URL(page.url()).searchParams.get('charts') ?? '{}')

  /** Where a step stands in the window, on a chart that shows a range of steps. */
  async function place(name: string, step: number, [from, to]: [number, number]) {
    const area = chart(name).locator('.u-over')
    await area.waitFor()
    const box = (await area.boundingBox()) as { x: number; y: number; width: number; height: number }
    return { x: box.x + ((step - from) / (to - from)) * box.width, y: box.y + box.height / 2 }
  }

  /** What the tooltip says at a step. */
  async function read(name: string, step: number, range: [number, number]): Promise<string> {
    const { x, y } = await place(name, step, range)
    await page.mouse.move(x - 2, y)
    await page.mouse.move(x, y)
    // biome-ignore lint/performance/useDomNodeTextContent: white space between values matters
    return page.locator('[data-tooltip]').innerText({ timeout: 2_000 })
  }

  it('show a spike of one point among all, and zoom in on that point', async () => {
    await open()
    const whole: [number, number] = [0, count - 1]
    await eventually(async () => {
      const told = await read('loss', spike.step, whole)
      expect(told).toMatch(/\d,\d{3} points/)
      expect(told).toContain('… 1,000,000')
    }, waitMs)
    // The second run has a point of its own there, and not one of a bucket.
    expect(await read('loss', middle, whole)).toMatch(/second\s+2\b/)

    const [from, to] = [
      await place('loss', spike.step - count / 100, whole),
      await place('loss', spike.step + count / 100, whole),
    ]
    await page.mouse.move(from.x, from.y)
    await page.mouse.down()
    await page.mouse.move(to.x, to.y, { steps: 4 })
    await page.mouse.up()
    await eventually(() => expect(state().zoom).toHaveLength(2))
    const [low, high] = state().zoom as [number, number]
    expect(low).toBeLessThan(spike.step)
    expect(high).toBeGreaterThan(spike.step)
    expect(high - low).toBeLessThan(count / 25)
    // The mouse rests, and has another step under it.
    const rests = low + ((spike.step + count / 100) / whole[1]) * (high - low)
    await eventually(async () => {
      // biome-ignore lint/performance/useDomNodeTextContent: white space between values matters
      const told = await page.locator('[data-tooltip]').innerText({ timeout: 2_000 })
      const step = Number(/^step ([\d,]+)/.exec(told)?.[1]?.replaceAll(',', ''))
      expect(Math.abs(step - rests)).toBeLessThan((high - low) / 20)
    }, waitMs)

    const near: [number, number] = [spike.step - 100, spike.step + 100]
    await open({ zoom: near })
    await eventually(async () => {
      const told = await read('loss', spike.step, near)
      expect(told).toContain(`step ${spike.step.toLocaleString('en')}`)
      expect(told).toMatch(/first\s+1,000,000/)
      expect(told).not.toContain('points')
    }, waitMs)
    await page.getByRole('button', { name: 'Zoomed: show all' }).click()
    await eventually(() => expect(state().zoom).toBeUndefined())
  })

  it('draw what comes in, and keep the zoom', async () => {
    const end = count * 1.5
    const zoom: [number, number] = [0, end]
    await open({ zoom })
    await eventually(async () => expect(await read('loss', count, zoom)).toContain('first'), waitMs)
    await log(1, { metricName: 'loss', steps: [end], values: [42] })
    await eventually(async () => expect(await read('loss', end * 0.997, zoom)).toMatch(/second\s+42\b/), waitMs)
    expect(state().zoom).toEqual(zoom)
  })

  it('tell what they cannot draw, and take the names of metrics as text', async () => {
    await open({ logY: true, search: 'norm|img' })
    await chart('opt/norm').getByText('1 value not finite (×) · 1 not above 0').waitFor()
    expect(await chart('loss').count()).toBe(0)
    await page.getByRole('heading', { name: '<img src=x onerror=alert(1)>' }).waitFor()
    await page.getByLabel('Find charts by name').fill('opt/(')
    await page.getByText('Nothing is called like opt/(').waitFor()
  })

  it('fill the window by a link, and are taken out as numbers', async () => {
    await open({ full: 'opt/norm' })
    const dialog = page.getByRole('dialog', { name: 'opt/norm' })
    await dialog.locator('canvas').waitFor()
    await dialog.getByRole('button', { name: 'More about opt/norm' }).click()
    const [file] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('menuitem', { name: 'Export as CSV' }).click(),
    ])
    const lines = (await readFile(await file.path(), 'utf8')).split('\r\n')
    expect(lines[0]).toBe('run,experimentKey,metric,step,step_to,mean,min,max,count,not_finite')
    expect(lines.slice(1)).toEqual([
      `second,${keys[1]},opt/norm,1,1,1,1,1,1,0`,
      `second,${keys[1]},opt/norm,2,2,,,,1,1`,
      `second,${keys[1]},opt/norm,3,3,-2,-2,-2,1,0`,
      `second,${keys[1]},opt/norm,4,4,4,4,4,1,0`,
    ])
    await page.getByRole('menu').waitFor({ state: 'detached' })
    await page.keyboard.press('Escape')
    await dialog.waitFor({ state: 'detached' })
    expect(state().full).toBeUndefined()
  })

  it('hear of new points by one stream for all tabs; when its tab is closed, the next one holds it', async () => {
    const context = await browser.get().openContext(service.url, service.apiKey)
    const holders: Page[] = []
    const openTab = async () => {
      const tab = await context.newPage()
      tab.on('request', (it) => it.url().endsWith('/experiments/stream') && holders.push(tab))
      await tab.goto(path)
      await tab.getByRole('region', { name: 'opt/norm', exact: true }).locator('canvas').waitFor()
      return tab
    }
    const drawn = (tab: Page, step: number) =>
      tab.waitForResponse(
        async (it) => it.url().endsWith('/experiments/series') && (await it.text()).includes(`,${step}]`),
        { timeout: waitMs },
      )
    const first = await openTab()
    await eventually(() => expect(holders).toEqual([first]), waitMs)
    const second = await openTab()
    const both = Promise.all([drawn(first, 500), drawn(second, 500)])
    await log(1, { metricName: 'opt/norm', steps: [500], values: [5] })
    await both
    expect(new Set(holders)).toEqual(new Set([first]))

    await first.close()
    await eventually(() => expect(holders.at(-1)).toBe(second), waitMs)
    const last = drawn(second, 600)
    await log(1, { metricName: 'opt/norm', steps: [600], values: [5] })
    await last
    await context.close()
  })
  it('draw each group of the table as its mean with a band, without the runs that are hidden', async () => {
    const projectName = uniqueName('groups')
    const create = async (seed: number, optimizer: string, values: number[]) => {
      const experimentName = `${optimizer} ${seed}`
      const experimentKey = await service.client.createExperiment({ projectName, experimentName })
      const fields = { experimentKey, parameterName: 'optimizer', parameterValue: optimizer }
      expect((await service.client.post('/write/experiment/parameter', fields)).status).toBe(200)
      const series = [{ metricName: 'loss', steps: values.map((_, step) => step), values }]
      await service.client.post('/write/experiment/metrics/batch', { experimentKey, series })
      return experimentKey
    }
    const long = await create(1, 'adam', [1, 1, 1, 1, 1])
    await create(2, 'adam', [3, 3, 3])
    await create(1, 'sgd', [7, 7, 7, 7, 7])
    const range: [number, number] = [0, 4]
    const openGroups = (search: object) => {
      const all = { group: ['p:optimizer'], ...search }
      const texts = Object.entries(all).map(([name, it]) => [name, JSON.stringify(it)] as [string, string])
      return page.goto(`/${service.workspaceName}/${projectName}?${new URLSearchParams(texts)}`)
    }
    await openGroups({})
    await eventually(async () => {
      const told = await read('loss', 1, range)
      expect(told).toMatch(/adam\s+2\s+0\.58579 … 3\.4142\s+2 runs/)
      expect(told).toMatch(/sgd\s+7\s+7 … 7\s+1 run\b/)
    }, waitMs)
    // The shorter run has ended, so the mean is that of the other one alone.
    expect(await read('loss', 3, range)).toMatch(/adam\s+1\s+1 … 1\s+1 run\b/)

    await page.getByLabel('Lines of groups').selectOption('extremes')
    await eventually(async () => expect(await read('loss', 1, range)).toMatch(/adam\s+2\s+1 … 3\s+2 runs/))
    expect(state()).toEqual({ groups: 'extremes' })

    await openGroups({ off: [long], charts: { groups: 'extremes' } })
    await eventually(async () => expect(await read('loss', 1, range)).toMatch(/adam\s+3\s+3 … 3\s+1 run\b/), waitMs)
    expect(await read('loss', 3, range)).toMatch(/sgd\s+7/)
    await page.getByLabel('Lines of groups').selectOption('runs')
    await eventually(async () => expect(await read('loss', 1, range)).toMatch(/sgd 1\s+7\nadam 2\s+3$/))
  })
  it('stand alone in the frame of another site by what their menu copies, with the runs and looks they had', async () => {
    const { workspaceName, client, url } = service
    const projectName = path.split('/')[2] as string
    const { projectId } = (await client.get(`/project?${new URLSearchParams({ workspaceName, projectName })}`)).body
    const { shareCode } = (await client.get(`/write/project/add-share-link?projectId=${projectId}`)).body
    const copy = async (on: Page, item: string) => {
      await on.getByRole('button', { name: 'More about opt/norm' }).click()
      await on.getByRole('menuitem', { name: item }).click()
      await on.getByText(/^Copied the/).waitFor()
      return (await on.evaluate('navigator.clipboard.readText()')) as string
    }
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write'], { origin: url })
    await open({ logY: true, size: 'small' })
    const link = new URL(await copy(page, 'Copy link'))
    expect(link.pathname).toBe(`${path}/-/chart`)
    expect(Object.fromEntries(link.searchParams)).toEqual({ metric: 'opt/norm', charts: '{"logY":true}' })
    await page.goto(`${path}/${keys[1]}?tab=charts`)
    expect(new URL(await copy(page, 'Copy link')).searchParams.get('runs')).toBe(JSON.stringify([keys[1]]))

    const reader = await browser.get().openContext(url)
    await reader.grantPermissions(['clipboard-read', 'clipboard-write'], { origin: url })
    const shared = await reader.newPage()
    await shared.goto(`${path}?shareCode=${shareCode}&charts=${encodeURIComponent('{"logY":true}')}`)
    const markup = await copy(shared, 'Copy frame')
    expect(markup).toContain(`src="${url}/-/embed${path}/-/chart?`)
    const notebook = createServer((_request, answer) => answer.setHeader('content-type', 'text/html').end(markup))
    await once(notebook.listen(0, '127.0.0.1'), 'listening')
    await shared.goto(`http://127.0.0.1:${(notebook.address() as AddressInfo).port}/`)
    const frame = shared.frameLocator('iframe')
    await frame.getByRole('img', { name: 'opt/norm, 1 run' }).waitFor()
    await frame.getByText('1 not above 0').waitFor()
    expect(await frame.getByRole('region').count()).toBe(1)
    expect(await frame.getByRole('grid').count()).toBe(0)
    await reader.close()
    notebook.close()

    // A run that is deleted takes no other out of a report.
    await page.goto(`${path}/-/chart?metric=opt/norm&runs=${JSON.stringify([keys[1], 'deleted'])}`)
    await page.getByRole('img', { name: 'opt/norm, 1 run' }).waitFor()
    await page.getByText('Without deleted: ').waitFor()
    await expectAccessible(page)
  })

  it('draw a metric on the axis that its run defines, by itself, until somebody chooses one for all', async () => {
    await log(1, { metricName: 'passes', steps: [10, 20, 30], values: [0, 0.5, 1] })
    await log(1, { metricName: 'valid/loss', steps: [10, 20, 30], values: [3, 2, 1] })
    const other = { experimentKey: keys[1], key: 'x axis of valid/*', value: 'passes' }
    expect((await service.client.post('/write/experiment/log-other', other)).status).toBe(200)
    const search = 'valid|passes'
    await page.goto(`${path}/${keys[1]}?tab=charts&charts=${encodeURIComponent(JSON.stringify({ search }))}`)
    await eventually(async () => expect(await read('valid/loss', 0.5, [0, 1])).toMatch(/^0\.5\b.*second\s+2$/s), waitMs)
    expect(await read('passes', 20, [10, 30])).toMatch(/^step 20\b/)

    const [from, to] = [await place('valid/loss', 0.4, [0, 1]), await place('valid/loss', 0.6, [0, 1])]
    await page.mouse.move(from.x, from.y)
    await page.mouse.down()
    await page.mouse.move(to.x, to.y, { steps: 4 })
    await page.mouse.up()
    await eventually(async () => expect(await read('valid/loss', 0.5, [0.4, 0.6])).toMatch(/second\s+2$/))
    expect(state()).toEqual({ search })

    await page.getByLabel('X axis').selectOption({ label: 'Step' })
    await eventually(() => expect(state()).toEqual({ search, x: 'step' }))
    await eventually(async () => expect(await read('valid/loss', 20, [10, 30])).toMatch(/^step 20\b/))
    await page.getByLabel('X axis').selectOption({ label: 'As the run defines' })
    await eventually(() => expect(state()).toEqual({ search }))
  })

  it('draw the load of the machine by its parts, over time, with bytes as bytes', async () => {
    const timestamp = Date.now()
    for (const at of [0, 1]) {
      const gpu = { gpuId: 0, freeMemory: 4e9, usedMemory: 6e9, totalMemory: 1e10, gpuUtilization: 50 }
      for (const [kind, fields] of [
        ['gpu', { gpus: [gpu] }],
        ['cpu', { cpuPercentUtilization: [at] }],
      ] as const) {
        const sent = { experimentKey: keys[1], timestamp: timestamp + at * 10_000, ...fields }
        expect((await service.client.post(`/write/experiment/${kind}-metrics`, sent)).status).toBe(200)
      }
    }
    await eventually(async () => {
      await page.goto(`${path}/${keys[1]}?tab=system`)
      await page.getByRole('region', { name: 'GPU 0' }).getByRole('region').nth(1).waitFor({ timeout: 2_000 })
    }, waitMs)
    expect(await page.getByRole('region', { name: 'Processors' }).getByRole('region').count()).toBe(1)
    await eventually(
      async () => expect(await read('sys.gpu.0.used_memory', 0.02, [0, 1])).toMatch(/second\s+6 GB/),
      waitMs,
    )
    await page.getByLabel('X axis').selectOption('step')
    await eventually(() => {
      expect(new URL(page.url()).searchParams.get('system')).toBe('{"x":"step"}')
    })
  })
})
