import { mkdir, writeFile } from 'node:fs/promises'
import { cpus, totalmem } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { describeTerminal } from '../cli/terminal.ts'
import { createClosers } from '../store/closers.ts'
import { type Measured, measure } from './measure.ts'
import { describeProfiles } from './profile.ts'
import { renderReport } from './report.ts'
import { type Scenario, scenarios } from './scenarios.ts'
import { openBenchStores } from './stores.ts'

/**
 * `npm run bench [-- NAME ...]`: measures points per second stored through the whole service, and what they cost.
 * README.md tells how to read what it prints.
 */
const resultsFolder = fileURLToPath(new URL('./results/', import.meta.url))
const terminal = describeTerminal(process.stderr, process.env)

const usage = `Usage: npm run bench -- [options] [NAME ...]

  --rounds N      rounds of each scenario (default 3)
  --seconds N     how long each round sends (default 5)
  --queue KIND    only on redis, or only on postgres
  --profile       also profile ingest and worker: where the microseconds go
  --json          print the results as JSON

Names (all when none is given):
${scenarios.map((it) => `  ${it.name.padEnd(24)} ${it.about}`).join('\n')}
`

const interrupted = 130
/** Set once a signal has come: what then fails does so because its stores are being stopped. */
let stopping: Promise<void> | undefined

function readOptions() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      rounds: { type: 'string', default: '3' },
      seconds: { type: 'string', default: '5' },
      queue: { type: 'string' },
      profile: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  const [rounds, seconds] = [Number(values.rounds), Number(values.seconds)]
  if (!Number.isInteger(rounds) || rounds < 1) throw new Error('--rounds must be a whole number from 1.')
  if (!(seconds > 0 && seconds <= 120)) throw new Error('--seconds must be a number up to 120.')
  const unknown = positionals.filter((name) => !scenarios.some((it) => it.name === name))
  if (unknown.length > 0) throw new Error(`There is no scenario ${unknown.join(', ')}.\n\n${usage}`)
  const chosen = positionals.length === 0 ? scenarios : scenarios.filter((it) => positionals.includes(it.name))
  const runs = chosen.flatMap((scenario) => scenario.queues.map((queue) => ({ scenario, queue })))
  return { ...values, rounds, seconds, runs: runs.filter((it) => !values.queue || it.queue === values.queue) }
}

async function main() {
  const options = readOptions()
  if (options.help) return void process.stdout.write(usage)
  const closers = createClosers()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => {
      stopping ??= closers.closeAll().finally(() => process.exit(interrupted))
    })
  }
  const results: Measured[] = []
  try {
    say('Starting ClickHouse and Postgres in a temporary folder')
    const stores = await openBenchStores(closers)
    if (!stores.urls.redisUrl) {
      say('Redis is absent (no redis-server on the PATH, no REDIS_URL): its scenarios are left out.')
    }
    for (const { scenario, queue } of options.runs) {
      if (queue === 'redis' && !stores.urls.redisUrl) continue
      results.push(await runOne(scenario, queue))
    }

    async function runOne(scenario: Scenario, queue: Measured['queue']): Promise<Measured> {
      const profileFolder = options.profile
        ? path.join(resultsFolder, 'profiles', `${scenario.name}-${queue}`)
        : undefined
      const progress = (text: string) => say(`${scenario.name} on ${queue}: ${text}`)
      const { rounds, seconds } = options
      const measured = await measure({
        scenario,
        queue,
        stores,
        rounds,
        seconds,
        profileFolder,
        closersOfBench: closers,
        progress,
      })
      if (measured.verified) {
        const { points, pointsReadOverHttp } = measured.verified
        progress(`all ${points} acknowledged points are stored once; ${pointsReadOverHttp} read over HTTP are the same`)
      }
      if (profileFolder && !options.json) process.stdout.write(await describeProfiles(profileFolder, measured))
      return measured
    }
  } finally {
    await closers.closeAll()
  }
  const report = {
    at: new Date().toISOString(),
    machine: describeMachine(),
    options: { ...options, runs: undefined },
    results,
  }
  const file = path.join(resultsFolder, `${report.at.replaceAll(':', '-')}.json`)
  await mkdir(resultsFolder, { recursive: true })
  await writeFile(file, `${JSON.stringify(report, null, 2)}\n`)
  if (options.json) process.stdout.write(`${JSON.stringify(report)}\n`)
  else
    process.stdout.write(
      `\n${report.machine}\n\n${renderReport(results, describeTerminal(process.stdout, process.env))}`,
    )
  say(`Written to ${path.relative(process.cwd(), file)}`)
}

function describeMachine(): string {
  const processors = cpus()
  return `${processors.length} x ${processors[0]?.model.trim()}, ${Math.round(totalmem() / 2 ** 30)} GiB, Node ${process.version}`
}

function say(text: string) {
  process.stderr.write(`${terminal.paint('dim', text)}\n`)
}

try {
  await main()
} catch (error) {
  await stopping
  process.stderr.write(`bench: ${error instanceof Error ? error.message : String(error)}\n`)
  process.exit(1)
}
