import { zstdCompressSync } from 'node:zlib'
import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import type { Scalars } from '../../../ingest/monitoring/event.ts'
import { countValues, type NewEvent } from '../../../ingest/monitoring/rows.ts'
import { groupEvents, pushValueChunks, toValueChunks } from '../../../ingest/monitoring/value-chunks.ts'
import { createNativeBlock } from '../../../store/clickhouse/blocks/native-block.ts'
import { type ClickHouse, openClickHouse } from '../../../store/clickhouse/connection.ts'
import { valueTypes } from '../../../store/clickhouse/monitoring/tables.ts'
import { valueChunksTable } from '../../../store/clickhouse/monitoring/value-chunks.ts'
import { createTable } from '../../../store/clickhouse/tables.ts'
import { uniqueName } from '../../kit/service.ts'

/** Chunks as they stand in ClickHouse. */
const table = { ...valueChunksTable, name: uniqueName('value_chunks').replaceAll('-', '_') }
let clickhouse: ClickHouse
beforeAll(async () => {
  clickhouse = openClickHouse({ url: inject('stores').clickhouseUrl })
  for (const statement of createTable(clickhouse, table)) await clickhouse.command(statement)
})
afterAll(async () => {
  await clickhouse?.command(`DROP TABLE ${clickhouse.database}.${table.name}`)
  await clickhouse?.close()
})

type Chunk = Record<'first_place' | 'count' | 'type_all' | 'part' | 'kind', number> &
  Record<
    'model_id' | 'claim' | 'received' | 'timestamp_all' | 'time_low' | 'time_high' | 'name' | 'version',
    string
  > & {
    places: number[]
    timestamps: string[]
    types: number[]
    numbers: string[]
    texts: string[]
  }

let nextClaim = Date.now()
const toEvent = (scalars: Scalars, changes: Partial<NewEvent> = {}): NewEvent => ({
  modelId: 7n,
  kind: 1,
  idHash: '',
  predictionId: '',
  version: 'v',
  timestampMs: 1_000,
  parts: [{ part: 1, scalars }],
  ...changes,
})
const repeat = <T>(times: number, make: (at: number) => T) => Array.from({ length: times }, (_, at) => make(at))
const eventsOf = (times: number, toScalars: (at: number) => Scalars) => repeat(times, (at) => toEvent(toScalars(at)))

/** Stores the events at some places of a claim, and reads their chunks. */
async function store(events: NewEvent[], places = [...events.keys()]): Promise<Chunk[]> {
  const claim = nextClaim++
  const block = createNativeBlock(table)
  for (const group of groupEvents(events, places)) {
    const chunks = toValueChunks(
      group,
      group.events.reduce((sum, it) => sum + countValues(it), 0),
    )
    if (chunks) pushValueChunks(block, { claim, receivedMs: 5_000 }, chunks)
  }
  if (block.rows > 0) await clickhouse.insertBlocks(table, [zstdCompressSync(block.take())])
  return await clickhouse.rows<Chunk>(
    `SELECT * REPLACE (arrayMap(it -> toString(it), numbers) AS numbers), time_low, time_high
     FROM ${clickhouse.database}.${table.name} WHERE claim = {claim:UInt64} ORDER BY model_id, kind, version, part, name`,
    { claim: String(claim) },
  )
}

async function storeOne(events: NewEvent[], places?: number[]): Promise<Chunk> {
  const chunks = await store(events, places)
  expect(chunks).toHaveLength(1)
  return chunks[0] as Chunk
}

it('what all values of a chunk have in common is stored once', async () => {
  const { claim: _, ...chunk } = await storeOne(eventsOf(8, () => ({ a: 0 })))
  expect(chunk).toEqual({
    model_id: '7',
    kind: 1,
    part: 1,
    name: 'a',
    version: 'v',
    first_place: 0,
    count: 8,
    received: '5000',
    timestamp_all: '1000',
    type_all: valueTypes.integer,
    places: [],
    timestamps: [],
    types: [],
    numbers: [],
    texts: [],
    time_low: '1000',
    time_high: '1000',
  })
})

it('times that differ are stored each', async () => {
  const times = [1_700_000_000_002, 1_700_000_000_000, ...repeat(6, () => 1_700_000_000_001)]
  const chunk = await storeOne(times.map((timestampMs) => toEvent({ a: 0 }, { timestampMs })))
  expect(chunk).toMatchObject({
    timestamp_all: String(times[0]),
    timestamps: times.map(String),
    time_low: '1700000000000',
    time_high: '1700000000002',
    places: [],
  })
})

it('places are stored unless they count on from the first', async () => {
  const events = eventsOf(12, () => ({ a: 0 }))
  expect(await storeOne(events, [2, 3, 4, 5, 6, 7, 8, 9])).toMatchObject({ first_place: 2, count: 8, places: [] })
  const places = [1, 3, 4, 5, 6, 7, 8, 9]
  expect(await storeOne(events, places)).toMatchObject({ first_place: 1, count: 8, places })
})

