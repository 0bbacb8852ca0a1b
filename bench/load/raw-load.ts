import { promisify } from 'node:util'
import zlib from 'node:zlib'
import { pushPoints } from '../../ingest/points/rows.ts'
import { createNativeBlock } from '../../store/clickhouse/blocks/native-block.ts'
import { openClickHouse } from '../../store/clickhouse/connection.ts'
import { storeBlocks } from '../../store/clickhouse/points/store-blocks.ts'
import { pointsTable } from '../../store/clickhouse/points/tables.ts'
import { contextOf, dataSet, nameOf, timestampAt, valueAt } from '../../test/kit/curves.ts'
import type { LoadReport } from './load-report.ts'

/**
 * The lower bound of the cost: the same rows as encoded blocks, inserted directly into the same table. No HTTP of ours, no
 * checks, no queue; blocks are encoded and compressed before the clock starts. A round is one data set, whatever its
 * duration.
 */
const compress = promisify(zlib.zstdCompress)
const zstdFastest = { params: { [zlib.constants.ZSTD_c_compressionLevel]: 1 } }
const rowsPerInsert = 100_000
const insertsAtOnce = 2

type Prepared = { bytes: Buffer; experiment: number; rows: number }

export function createRawLoad({ clickhouseUrl, experimentIds }: { clickhouseUrl: string; experimentIds: string[] }) {
  const clickhouse = openClickHouse({ url: clickhouseUrl })
  let pass = 0

  return {
    async run(): Promise<LoadReport> {
      const askedAt = performance.now()
      const blocks = await prepareBlocks(experimentIds.slice(pass * dataSet.experiments, ++pass * dataSet.experiments))
      const acknowledged: number[] = []
      const tookMs: number[] = []
      const startedAt = performance.now()
      const work = blocks.values()
      const insertAll = async () => {
        for (const { bytes, rows, experiment } of work) {
          const sentAt = performance.now()
          await storeBlocks(clickhouse, pointsTable, [bytes])
          tookMs.push(performance.now() - sentAt)
          const perExperiment = dataSet.metrics * dataSet.steps
          for (let at = 0; at < rows / perExperiment; at++) {
            acknowledged[(pass - 1) * dataSet.experiments + experiment + at] = perExperiment
          }
        }
      }
      await Promise.all(Array.from({ length: insertsAtOnce }, insertAll))
      tookMs.sort((a, b) => a - b)
      return {
        preparingSeconds: (startedAt - askedAt) / 1_000,
        seconds: (performance.now() - startedAt) / 1_000,
        requests: blocks.length,
        acknowledged: Array.from(acknowledged, (points) => points ?? 0),
        unclearPoints: 0,
        errors: {},
        p50Ms: tookMs[Math.floor(tookMs.length / 2)] as number,
        p99Ms: tookMs.at(-1) as number,
        isUsedUp: false,
      }
    },
  }
}

async function prepareBlocks(experimentIds: string[]): Promise<Prepared[]> {
  const block = createNativeBlock(pointsTable)
  const prepared: Prepared[] = []
  let first = 0
  let request = 0
  for (const [experiment, id] of experimentIds.entries()) {
    for (let step = 0; step < dataSet.steps; step++) {
      const origin = { experimentId: BigInt(id), identity: { high: 1n, low: request++ }, receivedMs: Date.now() }
      const points = Array.from({ length: dataSet.metrics }, (_, metric) => ({
        metric: nameOf(metric),
        context: contextOf(metric),
        value: valueAt({ experiment, metric, step }),
        step,
        epoch: undefined,
        timestamp: timestampAt({ experiment, step }),
      }))
      pushPoints(block, origin, points, [...points.keys()])
    }
    if (block.rows < rowsPerInsert && experiment < experimentIds.length - 1) continue
    const { rows } = block
    prepared.push({ bytes: await compress(block.take(), zstdFastest), experiment: first, rows })
    first = experiment + 1
  }
  return prepared
}
