import { text } from 'node:stream/consumers'
import { zstdCompressSync } from 'node:zlib'
import { afterEach, beforeEach, expect, inject, it } from 'vitest'
import { pushPoints } from '../../../ingest/points/rows.ts'
import { createNativeBlock } from '../../../store/clickhouse/blocks/native-block.ts'
import { type ClickHouse, openClickHouse } from '../../../store/clickhouse/connection.ts'
import { migrateClickHouse } from '../../../store/clickhouse/migrations/migrate.ts'
import { storeBlocks } from '../../../store/clickhouse/points/store-blocks.ts'
import { summaryTable } from '../../../store/clickhouse/points/summaries/summary.ts'
import { pointsTable } from '../../../store/clickhouse/points/tables.ts'
import { streamThinnedSeries } from '../../../store/clickhouse/points/thinned-series.ts'
import { bothForms } from '../../../store/point-forms.ts'
import { uniqueName } from '../../kit/service.ts'

const series = { experimentId: 7n, name: 'loss', context: undefined, ...bothForms }

let clickhouse: ClickHouse
beforeEach(async () => {
  const url = new URL(inject('stores').clickhouseUrl)
  url.pathname = `/${uniqueName('thinned').replaceAll('-', '_')}`
  clickhouse = openClickHouse({ url: url.href })
  await migrateClickHouse(clickhouse)
})
afterEach(async () => {
  await clickhouse.command(`DROP DATABASE IF EXISTS ${clickhouse.database}`)
  await clickhouse.close()
})

function aBlock(points: { step: number; timestamp?: number; epoch?: number }[]): Buffer {
  const block = createNativeBlock(pointsTable)
  pushPoints(
    block,
    { experimentId: 7n, identity: { high: 3n, low: 4 }, receivedMs: 5_000 },
    points.map((it) => ({
      metric: 'loss',
      context: '',
      value: it.step,
      timestamp: undefined,
      epoch: undefined,
      ...it,
    })),
    points.map((_, place) => place),
  )
  return zstdCompressSync(block.take())
}

async function readThinned(pointsMax: number) {
  const stream = await streamThinnedSeries(clickhouse, series, pointsMax)
  return JSON.parse(await text(stream)) as { step: number; timestamp: number; epoch: number | null }[]
}

const steps = (count: number) => Array.from({ length: count }, (_, step) => ({ step }))

it('a summary that lags behind its points does not lengthen the answer', async () => {
  await storeBlocks(clickhouse, pointsTable, [aBlock(steps(100))])
  await clickhouse.command(`TRUNCATE TABLE ${clickhouse.database}.${summaryTable}`)

  expect((await readThinned(10)).length).toBe(10)
})

it('a short series that was delivered three times is returned whole, each point once', async () => {
  for (let time = 0; time < 3; time++) await storeBlocks(clickhouse, pointsTable, [aBlock(steps(10))])

  expect((await readThinned(10)).map((it) => it.step)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
})

it('each kept point has its own time and epoch, or the time of arrival and no epoch', async () => {
  const points = steps(100).map((it) => (it.step % 2 ? { ...it, timestamp: 9_000 + it.step, epoch: it.step } : it))
  await storeBlocks(clickhouse, pointsTable, [aBlock(points)])

  const kept = await readThinned(10)

  expect(kept.length).toBe(10)
  for (const { step, timestamp, epoch } of kept) {
    expect({ timestamp, epoch }).toEqual(
      step % 2 ? { timestamp: 9_000 + step, epoch: step } : { timestamp: 5_000, epoch: null },
    )
  }
})
