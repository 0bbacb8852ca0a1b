import path from 'node:path'
import { parseArgs } from 'node:util'
import { describeTerminal } from '../cli/terminal/terminal.ts'
import { createClosers } from '../runtime/closers.ts'
import { openClickHouse } from '../store/clickhouse/connection.ts'
import { rollupLimits } from '../store/clickhouse/monitoring/rollups/build.ts'
import { rollupsTable } from '../store/clickhouse/monitoring/rollups/tables.ts'
import { type Database, openDatabase } from '../store/postgres/database.ts'
import { ensureMonitoredModel } from '../store/postgres/monitoring/models.ts'
import { upsertReferenceSet } from '../store/postgres/monitoring/reference-sets.ts'
import { insertFolded } from '../test/kit/value-chunks.ts'
import { openBenchStores } from './contenders/stores.ts'
import { startSystem } from './contenders/system.ts'
import { median } from './report/report.ts'

/**
 * `npm run bench:drift`: measures how long a worker takes to sum up many events, which lie in 90 days, and reads of distributions, drift
 * and label quality over them. The events are generated inside ClickHouse, in the order in which production would send them, and read
 * over HTTP. With `--folder`, the data is kept and read again by the next run.
 */
const usage =
  'Usage: npm run bench:drift -- [--events N] [--features N] [--reference N] [--rounds N] [--read NAME] [--folder FOLDER] [--json]\n'

const workspaceName = 'default'
const modelName = 'bench'
const valuesPerInsert = 5_000_000
const eventsPerClaim = 500
const dayMs = 86_400_000
const days = 90
const start = 19_600 * dayMs

