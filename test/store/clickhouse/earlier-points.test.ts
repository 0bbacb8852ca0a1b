import { text } from 'node:stream/consumers'
import { zstdCompressSync } from 'node:zlib'
import { afterEach, beforeEach, expect, inject, it } from 'vitest'
import { pushPoints } from '../../../ingest/points/rows.ts'
import { createNativeBlock } from '../../../store/clickhouse/blocks/native-block.ts'
import { type ClickHouse, openClickHouse } from '../../../store/clickhouse/connection.ts'
import { checkClickHouse, migrateClickHouse } from '../../../store/clickhouse/migrations/migrate.ts'
import { streamSeries, streamSummary } from '../../../store/clickhouse/points/reads.ts'
import { countSeries } from '../../../store/clickhouse/points/series-counts.ts'
import { pointsTable, systemPointsTable } from '../../../store/clickhouse/points/tables.ts'
import { uniqueName } from '../../kit/service.ts'

/** As the version before made them. */
const earlierColumns = `experiment_id UInt64 CODEC(Delta, ZSTD(1)), metric LowCardinality(String), context LowCardinality(String),
  step Int64, timestamp Int64, request_hi UInt64, request_lo UInt64, place UInt32, epoch Int64, received Int64, present UInt8,
  value Float64 CODEC(ZSTD(1))`
const earlierOrder = `PRIMARY KEY (experiment_id, metric, context, step)
  ORDER BY (experiment_id, metric, context, step, timestamp, request_hi, request_lo, place, epoch, present, reinterpretAsUInt64(value))`

const experimentId = 7n
const values = [0.1, -0, Number.NaN, Number.POSITIVE_INFINITY, 5e-324, -1.7976931348623157e308, 0.1]

let clickhouse: ClickHouse
beforeEach(() => {
  const url = new URL(inject('stores').clickhouseUrl)
  url.pathname = `/${uniqueName('earlier').replaceAll('-', '_')}`
  clickhouse = openClickHouse({ url: url.href })
})
afterEach(async () => {
  await clickhouse.command(`DROP DATABASE IF EXISTS ${clickhouse.database}`)
  await clickhouse.close()
})

const within = (name: string) => `${clickhouse.database}.${name}`

async function makeEarlierTables() {
  await clickhouse.command(`CREATE DATABASE ${clickhouse.database}`)
  for (const name of ['points', 'system_points']) {
    await clickhouse.command(
      `CREATE TABLE ${within(name)} (${earlierColumns}) ENGINE = ReplacingMergeTree ${earlierOrder}`,
    )
  }
  const state = (pick: string) => `AggregateFunction(${pick}, Tuple(Float64, Int64, Int64, UInt8), UInt256)`
  await clickhouse.command(
    `CREATE TABLE ${within('points_summary')} (experiment_id UInt64, metric LowCardinality(String),
       context LowCardinality(String), minimum ${state('argMin')}, maximum ${state('argMax')}, current ${state('argMax')},
       rows SimpleAggregateFunction(sum, UInt64)) ENGINE = AggregatingMergeTree ORDER BY (experiment_id, metric, context)`,
  )
  const kept = '(value, step, timestamp, present)'
  await clickhouse.command(
    `CREATE MATERIALIZED VIEW ${within('points_summary_view')} TO ${within('points_summary')} AS
     SELECT experiment_id, metric, context, argMinState(${kept}, toUInt256(step)) AS minimum,
       argMaxState(${kept}, toUInt256(step)) AS maximum, argMaxState(${kept}, toUInt256(step)) AS current, count() AS rows
     FROM ${within('points')} GROUP BY experiment_id, metric, context`,
  )
}

function aBlock(metric: string, table: typeof pointsTable = pointsTable): Buffer {
  const block = createNativeBlock(table)
  const points = values.map((value, step) => ({
    metric,
    context: 'train',
    value,
    step,
    epoch: step === 2 ? 4 : undefined,
    timestamp: 1_760_000_000_000 + step,
  }))
  const origin = { experimentId, identity: { high: 3n, low: 4 }, receivedMs: 1_760_000_009_000 }
  pushPoints(
    block,
    origin,
    points,
    points.map((_, place) => place),
  )
  return zstdCompressSync(block.take())
}

