import { parseArgs } from 'node:util'
import { describeTerminal } from '../cli/terminal/terminal.ts'
import { openBrowser } from '../test/kit/browser.ts'
import { readWholeNumber } from '../test/kit/command-line/options.ts'
import { runCommand, say } from './command.ts'
import { openBenchStores } from './contenders/stores.ts'
import { startSystem } from './contenders/system.ts'
import { type Size, sharedSize } from './pages/data.ts'
import type { LivePage } from './pages/live-hour.ts'
import { openOurPages } from './pages/ours.ts'
import { openMlflowPages, openTrackioPages } from './pages/peer-pages.ts'
import type { TrackerPages } from './pages/tracker-pages.ts'
import { PeerAbsent } from './peers/program.ts'
import { renderTable, spread } from './report/report.ts'
import { describeMachine, keepResults } from './report/results.ts'

/**
 * `npm run bench:web`: how long people wait for pages, in real Chromium beside the service. First the same runs in our pages,
 * MLflow's and trackio's, in turn; then sizes that only ours is asked for.
 */
const usage = `Usage: npm run bench:web -- [--rounds N] [--runs N] [--points N] [--live-seconds N] [--without NAME ...]
                            [--json]

  --rounds N      of each measurement; default 5
  --runs N        of the large project, with 200 metrics each; default 1000
  --points N      of each of ten long series; default 10000000
  --live-seconds N  an hour of points comes to an open page in so many seconds; default 180
  --without NAME  mlflow or trackio
`

type Measured = { name: string; about: string; tookMs: number[] }

const peers = { mlflow: openMlflowPages, trackio: openTrackioPages }

await runCommand(async (closers) => {
  const options = readOptions()
  if (!options) return
  const { rounds, runs, points, liveSeconds, without } = options
  say('Starting the service and the browser')
  const stores = await openBenchStores(closers)
  const system = await startSystem({ target: 'service', queue: 'postgres', stores, closers, profileFolder: undefined })
  const browser = await openBrowser()
  closers.push(() => browser.close())
  const ours = await openOurPages({ system, stores, browser })
  const trackers: TrackerPages[] = [ours]
  for (const [name, open] of Object.entries(peers)) {
    if (without.includes(name)) continue
    say(`Starting ${name}`)
    const pages = await open({ browser, closers }).catch((error: unknown) => {
      if (!(error instanceof PeerAbsent)) throw error
      say(error.message)
    })
    if (pages) trackers.push(pages)
  }

  const measured: Measured[] = []
  const measure = async (name: string, about: string, call: () => Promise<number>) => {
    const found = measured.find((it) => it.name === name)
    const it = found ?? { name, about, tookMs: [] }
    if (!found) measured.push(it)
    it.tookMs.push(await call())
  }

  for (const it of trackers) {
    say(`Writing ${describe(sharedSize)} to ${it.name}`)
    await it.write('shared', sharedSize)
  }
  for (let round = 0; round <= rounds; round++) {
    say(round === 0 ? 'Warming up' : `Round ${round} of ${rounds}`)
    for (const it of trackers) {
      await measure(`${it.name}, rows`, `${it.name}: the runs`, () => it.measureRows('shared'))
      await measure(`${it.name}, charts`, `${it.name}: the charts of all runs`, () =>
        it.measureCharts('shared', sharedSize),
      )
      await it.leave()
    }
    // The first time fills caches of the browser and of the stores.
    if (round === 0) measured.length = 0
  }

  const large: Size = { runs, metrics: 200, steps: 10 }
  say(`Writing ${describe(large)}`)
  await ours.write('large', large)
  say(`Writing 10 runs with a series of ${points} points each`)
  await ours.writeLong('long', { runs: 10, points })
  for (let round = 1; round <= rounds; round++) {
    say(`Round ${round} of ${rounds}`)
    await measure('large, rows', `ours, ${describe(large)}: the runs`, () => ours.measureRows('large'))
    await measure('large, charts', 'of them 12 charts of 100 runs', () =>
      ours.measureCharts('large', { runs: Math.min(100, runs), metrics: 12, steps: large.steps }),
    )
    await measure('large, filter', 'typing the last letter of a name, until its run is left', () =>
      ours.measureFilter('large'),
    )
    await measure('live', 'an acknowledged point, until the open page shows it', () => ours.measureLive())
    const parts = [0.1, 0.01]
    const { whole, parts: zoomed } = await ours.measureZoom('long', parts)
    await measure('long, whole', `10 runs of ${points} points on one chart, whole`, async () => whole)
    for (const [at, part] of parts.entries()) {
      const about = `zooming in on ${part * 100} % of them`
      await measure(`long, ${part}`, about, async () => zoomed[at] as number)
    }
  }
  say(`Logging an hour of points to an open page in ${liveSeconds} s`)
  const live = await ours.watchHour(liveSeconds)
  const versions = trackers.map((it) => `${it.name} ${it.version}`)
  const file = await keepResults('web', { rounds, runs, points, versions, live }, measured)
  process.stdout.write(options.json ? `${JSON.stringify({ measured, live })}\n` : render(measured, live, versions))
  say(`Written to ${file}`)
})

function describe({ runs, metrics, steps }: Size): string {
  return `${runs} runs with ${metrics} metrics of ${steps} points`
}

function readOptions() {
  const { values } = parseArgs({
    options: {
      rounds: { type: 'string', default: '5' },
      runs: { type: 'string', default: '1000' },
      points: { type: 'string', default: '10000000' },
      'live-seconds': { type: 'string', default: '180' },
      without: { type: 'string', multiple: true, default: [] },
      json: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  if (values.help) return void process.stdout.write(usage)
  const unknown = values.without.find((it) => !(it in peers))
  if (unknown) throw new Error(`--without must be ${Object.keys(peers).join(' or ')}, not ${unknown}.`)
  return {
    rounds: readWholeNumber('rounds', values.rounds, 1),
    // One of them is looked for by its name.
    runs: readWholeNumber('runs', values.runs, 200),
    points: readWholeNumber('points', values.points, 1_000),
    liveSeconds: readWholeNumber('live-seconds', values['live-seconds'], 10),
    without: values.without,
    json: values.json,
  }
}

function render(measured: Measured[], live: LivePage, versions: string[]): string {
  const { longFramesMs, framesSeconds, heapMb, points } = live
  const rows = measured.map(({ about, tookMs }) => [about, spread(tookMs, 0)])
  return (
    `\n${describeMachine()}\n${versions.join(', ')}\n\nMilliseconds until it is drawn; median (least - greatest)\n\n` +
    `${renderTable([['page', 'ms'], ...rows], describeTerminal(process.stdout, process.env), { left: 1 })}\n` +
    `\nCharts of 100 runs with 10 points a second each: ${longFramesMs.length} frames over 100 ms in ${framesSeconds} s` +
    `${longFramesMs.length > 0 ? ` (the longest ${Math.max(...longFramesMs).toFixed(0)} ms)` : ''}. While ${points} more ` +
    `points came, the heap of the page went from ${heapMb.map((it) => it.toFixed(1)).join(' to ')} MB.\n`
  )
}
