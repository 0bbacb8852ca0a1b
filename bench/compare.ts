import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { describeTerminal } from '../cli/terminal/terminal.ts'
import { type Closers, createClosers } from '../runtime/closers.ts'
import type { AppendFsync } from '../test/kit/stores/redis.ts'
import { readNumbers, runCommand, say } from './command.ts'
import { type Comparison, comparisons, type Side } from './contenders/comparisons.ts'
import { type Contender, measure } from './contenders/contender.ts'
import { type Scenario, scenarios } from './contenders/scenarios.ts'
import { openService } from './contenders/service.ts'
import { openBenchStores } from './contenders/stores.ts'
import { besideSlowClients } from './load/slow-clients.ts'
import { mlflowPackage } from './peers/mlflow.ts'
import { openPeer, type Peer } from './peers/peer.ts'
import { PeerAbsent } from './peers/program.ts'
import { installPackage } from './peers/python.ts'
import { trackioPackage } from './peers/trackio.ts'
import { type Compared, renderComparison } from './report/report.ts'
import { describeMachine, keepResults } from './report/results.ts'

/**
 * `npm run bench:compare [-- NAME ...]`: compares the service, our baselines and other servers, alternating round by round.
 * README.md explains the output.
 */
const usage = `Usage: npm run bench:compare -- [options] [NAME ...]

  --rounds N        rounds of each side (default 5)
  --seconds N       how long each round sends (default 5)
  --fsync WHEN      of Redis, always (default) or everysec: before it answers, or within a second
  --without NAME    leave a peer out; may be given again
  --install         first install those peers that come from PyPI, into bench/.peers (or BENCH_PEERS)
  --json            print the results as JSON

Names (all when none is given):
${comparisons.map((it) => `  ${it.name.padEnd(10)} ${it.about}${it.peers.length > 0 ? `; ${it.peers.map((peer) => peer.name).join(', ')}` : ''}`).join('\n')}
`

const redisAbsent =
  'Redis is absent: install it with "apt-get install redis-server" (Debian), or set REDIS_URL. The queue is in Postgres.'

type Options = { rounds: number; seconds: number; fsync: AppendFsync; without: string[] }

function readOptions() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      rounds: { type: 'string', default: '5' },
      seconds: { type: 'string', default: '5' },
      fsync: { type: 'string', default: 'always' },
      without: { type: 'string', multiple: true, default: [] },
      install: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  const unknown = positionals.filter((name) => !comparisons.some((it) => it.name === name))
  if (unknown.length > 0) throw new Error(`There is no comparison ${unknown.join(', ')}.\n\n${usage}`)
  const chosen = positionals.length === 0 ? comparisons : comparisons.filter((it) => positionals.includes(it.name))
  return { ...values, ...readNumbers(values), chosen }
}

async function main(closers: Closers) {
  const options = readOptions()
  if (options.help) return void process.stdout.write(usage)
  if (options.install) {
    for (const wanted of [mlflowPackage, trackioPackage]) {
      say(`Installing ${wanted.name} ${wanted.version} from PyPI, unless it is there`)
      // A failed install skips only this peer.
      await installPackage(wanted).catch((error: Error) => say(`It could not be installed: ${error.message}`))
    }
  }
  const results: Compared[] = []
  const { rounds, seconds, fsync, without } = options
  const terminal = describeTerminal(process.stdout, process.env)
  for (const comparison of options.chosen) {
    const closersOfRun = createClosers()
    closers.push(() => closersOfRun.closeAll())
    try {
      const compared = await compare(comparison, options, closersOfRun)
      results.push(compared)
      // One file per comparison, so that a later failure loses no results.
      await keepResults('compare', { rounds, seconds, fsync, without }, [compared])
      if (!options.json) process.stdout.write(renderComparison(comparison, compared, terminal))
    } finally {
      await closersOfRun.closeAll()
    }
  }
  if (options.json) process.stdout.write(`${JSON.stringify(results)}\n`)
  else process.stdout.write(`\n${describeMachine()}; kept in bench/results, see "npm run bench:report"\n`)
}

async function compare(comparison: Comparison, options: Options, closers: Closers): Promise<Compared> {
  const contenders: Contender[] = []
  const absent: string[] = []
  for (const side of comparison.ours) {
    const contender = await openSide(side, options, closers)
    if (contender) contenders.push(contender)
    if (side.queue === 'redis' && contender?.about.queue !== 'redis') absent.push(redisAbsent)
  }
  const scenario = scenarioOf(comparison.ours[0] as Side)
  const folder = await mkdtemp(path.join(tmpdir(), 'svc-bench-peers-'))
  closers.push(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }))
  for (const peer of comparison.peers) {
    if (options.without.includes(peer.name)) continue
    try {
      contenders.push(await openOther(peer, scenario, folder, options, closers))
    } catch (error) {
      if (!(error instanceof PeerAbsent)) throw error
      say(error.message)
      absent.push(error.message)
    }
  }
  const { rounds, seconds } = options
  const measured = await measure({
    contenders,
    rounds,
    seconds,
    progress: (text) => say(`${comparison.name}: ${text}`),
  })
  return { comparison: comparison.name, measured, absent: [...new Set(absent)] }
}

/** Uses the queue in Postgres if there is no Redis; undefined if the side requires Redis. */
async function openSide(side: Side, options: Options, closers: Closers): Promise<Contender | undefined> {
  const scenario = scenarioOf(side)
  const { rounds, seconds } = options
  const stores = await openBenchStores(closers, side.fsync ?? options.fsync)
  const isWithoutRedis = side.queue === 'redis' && !stores.urls.redisUrl
  if (isWithoutRedis && (side.fsync || !scenario.queues.includes('postgres'))) return undefined
  const service = await openService({
    scenario,
    queue: isWithoutRedis ? 'postgres' : side.queue,
    stores,
    roundsInAll: rounds + 1,
    secondsInAll: (rounds + 1) * seconds,
    profileFolder: undefined,
    closers,
    progress: (text) => say(`${scenario.name}: ${text}`),
  })
  if (side.fsync) service.about.scenario += `, fsync ${side.fsync}`
  return side.slowClients === undefined ? service : besideSlowClients(service, stores.apiKey, side.slowClients)
}

function openOther(peer: Peer, scenario: Scenario, folder: string, { rounds, seconds }: Options, closers: Closers) {
  return openPeer(peer, {
    scenario,
    folder,
    roundsInAll: rounds + 1,
    secondsInAll: (rounds + 1) * seconds,
    closers,
    progress: (text) => say(`${peer.name}: ${text}`),
  })
}

function scenarioOf({ scenario }: Side): Scenario {
  return scenarios.find((it) => it.name === scenario) as Scenario
}

await runCommand(main)
