import { parseArgs } from 'node:util'
import { describeTerminal } from '../cli/terminal/terminal.ts'
import { openClickHouse } from '../store/clickhouse/connection.ts'
import { summarizeStored } from '../store/clickhouse/points/store-blocks.ts'
import { readWholeNumber } from '../test/kit/command-line/options.ts'
import { runCommand, say } from './command.ts'
import { openBenchStores } from './contenders/stores.ts'
import { startSystem } from './contenders/system.ts'
import { createExperiments } from './load/experiments.ts'
import { renderTable, spread } from './report/report.ts'
import { describeMachine, keepResults } from './report/results.ts'

/**
 * `npm run bench:export`: exports the points of a project in each format, whole and in parts, and reads the memory of the api at
 * its peak. The points are made inside ClickHouse.
 */
const usage = `Usage: npm run bench:export -- [options]

  --runs N     experiments of the project (default 1000)
  --points N   points of an experiment, in 10 metrics (default 10000)
  --rounds N   times that each export is asked for (default 3)
  --json       print the results as JSON
`

const metrics = 10

type Result = { about: string; rows: number; bytes: number; seconds: number[] }

await runCommand(async (closers) => {
  const { values } = parseArgs({
    options: {
      runs: { type: 'string', default: '1000' },
      points: { type: 'string', default: '10000' },
      rounds: { type: 'string', default: '3' },
      json: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  if (values.help) return void process.stdout.write(usage)
  const [runs, points, rounds] = (['runs', 'points', 'rounds'] as const).map((it) =>
    readWholeNumber(it, values[it], 1),
  ) as [number, number, number]
  say('Starting the stores')
  const stores = await openBenchStores(closers, 'everysec')
  const system = await startSystem({
    target: 'rawInserts',
    queue: 'postgres',
    stores,
    closers,
    profileFolder: undefined,
  })
  say(`Making ${runs} experiments`)
  const { ids } = await createExperiments(system.readUrl, stores, runs)
  const clickhouse = openClickHouse({ url: stores.urls.clickhouseUrl, readTimeoutMs: 300_000 })
  closers.push(() => clickhouse.close())
  const before = await system.readPeakMiB()
  say(`Making ${(runs * points).toLocaleString('en')} points`)
  await clickhouse.command(
    `INSERT INTO ${clickhouse.database}.points (experiment_id, metric, context, step, timestamp, request_hi, request_lo, place, epoch, received, present, value)
     SELECT arrayElement([${ids.join(',')}]::Array(UInt64), toUInt32(intDiv(number, ${points}) + 1)), concat('metric ', toString(number % ${metrics})), 'train',
       intDiv(number % ${points}, ${metrics}), 1700000000000 + number, 1, number, 0, 0, 1700000000000, 5, exp(-(number % ${points}) / 3000) + rand() / 1e11
     FROM numbers(${runs * points})`,
  )
  await summarizeStored(clickhouse, `experiment_id IN (${ids.join(', ')})`)

  async function read(path: string, query: Record<string, string>) {
    const search = new URLSearchParams({ workspaceName: 'default', projectName: 'bench', ...query })
    const answer = await fetch(`${system.readUrl}/api/rest/v2/export/${path}?${search}`, {
      headers: { authorization: stores.apiKey },
    })
    if (answer.status !== 200 || !answer.body)
      throw new Error(`${path} answered ${answer.status}: ${await answer.text()}`)
    return answer
  }

  async function count(path: string, query: Record<string, string>): Promise<number> {
    let bytes = 0
    for await (const chunk of (await read(path, query)).body as AsyncIterable<Uint8Array>) bytes += chunk.length
    return bytes
  }

  const results: Result[] = []
  async function measure(about: string, rows: number, once: () => Promise<number>) {
    const result: Result = { about, rows, bytes: 0, seconds: [] }
    for (let round = 0; round < rounds; round++) {
      const startedAt = performance.now()
      result.bytes = await once()
      result.seconds.push((performance.now() - startedAt) / 1_000)
    }
    results.push(result)
    say(`${about}: ${Math.min(...result.seconds).toFixed(1)} s`)
  }

  for (const format of ['parquet', 'arrow', 'csv', 'jsonl']) {
    await measure(`metrics, ${format}`, runs * points, () => count('metrics', { format }))
  }
  await measure('metrics, parquet, in parts', runs * points, async () => {
    const manifest = (await (await read('manifest', { what: 'metrics' })).json()) as { parts: { part: string }[] }
    let bytes = 0
    for (const { part } of manifest.parts) bytes += await count('metrics', { part })
    return bytes
  })
  await measure('runs, parquet', runs, () => count('runs', {}))

  const peak = await system.readPeakMiB()
  const memory = { before: before?.api, peak: peak?.api }
  const file = await keepResults('export', { runs, points, rounds, memory }, results)
  const rows = results.map((it) => [
    it.about,
    it.rows.toLocaleString('en'),
    (it.bytes / 2 ** 20).toFixed(1),
    spread(it.seconds, 1),
  ])
  process.stdout.write(
    values.json
      ? `${JSON.stringify({ results, memory })}\n`
      : `\n${describeMachine()}\n\nExports of ${runs.toLocaleString('en')} experiments; median (least - greatest)\n\n` +
          `${renderTable([['export', 'rows', 'MiB', 's'], ...rows], describeTerminal(process.stdout, process.env), { left: 1 })}\n` +
          `${memory.peak === undefined || memory.before === undefined ? '' : `The api at its peak: ${Math.round(memory.before)} MiB before, ${Math.round(memory.peak)} MiB with the exports\n`}`,
  )
  say(`Written to ${file}`)
})
