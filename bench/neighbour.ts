import { setTimeout as sleep } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { describeTerminal } from '../cli/terminal/terminal.ts'
import { openClickHouse } from '../store/clickhouse/connection.ts'
import { ensureUser } from '../store/postgres/accounts/accounts.ts'
import { createApiKey } from '../store/postgres/accounts/api-key.ts'
import { insertApiKey } from '../store/postgres/accounts/keys.ts'
import { openDatabase } from '../store/postgres/database.ts'
import { dataSet, nameOf } from '../test/kit/curves.ts'
import { readCommand, runCommand, say } from './command.ts'
import { type BenchStores, openBenchStores } from './contenders/stores.ts'
import { startSystem } from './contenders/system.ts'
import { createExperiments } from './load/experiments.ts'
import { startGreedy } from './load/start-greedy.ts'
import { startLoadProcess } from './load/start-load-process.ts'
import { storeChunks } from './load/stored-series.ts'
import { median, renderTable, spread } from './report/report.ts'
import { describeMachine } from './report/results.ts'

/**
 * `npm run bench:neighbour`: measures what a greedy tenant does to a quiet one. The quiet workspace sends a point 20 ms after
 * the one before, reads a series 50 ms after the one before and has a live stream open, alternately alone and beside a workspace that writes batches of 1,000
 * points, reads series of a million points, exports them and opens streams, as fast as it can, and ignores Retry-After. That one
 * uses up its burst of points before each round, and its processes run when nothing else does: its machines are others than ours.
 */
const usage = `Usage: npm run bench:neighbour -- [--rounds N] [--seconds N] [--json]\n`

// This process is the quiet tenant: the slowest of its writes were those during which it collected its own heap, each two seconds.
setFlagsFromString('--heap-growing-percent=1000')

const writeEveryMs = 20
const readEveryMs = 50
const warmUpSeconds = 4
const burstRunsMax = 60
const settleSeconds = 6
const aloneMsMin = 500
const liveMsMax = 60_000

/** A limit that the greedy tenant comes to on a small machine. */
const pointsPerMinute = 300_000
const greedyWriters = 8
const greedyReaders = 16
const greedyExports = 4
/** More than a workspace may have. */
const greedyStreams = 60
const long = { metrics: 1, steps: 1_000_000 }
const short = { metrics: 1, steps: 400 }

/** Milliseconds of each call. One after the other: calls that come on time would queue up on a machine that is busy otherwise. */
type Round = Record<Kind, number[]> & { failed: number }
type Kind = (typeof kinds)[number]
const kinds = ['write', 'read', 'live'] as const

async function openTenant(stores: BenchStores, name: string) {
  const database = openDatabase({ url: stores.urls.postgresUrl, connectionsMax: 1, onError: () => undefined })
  try {
    const user = { userName: name, workspaceName: name, organizationName: 'default', isAdmin: false }
    const { userId } = await ensureUser(database, user)
    const apiKey = createApiKey()
    await insertApiKey(database, userId, apiKey)
    return { apiKey, workspaceName: name }
  } finally {
    await database.close()
  }
}

type Quiet = {
  system: { readUrl: string; writeUrl: string }
  apiKey: string
  experimentKey: string
  seconds: number
}

async function measureQuiet({ system, apiKey, experimentKey, seconds }: Quiet): Promise<Round> {
  const tookMs: Round = { write: [], read: [], live: [], failed: 0 }
  const headers = { authorization: apiKey, 'content-type': 'application/json' }
  const begin = performance.now()
  const end = begin + seconds * 1_000
  /** By step, from when a point is acknowledged. */
  const sentAt = new Map<number, number>()
  const firstStep = Math.floor(Date.now() / 10)
  const stop = new AbortController()

  const stream = await fetch(
    `${system.readUrl}/api/rest/v2/experiment/stream?${new URLSearchParams({ experimentKey })}`,
    {
      headers,
      signal: stop.signal,
    },
  )
  if (stream.status !== 200 || !stream.body) throw new Error(`The quiet stream was answered ${stream.status}.`)
  const follow = followSteps(stream.body, (step) => {
    const at = sentAt.get(step)
    if (at === undefined) return
    sentAt.delete(step)
    tookMs.live.push(performance.now() - at)
  })

  async function repeat(kind: 'write' | 'read', everyMs: number, call: (index: number) => Promise<Response>) {
    for (let index = 0; performance.now() < end; index++) {
      await sleep(everyMs)
      const at = performance.now()
      const answer = await call(index)
      const { byteLength } = await answer.arrayBuffer()
      tookMs[kind].push(performance.now() - at)
      if (answer.status === 200) {
        if (kind === 'read' && byteLength < short.steps) throw new Error('The series that is read has no points.')
        continue
      }
      tookMs.failed++
      // It will not come by the stream.
      if (kind === 'write') sentAt.delete(firstStep + index)
    }
  }
  const write = async (index: number) => {
    const step = firstStep + index
    const body = JSON.stringify({ experimentKey, metricName: 'live', metricValue: 1, step })
    sentAt.set(step, performance.now())
    return await fetch(`${system.writeUrl}/api/rest/v2/write/experiment/metric`, { method: 'POST', headers, body })
  }
  const query = new URLSearchParams({ experimentKey, metricName: nameOf(0) })
  const read = () => fetch(`${system.readUrl}/api/rest/v2/experiment/metrics/get-metric?${query}`, { headers })
  await Promise.all([repeat('write', writeEveryMs, write), repeat('read', readEveryMs, read)])
  const giveUpAt = performance.now() + liveMsMax
  while (sentAt.size > 0) {
    if (performance.now() > giveUpAt) throw new Error(`${sentAt.size} points did not come by the live stream.`)
    await sleep(20)
  }
  stop.abort()
  await follow
  return tookMs
}