it('numbers are stored unless all are 0, and -0 is none', async () => {
  const zeros = await storeOne(eventsOf(8, () => ({ a: { float: 0 } })))
  expect(zeros).toMatchObject({ type_all: valueTypes.float, types: [], numbers: [] })
  const negative = await storeOne(eventsOf(8, (at) => ({ a: at === 7 ? -0 : { float: 0 } })))
  expect(negative).toMatchObject({ type_all: valueTypes.float, types: [], numbers: [...repeat(7, () => '0'), '-0'] })
  const same = await storeOne(eventsOf(8, () => ({ a: 0.5 })))
  expect(same.numbers).toEqual(repeat(8, () => '0.5'))
  const notANumber = await storeOne(eventsOf(8, () => ({ a: { float: Number.NaN } })))
  expect(notANumber.numbers).toEqual(repeat(8, () => 'nan'))
})

it('texts are stored unless all are empty', async () => {
  const empty = await storeOne(eventsOf(8, () => ({ a: '' })))
  expect(empty).toMatchObject({ type_all: valueTypes.string, types: [], numbers: [], texts: [] })
  const texts = ['', 'x', 'y', 'x', '', 'é', '', '']
  expect(await storeOne(texts.map((a) => toEvent({ a })))).toMatchObject({ numbers: [], texts })
  // A text of one name takes no room in the chunk of another.
  const [numbers, words] = await store(eventsOf(8, (at) => ({ a: at, b: `${at}` })))
  expect([numbers?.texts, words?.texts]).toEqual([[], repeat(8, String)])
})

it('values keep their types', async () => {
  const values = [1, 1.5, -0, true, false, 'text', null, 2n ** 60n, { float: 2 }]
  expect(await storeOne(values.map((a) => toEvent({ a })))).toMatchObject({
    type_all: 1,
    types: [1, 2, 2, 3, 3, 4, 0, 1, 2],
    numbers: ['1', '1.5', '-0', '1', '0', '0', '0', '1152921504606847000', '2'],
    texts: ['', '', '', '', '', 'text', '', '1152921504606846976', ''],
  })
  expect(await storeOne(eventsOf(8, () => ({ a: null })))).toMatchObject({
    type_all: 0,
    types: [],
    numbers: [],
    texts: [],
  })
})

it('a name that some events lack has the places and times of those that have it', async () => {
  const events = repeat(12, (at) =>
    toEvent(at % 3 === 0 ? { b: 10 + at } : { a: at, b: 10 + at }, { timestampMs: 1_000 + at }),
  )
  const [a, b] = await store(events)
  const places = [1, 2, 4, 5, 7, 8, 10, 11]
  expect(a).toMatchObject({
    first_place: 1,
    count: 8,
    places,
    timestamp_all: '1001',
    timestamps: places.map((it) => String(1_000 + it)),
    numbers: places.map(String),
  })
  expect(b).toMatchObject({ count: 12, places: [], numbers: repeat(12, (at) => String(10 + at)) })
})

it('names of different orders and parts are told apart', async () => {
  const events = repeat(9, (at) =>
    toEvent(
      {},
      {
        parts: [
          { part: 1, scalars: at % 2 === 0 ? { a: 1, b: 2 } : { b: 2, a: 1 } },
          { part: 2, scalars: { a: 3 } },
        ],
      },
    ),
  )
  const chunks = await store(events)
  expect(chunks.map((it) => [it.part, it.name, it.count, ...new Set(it.numbers)])).toEqual([
    [1, 'a', 9, '1'],
    [1, 'b', 9, '2'],
    [2, 'a', 9, '3'],
  ])
})

it('models, kinds and versions have chunks of their own, in whatever order their events come', async () => {
  const others: Partial<NewEvent>[] = [{}, { modelId: 2n ** 60n }, { kind: 2 }, { version: '' }]
  const chunks = await store(repeat(40, (at) => toEvent({ a: at }, others[at % 4])))
  expect(chunks.map((it) => [it.model_id, it.kind, it.version, it.first_place])).toEqual([
    ['7', 1, '', 3],
    ['7', 1, 'v', 0],
    ['7', 2, 'v', 2],
    [String(2n ** 60n), 1, 'v', 1],
  ])
  for (const { first_place: first, places, numbers } of chunks) {
    expect(places).toEqual(repeat(10, (at) => first + 4 * at))
    expect(numbers).toEqual(places.map(String))
  }
})

it('few events, or names with few values each, are no chunks', async () => {
  expect(await store(eventsOf(7, () => ({ a: 1 })))).toEqual([])
  expect(await store(eventsOf(100, (at) => ({ [`a${at}`]: 1, b: 1 })))).toEqual([])
  expect(await store(eventsOf(8, () => ({})))).toEqual([])
})
