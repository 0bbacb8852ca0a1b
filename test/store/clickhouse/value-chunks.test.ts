import { zstdCompressSync } from 'node:zlib'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import type { Scalar } from '../../../ingest/monitoring/event.ts'
import { type NewEvent, pushEvent, pushValues } from '../../../ingest/monitoring/rows.ts'
import { createNativeBlock } from '../../../store/clickhouse/blocks/native-block.ts'
import { type ClickHouse, openClickHouse } from '../../../store/clickhouse/connection.ts'
import { rebuildDerived } from '../../../store/clickhouse/derived-tables.ts'
import { expireEvents } from '../../../store/clickhouse/expiry.ts'
import { listEventColumns, selectEvents } from '../../../store/clickhouse/export/events.ts'
import { migrateClickHouse } from '../../../store/clickhouse/migrations/migrate.ts'
import { readCategorical, readNumeric } from '../../../store/clickhouse/monitoring/distributions.ts'
import { findEvent } from '../../../store/clickhouse/monitoring/events.ts'
import { countFeatures, listFeatureNames } from '../../../store/clickhouse/monitoring/features.ts'
import { createEventReader, type EventReader } from '../../../store/clickhouse/monitoring/reader.ts'
import { rollUp } from '../../../store/clickhouse/monitoring/rollups/build.ts'
import { createSegmentReader } from '../../../store/clickhouse/monitoring/segment-reader.ts'
import { selectValues } from '../../../store/clickhouse/monitoring/stored.ts'
import { eventKinds, eventsTable, eventValuesTable, valueParts } from '../../../store/clickhouse/monitoring/tables.ts'
import { valueChunksTable } from '../../../store/clickhouse/monitoring/value-chunks.ts'
import type { Table } from '../../../store/clickhouse/table.ts'
import { toIdHash } from '../../../store/postgres/monitoring/event-claims.ts'
import { uniqueName } from '../../kit/service.ts'
import { insertFolded } from '../../kit/value-chunks.ts'

/** The same values are stored as rows of one model, and as chunks of another, or some as each: every read of both answers the same. */
let clickhouse: ClickHouse
let reader: EventReader
beforeAll(async () => {
  const url = new URL(inject('stores').clickhouseUrl)
  url.pathname = `/${uniqueName('values').replaceAll('-', '_')}`
  clickhouse = openClickHouse({ url: url.href })
  await migrateClickHouse(clickhouse)
  reader = createEventReader(clickhouse)
})
afterAll(async () => {
  await clickhouse.command(`DROP DATABASE IF EXISTS ${clickhouse.database}`)
  await clickhouse.close()
})

const start = 1_700_000_000_000
const hour = 3_600_000
const columns = 'kind, version, part, name, timestamp, claim, place, type, number, text'
let last = 0n

type Event = Pick<NewEvent, 'version' | 'timestampMs' | 'parts'>

const aScalar: fc.Arbitrary<Scalar> = fc.oneof(
  { weight: 3, arbitrary: fc.integer({ min: -3, max: 3 }) },
  { weight: 3, arbitrary: fc.double({ noNaN: true, noDefaultInfinity: true }) },
  fc.constantFrom(
    null,
    true,
    false,
    -0,
    '',
    'a',
    "it's",
    2n ** 60n,
    { float: 1 },
    { float: Number.NaN },
    { float: Infinity },
  ),
)
const scalars = (names: string[]) => fc.dictionary(fc.constantFrom(...names), aScalar, { maxKeys: 4 })
const anEvent: fc.Arbitrary<Event> = fc.record({
  version: fc.constantFrom('', '2'),
  timestampMs: fc.integer({ min: 0, max: 5 }).map((it) => start + it * hour),
  parts: fc.tuple(scalars(['x', 'y', 'z']), scalars(['x', 'value'])).map(([features, prediction]) => [
    { part: valueParts.feature, scalars: features },
    { part: valueParts.prediction, scalars: prediction },
  ]),
})
type Stored = {
  /** The events of each claim. */
  claims: Event[][]
  /** Of the second model, the values of every so many claims are rows too. */
  rowsEvery: number
  isRepeated: boolean
  tombstones: [claim: number, place: number][]
}
const aModel: fc.Arbitrary<Stored> = fc.record({
  claims: fc.array(fc.array(anEvent, { minLength: 1, maxLength: 12 }), { minLength: 1, maxLength: 4 }),
  rowsEvery: fc.integer({ min: 2, max: 9 }),
  isRepeated: fc.boolean(),
  tombstones: fc.array(fc.tuple(fc.nat(3), fc.nat(5)), { maxLength: 2 }),
})

