import type { Page } from 'playwright-core'
import { type ClickHouse, openClickHouse } from '../../store/clickhouse/connection.ts'
import { summarizeStored } from '../../store/clickhouse/points/store-blocks.ts'
import { openDatabase } from '../../store/postgres/database.ts'
import type { TestBrowser } from '../../test/kit/browser.ts'
import type { BenchStores } from '../contenders/stores.ts'
import type { System } from '../contenders/system.ts'
import { forEachRun, metricName, paramsOf, runName, type Size, seriesOf } from './data.ts'
import { type LivePage, watchLivePage } from './live-hour.ts'
import { clockOf, measureLoad, measureSince } from './measure.ts'
import { postJson } from './post-json.ts'
import { type TrackerPages, viewport } from './tracker-pages.ts'

const workspace = 'default'
const long = { metric: 'loss', pointsPerInsert: 1_000_000 }

/** Rows in sight, the head included. */
const rows = "document.querySelectorAll('[role=grid] [role=row]').length"

type Service = { system: System; stores: BenchStores; browser: TestBrowser }

/** The pages of the service, and what only they are asked. */
export type OurPages = TrackerPages & {
  /** From the last letter typed into the search until one of the runs of a project is left. */
  measureFilter(project: string): Promise<number>
  /** From the first address to a chart of series of millions of points, and from a drag until the part is drawn anew. */
  measureZoom(project: string, parts: number[]): Promise<{ whole: number; parts: number[] }>
  /** From the answer to a write until the page shows its value. */
  measureLive(): Promise<number>
  /** Charts of 100 runs, open while as many points come as in an hour with ten points a second of each. */
  watchHour(seconds: number): Promise<LivePage>
  writeLong(project: string, size: { runs: number; points: number }): Promise<void>
}

export async function openOurPages({ system, stores, browser }: Service): Promise<OurPages> {
  // What the bench asks of the page is text that the page's own policy would not run.
  const context = await browser.openContext(system.readUrl, stores.apiKey, {
    viewport,
    bypassCSP: true,
  })
  const page = await context.newPage()
  const post = async (url: string, body: object) =>
    (await postJson(url, body, { authorization: stores.apiKey })) as Record<string, unknown>
  const at = (project: string, search: Record<string, unknown> = {}) => {
    const query = Object.entries(search).map(([name, value]): [string, string] => [name, JSON.stringify(value)])
    return `${system.readUrl}/${workspace}/${project}?${new URLSearchParams(query)}`
  }
  const createRun = async (projectName: string, experimentName: string) => {
    const fields = { workspaceName: workspace, projectName, experimentName }
    const { experimentKey } = await post(`${system.readUrl}/api/rest/v2/write/experiment/create`, fields)
    return experimentKey as string
  }
  const write = async (project: string, size: Size) => {
    await forEachRun(size.runs, async (run) => {
      const experimentKey = await createRun(project, runName(run))
      await post(`${system.writeUrl}/api/rest/v2/write/experiment/metrics/batch`, {
        experimentKey,
        series: seriesOf(run, size),
      })
      for (const [parameterName, parameterValue] of Object.entries(paramsOf(run))) {
        await post(`${system.readUrl}/api/rest/v2/write/experiment/parameter`, {
          experimentKey,
          parameterName,
          parameterValue,
        })
      }
    })
    await untilReadable(project, { runs: size.runs, metric: metricName(size.metrics - 1) })
  }

  /** Until the last metric of every run is a column with a value. */
  async function untilReadable(projectName: string, size: { runs: number; metric: string }) {
    const url = `${system.readUrl}/api/rest/v2/project/runs`
    const column = { source: 'metric', name: size.metric }
    for (;;) {
      const asked = {
        workspaceName: workspace,
        projectName,
        columns: [column],
        sort: [{ column, order: 'asc' }],
        size: 1_000,
      }
      const { runs } = (await post(url, asked)) as { runs: { values: unknown[] }[] }
      if (runs.length === size.runs && runs.every((it) => it.values[0] !== null)) return
      await new Promise((done) => setTimeout(done, 500))
    }
  }

  return {
    name: 'svc',
    version: 'this checkout',
    write,
    leave: () => page.goto('about:blank'),
    measureRows: (project) => measureLoad(page, at(project), `${rows} > 10`),
    // All runs on all charts; the table is folded away.
    measureCharts: (project, { runs, metrics }) =>
      measureLoad(page, at(project, { top: runs, split: 0, charts: { size: 'small' } }), toReady(runs, metrics)),
    async measureFilter(project) {
      await measureLoad(page, at(project), `${rows} > 10`)
      await page
        .getByPlaceholder(/search|find/i)
        .first()
        .click()
      await page.keyboard.type(runName(123).slice(0, -1), { delay: 60 })
      await page.keyboard.press(runName(123).slice(-1))
      const startedAt = await clockOf(page)
      return await measureSince(page, startedAt, `${rows} === 2`)
    },
    async measureZoom(project, parts) {
      const runs = 10
      const address = at(project, { top: runs, split: 0, charts: { size: 'large' } })
      const whole = await measureLoad(page, address, toReady(runs, 1))
      const took: number[] = []
      for (const part of parts) {
        await measureLoad(page, address, toReady(runs, 1))
        took.push(await drag(page, part))
      }
      return { whole, parts: took }
    },
    async measureLive() {
      const experimentKey = await createRun('live', 'a live run')
      const value = 1 + Math.random()
      const log = (metricValue: number, step: number) =>
        post(`${system.writeUrl}/api/rest/v2/write/experiment/metric`, {
          experimentKey,
          metricName: 'loss',
          metricValue,
          step,
        })
      await log(0.5, 0)
      const shows = (text: string) =>
        `document.querySelector('[role=grid]')?.textContent.includes(${JSON.stringify(text)})`
      await page.goto(at('live', { columns: ['m:loss'] }))
      await page.waitForFunction(shows('0.5'), undefined, { polling: 'raf', timeout: 60_000 })
      await page.waitForTimeout(1_500)
      await log(value, 1)
      return await measureSince(page, await clockOf(page), shows(String(value).slice(0, 5)))
    },
    async watchHour(seconds) {
      const runs = 100
      const keys = await Promise.all(Array.from({ length: runs }, (_, run) => createRun('hour', runName(run))))
      return await watchLivePage(page, {
        seconds,
        runs,
        pointsPerSecond: 10,
        log: (run, series) =>
          post(`${system.writeUrl}/api/rest/v2/write/experiment/metrics/batch`, { experimentKey: keys[run], series }),
        open: async () => {
          const address = at('hour', { top: runs, split: 0, charts: { size: 'small' } })
          await measureLoad(page, address, toReady(runs, 4))
        },
      })
    },
    async writeLong(project, { runs, points }) {
      const keys = await Promise.all(Array.from({ length: runs }, (_, run) => createRun(project, runName(run))))
      // One point by the usual way for each, so that everything that goes with a series is there.
      for (const experimentKey of keys) {
        const series = [{ metricName: long.metric, steps: [0], values: [1] }]
        await post(`${system.writeUrl}/api/rest/v2/write/experiment/metrics/batch`, { experimentKey, series })
      }
      await untilReadable(project, { runs, metric: long.metric })
      const clickhouse = openClickHouse({ url: stores.urls.clickhouseUrl, readTimeoutMs: 600_000 })
      const ids = await readIds(stores, keys)
      for (const id of ids) await copyPoints(clickhouse, id, points)
      await clickhouse.close()
    },
  }
}

