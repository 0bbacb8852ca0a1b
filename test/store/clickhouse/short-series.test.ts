import { text } from 'node:stream/consumers'
import { zstdCompressSync } from 'node:zlib'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import { pushChunks } from '../../../ingest/points/chunks.ts'
import type { Point } from '../../../ingest/points/point.ts'
import { pushPoints } from '../../../ingest/points/rows.ts'
import { createNativeBlock } from '../../../store/clickhouse/blocks/native-block.ts'
import { type ClickHouse, openClickHouse } from '../../../store/clickhouse/connection.ts'
import { chunkBlocks } from '../../../store/clickhouse/points/chunks.ts'
import { streamLongSeries } from '../../../store/clickhouse/points/reads.ts'
import { readSeries, readShortSeries } from '../../../store/clickhouse/points/short-series.ts'
import { storeBlocks } from '../../../store/clickhouse/points/store-blocks.ts'
import { pointsTable, present, systemPointsTable } from '../../../store/clickhouse/points/tables.ts'
import { bothForms } from '../../../store/point-forms.ts'
import { readWhole } from './read-whole.ts'

let clickhouse: ClickHouse
beforeAll(() => {
  clickhouse = openClickHouse({ url: inject('stores').clickhouseUrl })
})
afterAll(() => clickhouse.close())

/** Beyond the ids of Postgres. */
let lastId = 2n ** 62n + BigInt(Date.now()) * 1_000n
const nextId = () => lastId++

function aBlock(experimentId: bigint, points: Point[], table: typeof pointsTable = pointsTable): Buffer {
  const block = createNativeBlock(table)
  const origin = { experimentId, identity: { high: 2n ** 64n - 1n, low: 4 }, receivedMs: 5_000 }
  pushPoints(
    block,
    origin,
    points,
    points.map((_, place) => place),
  )
  return zstdCompressSync(block.take())
}

const integer = fc.option(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }), { nil: undefined })
const small = fc.option(fc.integer({ min: -3, max: 3 }), { nil: undefined })
const name = fc.constantFrom('loss', 'val_loss', 'a"\\/\u0001\n\u2028é🙂')
const aPoint = fc.record({
  metric: name,
  context: fc.constantFrom('', 'val', 'zoo', '🙂', '\uff5e'),
  value: fc.oneof(fc.double(), fc.constantFrom(-0, 5e-324, Number.NaN, Infinity, 12_345_678)),
  step: fc.oneof(integer, small),
  epoch: fc.oneof(integer, small),
  timestamp: fc.oneof(integer, small),
}) as fc.Arbitrary<Point>

it('a short series is written as ClickHouse writes it, whatever its points', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(aPoint, { maxLength: 30 }), name, async (points, asked) => {
      const experimentId = nextId()
      const block = aBlock(experimentId, points)
      // Delivered twice.
      if (points.length > 0) await storeBlocks(clickhouse, pointsTable, [block, block])
      const series = { experimentId, name: asked, context: undefined, ...bothForms }

      const short = JSON.parse((await readShortSeries(clickhouse, series)) as string) as object[]
      expect(short).toEqual(JSON.parse(await text(await streamLongSeries(clickhouse, series))))
      expect(short.length).toBe(
        points.filter((it) => it.metric === asked || (asked === 'val_loss' && `${it.context}_${it.metric}` === asked))
          .length,
      )
    }),
    { numRuns: 25 },
  )
})

it('resource usage is read from its table, and digits beyond 2^53 are kept', async () => {
  const experimentId = nextId()
  const point = { metric: 'sys.cpu', context: '', value: 0.1, step: 2n ** 63n - 1n, timestamp: -(2n ** 63n) } as Point
  await clickhouse.insertBlocks(systemPointsTable, [aBlock(experimentId, [point], systemPointsTable)])
  const series = { experimentId, name: 'sys.cpu', context: undefined, ...bothForms }
  expect(await readShortSeries(clickhouse, series)).toBe(
    '[\n{"metricName":"sys.cpu","metricValue":"0.1","timestamp":-9223372036854775808,"step":9223372036854775807,' +
      '"epoch":null,"runContext":null}\n]',
  )
  expect(await text(await streamLongSeries(clickhouse, series))).toBe(`${await readShortSeries(clickhouse, series)}\n`)
})

it('a longer series is left to ClickHouse', async () => {
  const experimentId = nextId()
  const points = Array.from(
    { length: 2_001 },
    (_, step) => ({ metric: 'loss', context: '', value: step, step }) as Point,
  )
  await storeBlocks(clickhouse, pointsTable, [aBlock(experimentId, points)])
  const series = { experimentId, name: 'loss', context: undefined, ...bothForms }
  expect(await readShortSeries(clickhouse, series, 5_000)).toBeUndefined()
  expect(JSON.parse(await readWhole(await readSeries(clickhouse, series))).length).toBe(2_001)
})

/** Chunks of so many points each, of one request each. */
async function insertChunks(experimentId: bigint, sizes: number[]) {
  const block = createNativeBlock(chunkBlocks)
  let step = 0
  sizes.forEach((size, request) => {
    const steps = Array.from({ length: size }, () => step++)
    const series = {
      ...{ metric: 'loss', context: '', values: steps, steps, epochs: undefined, timestamps: undefined, kept: size },
      ...{ present: present.step, presents: undefined, firstPlace: 0, places: undefined },
    }
    pushChunks(block, { experimentId, identity: { high: 1n, low: request }, receivedMs: 5_000 }, [series])
  })
  await storeBlocks(clickhouse, chunkBlocks, [zstdCompressSync(block.take())])
}

it.each([
  { sizes: [3, 1], most: 2_000 },
  { sizes: Array(64).fill(2), most: 2_000 },
  { sizes: Array(65).fill(2), most: 2_000 },
  // As many as there may be: those that are read at first have less, or exactly as many.
  { sizes: Array(100).fill(20), most: 2_000 },
  { sizes: [...Array(65).fill(1), 1_935], most: 2_000 },
  { sizes: Array(65).fill(1), most: 65 },
  { sizes: [1, 1, 1], most: 3 },
])('of chunks all points are read: $sizes.length chunks, at most $most points', async ({ sizes, most }) => {
  const experimentId = nextId()
  await insertChunks(experimentId, sizes)
  const series = { experimentId, name: 'loss', context: undefined, ...bothForms }
  const short = JSON.parse((await readShortSeries(clickhouse, series, most)) as string)
  expect(short.length).toBe(sizes.reduce((sum, it) => sum + it, 0))
  expect(short).toEqual(JSON.parse(await text(await streamLongSeries(clickhouse, series))))
})

it.each([
  { sizes: [2_001], most: 2_000 },
  { sizes: [...Array(65).fill(1), 1_936], most: 2_000 },
  { sizes: Array(101).fill(20), most: 2_000 },
  { sizes: Array(66).fill(1), most: 65 },
  { sizes: [1, 1, 1, 1], most: 3 },
])('with one point more a series of $sizes.length chunks is long', async ({ sizes, most }) => {
  const experimentId = nextId()
  await insertChunks(experimentId, sizes)
  const series = { experimentId, name: 'loss', context: undefined, ...bothForms }
  expect(await readShortSeries(clickhouse, series, most)).toBeUndefined()
})
