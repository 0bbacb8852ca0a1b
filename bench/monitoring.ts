import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { describeTerminal } from '../cli/terminal/terminal.ts'
import { createClosers } from '../runtime/closers.ts'
import { type ClickHouse, openClickHouse } from '../store/clickhouse/connection.ts'
import { type Database, openDatabase } from '../store/postgres/database.ts'
import { openBenchStores } from './contenders/stores.ts'
import { startSystem } from './contenders/system.ts'
import { distinctIds, featuresPerEvent, sendEvents, valuesPerEvent } from './load/monitoring.ts'
import { describeCpuProfiles } from './report/profile.ts'
import { median } from './report/report.ts'

/**
 * `npm run bench:monitoring`: measures the cost of events of deployed models from request to rows, and verifies that each
 * prediction id is stored exactly once.
 */
const usage = `Usage: npm run bench:monitoring -- [--events N] [--rounds N] [--batch N] [--connections N]
                                      [--queue redis|postgres] [--kills N] [--profile] [--json]\n

  --kills N   Kill the worker so many times in each round while events come in, and start it again\n`

const workspaceName = 'default'
const warmUp = 'warm'
const killEveryMs = 5_000
const storedWaitMsMax = 300_000

async function main() {
  const { values } = parseArgs({
    options: {
      events: { type: 'string', default: '1000000' },
      rounds: { type: 'string', default: '1' },
      batch: { type: 'string', default: '1000' },
      connections: { type: 'string', default: '4' },
      queue: { type: 'string' },
      kills: { type: 'string', default: '0' },
      profile: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  if (values.help) return void process.stdout.write(usage)
  const { events, rounds, batch, connections, kills } = toNumbers(values)
  if (!events || !rounds || !batch || !connections || !(kills >= 0) || events % batch !== 0 || batch % 100 !== 0) {
    throw new Error(`--events is a multiple of --batch, and that one of 100.\n${usage}`)
  }
  const closers = createClosers()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => closers.closeAll().finally(() => process.exit(130)))
  }
  const profileFolder = values.profile ? await mkdtemp(path.join(tmpdir(), 'svc-profile-')) : undefined
  const results: Result[] = []
  let queue: 'redis' | 'postgres'
  try {
    say('Starting the stores and the service')
    const stores = await openBenchStores(closers)
    queue = (values.queue as typeof queue) ?? (stores.urls.redisUrl ? 'redis' : 'postgres')
    // The verification reads every value.
    const clickhouse = openClickHouse({ url: stores.urls.clickhouseUrl, readTimeoutMs: 300_000 })
    closers.push(() => clickhouse.close())
    const database = openDatabase({ url: stores.urls.postgresUrl, onError: () => undefined })
    closers.push(() => database.close())
    const settings = { SVC_EVENTS_PER_MINUTE: '1000000000', SVC_KEY_EVENTS_PER_MINUTE: '1000000000' }
    const system = await startSystem({ target: 'service', queue, stores, closers, profileFolder, settings })

    const measure = async (modelName: string, events: number): Promise<Result> => {
      const cpuBefore = await system.readCpu()
      const startedAt = performance.now()
      const load = {
        url: system.writeUrl,
        apiKey: stores.apiKey,
        workspaceName,
        modelName,
        connections,
        eventsPerRequest: batch,
      }
      const sending = sendEvents({ ...load, events })
      const [{ accepted, duplicates, answeredMs, bytesSent }] = await Promise.all([
        sending,
        killNowAndThen(sending, modelName === warmUp ? 0 : kills, () => system.replace('worker')),
      ])
      const sentMs = performance.now() - startedAt
      const distinct = distinctIds(events)
      if (accepted !== distinct || duplicates !== events - distinct) {
        throw new Error(`${accepted} of ${distinct} ids were accepted, and ${duplicates} events were duplicates.`)
      }
      const modelId = await findModel(database, modelName)
      await waitUntilStored(clickhouse, modelId, distinct, { once: kills > 0 })
      const storedMs = performance.now() - startedAt
      const cpuAfter = await system.readCpu()
      await verify(clickhouse, modelId, distinct)
      const sorted = answeredMs.toSorted((a, b) => a - b)
      return {
        events,
        eventsPerSecond: (events * 1_000) / storedMs,
        answeredPerSecond: (events * 1_000) / sentMs,
        p50Ms: sorted[Math.floor(sorted.length * 0.5)] as number,
        p99Ms: sorted[Math.floor(sorted.length * 0.99)] as number,
        jsonBytes: bytesSent / events,
        cpuMicros: kills > 0 ? undefined : toMicros(cpuBefore, cpuAfter, events),
      }
    }

    say('Warming up')
    await measure(warmUp, Math.min(events, batch * 20))
    for (let round = 1; round <= rounds; round++) {
      say(`Round ${round} of ${rounds}: ${events} events`)
      results.push(await measure(`round-${round}`, events))
    }
    const disk = await readDisk(clickhouse, database)
    process.stdout.write(
      values.json ? `${JSON.stringify({ queue, kills, results, disk })}\n` : render({ queue, kills, results, disk }),
    )
  } finally {
    await closers.closeAll()
  }
  if (profileFolder) {
    const micros = (name: string) => median(results.flatMap((it) => it.cpuMicros?.[name] ?? []))
    process.stdout.write(await describeCpuProfiles(profileFolder, `events on ${queue}`, micros))
    await rm(profileFolder, { recursive: true })
  }
}

function toNumbers<T extends Record<string, string | boolean | undefined>>(values: T) {
  return Object.fromEntries(Object.entries(values).map(([name, it]) => [name, Number(it)])) as Record<keyof T, number>
}

/** @throws Error if the work ended before all kills */
async function killNowAndThen(work: Promise<unknown>, kills: number, kill: () => Promise<void>) {
  let isOver = false
  const over = work.finally(() => {
    isOver = true
  })
  for (let done = 0; done < kills; done++) {
    await Promise.race([over, sleep(killEveryMs)])
    if (isOver)
      throw new Error(`The load was over after ${done} of ${kills} kills: send more events, or kill less often.`)
    await kill()
    say(`The worker was killed and started again (${done + 1} of ${kills})`)
  }
}

type Result = {
  events: number
  eventsPerSecond: number
  answeredPerSecond: number
  p50Ms: number
  p99Ms: number
  jsonBytes: number
  cpuMicros: Record<string, number> | undefined
}

function toMicros(
  before: Record<string, number> | undefined,
  after: Record<string, number> | undefined,
  events: number,
) {
  if (!before || !after) return undefined
  return Object.fromEntries(
    Object.entries(after).map(([name, seconds]) => [name, ((seconds - (before[name] ?? 0)) * 1e6) / events]),
  )
}

async function findModel(database: Database, name: string): Promise<bigint> {
  const row = await database.row<{ id: bigint }>('SELECT id FROM monitored_models WHERE name = $1', [name])
  return row?.id as bigint
}

/** `once` counts repeated deliveries once, for after a kill. That query takes longer than the load may take. */
async function waitUntilStored(clickhouse: ClickHouse, modelId: bigint, events: number, { once }: { once: boolean }) {
  const deadline = performance.now() + storedWaitMsMax
  const count = async (table: string, counted = 'count()') =>
    Number(
      (
        await clickhouse.rows<{ found: string }>(
          `SELECT ${counted} AS found FROM ${clickhouse.database}.${table} ${once ? 'FINAL' : ''} WHERE model_id = {model:UInt64}`,
          { model: String(modelId) },
        )
      )[0]?.found,
    )
  const countValues = async () => (await count('event_values')) + (await count('event_value_chunks', 'sum(count)'))
  while ((await count('events')) < events || (await countValues()) < events * valuesPerEvent) {
    if (performance.now() > deadline) throw new Error('The events were not stored in time.')
    await sleep(once ? 1_000 : 50)
  }
}

async function verify(clickhouse: ClickHouse, modelId: bigint, events: number) {
  const { database } = clickhouse
  const notVoid = `(claim, place) NOT IN (SELECT claim, place FROM ${database}.voided_events WHERE model_id = {model:UInt64})`
  const ofModel = `WHERE model_id = {model:UInt64} AND ${notVoid}`
  const placesOfChunks = `SELECT claim, arrayJoin(if(empty(places), range(first_place, first_place + count), places)) AS place
    FROM ${database}.event_value_chunks FINAL WHERE model_id = {model:UInt64}`
  const [found] = await clickhouse.rows<Record<string, string>>(
    `SELECT (SELECT count() FROM ${database}.events FINAL ${ofModel}) AS rows,
       (SELECT uniqExact(prediction_id) FROM ${database}.events ${ofModel}) AS ids,
       (SELECT count() FROM ${database}.event_values FINAL ${ofModel})
         + (SELECT count() FROM (${placesOfChunks}) WHERE ${notVoid}) AS values`,
    { model: String(modelId) },
  )
  const { rows, ids, values } = found as Record<string, string>
  const expected = { rows: events, ids: events, values: events * valuesPerEvent }
  if (Number(rows) !== expected.rows || Number(ids) !== expected.ids || Number(values) !== expected.values) {
    throw new Error(`Not exactly one row per id: ${JSON.stringify({ found, expected })}`)
  }
}

type Disk = { events: number; bytesPerEvent: Record<string, number> }

/** Bytes on disk by table, before and after all parts are merged. */
async function readDisk(clickhouse: ClickHouse, database: Database): Promise<Disk> {
  const tables = ['events', 'event_values', 'event_value_chunks'] as const
  const size = async (table: string) => {
    const rows = await clickhouse.rows<{ bytes: string }>(
      'SELECT sum(bytes_on_disk) AS bytes FROM system.parts WHERE active AND database = {database:String} AND table = {table:String}',
      { database: clickhouse.database, table },
    )
    return Number(rows[0]?.bytes)
  }
  const claims = await database.row<{ rows: bigint; bytes: bigint }>(
    `SELECT (SELECT count(*) FROM event_claims) AS rows, pg_total_relation_size('event_claims') AS bytes`,
  )
  const events = Number(claims?.rows)
  const bytes: Record<string, number> = {}
  for (const table of tables) bytes[`ClickHouse ${table}`] = await size(table)
  for (const table of tables) {
    await clickhouse.command(`OPTIMIZE TABLE ${clickhouse.database}.${table} FINAL`)
    bytes[`ClickHouse ${table}, merged`] = await size(table)
  }
  bytes['Postgres claims'] = Number(claims?.bytes)
  return { events, bytesPerEvent: Object.fromEntries(Object.entries(bytes).map(([name, all]) => [name, all / events])) }
}

type Report = { queue: string; kills: number; results: Result[]; disk: Disk }

function render({ queue, kills, results, disk: { bytesPerEvent } }: Report): string {
  const of = (pick: (result: Result) => number) => median(results.map(pick))
  const names = Object.keys(results[0]?.cpuMicros ?? {})
  const micros = (name: string) => of((it) => it.cpuMicros?.[name] ?? 0)
  const lines = [
    `${results[0]?.events} events of ${featuresPerEvent} features, 1% of them with an id that was sent before; queue in ${queue}; ` +
      `medians of ${results.length} round(s). Each id is there exactly once` +
      (kills > 0 ? `, though the worker was killed ${kills} times in each round while they came.` : '.'),
    '',
    `  stored     ${Math.round(of((it) => it.eventsPerSecond))} events/s until all can be read`,
    `  answered   ${Math.round(of((it) => it.answeredPerSecond))} events/s; a batch p50 ${of((it) => it.p50Ms).toFixed(0)} ms, p99 ${of((it) => it.p99Ms).toFixed(0)} ms`,
    `  JSON       ${Math.round(of((it) => it.jsonBytes))} bytes an event`,
    ...(names.length === 0
      ? []
      : [
          `  CPU        ${names.reduce((sum, name) => sum + micros(name), 0).toFixed(1)} µs an event: ` +
            names.map((name) => `${name} ${micros(name).toFixed(1)}`).join(', '),
        ]),
    ...Object.entries(bytesPerEvent).map(([name, bytes]) => `  on disk    ${bytes.toFixed(1)} bytes an event: ${name}`),
  ]
  return `${lines.join('\n')}\n`
}

function say(text: string) {
  process.stderr.write(`${describeTerminal(process.stderr, process.env).paint('dim', text)}\n`)
}

await main()