async function main() {
  const { values } = parseArgs({
    options: {
      events: { type: 'string', default: '10000000' },
      features: { type: 'string', default: '20' },
      reference: { type: 'string', default: '100000' },
      rounds: { type: 'string', default: '5' },
      read: { type: 'string' },
      folder: { type: 'string' },
      json: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  if (values.help) return void process.stdout.write(usage)
  const [events, reference, rounds] = [Number(values.events), Number(values.reference), Number(values.rounds)]
  const features = Number(values.features)
  if (!(events >= 1_000) || !(reference >= 1_000) || !(rounds >= 1) || !(features >= 20 && features <= 100)) {
    throw new Error(`--events and --reference from 1000, --rounds from 1, --features from 20 to 100.\n${usage}`)
  }
  const everyMs = Math.floor((days * dayMs) / events)
  const closers = createClosers()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => closers.closeAll().finally(() => process.exit(130)))
  }
  try {
    say('Starting the stores')
    const stores = await openBenchStores(closers, 'always', values.folder && path.resolve(values.folder))
    const clickhouse = openClickHouse({ url: stores.urls.clickhouseUrl })
    closers.push(() => clickhouse.close())
    const database = openDatabase({ url: stores.urls.postgresUrl, connectionsMax: 1, onError: () => undefined })
    closers.push(() => database.close())
    const workspace = await database.row<{ id: string }>('SELECT id FROM workspaces WHERE name = $1', [workspaceName])
    const model = async (name: string) =>
      (await ensureMonitoredModel(database, { workspaceId: workspace?.id as string, name, modelsMax: 1_000 }))
        ?.id as bigint
    const [id, dataSetId] = [await model(modelName), await model('reference')]
    await upsertReferenceSet(database, { dataSetId, modelName, modelVersion: '', uploadedAtMs: Date.now() })

    const { database: into, command: run } = clickhouse
    const isThere = async (modelId: bigint, count: number) =>
      (
        await clickhouse.rows<{ n: string }>(
          `SELECT sum(count) AS n FROM ${into}.event_value_chunks WHERE model_id = ${modelId} AND kind < 3 AND part = 1`,
        )
      )[0]?.n === String(count * features)
    const isMade = async () => (await isThere(id, events)) && (await isThere(dataSetId, reference))
    const isNew = !(await isMade())
    if (isNew) {
      say(`Making ${events} events of ${features} features, and a reference of ${reference}`)
      const made = { run, database: into, features, everyMs, events }
      await makeEvents({ ...made, id: dataSetId, kind: 2, from: 0, to: reference })
      const eventsPerInsert = Math.floor(valuesPerInsert / features)
      for (let from = 0; from < events; from += eventsPerInsert) {
        const to = Math.min(events, from + eventsPerInsert)
        await makeEvents({ ...made, id, kind: 1, from, to })
      }
      if (!(await isMade())) throw new Error(`There are not ${features} features of each event.`)
    } else say('Reading the events of the folder')
    await settle(clickhouse)
    say('Starting the service, and waiting for the worker to sum them up')
    const system = await startSystem({
      target: 'service',
      queue: 'postgres',
      stores,
      closers,
      profileFolder: undefined,
    })
    await waitForRollups(clickhouse, { modelId: id, kind: 1 })
    const summedUpMs = isNew ? Date.now() - (await readFirstRollup(clickhouse, id)) : undefined
    await waitForRollups(clickhouse, { modelId: id, kind: 3 })
    await waitForRollups(clickhouse, { modelId: dataSetId, kind: 2 })
    await settle(clickhouse)
    say('Waiting for the worker to store the drift of the days')
    await waitForDays(database, id)

    const end = start + events * everyMs
    const window = Math.ceil((events * everyMs) / 24)
    const reads: Record<string, string> = {
      'features (all)': 'features?',
      'distribution, numeric': 'distribution?feature=f00',
      'distribution, numeric, 24 windows': `distribution?feature=f00&from=${start}&to=${end}&interval=${window}`,
      'distribution, categorical': 'distribution?feature=f18',
      'drift, numeric': 'drift?feature=f00',
      'drift, numeric, 24 windows': `drift?feature=f00&from=${start}&to=${end}&interval=${window}`,
      'drift, categorical': 'drift?feature=f18',
      'drift, numeric, one window of 24': `drift?feature=f00&from=${end - window}&to=${end}`,
      'drift, all, one window of 24': `drift?from=${end - window}&to=${end}`,
      'drift, all': 'drift?',
      'drift map, all, 90 days': `drift/map?from=${start}&to=${end}`,
      'alert preview, all, 90 days': 'alerts/preview',
      'label quality, a tenth labelled': 'labels/quality?',
      'label delay, a tenth labelled': 'labels/delay?',
    }
    const results: Result[] = []
    for (const [read, query] of Object.entries(reads)) {
      if (values.read !== undefined && !read.includes(values.read)) continue
      say(`Reading: ${read}`)
      const took: number[] = []
      const spent: number[] = []
      for (let round = 0; round < rounds; round++) {
        const cpuBefore = await system.readCpu()
        const before = performance.now()
        const answer = await ask(`${system.readUrl}/mpm/v2/${query}`, stores.apiKey, end)
        const text = await answer.text()
        if (!answer.ok) throw new Error(`${query} answered ${answer.status}: ${text}`)
        took.push(performance.now() - before)
        const cpuAfter = await system.readCpu()
        if (cpuBefore && cpuAfter) spent.push(1_000 * ((cpuAfter.clickhouse ?? 0) - (cpuBefore.clickhouse ?? 0)))
      }
      say(
        `  ${took.map((it) => it.toFixed(0)).join(', ')} ms; CPU of ClickHouse ${spent.map((it) => it.toFixed(0)).join(', ')} ms`,
      )
      results.push({
        read,
        medianMs: median(took),
        leastMs: Math.min(...took),
        greatestMs: Math.max(...took),
        cpuMs: spent.length === 0 ? undefined : median(spent),
      })
    }
    if (values.json) process.stdout.write(`${JSON.stringify({ events, features, reference, summedUpMs, results })}\n`)
    else process.stdout.write(render({ events, features, reference, rounds, summedUpMs }, results))
  } finally {
    await closers.closeAll()
  }
}

/** A read of the model; one without a query is posted. */
async function ask(address: string, authorization: string, end: number): Promise<Response> {
  if (address.includes('?')) {
    return await fetch(`${address}&workspaceName=${workspaceName}&modelName=${modelName}`, {
      headers: { authorization },
    })
  }
  const rule = {
    workspaceName,
    modelName,
    name: 'drift',
    measure: 'wasserstein',
    windowMs: dayMs,
    windows: days,
    to: end,
  }
  const headers = { authorization, 'content-type': 'application/json' }
  return await fetch(address, { method: 'POST', headers, body: JSON.stringify(rule) })
}

type Made = {
  run(statement: string): Promise<void>
  database: string
  id: bigint
  kind: 1 | 2
  features: number
  /** All that are made, one every so many ms. */
  events: number
  everyMs: number
  from: number
  to: number
}

/**
 * Of twenty features 14 are floats, 2 integers, one a boolean and 3 categories. The first feature drifts in the second half of
 * the period. Every tenth event is labelled.
 */
async function makeEvents({ run, database, id, kind, features, events, everyMs, from, to }: Made) {
  const numbers = `numbers(${from}, ${to - from})`
  // Feature by feature, as the table is sorted.
  const values = `(SELECT ${from} + n.number % ${to - from} AS number, intDiv(n.number, ${to - from}) AS f FROM numbers(${(to - from) * features}) AS n)`
  const number = (at: string) => `1000 + intDiv(${at}, ${eventsPerClaim}), ${at} % ${eventsPerClaim}`
  const version = `if(intDiv(number, 1000) % 2 = 0, '1.0.0', '1.1.0')`
  await run(
    `INSERT INTO ${database}.events SELECT ${id}, ${kind}, ${number('number')}, ${version}, ${start} + number * ${everyMs},
       ${start} + number * ${everyMs}, concat('prediction-', toString(number)) FROM ${numbers}`,
  )
  await run(
    `${insertFolded(
      database,
      `SELECT ${id}, ${kind}, ${version}, 1, concat('f', leftPad(toString(f), 2, '0')),
       ${start} + number * ${everyMs}, ${number('number')}, multiIf(t < 14, 2, t < 16, 1, t < 17, 3, 4),
       multiIf(f = 0 AND number > ${events / 2}, normal + 0.5, t < 14, normal * (1 + f / 10) + f, t < 16, toFloat64(random % 100),
         t < 17, toFloat64(random % 2), 0),
       if(t < 17, '', concat('category ', toString(random % multiIf(t = 17, 3, t = 18, 12, 500))))
     FROM (SELECT number, f, f % 20 AS t, cityHash64(number, f, ${kind}) AS random,
       sqrt(-2 * log((random % 1000003 + 1) / 1000004)) * cos(2 * pi() * (intDiv(random, 1000003) % 1000003) / 1000003) AS normal
       FROM ${values})`,
    )}
     SETTINGS min_insert_block_size_rows = 10000000, min_insert_block_size_bytes = 0`,
  )
  if (kind === 2) return
  await run(
    insertFolded(
      database,
      `SELECT ${id}, 1, ${version}, 2, 'value', ${start} + number * ${everyMs},
       ${number('number')}, 3, cityHash64(number) % 2, '' FROM ${numbers}`,
    ),
  )
  const labelled = `(SELECT number FROM ${numbers} WHERE number % 10 = 0)`
  await run(
    `INSERT INTO ${database}.events SELECT ${id}, 3, ${number('number')}, ${version}, ${start} + number * ${everyMs}, 0,
       concat('prediction-', toString(number)) FROM ${labelled}`,
  )
  await run(
    insertFolded(
      database,
      `SELECT ${id}, 3, ${version}, 3, 'value', ${start} + number * ${everyMs},
       ${number('number')}, 3, cityHash64(number) % 3 = 0, '' FROM ${labelled}`,
    ),
  )
}

const rollupsMsMax = 5_400_000

/** Waits until the worker has rolled up all events but the last few. */
async function waitForRollups(
  { rows, database }: ReturnType<typeof openClickHouse>,
  { modelId, kind }: { modelId: bigint; kind: number },
) {
  const ofKind = `model_id = ${modelId} AND kind = ${kind}`
  const deadline = performance.now() + rollupsMsMax
  for (;;) {
    const [row] = await rows<{ left: string }>(
      `SELECT count() AS left FROM ${database}.events WHERE ${ofKind} AND claim >
         (SELECT if(count() = 0, -1, toInt64(max(high))) FROM ${database}.${rollupsTable} FINAL WHERE ${ofKind} AND dropped = 0)`,
    )
    if (Number(row?.left) < rollupLimits.eventsMin) return
    if (performance.now() > deadline)
      throw new Error(`After ${rollupsMsMax / 1000} s there are ${row?.left} events in no rollup.`)
    await new Promise((resolve) => setTimeout(resolve, 1_000))
  }
}

/** When the first rollup of a model was begun, ms since the Unix epoch: its id says it. */
async function readFirstRollup({ rows, database }: ReturnType<typeof openClickHouse>, modelId: bigint) {
  const [row] = await rows<{ at: string }>(
    `SELECT min(bitShiftRight(id, 20)) AS at FROM ${database}.${rollupsTable} WHERE model_id = ${modelId} AND kind = 1`,
  )
  return Number(row?.at)
}

/** Waits until the worker has stored days, and stores no more of them. */
async function waitForDays(database: Database, id: bigint) {
  const deadline = performance.now() + rollupsMsMax
  let before = -1
  while (performance.now() < deadline) {
    const row = await database.row<{ n: number }>('SELECT count(*)::int AS n FROM drift_windows WHERE model_id = $1', [
      id,
    ])
    const stored = row?.n ?? 0
    if (stored >= days - 1 || (stored > 0 && stored === before)) return say(`  ${stored} days are stored`)
    before = stored
    await new Promise((resolve) => setTimeout(resolve, 60_000))
  }
}

const mergesMsMax = 120_000

/** Waits for merges to end: they would compete for the cores. */
async function settle(clickhouse: ReturnType<typeof openClickHouse>) {
  const deadline = performance.now() + mergesMsMax
  while (performance.now() < deadline) {
    const rows = await clickhouse.rows<{ merges: string }>('SELECT count() AS merges FROM system.merges')
    if (rows[0]?.merges === '0') return
    await new Promise((resolve) => setTimeout(resolve, 500))
  }
}

type Result = {
  read: string
  medianMs: number
  leastMs: number
  greatestMs: number
  /** CPU of ClickHouse; undefined without /proc. */
  cpuMs: number | undefined
}

type Setup = Record<'events' | 'features' | 'reference' | 'rounds', number> & {
  /** From the begin of the first rollup on; undefined when a folder had the events already. */
  summedUpMs: number | undefined
}

function render({ events, features, reference, rounds, summedUpMs }: Setup, results: Result[]) {
  const lines = results.map(
    ({ read, medianMs, leastMs, greatestMs, cpuMs }) =>
      `  ${read.padEnd(36)} ${medianMs.toFixed(0).padStart(7)} ms  (${leastMs.toFixed(0)} - ${greatestMs.toFixed(0)}), CPU of ClickHouse ${cpuMs?.toFixed(0) ?? 'unknown'} ms\n`,
  )
  const summedUp = summedUpMs === undefined ? '' : `Summed up in ${(summedUpMs / 1_000).toFixed(0)} s\n\n`
  return (
    `${summedUp}Reads over HTTP of ${events.toLocaleString('en')} events of ${features} features, reference of ${reference.toLocaleString('en')}; medians of ${rounds}\n\n` +
    lines.join('')
  )
}

function say(text: string) {
  process.stderr.write(`${describeTerminal(process.stderr, process.env).paint('dim', text)}\n`)
}

await main()