/** Reads the steps of points from Server-Sent Events until the stream is aborted. */
async function followSteps(body: AsyncIterable<Uint8Array>, onStep: (step: number) => void): Promise<void> {
  const decoder = new TextDecoder()
  let rest = ''
  try {
    for await (const chunk of body) {
      const events = (rest + decoder.decode(chunk, { stream: true })).split('\n\n')
      rest = events.pop() ?? ''
      for (const event of events) {
        if (!/^event: metrics$/m.test(event)) continue
        const data = /^data: (.*)$/m.exec(event)?.[1] ?? '{}'
        for (const { step } of (JSON.parse(data) as { metrics: { step: number }[] }).metrics) onStep(Number(step))
      }
    }
  } catch (error) {
    if ((error as Error).name !== 'AbortError') throw error
  }
}

const toShare = (values: number[], part: number) =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length * part)] ?? Number.NaN

function compare(kind: Kind, alone: Round[], beside: Round[]) {
  const toParts = (rounds: Round[]) => ({
    p50Ms: rounds.map((it) => toShare(it[kind], 0.5)),
    p99Ms: rounds.map((it) => toShare(it[kind], 0.99)),
  })
  const [inAlone, inBeside] = [toParts(alone), toParts(beside)]
  return { kind, alone: inAlone, beside: inBeside, ratioOfP99: median(inBeside.p99Ms) / median(inAlone.p99Ms) }
}

const sum = (values: number[]) => values.reduce((all, it) => all + it, 0)
const sumFailed = (rounds: Round[]) => rounds.reduce((sum, it) => sum + it.failed, 0)

const mapValues = (all: Record<string, number>, change: (it: number) => number) =>
  Object.fromEntries(Object.entries(all).map(([name, it]) => [name, change(it)]))

const medianOfEach = (rounds: Record<string, number>[]) =>
  Object.fromEntries(Object.keys(rounds[0] ?? {}).map((name) => [name, median(rounds.map((it) => it[name] ?? 0))]))

type Result = {
  queue: string
  quiet: ReturnType<typeof compare>[]
  /** Calls that were not answered 200. */
  quietFailed: { alone: number; beside: number }
  greedyPerSecond: Record<string, number>
  /** Cores that each process of the service took, and the stores. */
  cores: { alone: Record<string, number>; beside: Record<string, number> }
}

const about: Record<Kind, string> = {
  write: 'a point is acknowledged',
  read: 'a series of 400 points is read',
  live: 'a point comes by a live stream',
}

function render({ queue, quiet, quietFailed, greedyPerSecond, cores }: Result): string {
  const rows = quiet.map(({ kind, alone, beside, ratioOfP99 }) => [
    about[kind],
    spread(alone.p50Ms, 1),
    spread(beside.p50Ms, 1),
    spread(alone.p99Ms, 1),
    spread(beside.p99Ms, 1),
    ratioOfP99.toFixed(2),
  ])
  const heads = ['of the quiet tenant', 'p50 ms alone', 'beside', 'p99 ms alone', 'beside', 'p99 ratio']
  const taken = Object.entries(greedyPerSecond).map(([name, it]) => `${name} ${it.toFixed(1)}`)
  const renderCores = (taken: Record<string, number>) =>
    Object.entries(taken)
      .map(([name, it]) => `${name} ${it.toFixed(2)}`)
      .join(', ')
  return (
    `\n${describeMachine()}\n\nA quiet tenant alone and beside a greedy one, queue in ${queue}; median (least - greatest round)\n\n` +
    `${renderTable([heads, ...rows], describeTerminal(process.stdout, process.env), { left: 1 })}\n` +
    `\nCalls of the quiet tenant that failed: ${quietFailed.alone} alone, ${quietFailed.beside} beside.\n` +
    `The greedy tenant each second: ${taken.join(', ')}.\n` +
    `Cores alone: ${renderCores(cores.alone)}; beside: ${renderCores(cores.beside)}.\n`
  )
}

