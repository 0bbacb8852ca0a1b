import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { createClosers } from '../runtime/closers.ts'
import { dataSet } from '../test/kit/curves.ts'
import { readNumbers, runCommand, say } from './command.ts'
import { measure } from './contenders/contender.ts'
import type { Scenario } from './contenders/scenarios.ts'
import { openService } from './contenders/service.ts'
import { openBenchStores } from './contenders/stores.ts'
import { drawGrowth, type Growth, type GrowthPoint } from './report/plot.ts'
import { median } from './report/report.ts'
import { type Kept, keepResults, readResults } from './report/results.ts'

/**
 * `npm run bench:growth`: plots points per second and the 99th percentile of requests against the number of writers, the
 * batch size and the number of series, into `bench/plots/`.
 */
const usage = `Usage: npm run bench:growth -- [options] [writers|batch|series ...]

  --rounds N        rounds of each point of a plot (default 3)
  --seconds N       how long each round sends (default 4)
  --fsync WHEN      of Redis, always (default) or everysec
  --draw            only draw the last results again
`

const plotsFolder = fileURLToPath(new URL('./plots/', import.meta.url))

type Axis = Omit<Growth, 'points'> & {
  values: number[]
  toScenario(at: number): Omit<Scenario, 'name' | 'about' | 'target' | 'queues'>
}

const singles = { shape: { kind: 'single' }, data: { ...dataSet, steps: 100 } } as const

const axes: Axis[] = [
  {
    name: 'writers',
    axis: 'writers (connections, each with one request under way)',
    title: 'One point a request',
    values: [1, 4, 16, 64, 256, 1_024],
    toScenario: (connections) => ({ ...singles, connections, pointsPerSecondMax: 60_000 }),
  },
  {
    name: 'batch',
    axis: 'points in a request (columns; 16 writers)',
    title: 'From one point a request to 20,000',
    values: [1, 50, 200, 1_000, 5_000, 20_000],
    toScenario: (points) => ({
      ...(points === 1
        ? singles
        : { shape: { kind: 'columns', stepsPerRequest: points / dataSet.metrics }, data: dataSet }),
      connections: 16,
      pointsPerSecondMax: points === 1 ? 60_000 : 1_500_000,
    }),
  },
  {
    name: 'series',
    axis: 'series (100 metrics an experiment; 1,000 points a request, as columns)',
    title: 'From 5,000 series to a million',
    values: [5_000, 20_000, 100_000, 300_000, 1_000_000],
    toScenario: (series) => ({
      shape: { kind: 'columns', stepsPerRequest: 10 },
      data: { experiments: series / 100, metrics: 100, steps: 0 },
      keepsExperiments: true,
      connections: 16,
      pointsPerSecondMax: 1_200_000,
    }),
  },
]

await runCommand(async (closers) => {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      rounds: { type: 'string', default: '3' },
      seconds: { type: 'string', default: '4' },
      fsync: { type: 'string', default: 'always' },
      draw: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  if (values.help) return void process.stdout.write(usage)
  const { rounds, seconds, fsync } = readNumbers(values)
  const unknown = positionals.filter((name) => !axes.some((it) => it.name === name))
  if (unknown.length > 0) throw new Error(`There is no plot ${unknown.join(', ')}.\n\n${usage}`)
  const chosen = axes.filter((it) => positionals.length === 0 || positionals.includes(it.name))
  if (values.draw) return await draw(chosen.map((it) => it.name))

  say('Starting the stores')
  const stores = await openBenchStores(closers, fsync)
  const queue = stores.urls.redisUrl ? 'redis' : 'postgres'
  for (const { name, axis, title, values, toScenario } of chosen) {
    const points: GrowthPoint[] = []
    for (const at of values) {
      const closersOfRun = createClosers()
      closers.push(() => closersOfRun.closeAll())
      const progress = (text: string) => say(`${at.toLocaleString('en-US')} ${name}: ${text}`)
      try {
        const contender = await openService({
          scenario: { ...toScenario(at), target: 'service', queues: [queue], name: `${name}-${at}`, about: axis },
          queue,
          stores,
          roundsInAll: rounds + 1,
          secondsInAll: (rounds + 1) * seconds,
          profileFolder: undefined,
          closers: closersOfRun,
          progress,
        })
        const [measured] = await measure({ contenders: [contender], rounds, seconds, progress: say })
        const errors = Object.keys(measured?.errors ?? {})
        if (errors.length > 0) progress(`some requests failed: ${errors.join('; ')}`)
        points.push({
          at,
          pointsPerSecond: measured?.rounds.map((it) => it.pointsPerSecond) ?? [],
          p99Ms: measured?.rounds.map((it) => it.p99Ms) ?? [],
        })
      } finally {
        await closersOfRun.closeAll()
      }
    }
    await keepResults('growth', { rounds, seconds, fsync, queue }, { name, axis, title, points })
    await draw([name])
    process.stdout.write(`${name}\n${points.map(describe).join('')}`)
  }
})

function describe({ at, pointsPerSecond, p99Ms }: GrowthPoint): string {
  const rate = Math.round(median(pointsPerSecond)).toLocaleString('en-US')
  return `  ${at.toLocaleString('en-US').padStart(9)}  ${rate.padStart(9)} points/s  p99 ${median(p99Ms).toFixed(1)} ms\n`
}

/** Draws the newest results of each name. */
async function draw(names: string[]) {
  const kept = (await readResults()).filter((it): it is Kept<Growth> => it.command === 'growth')
  await mkdir(plotsFolder, { recursive: true })
  for (const name of names) {
    const newest = kept.findLast((it) => it.results.name === name)
    if (!newest) throw new Error(`Nothing was measured yet for ${name}: run "npm run bench:growth -- ${name}".`)
    const file = path.join(plotsFolder, `${name}.svg`)
    await writeFile(file, await drawGrowth(newest))
    say(`Drawn ${path.relative(process.cwd(), file)}`)
  }
}
