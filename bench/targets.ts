import { runCommand } from './command.ts'
import type { Measured, Round } from './contenders/contender.ts'
import type { Latency } from './latency.ts'
import type { Read } from './reads.ts'
import type { Compared } from './report/report.ts'
import { median, totalCpu } from './report/report.ts'
import { type Kept, readResults } from './report/results.ts'

/**
 * `npm run bench:report`: prints every target beside its last measurement, as Markdown. It reads the results of
 * `bench:compare`, `bench:latency` and `bench:reads` in `bench/results/` and measures nothing. A ratio is the median of the
 * ratios per round, because the sides of a round ran one after the other.
 */
type Figure = {
  figure: string
  unit?: string
  measured: number | undefined
  target: number
  /** What would be better still. */
  stretch?: number
  isMost?: boolean
  digits?: number
}

const header = ['| figure | measured | target | |', '| --- | ---: | ---: | --- |']

await runCommand(async () => {
  const kept = await readResults()
  const sections = [
    toSection('One point a request', singles(kept)),
    toSection('1,000 points a request, as rows', rows(kept)),
    toSection('1,000 points a request, as columns', columns(kept)),
    toSection('From the answer until a read finds it', latency(kept)),
    toSection('Reads', reads(kept)),
    toSection('Scale, memory, embedded, hostile clients', others(kept)),
  ]
  process.stdout.write(`${describeRuns(kept)}\n\n${[...header, ...sections.flat()].join('\n')}\n`)
})

type Results = Kept<unknown>[]

function singles(kept: Results): Figure[] {
  const sides = comparison(kept, 'single')
  const ours = find(sides, 'single')
  const fsync = comparison(kept, 'fsync')
  return [
    { figure: 'stored', unit: '/s', measured: rate(ours), target: 45_000 },
    {
      figure: 'p99',
      unit: ' ms',
      measured: ours && median(ours.rounds.map((it) => it.p99Ms)),
      target: 15,
      isMost: true,
      digits: 1,
    },
    { figure: 'CPU per point', unit: ' µs', measured: cpu(ours), target: 30, isMost: true, digits: 1 },
    {
      figure: 'by one job per point',
      unit: 'x',
      measured: ratio(ours, find(sides, 'baseline-job-per-point')),
      target: 4,
      digits: 2,
    },
    {
      figure: 'by the bare route',
      unit: 'x',
      measured: ratio(ours, find(sides, 'baseline-bare-route')),
      target: 0.7,
      digits: 2,
    },
    {
      figure: 'by InfluxDB',
      unit: 'x',
      measured: ratio(ours, find(sides, 'single: influxdb')),
      target: 1.3,
      digits: 2,
    },
    { figure: 'fsync always by everysec', unit: 'x', measured: ratio(fsync?.[1], fsync?.[0]), target: 0.85, digits: 2 },
  ]
}

function rows(kept: Results): Figure[] {
  const sides = comparison(kept, 'rows')
  const ours = find(sides, 'rows')
  return [
    { figure: 'stored', unit: '/s', measured: rate(ours), target: 600_000, stretch: 1_000_000 },
    { figure: 'CPU per point', unit: ' µs', measured: cpu(ours), target: 3, isMost: true, digits: 2 },
    {
      figure: 'by InfluxDB, value only',
      unit: 'x',
      measured: ratio(ours, find(sides, 'rows: influxdb')),
      target: 0.5,
      stretch: 0.85,
      digits: 2,
    },
    {
      figure: 'by InfluxDB, value and step',
      unit: 'x',
      measured: ratio(ours, find(sides, 'rows: influxdb-with-step')),
      target: 0.5,
      stretch: 0.85,
      digits: 2,
    },
  ]
}

