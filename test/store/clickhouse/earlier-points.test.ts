import { text } from 'node:stream/consumers'
import { zstdCompressSync } from 'node:zlib'
import { afterEach, beforeEach, expect, inject, it } from 'vitest'
import { pushPoints } from '../../../ingest/points/rows.ts'
import { createNativeBlock } from '../../../store/clickhouse/blocks/native-block.ts'
import { type ClickHouse, openClickHouse } from '../../../store/clickhouse/connection.ts'
import { checkClickHouse } from '../../../store/clickhouse/migrations/check.ts'
import { migrateClickHouse } from '../../../store/clickhouse/migrations/migrate.ts'
import { streamSummary } from '../../../store/clickhouse/points/reads.ts'
import { countSeries } from '../../../store/clickhouse/points/series-counts.ts'
import { readSeries } from '../../../store/clickhouse/points/short-series.ts'
import { storeBlocks } from '../../../store/clickhouse/points/store-blocks.ts'
import { pointsTable, systemPointsTable } from '../../../store/clickhouse/points/tables.ts'
import { bothForms } from '../../../store/point-forms.ts'
import { uniqueName } from '../../kit/service.ts'
import { createFloatTables, floatColumns, floatOrder } from './float-tables.ts'
import { readWhole } from './read-whole.ts'

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

/** As workers before 0.1.0 did: without naming columns. */
async function insertUnnamed(name: string, block: Buffer) {
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
  const answer = await readSeries(clickhouse, { experimentId, name: metric, context: undefined, ...bothForms })
  return (JSON.parse(await readWhole(answer)) as { metricValue: string }[]).map((it) => it.metricValue)
}

async function readSummary(): Promise<Record<string, unknown>[]> {
  return JSON.parse(await text(await streamSummary(clickhouse, experimentId)))
}

const asRead = ['0.1', '-0.0', 'NaN', 'Infinity', '4.9E-324', '-1.7976931348623157E308', '0.1']

it('points of the previous version are read bit for bit, and their summary is rebuilt', async () => {
  await createFloatTables(clickhouse)
  await insertUnnamed('points', aBlock('loss'))
  await insertUnnamed('system_points', aBlock('sys.cpu', systemPointsTable))
  const said: string[] = []

  await migrateClickHouse(clickhouse, (text) => said.push(text))

  await checkClickHouse(clickhouse)
  expect(await readValues('loss')).toEqual(asRead)
  expect(await readValues('sys.cpu')).toEqual(asRead)
  expect(await readSummary()).toMatchObject([
    {
      name: 'train_loss',
      valueMin: '-1.7976931348623157E308',
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

it('a copy that was killed in a version without recorded migrations is finished before any role starts', async () => {
  await createFloatTables(clickhouse)
  await insertUnnamed('points', aBlock('loss'))
  await migrateClickHouse(clickhouse)
  await clickhouse.command(`DROP TABLE ${within('svc_migrations')} SYNC`)
  await clickhouse.command(
    `CREATE TABLE ${within('points_earlier')} (${floatColumns}) ENGINE = ReplacingMergeTree ${floatOrder}`,
  )
  await insertUnnamed('points_earlier', aBlock('loss'))
  await insertUnnamed('points_earlier', aBlock('accuracy'))
  await expect(checkClickHouse(clickhouse)).rejects.toThrow(
    /older schema \(missing: .*0003-copy-float-points.*\): run "svc migrate" first/,
  )

  await migrateClickHouse(clickhouse)

  await checkClickHouse(clickhouse)
  expect(await readValues('loss')).toEqual(asRead)
  expect(await readValues('accuracy')).toEqual(asRead)
  expect((await readSummary()).map((it) => it.name)).toEqual(['train_accuracy', 'train_loss'])
})

it('a queued block is stored by this version, and a worker of the previous one cannot insert it', async () => {
  await migrateClickHouse(clickhouse)
  const block = aBlock('loss')

  await expect(insertUnnamed('points', block)).rejects.toThrow(/an insert into points must name the column value/)
  await storeBlocks(clickhouse, pointsTable, [block])

  expect(await readValues('loss')).toEqual(asRead)
})
