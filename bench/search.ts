import { parseArgs } from 'node:util'
import { describeTerminal } from '../cli/terminal/terminal.ts'
import type { Closers } from '../runtime/closers.ts'
import { openClickHouse } from '../store/clickhouse/connection.ts'
import { summarizeStored } from '../store/clickhouse/points/store-blocks.ts'
import { openDatabase } from '../store/postgres/database.ts'
import { readWholeNumber } from '../test/kit/command-line/options.ts'
import { runCommand, say } from './command.ts'
import { type BenchStores, openBenchStores } from './contenders/stores.ts'
import { startSystem } from './contenders/system.ts'
import { createExperiments } from './load/experiments.ts'
import { renderTable, spread } from './report/report.ts'
import { describeMachine, keepResults } from './report/results.ts'

/**
 * `npm run bench:search`: measures the first page of `/project/runs` in a large project, for queries on what Postgres keeps, on
 * what ClickHouse keeps, and on both. The runs are made inside the stores: over HTTP they would take an hour.
 */
const usage = `Usage: npm run bench:search -- [options]

  --runs N       runs of the project (default 100000), with 100 parameters and 100 metrics each
  --rounds N     times that each query is asked (default 9)
  --folder PATH  keep the stores there, and use them again
  --json         print the results as JSON
`

const namesOfEach = 100
const runsAtOnce = 1_000

type Question = { about: string; path?: string; body: object }

const sortBy = (source: string, name: string, order: 'asc' | 'desc') => [{ column: { source, name }, order }]

const questions: Question[] = [
  { about: 'all, the newest first', body: {} },
  { about: 'state = finished and user ~ "^b"', body: { query: 'state = finished and user ~ "^b"' } },
  { about: 'a word: resnet-77', body: { query: 'resnet-77' } },
  { about: 'tag = baseline', body: { query: 'tag = baseline' } },
  { about: 'param.p7 < 0.1', body: { query: 'param.p7 < 0.1' } },
  {
    about: 'param.p7 < 0.1 and param.p8 in (...)',
    body: { query: 'param.p7 < 0.1 and param.p8 in (0.5, "v3", 0.25)' },
  },
  { about: 'param.p9 ~ "^v[0-3]$"', body: { query: 'param.p9 ~ "^v[0-3]$"' } },
  { about: 'metric.m7:min < 0.1', body: { query: 'metric.m7:min < 0.1' } },
  {
    about: 'metric.m7 < 0.5 and (param.p7 < 0.1 or not tag = baseline)',
    body: { query: 'metric.m7 < 0.5 and (param.p7 < 0.1 or not tag = baseline)' },
  },
  { about: 'by metric.m8', body: { sort: sortBy('metric', 'm8', 'asc') } },
  { about: 'by param.p7', body: { sort: sortBy('parameter', 'p7', 'desc') } },
  {
    about: 'metric.m7 < 0.5 by param.p7',
    body: { query: 'metric.m7 < 0.5', sort: sortBy('parameter', 'p7', 'asc') },
  },
  {
    about: 'metric.m7 < 0.5 by metric.m8',
    body: { query: 'metric.m7 < 0.5', sort: sortBy('metric', 'm8', 'desc') },
  },
  { about: 'name ~ "^resnet-9.*7$"', body: { query: 'name ~ "^resnet-9.*7$"' } },
  { about: 'completion of metric.m9', path: 'query-completion', body: { query: 'param.p1 < 2 metric.m9' } },
  { about: 'groups of param.p9', body: { groupBy: [{ source: 'parameter', name: 'p9' }] } },
]

/** What a table of a project shows: 20 columns. */
const columns = [
  ...['name', 'state', 'startTime', 'tags'].map((name) => ({ source: 'metadata', name })),
  ...Array.from({ length: 8 }, (_, at) => ({ source: 'parameter', name: `p${at}` })),
  ...Array.from({ length: 8 }, (_, at) => ({ source: 'metric', name: `m${at}` })),
]

