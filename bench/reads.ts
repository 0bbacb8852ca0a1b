import { describeTerminal } from '../cli/terminal/terminal.ts'
import { openClickHouse } from '../store/clickhouse/connection.ts'
import { storedValue } from '../store/clickhouse/points/tables.ts'
import { openDatabase } from '../store/postgres/database.ts'
import { contextOf, nameOf } from '../test/kit/curves.ts'
import { readCommand, runCommand, say } from './command.ts'
import { measureBytesPerPoint } from './contenders/stored-points.ts'
import { openBenchStores } from './contenders/stores.ts'
import { type System, startSystem } from './contenders/system.ts'
import { createExperiments } from './load/experiments.ts'
import { storeChunks, storeSeries } from './load/stored-series.ts'
import { renderTable, spread } from './report/report.ts'
import { describeMachine, keepResults } from './report/results.ts'

/**
 * `npm run bench:reads`: measures sequential reads over HTTP until the end of each answer: a series of 10 million points as
 * 1,000 buckets, one of 400 points, both stored as rows and as chunks, and the summary of 10,000 metrics. The first alternates with the simplest query that
 * returns 1,000 buckets directly from ClickHouse.
 */
const usage = `Usage: npm run bench:reads -- [--rounds N] [--seconds N] [--json]\n`

const longSteps = 10_000_000
const buckets = 1_000
const shortSteps = 400
const wideMetrics = 10_000
const wideSteps = 10

type ReadRound = {
  calls: number
  p50Ms: number
  p99Ms: number
  /** Of all processes of the service and its stores, for each call; undefined without /proc. */
  cpuMs: number | undefined
}

export type Read = { name: string; about: string; rounds: ReadRound[] }

await runCommand(async (closers) => {
  const options = readCommand(usage, { rounds: 5, seconds: 4 })
  if (!options) return
  const { rounds, seconds } = options
  say('Starting the stores')
  const stores = await openBenchStores(closers)
  const system = await startSystem({
    target: 'rawInserts',
    queue: 'postgres',
    stores,
    closers,
    profileFolder: undefined,
  })
  const clickhouse = openClickHouse({ url: stores.urls.clickhouseUrl, readTimeoutMs: 300_000 })
  closers.push(() => clickhouse.close())
  const { keys, ids } = await createExperiments(system.readUrl, stores, 4)
  const [long, short, wide, chunked] = keys.map((key, index) => ({ key, id: BigInt(ids[index] as string) }))
  if (!long || !short || !wide || !chunked) throw new Error('The experiments could not be made.')
  say('Writing 10 million points of one series, and the others')
  const database = openDatabase({ url: stores.urls.postgresUrl, connectionsMax: 1, onError: () => undefined })
  closers.push(() => database.close())
  const inStores = { clickhouse, database }
  await storeSeries(inStores, long.id, { metrics: 1, steps: longSteps })
  await storeSeries(inStores, short.id, { metrics: 50, steps: shortSteps })
  await storeSeries(inStores, wide.id, { metrics: wideMetrics, steps: wideSteps })
  await storeChunks(inStores, chunked.id, { metrics: 1, steps: longSteps })
  await storeChunks(inStores, chunked.id, { metrics: 50, steps: shortSteps })
  // Waits for merges that are still running.
  const bytesPerPoint = await measureBytesPerPoint(clickhouse)

  const overHttp = (path: string, query: Record<string, string>) => async () => {
    const url = `${system.readUrl}/api/rest/v2/experiment/${path}?${new URLSearchParams(query)}`
    const answer = await fetch(url, { headers: { authorization: stores.apiKey } })
    const body = await answer.arrayBuffer()
    if (answer.status !== 200) throw new Error(`${path} was answered ${answer.status}.`)
    return body.byteLength
  }
  /** @param part of the range, from the middle on */
  const drawn = (experimentKey: string, part?: number) => async () => {
    const from = longSteps / 2
    const range = part === undefined ? {} : { from, to: from + longSteps * part - 1 }
    const answer = await fetch(`${system.readUrl}/api/rest/v2/experiments/series`, {
      method: 'POST',
      headers: { authorization: stores.apiKey, 'content-type': 'application/json' },
      body: JSON.stringify({ series: [{ experimentKey, metricName: nameOf(0) }], points: buckets, ...range }),
    })
    const body = await answer.arrayBuffer()
    if (answer.status !== 200) throw new Error(`experiments/series was answered ${answer.status}.`)
    return body.byteLength
  }
  const plain = `SELECT intDiv(step, ${longSteps / buckets}) AS bucket, min(${storedValue}), max(${storedValue})
    FROM ${clickhouse.database}.points
    WHERE experiment_id = {id:UInt64} AND metric = {metric:String} AND context = {context:String}
    GROUP BY bucket ORDER BY bucket`
  const reads: (Read & { call(): Promise<unknown> })[] = [
    {
      name: 'buckets',
      about: '10 million points as 1,000 buckets, each with the points of its minimum and maximum',
      call: overHttp('metrics/get-metric', {
        experimentKey: long.key,
        metricName: nameOf(0),
        maxPoints: String(2 * buckets),
      }),
    },
    {
      name: 'buckets-engine',
      about: 'the engine alone: minimum and maximum of 1,000 buckets of the same points',
      call: () => clickhouse.rows(plain, { id: String(long.id), metric: nameOf(0), context: contextOf(0) }),
    },
    {
      name: 'short',
      about: 'a series of 400 points, whole',
      call: overHttp('metrics/get-metric', { experimentKey: short.key, metricName: nameOf(1) }),
    },
    {
      name: 'buckets-chunks',
      about: '10 million points as 1,000 buckets, stored as chunks of 1,000',
      call: overHttp('metrics/get-metric', {
        experimentKey: chunked.key,
        metricName: nameOf(0),
        maxPoints: String(2 * buckets),
      }),
    },
    { name: 'drawn', about: 'the same points as a page draws them, stored as rows', call: drawn(long.key) },
    { name: 'drawn-chunks', about: 'and stored as chunks of 1,000', call: drawn(chunked.key) },
    { name: 'zoomed', about: 'a hundredth of them, stored as rows', call: drawn(long.key, 0.01) },
    { name: 'zoomed-chunks', about: 'and stored as chunks of 1,000', call: drawn(chunked.key, 0.01) },
    { name: 'zoomed-far', about: 'a ten-thousandth of them, stored as rows', call: drawn(long.key, 0.0001) },
    { name: 'zoomed-far-chunks', about: 'and stored as chunks of 1,000', call: drawn(chunked.key, 0.0001) },
    {
      name: 'short-chunks',
      about: 'a series of 400 points, whole, stored as a chunk',
      call: overHttp('metrics/get-metric', { experimentKey: chunked.key, metricName: nameOf(1) }),
    },
    {
      name: 'summary',
      about: 'the summary of an experiment with 10,000 metrics',
      call: overHttp('metrics/summary', { experimentKey: wide.key }),
    },
  ].map((it) => ({ ...it, rounds: [] }))

  say('Warming up')
  for (const read of reads) await repeat(read.call, Math.min(1, seconds), system)
  for (let round = 1; round <= rounds; round++) {
    say(`Round ${round} of ${rounds}`)
    for (const read of reads) read.rounds.push(await repeat(read.call, seconds, system))
  }
  const results: Read[] = reads.map(({ name, about, rounds }) => ({ name, about, rounds }))
  const file = await keepResults('reads', { rounds, seconds, bytesPerPoint }, results)
  process.stdout.write(options.json ? `${JSON.stringify(results)}\n` : render(results))
  say(`Written to ${file}`)
})