/** A wave with noise and a rare spike, made by ClickHouse: the column values of a point that came, with another step and value. */
async function copyPoints(clickhouse: ClickHouse, id: bigint, points: number) {
  const { database } = clickhouse
  for (let from = 1; from < points; from += long.pointsPerInsert) {
    const count = Math.min(long.pointsPerInsert, points - from)
    await clickhouse.command(
      `INSERT INTO ${database}.points
       SELECT first.* REPLACE (number AS step, timestamp + number * 10 AS timestamp,
         request_lo + 1 + toUInt64(intDiv(number, 1000)) AS request_lo, toUInt32(number % 1000) AS place,
         reinterpretAsUInt64(sin(number / 1e6) + (cityHash64(number) % 1000) / 5e3) AS value_bits)
       FROM (SELECT * FROM ${database}.points WHERE experiment_id = ${id} AND step = 0 LIMIT 1) AS first
       CROSS JOIN (SELECT toInt64(number + ${from}) AS number FROM numbers(${count})) AS counted`,
    )
  }
  await summarizeStored(clickhouse, `experiment_id = ${id}`)
}

async function readIds(stores: BenchStores, keys: string[]): Promise<bigint[]> {
  const database = openDatabase({ url: stores.urls.postgresUrl, connectionsMax: 1, onError: () => undefined })
  const rows = await database.rows<{ id: bigint }>('SELECT id FROM experiments WHERE key = ANY($1)', [keys])
  await database.close()
  return rows.map((it) => it.id)
}

/** Charts in sight that have drawn all runs. */
function toReady(runs: number, charts: number): string {
  const drawn = `[...document.querySelectorAll('[role=img] canvas')].filter((it) =>
    it.closest('[role=img]').getAttribute('aria-label').endsWith(', ${runs} ${runs === 1 ? 'run' : 'runs'}'))`
  return `${drawn}.length >= ${charts}`
}

/** Drags over the middle of the first chart; from then on until what was read anew is drawn. */
async function drag(page: Page, part: number): Promise<number> {
  const box = await page.locator('.u-over').first().boundingBox()
  if (!box) throw new Error('There is no chart to drag on.')
  const [middle, y, half] = [box.x + box.width / 2, box.y + box.height / 2, (box.width * part) / 2]
  await page.evaluate(watchDrawing)
  await page.mouse.move(middle - half, y)
  await page.mouse.down()
  await page.mouse.move(middle + half, y, { steps: 3 })
  const startedAt = await clockOf(page)
  await page.mouse.up()
  return await measureSince(page, startedAt, isDrawnAnew(startedAt))
}

/** Notes when the page draws a line. */
const watchDrawing = `{
  const { prototype } = CanvasRenderingContext2D
  const { stroke } = prototype
  prototype.stroke = function (...args) {
    globalThis.drawnAt = performance.now()
    stroke.apply(this, args)
  }
}`

const isDrawnAnew = (startedAt: number) => `(() => {
  const read = performance.getEntriesByType('resource')
    .find((it) => it.name.endsWith('/experiments/series') && it.startTime >= ${startedAt})
  return read !== undefined && read.responseEnd > 0 && globalThis.drawnAt > read.responseEnd
})()`
