import { afterAll, beforeAll, expect, it } from 'vitest'
import { createRandom } from '../../../cli/demo/random.ts'
import { createClosers } from '../../../runtime/closers.ts'
import { openClickHouse } from '../../../store/clickhouse/connection.ts'
import { openDatabase } from '../../../store/postgres/database.ts'
import { eventually } from '../../kit/eventually.ts'
import { inForm } from '../../kit/form.ts'
import { openTestService, storesWith } from '../../kit/service.ts'
import { type Outcome, play, type RawAnswer } from './connection.ts'
import { drawScript, type Script } from './requests.ts'

/**
 * Two services on the same stores, one with the fast path and one with `SVC_FAST_PATH=off`, are sent the same bytes, by the
 * thousand: good requests, bad ones, odd headers, several at once, cut up anywhere. Each answers the same, and what is
 * stored is the same. `SVC_TEST_SEED` and `SVC_TEST_CONNECTIONS` choose which ones and how many.
 */
const connections = Number(process.env.SVC_TEST_CONNECTIONS ?? inForm({ short: 400, middle: 500, long: 100_000 }))
const seed = Number(process.env.SVC_TEST_SEED ?? 20_261_122)
/** Each waits for the queue: together they wait no longer. */
const atOnce = 40

const closers = createClosers()
afterAll(() => closers.closeAll())

type Service = Awaited<ReturnType<typeof openTestService>>
let fast: Service
let node: Service
beforeAll(async () => {
  fast = await openTestService()
  closers.push(fast.close)
  // One worker stores what both take.
  node = await openTestService({ roles: new Set(['ingest', 'api']), settings: { SVC_FAST_PATH: 'off' } })
  closers.push(node.close)
})

it(`${connections} connections get the same answers from the fast path and from Node's server, and store the same rows`, async () => {
  const { apiKey, client } = fast
  const experiments = { fast: await client.createExperiment(), node: await client.createExperiment() }
  const ports = { fast: Number(new URL(fast.url).port), node: Number(new URL(node.url).port) }
  const toOutcome = async (way: 'fast' | 'node', at: number) => {
    const target = { apiKey, experimentKey: experiments[way] }
    return await play(ports[way], drawScript(createRandom(seed + at), target))
  }
  const statuses = new Map<string, number>()
  const differing: unknown[] = []
  let next = 0
  async function compare() {
    while (next < connections && differing.length === 0) {
      const at = next++
      // What is sent again under the same Idempotency-Key must find the same before it on either side: one after the other.
      const [ours, theirs] = await Promise.all([toOutcome('fast', at), toOutcome('node', at)])
      const script = drawScript(createRandom(seed + at), { apiKey: 'KEY', experimentKey: 'EXPERIMENT' })
      if (!areSame(script, ours, theirs)) {
        const sent = script.requests.map((it) => it.bytes.toString('latin1').slice(0, 3_000))
        differing.push({ seed: seed + at, sent, cuts: script.cuts, fast: ours, node: theirs })
      }
      for (const { status } of ours.answers) statuses.set(status, (statuses.get(status) ?? 0) + 1)
    }
  }
  await Promise.all(Array.from({ length: atOnce }, compare))
  expect(differing).toEqual([])

  // What was sent is neither all good nor all bad.
  expect([...statuses.keys()]).toEqual(
    expect.arrayContaining([200, 400, 401, 404, 415].map((it) => expect.stringContaining(` ${it} `))),
  )
  expect(statuses.get('HTTP/1.1 200 OK')).toBeGreaterThan(connections / 3)
  const counted = async (experimentKey: string) =>
    (await client.get(`/experiment/counters?experimentKey=${experimentKey}`)).body.counters as {
      pending: number
      stored: number
    }[]
  // What was taken a moment ago is counted a moment later.
  await eventually(async () => {
    const counts = await counted(experiments.fast)
    expect(counts).toEqual(await counted(experiments.node))
    for (const it of counts) expect(it.pending).toBe(0)
    const rows = await readRows(experiments.fast)
    expect(rows.length).toBeGreaterThan(connections / 3)
    expect(rows).toEqual(await readRows(experiments.node))
  }, 60_000)
})

/**
 * Whether both outcomes are the same. Several requests at once of which one is no HTTP: Node's server closes when it comes
 * to that one, and how many of the answers before it have gone by then is a matter of time, from one run to the next too.
 */
function areSame({ requests }: Script, ours: Outcome, theirs: Outcome): boolean {
  const count = Math.min(ours.answers.length, theirs.answers.length)
  const isBroken = requests.length > 1 && !ours.isOpen && !theirs.isOpen
  const toText = ({ answers, isOpen }: Outcome) =>
    JSON.stringify({ answers: isBroken ? answers.slice(0, count).filter(isWhole) : answers, isOpen })
  return toText(ours) === toText(theirs)
}

const isWhole = ({ body }: RawAnswer) => !body.includes('The request is not valid HTTP')

const tables = {
  points: 'metric, context, step, timestamp, epoch, present, value_bits, place',
  point_chunks: 'metric, context, steps, timestamps, epochs, present_all, presents, value_bits, first_place, places',
  system_points: 'metric, context, step, timestamp, epoch, present, value_bits, place',
  output_lines: 'line, context, offset, timestamp, present, stderr, place',
}

/** All that is stored of an experiment, without what names the request and when it came. */
async function readRows(experimentKey: string): Promise<string[]> {
  const stores = storesWith('postgres')
  const clickhouse = openClickHouse({ url: stores.clickhouseUrl })
  const database = openDatabase({ url: stores.postgresUrl, connectionsMax: 1, onError: () => undefined })
  try {
    const row = await database.row<{ id: bigint }>('SELECT id FROM experiments WHERE key = $1', [experimentKey])
    const { id } = row as { id: bigint }
    const all: string[] = []
    for (const [table, columns] of Object.entries(tables)) {
      const rows = await clickhouse.rows<{ row: string }>(
        `SELECT toString((${columns})) AS row FROM ${clickhouse.database}.${table} FINAL WHERE experiment_id = ${id} ORDER BY row`,
      )
      all.push(...rows.map(({ row }) => `${table} ${row}`))
    }
    return all
  } finally {
    await Promise.all([clickhouse.close(), database.close()])
  }
}