/** As the worker of the version before did it: without naming columns. */
async function insertAsEarlier(name: string, block: Buffer) {
  const { clickhouseUrl } = inject('stores')
  const url = new URL(clickhouseUrl)
  const headers = {
    authorization: `Basic ${Buffer.from(`${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}`).toString('base64')}`,
    'content-encoding': 'zstd',
  }
  const query = new URLSearchParams({ query: `INSERT INTO ${within(name)} FORMAT Native` })
  const answer = await fetch(`${url.origin}/?${query}`, { method: 'POST', headers, body: new Uint8Array(block) })
  if (!answer.ok) throw new Error(await answer.text())
}

async function readValues(metric: string): Promise<string[]> {
  const stream = await streamSeries(clickhouse, { experimentId, name: metric, context: undefined })
  return (JSON.parse(await text(stream)) as { metricValue: string }[]).map((it) => it.metricValue)
}

async function readSummary(): Promise<Record<string, unknown>[]> {
  return JSON.parse(await text(await streamSummary(clickhouse, experimentId)))
}

const asRead = ['0.1', '-0', 'NaN', 'Infinity', '5e-324', '-1.7976931348623157e308', '0.1']

it('points of the version before are read bit for bit, and their summary is made anew', async () => {
  await makeEarlierTables()
  await insertAsEarlier('points', aBlock('loss'))
  await insertAsEarlier('system_points', aBlock('sys.cpu', systemPointsTable))
  const said: string[] = []

  await migrateClickHouse(clickhouse, (text) => said.push(text))

  await checkClickHouse(clickhouse)
  expect(await readValues('loss')).toEqual(asRead)
  expect(await readValues('sys.cpu')).toEqual(asRead)
  expect(await readSummary()).toMatchObject([
    {
      name: 'train_loss',
      valueMin: '-1.7976931348623157e308',
      stepMin: 5,
      valueMax: 'Infinity',
      stepMax: 3,
      valueCurrent: '0.1',
      stepCurrent: 6,
      timestampCurrent: 1_760_000_000_006,
    },
  ])
  expect(await countSeries(clickhouse, [experimentId])).toEqual(new Map([[7n, { series: 1, pointsMost: 7 }]]))
  expect(said).toEqual([
    'points: 7 of 7 rows are in their new form',
    'system_points: 7 of 7 rows are in their new form',
  ])
  expect(await clickhouse.rows(`SHOW TABLES FROM ${clickhouse.database} LIKE '%earlier%'`)).toEqual([])
})

it('a copy that was cut short is finished by the next one, and no role starts before', async () => {
  await makeEarlierTables()
  await insertAsEarlier('points', aBlock('loss'))
  await migrateClickHouse(clickhouse)
  // As a crash leaves it after some rows were copied.
  await clickhouse.command(
    `CREATE TABLE ${within('points_earlier')} (${earlierColumns}) ENGINE = ReplacingMergeTree ${earlierOrder}`,
  )
  await insertAsEarlier('points_earlier', aBlock('loss'))
  await insertAsEarlier('points_earlier', aBlock('accuracy'))
  await expect(checkClickHouse(clickhouse)).rejects.toThrow(
    /points_earlier are not in their new form yet: run "svc migrate"/,
  )

  await migrateClickHouse(clickhouse)

  await checkClickHouse(clickhouse)
  expect(await readValues('loss')).toEqual(asRead)
  expect(await readValues('accuracy')).toEqual(asRead)
  expect((await readSummary()).map((it) => it.name)).toEqual(['train_accuracy', 'train_loss'])
})

it('a block that waited in the queue is stored by this version, and is refused to a worker of the one before', async () => {
  await migrateClickHouse(clickhouse)
  const block = aBlock('loss')

  await expect(insertAsEarlier('points', block)).rejects.toThrow(/an insert into points must name the column value/)
  await clickhouse.insertBlocks(pointsTable, [block])

  expect(await readValues('loss')).toEqual(asRead)
})
