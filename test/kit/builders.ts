import zlib from 'node:zlib'
import { createNativeBlock } from '../../store/clickhouse/blocks/native-block.ts'
import { pointsTable, present } from '../../store/clickhouse/points/tables.ts'

type RawPoint = {
  metricName: string
  metricValue: number | string
  context?: string
  step?: number | string
  epoch?: number
  timestamp?: number
}

/** A point as a client sends it. */
export function aPoint(changes: Partial<RawPoint> = {}): RawPoint {
  return { metricName: 'loss', metricValue: 0.5, step: 1, timestamp: 1_700_000_000_000, ...changes }
}

/** A block of experiment 7 as ingest puts it into the queue: one request with a point for each step. */
export function aBlockOfPoints(steps: number, toValue = (step: number) => step / 8): Buffer {
  const block = createNativeBlock(pointsTable)
  const { columns } = block
  for (let step = 0; step < steps; step++) {
    columns.experiment_id.push(7)
    columns.metric.push('loss')
    columns.context.push('train')
    columns.step.push(step)
    columns.timestamp.push(0)
    columns.request_hi.push(1)
    columns.request_lo.push(1)
    columns.place.push(step)
    columns.epoch.push(0)
    columns.received.push(0)
    columns.present.push(present.step)
    columns.value.push(toValue(step))
    block.endRow()
  }
  return zlib.zstdCompressSync(block.take())
}
