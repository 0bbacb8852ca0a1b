import { parseArgs } from 'node:util'
import { describeTerminal } from '../cli/terminal/terminal.ts'
import { openDatabase } from '../store/postgres/database.ts'
import { openBrowser } from '../test/kit/browser.ts'
import { readWholeNumber } from '../test/kit/command-line/options.ts'
import { createClient } from '../test/kit/http/client.ts'
import { runCommand, say } from './command.ts'
import { openBenchStores } from './contenders/stores.ts'
import { startSystem } from './contenders/system.ts'
import { measureLoad } from './pages/measure.ts'
import { median, renderTable, spread } from './report/report.ts'
import { describeMachine, keepResults } from './report/results.ts'

/**
 * `npm run bench:artifacts`: measures the lineage of a long chain of runs and artifact versions, that of one version that many runs
 * use, and that of many runs each with a version of its own, over HTTP and in Chromium; and ranges of rows of a long table. It
 * fails when a lineage takes longer than its target.
 */
const usage = `Usage: npm run bench:artifacts -- [options]

  --nodes N      nodes of each lineage (default 500)
  --rows N       rows of the table (default 1000000)
  --rounds N     times that each read is asked (default 9)
  --json         print the results as JSON
`

const lineageMsMax = 500
const rowsOfRange = 200