/** Repeats a call for this many seconds. */
async function repeat(call: () => Promise<unknown>, seconds: number, system: System): Promise<ReadRound> {
  const tookMs: number[] = []
  const before = await system.readCpu()
  const endsAt = performance.now() + seconds * 1_000
  while (performance.now() < endsAt) {
    const startedAt = performance.now()
    await call()
    tookMs.push(performance.now() - startedAt)
  }
  const after = await system.readCpu()
  const cpuMs = before && after && ((sumOf(after) - sumOf(before)) * 1_000) / tookMs.length
  tookMs.sort((a, b) => a - b)
  const share = (part: number) => tookMs[Math.min(tookMs.length - 1, Math.floor(tookMs.length * part))] as number
  return { calls: tookMs.length, p50Ms: share(0.5), p99Ms: share(0.99), cpuMs }
}

function sumOf(cpu: Record<string, number>): number {
  return Object.values(cpu).reduce((sum, it) => sum + it, 0)
}

function render(reads: Read[]): string {
  const rows = reads.map(({ about, rounds }) => [
    about,
    spread(
      rounds.map((it) => it.p50Ms),
      1,
    ),
    spread(
      rounds.map((it) => it.p99Ms),
      1,
    ),
    rounds.some((it) => it.cpuMs === undefined)
      ? 'unknown'
      : spread(
          rounds.map((it) => it.cpuMs as number),
          1,
        ),
    String(rounds.reduce((sum, it) => sum + it.calls, 0)),
  ])
  return (
    `\n${describeMachine()}\n\nReads one after the other; median (least - greatest round)\n\n` +
    `${renderTable([['read', 'p50 ms', 'p99 ms', 'CPU ms', 'calls'], ...rows], describeTerminal(process.stdout, process.env), { left: 1 })}\n`
  )
}
