import { setTimeout as sleep } from 'node:timers/promises'
import { describeTerminal } from '../cli/terminal/terminal.ts'
import type { Closers } from '../runtime/closers.ts'
import { openClickHouse } from '../store/clickhouse/connection.ts'
import { readCommand, runCommand, say } from './command.ts'
import { type Scenario, scenarios } from './contenders/scenarios.ts'
import { openService, type ServiceContender } from './contenders/service.ts'
import { type BenchStores, openBenchStores } from './contenders/stores.ts'
import { createExperiments } from './load/experiments.ts'
import { median, renderTable, spread } from './report/report.ts'
import { describeMachine, keepResults } from './report/results.ts'

/**
 * `npm run bench:latency`: measures the time from the acknowledgement of a point until a read finds it. A probe sends a
 * point every 10 ms and polls for all acknowledged points that were not found yet. A load runs at the same time: at 10,000
 * points/s, and at 80 % of the unlimited rate measured just before.
 */
const usage = `Usage: npm run bench:latency -- [--rounds N] [--seconds N] [--fsync always|everysec] [--json]\n`

const probeEveryMs = 10
const lookEveryMs = 3
const steadyPointsPerSecond = 10_000
const capacityShare = 0.8
const foundMsMax = 60_000

export type LatencyRound = { pointsPerSecond: number; probes: number; p50Ms: number; p99Ms: number }

export type Latency = { scenario: string; load: string; askedPointsPerSecond: number; rounds: LatencyRound[] }

await runCommand(async (closers) => {
  const options = readCommand(usage, { rounds: 5, seconds: 6 })
  if (!options) return
  const { rounds, seconds, fsync } = options
  const results: Latency[] = []
  say('Starting the stores')
  const stores = await openBenchStores(closers, fsync)
  const queue = stores.urls.redisUrl ? 'redis' : 'postgres'
  for (const name of ['single', 'columns']) {
    const scenario = scenarios.find((it) => it.name === name) as Scenario
    const service = await openService({
      scenario,
      queue,
      stores,
      roundsInAll: 2 * rounds + 2,
      secondsInAll: (2 * rounds + 2) * seconds,
      profileFolder: undefined,
      closers,
      progress: (text) => say(`${name}: ${text}`),
    })
    const probe = await openProbe(service, stores, closers)
    say(`${name}: warming up, and seeing how much it stores`)
    await service.runRound(Math.min(2, seconds))
    const { pointsPerSecond: capacity } = await service.runRound(seconds)
    const phases = [
      { load: `${steadyPointsPerSecond.toLocaleString('en-US')}/s`, asked: steadyPointsPerSecond },
      { load: `${capacityShare * 100} % of capacity`, asked: capacity * capacityShare },
    ].map(({ load, asked }): Latency => ({ scenario: name, load, askedPointsPerSecond: asked, rounds: [] }))
    for (let round = 1; round <= rounds; round++) {
      for (const phase of phases) {
        say(`${name}: ${phase.load}, round ${round} of ${rounds}`)
        const [ran, tookMs] = await Promise.all([
          service.runPaced(seconds, phase.askedPointsPerSecond),
          probe.run(seconds),
        ])
        const share = (part: number) => tookMs[Math.min(tookMs.length - 1, Math.floor(tookMs.length * part))] as number
        const { pointsPerSecond } = ran
        phase.rounds.push({ pointsPerSecond, probes: tookMs.length, p50Ms: share(0.5), p99Ms: share(0.99) })
      }
    }
    await service.finish()
    results.push(...phases)
  }
  const file = await keepResults('latency', { rounds, seconds, fsync, queue }, results)
  process.stdout.write(options.json ? `${JSON.stringify(results)}\n` : render(results, queue, fsync))
  say(`Written to ${file}`)
})

/** Writes its own points one at a time, and records when each can be read. */
async function openProbe(service: ServiceContender, stores: BenchStores, closers: Closers) {
  const clickhouse = openClickHouse({ url: stores.urls.clickhouseUrl })
  closers.push(() => clickhouse.close())
  const { keys, ids } = await createExperiments(service.readUrl, stores, 1)
  const [experimentKey, id] = [keys[0], ids[0]]
  let sent = 0

  async function send(): Promise<number> {
    const step = sent++
    const answer = await fetch(`${service.writeUrl}/api/rest/v2/write/experiment/metric`, {
      method: 'POST',
      headers: { authorization: stores.apiKey, 'content-type': 'application/json' },
      body: JSON.stringify({ experimentKey, metricName: 'probe', metricValue: step, step }),
    })
    await answer.arrayBuffer()
    if (answer.status !== 200) throw new Error(`The probe was answered ${answer.status}.`)
    return step
  }

  return {
    /** @returns the sorted times from each answer until its point was found, in ms */
    async run(seconds: number): Promise<number[]> {
      const waiting = new Map<number, number>()
      const tookMs: number[] = []
      const underWay: Promise<void>[] = []
      const endsAt = performance.now() + seconds * 1_000
      let isSending = true
      const sending = (async () => {
        for (let at = performance.now(); at < endsAt; at += probeEveryMs) {
          await sleep(Math.max(0, at - performance.now()))
          underWay.push(send().then((step) => void waiting.set(step, performance.now())))
        }
        await Promise.all(underWay)
        isSending = false
      })()
      const deadline = endsAt + foundMsMax
      while (isSending || waiting.size > 0) {
        if (performance.now() > deadline)
          throw new Error(`${waiting.size} points of the probe were not found in a minute.`)
        const least = Math.min(...waiting.keys())
        if (Number.isFinite(least)) {
          const rows = await clickhouse.rows<{ step: string }>(
            `SELECT step FROM ${clickhouse.database}.points WHERE experiment_id = {id:UInt64} AND step >= {least:Int64}`,
            { id, least },
          )
          const now = performance.now()
          for (const { step } of rows) {
            const acknowledgedAt = waiting.get(Number(step))
            if (acknowledgedAt === undefined) continue
            tookMs.push(now - acknowledgedAt)
            waiting.delete(Number(step))
          }
        }
        await sleep(lookEveryMs)
      }
      await sending
      return tookMs.toSorted((a, b) => a - b)
    },
  }
}

function render(results: Latency[], queue: string, fsync: string): string {
  const rows = results.map(({ scenario, load, rounds }) => [
    scenario,
    load,
    spread(
      rounds.map((it) => it.pointsPerSecond),
      0,
    ),
    spread(
      rounds.map((it) => it.p50Ms),
      0,
    ),
    spread(
      rounds.map((it) => it.p99Ms),
      0,
    ),
    String(median(rounds.map((it) => it.probes))),
  ])
  const head = ['requests', 'load', 'points/s stored', 'p50 ms', 'p99 ms', 'probes a round']
  return (
    `\n${describeMachine()}, queue in ${queue}${queue === 'redis' ? ` (appendfsync ${fsync})` : ''}\n\n` +
    `From the answer to a point until a read finds it, looked for every ${lookEveryMs} ms; median (least - greatest round)\n\n` +
    `${renderTable([head, ...rows], describeTerminal(process.stdout, process.env))}\n`
  )
}