await runCommand(async (closers) => {
  const options = readCommand(usage, { rounds: 5, seconds: 6 })
  if (!options) return
  const { rounds, seconds } = options
  say('Starting the stores and the service')
  const stores = await openBenchStores(closers)
  const queue = stores.urls.redisUrl ? 'redis' : 'postgres'
  const system = await startSystem({
    target: 'service',
    queue,
    stores,
    closers,
    profileFolder: undefined,
    settings: {
      SVC_EXPORTS_PER_USER_MAX: String(greedyExports),
      SVC_WORKSPACE_POINTS_PER_MINUTE: String(pointsPerMinute),
    },
  })
  const clickhouse = openClickHouse({ url: stores.urls.clickhouseUrl })
  closers.push(() => clickhouse.close())
  const quiet = await openTenant(stores, 'quiet')
  const greedy = await openTenant(stores, 'greedy')
  const ofQuiet = await createExperiments(system.readUrl, stores, 1, quiet)
  const ofGreedy = await createExperiments(system.readUrl, stores, 2, greedy)
  say('Writing a million points to read')
  const database = openDatabase({ url: stores.urls.postgresUrl, connectionsMax: 1, onError: () => undefined })
  closers.push(() => database.close())
  await storeChunks({ clickhouse, database }, BigInt(ofQuiet.ids[0] as string), short)
  await storeChunks({ clickhouse, database }, BigInt(ofGreedy.ids[0] as string), long)
  const load = startLoadProcess({ isElsewhere: true })
  closers.push(() => load.close())
  await load.prepare({
    kind: 'prepareHttp',
    url: system.writeUrl,
    apiKey: greedy.apiKey,
    dialect: 'service',
    data: dataSet,
    shape: { kind: 'rows', stepsPerRequest: 20 },
    connections: greedyWriters,
    experimentKeys: Array(dataSet.experiments * 10_000).fill(ofGreedy.keys[1] as string),
  })
  const taker = startGreedy()
  closers.push(() => taker.close())
  const named = { experimentKey: ofGreedy.keys[0] as string, metricName: nameOf(0) }
  const takeAll = (forSeconds: number) =>
    taker.run({
      url: system.readUrl,
      apiKey: greedy.apiKey,
      seconds: forSeconds,
      reads: {
        loops: greedyReaders,
        path: `experiment/metrics/get-metric?${new URLSearchParams({ ...named, maxPoints: '2000' })}`,
      },
      exports: {
        loops: greedyExports,
        path: `export/metrics?${new URLSearchParams({ workspaceName: greedy.workspaceName, projectName: 'bench' })}`,
      },
      streams: {
        loops: greedyStreams,
        path: `experiment/stream?${new URLSearchParams({ experimentKey: named.experimentKey })}`,
      },
    })
  const runQuiet = (forSeconds: number) =>
    measureQuiet({ system, apiKey: quiet.apiKey, experimentKey: ofQuiet.keys[0] as string, seconds: forSeconds })

  say('Warming up')
  await runQuiet(2)
  await Promise.all([runQuiet(warmUpSeconds), load.run(warmUpSeconds), takeAll(warmUpSeconds)])
  /** It saves points up again while the quiet tenant is alone. What it wrote above its limit is merged for some seconds after. */
  async function spendBurst() {
    for (let at = 0; sum(Object.values((await load.run(2)).errors)) === 0; at++) {
      if (at === burstRunsMax) throw new Error('The greedy tenant does not come to its limit of points.')
    }
    await load.run(settleSeconds)
  }
  const alone: Round[] = []
  const beside: Round[] = []
  const taken: Record<string, number>[] = []
  const cores: Record<'alone' | 'beside', Record<string, number>[]> = { alone: [], beside: [] }
  /** Runs a round and notes the cores that it took. */
  async function measured<T>(which: keyof typeof cores, round: () => Promise<T>): Promise<T> {
    const [atMs, before] = [performance.now(), await system.readCpu()]
    const result = await round()
    const [tookMs, after] = [performance.now() - atMs, await system.readCpu()]
    const shares = Object.entries(after ?? {}).map(([name, it]) => [
      name,
      ((it - (before?.[name] ?? 0)) * 1_000) / tookMs,
    ])
    cores[which].push(Object.fromEntries(shares))
    return result
  }
  for (let round = 1; round <= rounds; round++) {
    say(`Round ${round} of ${rounds}`)
    await sleep(aloneMsMin)
    alone.push(await measured('alone', () => runQuiet(seconds)))
    await spendBurst()
    const [it, written, report] = await measured('beside', () =>
      Promise.all([runQuiet(seconds), load.run(seconds), takeAll(seconds)]),
    )
    beside.push(it)
    const points = written.acknowledged.reduce((sum, it) => sum + (it ?? 0), 0)
    const refusedWrites = Object.values(written.errors).reduce((sum, it) => sum + it, 0)
    taken.push({ points, refusedWrites, ...report })
  }

  const result = {
    queue,
    quiet: kinds.map((kind) => compare(kind, alone, beside)),
    quietFailed: { alone: sumFailed(alone), beside: sumFailed(beside) },
    greedyPerSecond: medianOfEach(taken.map((it) => mapValues(it, (count) => count / seconds))),
    cores: { alone: medianOfEach(cores.alone), beside: medianOfEach(cores.beside) },
  }
  process.stdout.write(options.json ? `${JSON.stringify(result)}\n` : render(result))
})
