import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { describeTerminal } from '../cli/terminal/terminal.ts'
import { createClosers } from '../runtime/closers.ts'
import { openClickHouse } from '../store/clickhouse/connection.ts'
import { dataSet } from '../test/kit/curves.ts'
import { openBenchStores } from './contenders/stores.ts'
import { startSystem } from './contenders/system.ts'
import { createExperiments } from './load/experiments.ts'
import { startLoadProcess } from './load/start-load-process.ts'
import { median } from './report/report.ts'

/**
 * `npm run bench:neighbour`: measures the effect of a runaway experiment on a quiet one. The quiet one sends a point every
 * 20 ms, alternately alone and beside a neighbour that sends batches of 1,000 points as fast as it can and ignores
 * Retry-After. By the default limit the neighbour may store 20,000 points/s.
 */
const usage = `Usage: npm run bench:neighbour -- [--rounds N] [--seconds N] [--json]\n`

const quietEveryMs = 20
const runawayConnections = 8
/** Long enough to use up the initial burst of a bucket. */
const warmUpSeconds = 6

type QuietRound = { tookMs: number[]; readableMs: number }

async function main() {
  const { values } = parseArgs({
    options: {
      rounds: { type: 'string', default: '5' },
      seconds: { type: 'string', default: '6' },
      json: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  if (values.help) return void process.stdout.write(usage)
  const [rounds, seconds] = [Number(values.rounds), Number(values.seconds)]
  if (!(rounds >= 1) || !(seconds > 0 && seconds <= 120))
    throw new Error(`--rounds from 1, --seconds up to 120.\n${usage}`)
  const closers = createClosers()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => closers.closeAll().finally(() => process.exit(130)))
  }
  try {
    say('Starting the stores and the service')
    const stores = await openBenchStores(closers)
    const queue = stores.urls.redisUrl ? 'redis' : 'postgres'
    const system = await startSystem({ target: 'service', queue, stores, closers, profileFolder: undefined })
    const clickhouse = openClickHouse({ url: stores.urls.clickhouseUrl })
    closers.push(() => clickhouse.close())
    const { keys, ids } = await createExperiments(system.readUrl, stores, 2)
    const [quietKey, runawayKey] = keys as [string, string]
    const load = startLoadProcess()
    closers.push(() => load.close())
    await load.prepare({
      kind: 'prepareHttp',
      url: system.writeUrl,
      apiKey: stores.apiKey,
      dialect: 'service',
      data: dataSet,
      shape: { kind: 'rows', stepsPerRequest: 20 },
      connections: runawayConnections,
      experimentKeys: Array(dataSet.experiments * 10_000).fill(runawayKey),
    })

    let sent = 0
    async function sendPoint() {
      const answer = await fetch(`${system.writeUrl}/api/rest/v2/write/experiment/metric`, {
        method: 'POST',
        headers: { authorization: stores.apiKey, 'content-type': 'application/json' },
        body: JSON.stringify({ experimentKey: quietKey, metricName: 'loss', metricValue: 1, step: sent }),
      })
      await answer.arrayBuffer()
      if (answer.status !== 200) throw new Error(`The quiet experiment was answered ${answer.status}.`)
      sent++
    }

    async function runQuiet(roundSeconds: number): Promise<QuietRound> {
      const tookMs: number[] = []
      const startedAt = performance.now()
      for (let at = startedAt; at < startedAt + roundSeconds * 1_000; at += quietEveryMs) {
        await sleep(Math.max(0, at - performance.now()))
        // Measured from when the point was due, so a wait for the previous one counts.
        await sendPoint()
        tookMs.push(performance.now() - at)
      }
      const acknowledgedAt = performance.now()
      for (;;) {
        const [row] = await clickhouse.rows<{ points: string }>(
          `SELECT count() AS points FROM ${clickhouse.database}.points WHERE experiment_id = {id:UInt64}`,
          { id: ids[0] },
        )
        if (Number(row?.points) >= sent) return { tookMs, readableMs: performance.now() - acknowledgedAt }
        await sleep(5)
      }
    }

    const alone: QuietRound[] = []
    const beside: QuietRound[] = []
    const runaway: { storedPerSecond: number; refusedPerSecond: number }[] = []
    say('Warming up')
    await Promise.all([runQuiet(warmUpSeconds), load.run(warmUpSeconds)])
    for (let round = 1; round <= rounds; round++) {
      say(`Round ${round} of ${rounds}`)
      alone.push(await runQuiet(seconds))
      const [quiet, report] = await Promise.all([runQuiet(seconds), load.run(seconds)])
      beside.push(quiet)
      const stored = report.acknowledged.reduce((sum, it) => sum + (it ?? 0), 0)
      const refused = Object.values(report.errors).reduce((sum, it) => sum + it, 0)
      runaway.push({ storedPerSecond: stored / report.seconds, refusedPerSecond: refused / report.seconds })
    }

    const result = {
      queue,
      alone: summarize(alone),
      besideRunaway: summarize(beside),
      runaway: summarizeRunaway(runaway),
    }
    process.stdout.write(values.json ? `${JSON.stringify(result)}\n` : renderResult(result))
  } finally {
    await closers.closeAll()
  }
}

function summarize(rounds: QuietRound[]) {
  const share = (part: number) =>
    median(rounds.map(({ tookMs }) => tookMs.toSorted((a, b) => a - b)[Math.floor(tookMs.length * part)] as number))
  return { p50Ms: share(0.5), p99Ms: share(0.99), readableMs: median(rounds.map((it) => it.readableMs)) }
}

function summarizeRunaway(rounds: { storedPerSecond: number; refusedPerSecond: number }[]) {
  return {
    pointsStoredPerSecond: median(rounds.map((it) => it.storedPerSecond)),
    requestsRefusedPerSecond: median(rounds.map((it) => it.refusedPerSecond)),
  }
}

type Result = {
  queue: string
  alone: ReturnType<typeof summarize>
  besideRunaway: ReturnType<typeof summarize>
  runaway: ReturnType<typeof summarizeRunaway>
}

function renderResult({ queue, alone, besideRunaway, runaway }: Result): string {
  const line = (what: string, { p50Ms, p99Ms, readableMs }: Result['alone']) =>
    `  ${what.padEnd(22)} p50 ${p50Ms.toFixed(1)} ms, p99 ${p99Ms.toFixed(1)} ms, readable after ${readableMs.toFixed(0)} ms\n`
  return (
    `A quiet experiment, a point every ${quietEveryMs} ms, queue in ${queue}; medians of the rounds\n\n` +
    line('alone', alone) +
    line('beside a runaway', besideRunaway) +
    `\n  The runaway stored ${Math.round(runaway.pointsStoredPerSecond)} points/s, and ` +
    `${Math.round(runaway.requestsRefusedPerSecond)} of its requests were refused each second.\n`
  )
}

function say(text: string) {
  process.stderr.write(`${describeTerminal(process.stderr, process.env).paint('dim', text)}\n`)
}

await main()