function columns(kept: Results): Figure[] {
  const sides = comparison(kept, 'columns')
  const peer = (name: string) => find(sides, `columns: ${name}`)
  const ours = find(sides, 'columns')
  const victoria = [peer('victoria-metrics'), peer('victoria-metrics-influx')]
  const influx = [peer('influxdb'), peer('influxdb-fields')]
  const bytesBy = (others: (Measured | undefined)[]) => {
    const least = Math.min(...others.flatMap((it) => it?.bytesPerPoint ?? []))
    return ours?.bytesPerPoint && Number.isFinite(least) ? ours.bytesPerPoint / least : undefined
  }
  const withStep = find(comparison(kept, 'rows'), 'rows: influxdb-with-step')
  return [
    { figure: 'stored', unit: '/s', measured: rate(ours), target: 1_200_000, stretch: 2_000_000 },
    { figure: 'CPU per point', unit: ' µs', measured: cpu(ours), target: 1.5, isMost: true, digits: 2 },
    { figure: 'by InfluxDB, a line a point', unit: 'x', measured: ratio(ours, peer('influxdb')), target: 1, digits: 2 },
    {
      figure: 'by InfluxDB, a line a step',
      unit: 'x',
      measured: ratio(ours, peer('influxdb-fields')),
      target: 1,
      digits: 2,
    },
    {
      figure: 'by VictoriaMetrics (its faster way)',
      unit: 'x',
      measured: ratio(ours, fastest(victoria)),
      target: 0.5,
      stretch: 0.9,
      digits: 2,
    },
    { figure: 'by MLflow', unit: 'x', measured: ratio(ours, peer('mlflow')), target: 50, digits: 0 },
    {
      figure: 'our CPU by InfluxDB’s, a line a point',
      unit: 'x',
      measured: ratio(ours, peer('influxdb'), totalCpu),
      target: 1,
      isMost: true,
      digits: 2,
    },
    {
      figure: 'our CPU by InfluxDB’s, a line a step',
      unit: 'x',
      measured: ratio(ours, peer('influxdb-fields'), totalCpu),
      target: 1,
      isMost: true,
      digits: 2,
    },
    { figure: 'bytes per point', measured: ours?.bytesPerPoint, target: 3.6, isMost: true, digits: 2 },
    {
      figure: 'bytes by VictoriaMetrics’ (no step)',
      unit: 'x',
      measured: bytesBy(victoria),
      target: 0.6,
      isMost: true,
      digits: 2,
    },
    {
      figure: 'bytes by InfluxDB’s (its least)',
      unit: 'x',
      measured: bytesBy(influx),
      target: 0.17,
      isMost: true,
      digits: 2,
    },
    {
      figure: 'bytes by InfluxDB’s, a line with value and step for a point',
      unit: 'x',
      measured: bytesBy([withStep]),
      target: 0.17,
      isMost: true,
      digits: 2,
    },
  ]
}

function latency(kept: Results): Figure[] {
  const found = newest<Latency[]>(kept, 'latency')?.results
  const p99 = (scenario: string, share: 'at 10,000/s' | 'at 80 %') => {
    const of = found?.filter((it) => it.scenario === scenario)[share === 'at 10,000/s' ? 0 : 1]
    return of && median(of.rounds.map((it) => it.p99Ms))
  }
  const toFigure = (scenario: string, share: 'at 10,000/s' | 'at 80 %', target: number): Figure => ({
    figure: `p99, ${scenario} ${share}${share === 'at 80 %' ? ' of capacity' : ''}`,
    unit: ' ms',
    measured: p99(scenario, share),
    target,
    isMost: true,
  })
  return ['single', 'columns'].flatMap((it) => [toFigure(it, 'at 10,000/s', 300), toFigure(it, 'at 80 %', 1_000)])
}

function reads(kept: Results): Figure[] {
  const found = newest<Read[]>(kept, 'reads')?.results
  const rounds = (name: string) => found?.find((it) => it.name === name)?.rounds
  const p50 = (name: string) => {
    const of = rounds(name)
    return of && median(of.map((it) => it.p50Ms))
  }
  const engine = rounds('buckets-engine')
  const byEngine = rounds('buckets')?.map((it, at) => it.p50Ms / (engine?.[at]?.p50Ms ?? Number.NaN))
  return [
    {
      figure: '10 M points to 1,000 buckets, median',
      unit: ' ms',
      measured: p50('buckets'),
      target: 120,
      isMost: true,
    },
    {
      figure: 'the same by the engine’s plainest query',
      unit: 'x',
      measured: byEngine && median(byEngine),
      target: 1.25,
      isMost: true,
      digits: 2,
    },
    {
      figure: 'zoom to 1 % of 10 M points, 1,000 buckets, median',
      unit: ' ms',
      measured: p50('zoomed'),
      target: 30,
      isMost: true,
      digits: 1,
    },
    { figure: 'series of 400 points, median', unit: ' ms', measured: p50('short'), target: 5, isMost: true, digits: 1 },
    {
      figure: 'summary of 10,000 metrics, median',
      unit: ' ms',
      measured: p50('summary'),
      target: 50,
      isMost: true,
      digits: 1,
    },
  ]
}