/** Stores the events of two models. */
async function store({ claims, rowsEvery, isRepeated, tombstones }: Stored): Promise<[rows: bigint, chunks: bigint]> {
  const { database, command, insertBlocks } = clickhouse
  const [rows, chunks] = [++last, ++last]
  const events = createNativeBlock(eventsTable)
  const values = createNativeBlock(eventValuesTable)
  claims.forEach((its, claim) => {
    its.forEach((event, index) => {
      const predictionId = `${claim} ${index}`
      const all = { ...event, modelId: rows, kind: eventKinds.EVENTS, predictionId, idHash: toIdHash(predictionId) }
      pushEvent(events, { claim: claim + 1, index }, all, start + claim)
      pushValues(values, { claim: claim + 1, index }, all)
    })
  })
  const blocks: { table: Table; block: Buffer }[] = [{ table: eventsTable, block: zstdCompressSync(events.take()) }]
  if (values.rows > 0) blocks.push({ table: eventValuesTable, block: zstdCompressSync(values.take()) })
  for (const { table, block } of blocks) await insertBlocks(table, [block])
  const ofRows = `model_id = ${rows}`
  const copies = [
    `INSERT INTO ${database}.events SELECT ${chunks}, * EXCEPT (model_id) FROM ${database}.events FINAL WHERE ${ofRows}`,
    `INSERT INTO ${database}.event_values SELECT ${chunks}, ${columns} FROM ${database}.event_values FINAL WHERE ${ofRows} AND claim % ${rowsEvery} = 0`,
    insertFolded(
      database,
      `SELECT ${chunks}, ${columns} FROM ${database}.event_values FINAL WHERE ${ofRows} AND claim % ${rowsEvery} != 0`,
      `toInt64(${start} + claim - 1)`,
    ),
  ]
  for (const it of copies) await command(it)
  if (isRepeated) {
    for (const { table, block } of blocks) await insertBlocks(table, [block])
    for (const it of copies) await command(it)
  }
  for (const [claim, place] of tombstones) {
    for (const model of [rows, chunks]) {
      await command(
        `INSERT INTO ${database}.voided_events VALUES (${model}, ${eventKinds.EVENTS}, ${claim + 1}, ${place})`,
      )
    }
  }
  return [rows, chunks]
}

/** What every read tells of a model. */
async function readAll(modelId: bigint, { claims }: Pick<Stored, 'claims'>) {
  const { database, rows } = clickhouse
  const scope = { modelId, kind: 'EVENTS' } as const
  const within = { ...scope, from: start + hour, to: start + 4 * hour, version: '2' }
  const segment = createSegmentReader(reader, [{ part: 'feature', feature: 'x', operator: 'above', values: [0] }])
  const windows = { from: start, to: start + 6 * hour, intervalMs: 2 * hour }
  const names = await listFeatureNames(reader, scope, ['feature', 'prediction'])
  const x = { feature: { part: 'feature', name: 'x' }, windows, events: 100 } as const
  const y = { ...x, feature: { part: 'feature', name: 'y' } } as const
  const eventColumns = await listEventColumns(clickhouse, scope)
  const numbers = claims.map((its, claim) => ({ claim: BigInt(claim + 1), place: its.length - 1 }))
  return {
    names,
    counts: await countFeatures(reader, scope, names),
    numeric: await readNumeric(reader, { scope, ...x }, 3),
    categories: await readCategorical(reader, { scope, ...y }, 3),
    within: await readNumeric(reader, { scope: within, ...x }, 3),
    segment: await readCategorical(segment, { scope, ...y }, 3),
    final: await rows(
      `SELECT * EXCEPT model_id FROM (${selectValues(database, `model_id, ${columns}`, { common: `model_id = ${modelId}` }, 'final')}) ORDER BY ALL`,
    ),
    columns: eventColumns,
    exported: await rows(selectEvents(clickhouse, scope, eventColumns)),
    events: await Promise.all(numbers.map((it) => findEvent(clickhouse, { modelId, kind: eventKinds.EVENTS, ...it }))),
  }
}