await runCommand(async (closers) => {
  const { values } = parseArgs({
    options: {
      nodes: { type: 'string', default: '500' },
      rows: { type: 'string', default: '1000000' },
      rounds: { type: 'string', default: '9' },
      json: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  if (values.help) return void process.stdout.write(usage)
  const nodes = readWholeNumber('nodes', values.nodes, 4)
  const rows = readWholeNumber('rows', values.rows, 1_000)
  const rounds = readWholeNumber('rounds', values.rounds, 1)
  say('Starting the stores')
  const stores = await openBenchStores(closers, 'everysec')
  const system = await startSystem({
    target: 'rawInserts',
    queue: 'postgres',
    stores,
    closers,
    profileFolder: undefined,
  })
  const client = createClient(system.readUrl, { apiKey: stores.apiKey, workspaceName: 'default' })
  const postgres = openDatabase({ url: stores.urls.postgresUrl, connectionsMax: 1, onError: () => undefined })
  closers.push(() => postgres.close())

  say(`Making three lineages of ${nodes} nodes`)
  const first = await client.createExperiment({ projectName: 'lineage' })
  const wide = await client.createExperiment({ projectName: 'lineage' })
  // The runs and versions are made inside Postgres, from one of each that came over HTTP.
  const opened = await client.post('/write/artifacts/upsert', { experimentKey: first, artifactName: 'chain' })
  const used = await client.post('/write/artifacts/upsert', { experimentKey: wide, artifactName: 'wide' })
  const makeRuns = (name: string, count: number) =>
    postgres.rows<{ id: bigint }>(
      `INSERT INTO experiments (key, project_id, user_id, name, start_time_ms, active_at_ms)
       SELECT md5($1 || n), e.project_id, e.user_id, $1 || n, e.start_time_ms, e.active_at_ms
       FROM experiments e, generate_series(1, $2::int) n WHERE e.key = $3 ORDER BY n RETURNING id`,
      [name, count, first],
    )
  const length = Math.floor(nodes / 2)
  const [begin] = await postgres.rows<{ id: bigint }>('SELECT id FROM experiments WHERE key = $1', [first])
  const chain = [begin as { id: bigint }, ...(await makeRuns('chain ', length - 1))].map((it) => it.id)
  await postgres.rows(
    `WITH runs AS (SELECT id, n FROM unnest($2::bigint[]) WITH ORDINALITY AS r(id, n)),
     made AS (INSERT INTO artifact_versions (id, artifact_id, version, state, experiment_id, experiment_key, owner_id, created_at_ms)
       SELECT 'chain ' || r.n, v.artifact_id, (r.n + 1) || '.0.0', 'CLOSED', r.id, e.key, v.owner_id, v.created_at_ms
       FROM runs r JOIN experiments e ON e.id = r.id, artifact_versions v WHERE v.id = $1 RETURNING id)
     SELECT count(*) FROM made`,
    [opened.body.artifactVersionId, chain],
  )
  await postgres.rows(
    `INSERT INTO artifact_consumers (artifact_version_id, experiment_id)
     SELECT 'chain ' || (n - 1), id FROM unnest($1::bigint[]) WITH ORDINALITY AS r(id, n) WHERE n > 1`,
    [chain],
  )
  const users = (await makeRuns('wide ', nodes - 2)).map((it) => it.id)
  await postgres.rows(
    'INSERT INTO artifact_consumers (artifact_version_id, experiment_id) SELECT $1, unnest($2::bigint[])',
    [used.body.artifactVersionId, users],
  )
  // Nothing of it is a stack: each run that uses the version has made one of its own.
  const fan = await client.createExperiment({ projectName: 'lineage' })
  const shared = await client.post('/write/artifacts/upsert', { experimentKey: fan, artifactName: 'shared' })
  const makers = (await makeRuns('fan ', length - 1)).map((it) => it.id)
  await postgres.rows(
    `WITH users AS (INSERT INTO artifact_consumers (artifact_version_id, experiment_id) SELECT $1, unnest($2::bigint[]))
     INSERT INTO artifact_versions (id, artifact_id, version, state, experiment_id, experiment_key, owner_id, created_at_ms)
     SELECT 'fan ' || r.n, v.artifact_id, (r.n + 1) || '.0.0', 'CLOSED', r.id, e.key, v.owner_id, v.created_at_ms
     FROM unnest($2::bigint[]) WITH ORDINALITY AS r(id, n) JOIN experiments e ON e.id = r.id, artifact_versions v WHERE v.id = $1`,
    [shared.body.artifactVersionId, makers],
  )
  await postgres.rows('ANALYZE')

  say(`Uploading a table of ${rows} rows`)
  const lines = Array.from({ length: rows }, (_, at) => `${at},"row ""${at}"",\n${at % 7}",${Math.sin(at)},${at * 7}`)
  const text = `at,text,sine,seven\n${lines.join('\n')}\n`
  const path = `/write/experiment/upload-asset?${new URLSearchParams({ experimentKey: first, fileName: 'rows.csv' })}`
  const { body } = await client.postRaw(path, text, { headers: { 'content-type': 'text/csv' } })
  const table = { experimentKey: first, assetId: body.assetId as string, count: String(rowsOfRange) }

  const results: { about: string; found: number; tookMs: number[] }[] = []
  async function measure(about: string, times: number, path: () => string, count: (body: never) => number) {
    const tookMs: number[] = []
    let found = 0
    for (let round = 0; round < times; round++) {
      const startedAt = performance.now()
      const answer = await client.get(path())
      tookMs.push(performance.now() - startedAt)
      if (answer.status !== 200) throw new Error(`${about}: ${answer.status} ${answer.text}`)
      found = count(answer.body as never)
    }
    results.push({ about, found, tookMs })
    say(`${about}: ${Math.round(median(tookMs))} ms`)
  }
  const ofNodes = (it: { nodes: unknown[] }) => it.nodes.length
  const last = await postgres.row<{ key: string }>('SELECT key FROM experiments WHERE id = $1', [chain.at(-1)])
  const lineageOf = (experimentKey: string) => () =>
    `/lineage?${new URLSearchParams({ experimentKey, nodesMax: String(nodes) })}`
  await measure('lineage of the first run of a chain', rounds, lineageOf(first), ofNodes)
  await measure('lineage of the last run of a chain', rounds, lineageOf(last?.key ?? ''), ofNodes)
  await measure('lineage of a version that many runs use', rounds, lineageOf(wide), ofNodes)
  await measure('lineage of a version, and what its runs made', rounds, lineageOf(fan), ofNodes)
  const browser = await openBrowser()
  closers.push(() => browser.close())
  // What the bench asks of the page is text that the page's own policy would not run.
  const context = await browser.openContext(system.readUrl, stores.apiKey, { bypassCSP: true })
  const page = await context.newPage()
  const links = "document.querySelectorAll('[role=region] a')"
  for (const [name, key] of Object.entries({ chain: first, fan })) {
    const address = `${system.readUrl}/default/-/lineage?${new URLSearchParams({ run: key })}`
    for (const [what, ready] of [
      ['what is near the start', `[...${links}].some((it) => it.ariaCurrent)`],
      ['all of it', `${links}.length === ${nodes}`],
    ] as const) {
      const tookMs: number[] = []
      // The first time fills the browser's cache.
      for (let round = 0; round <= rounds; round++) {
        const took = await measureLoad(page, address, ready)
        if (round > 0) tookMs.push(took)
      }
      results.push({ about: `lineage of the ${name} in Chromium: ${what}`, found: nodes, tookMs })
      say(`lineage of the ${name} in Chromium: ${what}: ${Math.round(median(tookMs))} ms`)
    }
  }
  const ofRows = (it: { rows: unknown[] }) => it.rows.length
  const rowsFrom = (from: number) => `/experiment/asset/rows?${new URLSearchParams({ ...table, from: String(from) })}`
  await measure('rows: the first read of the file', 1, () => rowsFrom(0), ofRows)
  let at = 0
  await measure(
    'rows: a range at any place',
    rounds,
    () => {
      at = (at + 617_033) % (rows - rowsOfRange)
      return rowsFrom(at)
    },
    ofRows,
  )

  const file = await keepResults('artifacts', { nodes, rows, rounds, tableBytes: text.length }, results)
  process.stdout.write(
    values.json
      ? `${JSON.stringify(results)}\n`
      : `\n${describeMachine()}\n\nLineages of ${nodes} nodes; a table of ${rows.toLocaleString('en')} rows (${text.length} bytes); median (least - greatest)\n\n` +
          `${renderTable(
            [['read', 'found', 'ms'], ...results.map((it) => [it.about, String(it.found), spread(it.tookMs, 1)])],
            describeTerminal(process.stdout, process.env),
            { left: 1 },
          )}\n`,
  )
  say(`Written to ${file}`)
  const slow = results.filter((it) => it.about.startsWith('lineage') && median(it.tookMs) > lineageMsMax)
  if (slow.length > 0) throw new Error(`Over ${lineageMsMax} ms: ${slow.map((it) => it.about).join('; ')}`)
})