function others(kept: Results): Figure[] {
  const scale = comparison(kept, 'scale')
  const embedded = comparison(kept, 'embedded')
  const hostile = comparison(kept, 'hostile')
  const all = ['single', 'rows', 'columns', 'scale'].flatMap((name) => comparison(kept, name) ?? [])
  const ours = all.filter(
    (it) => it.peakMiB?.ingest !== undefined && it.peakMiB.worker !== undefined && !it.scenario.startsWith('baseline'),
  )
  const peak = (process: string) =>
    ours.length > 0 ? Math.max(...ours.map((it) => it.peakMiB?.[process] ?? 0)) : undefined
  return [
    {
      figure: '10,000 experiments x 100 metrics by columns',
      unit: 'x',
      measured: ratio(scale?.[1], scale?.[0]),
      target: 0.7,
      digits: 2,
    },
    { figure: 'memory of ingest at its peak', unit: ' MiB', measured: peak('ingest'), target: 300, isMost: true },
    { figure: 'memory of worker at its peak', unit: ' MiB', measured: peak('worker'), target: 400, isMost: true },
    {
      figure: '`svc up` as it is, one point a request',
      unit: '/s',
      measured: rate(find(embedded, 'up-single')),
      target: 20_000,
    },
    { figure: '`svc up` as it is, columns', unit: '/s', measured: rate(find(embedded, 'up-columns')), target: 400_000 },
    {
      figure: 'beside 1,000 slow connections by alone',
      unit: 'x',
      measured: ratio(hostile?.[1], hostile?.[0]),
      target: 0.9,
      digits: 2,
    },
  ]
}

function newest<R>(kept: Results, command: string): Kept<R> | undefined {
  return kept.findLast((it) => it.command === command) as Kept<R> | undefined
}

/** The sides of a comparison in the newest run that had it. */
function comparison(kept: Results, name: string): Measured[] | undefined {
  const runs = kept.filter((it): it is Kept<Compared[]> => it.command === 'compare')
  const found = runs.flatMap((it) => it.results).findLast((it) => it.comparison === name)
  return found?.measured
}

function find(sides: Measured[] | undefined, scenario: string): Measured | undefined {
  return sides?.find((it) => it.scenario === scenario)
}

function rate(side: Measured | undefined): number | undefined {
  return side && median(side.rounds.map(toRate))
}

function cpu(side: Measured | undefined): number | undefined {
  return side && median(side.rounds.map(totalCpu))
}

function toRate({ pointsPerSecond }: Round): number {
  return pointsPerSecond
}

/** The ratio per round: the sides of a round ran one after the other. */
function ratio(ours: Measured | undefined, other: Measured | undefined, of: (round: Round) => number = toRate) {
  if (!ours || !other) return undefined
  return median(ours.rounds.map((round, at) => of(round) / of(other.rounds[at] as Round)))
}

function fastest(sides: (Measured | undefined)[]): Measured | undefined {
  return sides.filter((it) => it !== undefined).toSorted((a, b) => (rate(b) ?? 0) - (rate(a) ?? 0))[0]
}

function toSection(title: string, figures: Figure[]): string[] {
  return [`| **${title}** | | | |`, ...figures.map(toLine)]
}

function toLine({ figure, unit = '', measured, target, stretch, isMost = false, digits = 0 }: Figure): string {
  const text = (value: number) =>
    `${value.toLocaleString('en-US', { minimumFractionDigits: 0, maximumFractionDigits: digits })}${unit}`
  const sign = isMost ? '≤' : '≥'
  const goal = `${sign} ${text(target)}${stretch === undefined ? '' : ` (${text(stretch)})`}`
  if (measured === undefined || Number.isNaN(measured)) return `| ${figure} | not measured | ${goal} | |`
  const reaches = (limit: number) => (isMost ? measured <= limit : measured >= limit)
  // The distance from the target: above 1 is better, for minimum and maximum targets.
  const share = isMost ? target / measured : measured / target
  const verdict = stretch !== undefined && reaches(stretch) ? 'stretch' : reaches(target) ? 'reached' : 'not reached'
  return `| ${figure} | ${text(measured)} | ${goal} | ${verdict}, ${share.toFixed(2)} of the target |`
}

/** Which runs the figures are from. */
function describeRuns(kept: Results): string {
  const compared = kept.filter((it): it is Kept<Compared[]> => it.command === 'compare')
  const names = [...new Set(compared.flatMap((run) => run.results.map((it) => it.comparison)))]
  const runs = names.map((name) => ({
    name,
    run: compared.findLast((it) => it.results.some((of) => of.comparison === name)),
  }))
  const others = ['latency', 'reads'].map((name) => ({ name, run: newest(kept, name) }))
  const lines = [...runs, ...others].flatMap(({ name, run }) => {
    if (!run) return []
    const { rounds, seconds, fsync } = run.options as Record<string, unknown>
    const redis = fsync === undefined ? '' : `, Redis fsync ${fsync}`
    return [
      `- ${name}: ${run.at.slice(0, 16).replace('T', ' ')} UTC, ${rounds} rounds of ${seconds} s${redis}; ${run.machine}`,
    ]
  })
  return lines.length > 0 ? lines.join('\n') : 'Nothing was measured yet.'
}
