import path from 'node:path'
import { parseArgs } from 'node:util'
import { describeTerminal } from '../cli/terminal/terminal.ts'
import { type Closers, createClosers } from '../runtime/closers.ts'
import { readNumbers, runCommand, say } from './command.ts'
import { type Measured, measure } from './contenders/contender.ts'
import { type Scenario, scenarios } from './contenders/scenarios.ts'
import { openService } from './contenders/service.ts'
import { openBenchStores } from './contenders/stores.ts'
import { describeProfiles } from './report/profile.ts'
import { renderReport } from './report/report.ts'
import { describeMachine, keepResults, resultsFolder } from './report/results.ts'

/**
 * `npm run bench [-- NAME ...]`: measures points per second stored through the whole service, and their cost. README.md
 * explains the output.
 */

const usage = `Usage: npm run bench -- [options] [NAME ...]

  --rounds N      rounds of each scenario (default 3)
  --seconds N     how long each round sends (default 5)
  --queue KIND    only on redis, or only on postgres
  --fsync WHEN    of Redis, always (default) or everysec: before it answers, or within a second
  --profile       also profile ingest and worker: where the microseconds go
  --json          print the results as JSON

Names (all when none is given):
${scenarios.map((it) => `  ${it.name.padEnd(24)} ${it.about}`).join('\n')}
`

function readOptions() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      rounds: { type: 'string', default: '3' },
      seconds: { type: 'string', default: '5' },
      queue: { type: 'string' },
      fsync: { type: 'string', default: 'always' },
      profile: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  const unknown = positionals.filter((name) => !scenarios.some((it) => it.name === name))
  if (unknown.length > 0) throw new Error(`There is no scenario ${unknown.join(', ')}.\n\n${usage}`)
  const chosen = positionals.length === 0 ? scenarios : scenarios.filter((it) => positionals.includes(it.name))
  const runs = chosen.flatMap((scenario) => scenario.queues.map((queue) => ({ scenario, queue })))
  return { ...values, ...readNumbers(values), runs: runs.filter((it) => !values.queue || it.queue === values.queue) }
}

async function main(closers: Closers) {
  const options = readOptions()
  if (options.help) return void process.stdout.write(usage)
  const results: Measured[] = []
  say('Starting ClickHouse and Postgres in a temporary folder')
  const stores = await openBenchStores(closers, options.fsync)
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
    const closersOfRun = createClosers()
    closers.push(() => closersOfRun.closeAll())
    let measured: Measured
    try {
      const contender = await openService({
        scenario,
        queue,
        stores,
        roundsInAll: rounds + 1,
        secondsInAll: (rounds + 1) * seconds,
        profileFolder,
        closers: closersOfRun,
        progress,
      })
      measured = (await measure({ contenders: [contender], rounds, seconds, progress: say }))[0] as Measured
    } finally {
      await closersOfRun.closeAll()
    }
    if (profileFolder && !options.json) process.stdout.write(await describeProfiles(profileFolder, measured))
    return measured
  }
  const file = await keepResults('bench', { ...options, runs: undefined }, results)
  if (options.json) process.stdout.write(`${JSON.stringify(results)}\n`)
  else
    process.stdout.write(
      `\n${describeMachine()}\n\n${renderReport(results, describeTerminal(process.stdout, process.env))}`,
    )
  say(`Written to ${file}`)
}

await runCommand(main)