/** The greatest is 0 or -0: rows have them in another order than chunks. */
const zerosOfBothSigns: Stored = {
  claims: [-2, 0, -0, 0].map((x) => [
    { version: '2', timestampMs: start + hour, parts: [{ part: valueParts.feature, scalars: { x } }] },
  ]),
  rowsEvery: 3,
  isRepeated: false,
  tombstones: [],
}

it('chunks are read as rows are, also repeated, tombstoned, and beside rows', { timeout: 300_000 }, async () => {
  await fc.assert(
    fc.asyncProperty(aModel, async (model) => {
      const [rows, chunks] = await store(model)
      expect(await readAll(chunks, model)).toEqual(await readAll(rows, model))
    }),
    { numRuns: 5, endOnFailure: true, examples: [[zerosOfBothSigns]] },
  )
})

const someEvents = (count: number): Event[] =>
  Array.from({ length: count }, (_, at) => ({
    version: at % 5 === 0 ? '2' : '',
    timestampMs: start + (at % 6) * hour,
    parts: [
      {
        part: valueParts.feature,
        scalars: { x: at % 7, y: at % 3 === 0 ? 'a' : 'b', ...(at % 2 ? { z: at / 8 } : {}) },
      },
    ],
  }))

it('rollups of chunks hold what those of rows hold, and notice repetitions and what comes later', async () => {
  const model = {
    claims: [someEvents(40), someEvents(30), someEvents(50)],
    rowsEvery: 9,
    isRepeated: false,
    tombstones: [],
  }
  const ids = await store(model)
  const before = await readAll(ids[0], model)
  const limits = { settledMs: -1_000_000_000_000, eventsMin: 1, eventsMax: 60 }
  for (const modelId of ids) {
    expect(await rollUp(reader, { modelId, kind: 'EVENTS' }, limits)).toBe(3)
    expect(await readAll(modelId, model)).toEqual(before)
  }
  const { database, command, rows } = clickhouse
  const rolled = (modelId: bigint) =>
    rows(
      `SELECT event_rows, value_rows, low, high FROM ${database}.rollups FINAL WHERE model_id = ${modelId} AND dropped = 0 ORDER BY low`,
    )
  expect(await rolled(ids[1])).toEqual(await rolled(ids[0]))
  // Delivered again: as before. A claim that came late: read at once.
  const again = (condition: string, claim: string) =>
    insertFolded(
      database,
      `SELECT ${ids[1]}, ${columns.replace('claim', claim)} FROM ${database}.event_values FINAL WHERE model_id = ${ids[0]} AND ${condition}`,
    )
  await command(again('claim = 2', 'claim'))
  expect(await readAll(ids[1], model)).toEqual(before)
  await command(again('claim = 2', '1'))
  expect((await readAll(ids[1], model)).final).not.toEqual(before.final)
})

it('features are told from chunks alone after a restore, and values leave with their events', async () => {
  const model = { claims: [someEvents(20), someEvents(20)], rowsEvery: 9, isRepeated: true, tombstones: [] }
  const [, chunks] = await store(model)
  const before = await readAll(chunks, model)
  await rebuildDerived(clickhouse, () => undefined)
  expect(await readAll(chunks, model)).toEqual(before)
  const { database, rows } = clickhouse
  // Those of the first claim were accepted a millisecond before those of the second.
  expect(
    await expireEvents(clickhouse, { modelId: chunks, kind: eventKinds.EVENTS, beforeMs: start + 1, isAgain: false }),
  ).toBe(20)
  const left = await rows(
    `SELECT DISTINCT claim FROM (${selectValues(database, 'claim', { common: `model_id = ${chunks}` })}) ORDER BY claim`,
  )
  expect(left).toEqual([{ claim: '2' }])
  await expireEvents(clickhouse, { modelId: chunks, kind: eventKinds.EVENTS, beforeMs: start + 2, isAgain: false })
  expect(await rows(`SELECT * FROM ${database}.${valueChunksTable.name} WHERE model_id = ${chunks}`)).toEqual([])
  expect(await listFeatureNames(reader, { modelId: chunks, kind: 'EVENTS' }, ['feature'])).toEqual([])
})
