import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { Page } from 'playwright-core'
import type { Closers } from '../../runtime/closers.ts'
import type { TestBrowser } from '../../test/kit/browser.ts'
import { mlflow } from '../peers/mlflow.ts'
import type { Peer, PeerServer } from '../peers/peer.ts'
import { trackio } from '../peers/trackio.ts'
import { forEachRun, paramsOf, runName, seriesOf } from './data.ts'
import { measureLoad } from './measure.ts'
import { postJson } from './post-json.ts'
import { type TrackerPages, viewport } from './tracker-pages.ts'

type Opened = { server: PeerServer; page: Page }
type Open = { browser: TestBrowser; closers: Closers }

/** MLflow takes a thousand points a call. Its charts show ten runs, and draw those in sight. */
const mlflowPoints = 1_000
const mlflowRunsShown = 10

/** @throws PeerAbsent if it is not installed */
export async function openMlflowPages(open: Open): Promise<TrackerPages> {
  const { server, page } = await openPeer(mlflow, open)
  const call = async (name: string, body: object) =>
    (await postJson(`${server.url}/api/2.0/mlflow/${name}`, body)) as Record<
      string,
      Record<string, Record<string, string>>
    >
  const ids = new Map<string, string>()
  const at = (project: string, mode: string) =>
    `${server.url}/#/experiments/${ids.get(project)}/runs?compareRunsMode=${mode}`
  return {
    name: 'MLflow',
    version: server.version,
    leave: () => page.goto('about:blank'),
    async write(project, size) {
      const made = (await call('experiments/create', { name: project })) as unknown as { experiment_id: string }
      ids.set(project, made.experiment_id)
      await forEachRun(size.runs, async (run) => {
        const fields = { experiment_id: made.experiment_id, start_time: Date.now(), run_name: runName(run) }
        const runId = (await call('runs/create', fields)).run?.info?.run_id
        const params = Object.entries(paramsOf(run)).map(([key, value]) => ({ key, value: String(value) }))
        await call('runs/log-batch', { run_id: runId, params })
        const points = seriesOf(run, size).flatMap(({ metricName, steps, values, timestamps }) =>
          steps.map((step, at) => ({ key: metricName, value: values[at], timestamp: timestamps[at], step })),
        )
        for (let from = 0; from < points.length; from += mlflowPoints) {
          await call('runs/log-batch', { run_id: runId, metrics: points.slice(from, from + mlflowPoints) })
        }
      })
    },
    measureRows: (project) =>
      measureLoad(page, at(project, 'TABLE'), `document.querySelectorAll('.ag-row').length > 10`),
    // Nine of its charts are in sight.
    measureCharts: (project) =>
      measureLoad(
        page,
        at(project, 'CHART'),
        `[...document.querySelectorAll('.js-plotly-plot')]
          .filter((it) => it.querySelectorAll('.scatterlayer .trace').length >= ${mlflowRunsShown}).length >= 9`,
      ),
  }
}

/** @throws PeerAbsent if it is not installed */
export async function openTrackioPages(open: Open): Promise<TrackerPages> {
  const { server, page } = await openPeer(trackio, open)
  return {
    name: 'trackio',
    version: server.version,
    leave: () => page.goto('about:blank'),
    async write(project, size) {
      const headers = { 'x-trackio-write-token': server.apiKey ?? '' }
      await forEachRun(size.runs, async (run) => {
        const series = seriesOf(run, size)
        const logs = (series[0]?.steps ?? []).map((step, at) => ({
          project,
          run: runName(run),
          metrics: Object.fromEntries(series.map((it) => [it.metricName, it.values[at]])),
          step,
          config: step === 0 ? paramsOf(run) : null,
        }))
        await postJson(`${server.url}/api/bulk_log`, { kwargs: { logs, hf_token: null } }, headers)
      })
    },
    measureRows: (project) =>
      measureLoad(page, `${server.url}/runs?project=${project}`, `document.querySelectorAll('tbody tr').length > 10`),
    measureCharts: (project, { metrics }) =>
      measureLoad(
        page,
        `${server.url}/?project=${project}`,
        `document.querySelectorAll('canvas.marks').length >= ${metrics}`,
      ),
  }
}

async function openPeer(peer: Peer, { browser, closers }: Open): Promise<Opened> {
  const folder = await mkdtemp(path.join(tmpdir(), 'svc-bench-'))
  closers.push(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }))
  const server = await peer.start(folder, closers)
  const context = await browser.openContext(server.url, undefined, { viewport, bypassCSP: true })
  return { server, page: await context.newPage() }
}
