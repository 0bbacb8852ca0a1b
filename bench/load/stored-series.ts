import { promisify } from 'node:util'
import zlib from 'node:zlib'
import { pushChunks } from '../../ingest/points/chunks.ts'
import { pushPoints } from '../../ingest/points/rows.ts'
import { createNativeBlock } from '../../store/clickhouse/blocks/native-block.ts'
import type { ClickHouse } from '../../store/clickhouse/connection.ts'
import { chunkBlocks } from '../../store/clickhouse/points/chunks.ts'
import { storeBlocks } from '../../store/clickhouse/points/store-blocks.ts'
import { pointsTable, present } from '../../store/clickhouse/points/tables.ts'
import type { Queries } from '../../store/postgres/database.ts'
import { noteForm } from '../../store/postgres/experiments/experiments.ts'
import { contextOf, nameOf, timestampAt, valueAt } from '../../test/kit/curves.ts'

const compress = promisify(zlib.zstdCompress)

const rowsPerInsert = 100_000
const pointsPerRequest = 1_000

type Stores = { clickhouse: ClickHouse; database: Queries }

/** Inserts series of an experiment directly into the table, as rows, as if they had come in requests of 1,000 points. */
export async function storeSeries(
  { clickhouse, database }: Stores,
  experimentId: bigint,
  size: { metrics: number; steps: number },
): Promise<void> {
  await noteForm(database, 'hasRows', [experimentId])
  const block = createNativeBlock(pointsTable)
  const insert = async () => await storeBlocks(clickhouse, pointsTable, [await compress(block.take())])
  let written = 0
  for (let step = 0; step < size.steps; step++) {
    for (let metric = 0; metric < size.metrics; metric++) {
      const origin = {
        experimentId,
        identity: { high: 1n, low: Math.floor(written / pointsPerRequest) },
        receivedMs: Date.now(),
      }
      const point = {
        metric: nameOf(metric),
        context: contextOf(metric),
        value: valueAt({ experiment: 0, metric, step }),
        step,
        epoch: undefined,
        timestamp: timestampAt({ experiment: 0, step }),
      }
      pushPoints(block, origin, [point], [written % pointsPerRequest])
      written++
      if (block.rows >= rowsPerInsert) await insert()
    }
  }
  if (block.rows > 0) await insert()
}

/** The same as chunks: each request has the points of one series. */
export async function storeChunks(
  { clickhouse, database }: Stores,
  experimentId: bigint,
  size: { metrics: number; steps: number },
): Promise<void> {
  await noteForm(database, 'hasChunks', [experimentId])
  const block = createNativeBlock(chunkBlocks)
  let points = 0
  let request = 0
  const insert = async () => {
    await storeBlocks(clickhouse, chunkBlocks, [await compress(block.take())])
    points = 0
  }
  for (let metric = 0; metric < size.metrics; metric++) {
    for (let from = 0; from < size.steps; from += pointsPerRequest) {
      const steps = Array.from({ length: Math.min(pointsPerRequest, size.steps - from) }, (_, at) => from + at)
      const series = {
        metric: nameOf(metric),
        context: contextOf(metric),
        values: steps.map((step) => valueAt({ experiment: 0, metric, step })),
        steps,
        epochs: undefined,
        timestamps: steps.map((step) => timestampAt({ experiment: 0, step })),
        present: present.step | present.timestamp,
        presents: undefined,
        firstPlace: 0,
        places: undefined,
        kept: steps.length,
      }
      pushChunks(block, { experimentId, identity: { high: 1n, low: request++ }, receivedMs: Date.now() }, [series])
      points += steps.length
      if (points >= rowsPerInsert) await insert()
    }
  }
  if (points > 0) await insert()
}
