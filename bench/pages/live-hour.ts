import type { CDPSession, Page } from 'playwright-core'

/** A page that is left open while runs go on. */
export type LivePage = {
  /** Times between frames of more than 100 ms, while points came at the rate of the runs. */
  longFramesMs: number[]
  framesSeconds: number
  /** Megabytes of the page's heap, after a garbage collection: after a quarter of an hour of points, and at its end. */
  heapMb: [number, number]
  /** Points that came in between. */
  points: number
}

const longFrameMs = 100
const metrics = ['loss', 'accuracy', 'lr', 'grad/norm', 'val/loss']
const framesSeconds = 60

type Options = {
  /** An hour of points comes in these. */
  seconds: number
  runs: number
  /** Of each run. */
  pointsPerSecond: number
  /** Logs columns of points of a run. */
  log(run: number, series: { metricName: string; steps: number[]; values: number[] }[]): Promise<unknown>
  open(): Promise<void>
}

/**
 * Logs to many runs while a page shows their charts: frames are watched at the rate of the runs, memory while an hour of points
 * comes within minutes. Then the service takes the machine from the page, which says nothing about frames.
 */
export async function watchLivePage(page: Page, options: Options): Promise<LivePage> {
  const { seconds, runs, pointsPerSecond, log, open } = options
  const rates = { real: pointsPerSecond / metrics.length, hour: (pointsPerSecond / metrics.length) * (3_600 / seconds) }
  let points = 0
  let nextStep = 0
  async function logSecond(rate: number) {
    const perMetric = Math.max(1, Math.round(rate))
    const steps = Array.from({ length: perMetric }, (_, at) => nextStep + at)
    nextStep += perMetric
    const series = metrics.map((metricName, metric) => ({
      metricName,
      steps,
      values: steps.map((step) => Math.exp(-step / 500) + metric),
    }))
    await Promise.all(Array.from({ length: runs }, (_, run) => log(run, series)))
    points += runs * perMetric * metrics.length
  }
  const logFor = async (forSeconds: number, rate: number) => {
    const endsAt = performance.now() + forSeconds * 1_000
    while (performance.now() < endsAt) await Promise.all([logSecond(rate), page.waitForTimeout(1_000)])
  }
  // A minute that was there before.
  await logSecond(60 * rates.real)
  await open()
  const cdp = await page.context().newCDPSession(page)
  await logFor(10, rates.real)
  await page.evaluate(watchFrames)
  await logFor(framesSeconds, rates.real)
  const frames = (await page.evaluate('globalThis.frameTimes')) as number[]
  // By then series have more points than are drawn: what the page holds of them grows no more.
  await logFor(seconds / 4, rates.hour)
  const before = await readHeapMb(cdp)
  points = 0
  await logFor((seconds * 3) / 4, rates.hour)
  const after = await readHeapMb(cdp)
  return { longFramesMs: frames.filter((it) => it > longFrameMs), framesSeconds, heapMb: [before, after], points }
}

const watchFrames = `{
  globalThis.frameTimes = []
  let before = performance.now()
  const note = (now) => {
    globalThis.frameTimes.push(now - before)
    before = now
    requestAnimationFrame(note)
  }
  requestAnimationFrame((now) => { before = now; requestAnimationFrame(note) })
}`

async function readHeapMb(cdp: CDPSession): Promise<number> {
  await cdp.send('HeapProfiler.collectGarbage')
  const { usedSize } = await cdp.send('Runtime.getHeapUsage')
  return usedSize / 1e6
}