await runCommand(async (closers) => {
  const { values } = parseArgs({
    options: {
      runs: { type: 'string', default: '100000' },
      rounds: { type: 'string', default: '9' },
      folder: { type: 'string' },
      json: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  if (values.help) return void process.stdout.write(usage)
  const runs = readWholeNumber('runs', values.runs, 1)
  const rounds = readWholeNumber('rounds', values.rounds, 1)
  say('Starting the stores')
  const stores = await openBenchStores(closers, 'everysec', values.folder)
  const system = await startSystem({
    target: 'rawInserts',
    queue: 'postgres',
    stores,
    closers,
    profileFolder: undefined,
  })
  await fill(stores, system.readUrl, runs, closers)

  const ask = async ({ path = 'runs', body }: Question) => {
    const shown = path === 'runs' ? { columns, size: 100 } : {}
    const startedAt = performance.now()
    const answer = await fetch(`${system.readUrl}/api/rest/v2/project/${path}`, {
      method: 'POST',
      headers: { authorization: stores.apiKey, 'content-type': 'application/json' },
      body: JSON.stringify({ workspaceName: 'default', projectName: 'bench', ...shown, ...body }),
    })
    const text = await answer.text()
    if (answer.status !== 200) throw new Error(`/project/${path} answered ${answer.status}: ${text}`)
    return { tookMs: performance.now() - startedAt, total: (JSON.parse(text) as { total?: number }).total }
  }
  const results: { about: string; total: number | undefined; tookMs: number[] }[] = []
  for (const question of questions) {
    const { about } = question
    const { total } = await ask(question)
    const tookMs: number[] = []
    for (let round = 0; round < rounds; round++) tookMs.push((await ask(question)).tookMs)
    results.push({ about, total, tookMs })
    say(`${about}: ${Math.round(Math.min(...tookMs))} ms`)
  }
  const peak = await system.readPeakMiB()
  const file = await keepResults('search', { runs, rounds, peakMiB: peak }, results)
  process.stdout.write(
    values.json
      ? `${JSON.stringify(results)}\n`
      : `\n${describeMachine()}\n\nThe first 100 of ${runs.toLocaleString('en')} runs with 200 fields each, 20 columns shown; median (least - greatest)\n\n` +
          `${renderTable(
            [
              ['query', 'matches', 'ms'],
              ...results.map((it) => [it.about, String(it.total ?? ''), spread(it.tookMs, 0)]),
            ],
            describeTerminal(process.stdout, process.env),
            { left: 1 },
          )}\n${peak?.api === undefined ? '' : `The api at its peak: ${Math.round(peak.api)} MiB\n`}`,
  )
  say(`Written to ${file}`)
})

/** Makes what is missing of the runs. */
async function fill(stores: BenchStores, readUrl: string, runs: number, closers: Closers) {
  const postgres = openDatabase({ url: stores.urls.postgresUrl, connectionsMax: 1, onError: () => undefined })
  closers.push(() => postgres.close())
  const clickhouse = openClickHouse({ url: stores.urls.clickhouseUrl, readTimeoutMs: 300_000 })
  closers.push(() => clickhouse.close())
  const { n = 0 } = (await postgres.row<{ n: number }>('SELECT count(*)::int AS n FROM experiments')) ?? {}
  if (n >= runs) return
  const { ids } = await createExperiments(readUrl, stores, 1)
  const model = ids[0]
  for (let from = n + 1; from < runs; from += runsAtOnce) {
    say(`Making the runs: ${from} of ${runs}`)
    const count = Math.min(runsAtOnce, runs - from)
    const made = await postgres.rows<{ id: bigint }>(
      `INSERT INTO experiments (key, project_id, user_id, name, start_time_ms, end_time_ms, active_at_ms)
       SELECT md5(i::text), project_id, user_id, 'resnet-' || i, 1700000000000 + i * 60000, 1700000000000 + i * 60000 + i % 9999,
         1700000000000 + i * 60000 + i % 9999
       FROM experiments CROSS JOIN generate_series($2::bigint, $3::bigint) AS i WHERE id = $1 RETURNING id`,
      [model, from, from + count - 1],
    )
    const madeIds = made.map((it) => Number(it.id))
    await postgres.rows(
      `INSERT INTO experiment_values (experiment_id, kind, name, value, timestamp_ms)
       SELECT id, 'parameter', 'p' || p, CASE WHEN p % 3 = 0 THEN 'v' || (id * 7 + p) % 40 ELSE ((id * 7919 + p) % 1000 / 1000.0)::float8::text END, 1700000000000
       FROM unnest($1::bigint[]) AS id, generate_series(0, $2::int - 1) AS p`,
      [madeIds, namesOfEach],
    )
    await postgres.rows(
      `INSERT INTO experiment_tags (experiment_id, tag) SELECT id, CASE WHEN id % 4 = 0 THEN 'baseline' ELSE 't' || id % 7 END FROM unnest($1::bigint[]) AS id`,
      [madeIds],
    )
    const [first, last] = [Math.min(...madeIds), Math.max(...madeIds)]
    await clickhouse.command(
      `INSERT INTO ${clickhouse.database}.points (experiment_id, metric, context, step, timestamp, request_hi, request_lo, place, epoch, received, present, value)
       SELECT ${first} + intDiv(number, ${namesOfEach}), concat('m', toString(number % ${namesOfEach})), '', 0, 1700000000000, 1, number, 0, 0,
         1700000000000, 5, cityHash64(number + ${first * 100}) % 100000 / 100000
       FROM numbers(${(last - first + 1) * namesOfEach})`,
    )
    await summarizeStored(clickhouse, `experiment_id BETWEEN ${first} AND ${last}`)
  }
  // As they are after a night: both stores tidy up by themselves.
  await postgres.rows('VACUUM ANALYZE')
}
