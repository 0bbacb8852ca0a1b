import type { NativeBlock } from '../../store/clickhouse/blocks/native-block.ts'
import type { pointsTable } from '../../store/clickhouse/points/tables.ts'
import type { Origin } from '../identity.ts'
import type { Point } from './point.ts'
import { toPresentBits } from './series-points.ts'

/** Points of a request. `rowIndexes[i]` is the index of `points[i]` in the request and part of its identity. */
export type PointRows = { points: Point[]; rowIndexes: number[] }

/** Adds points to an open block, column by column. */
export function pushPoints(
  block: NativeBlock<typeof pointsTable>,
  origin: Origin,
  points: readonly Point[],
  rowIndexes: readonly number[],
) {
  const { columns } = block
  const count = points.length
  columns.experiment_id.fill(origin.experimentId, count)
  columns.request_hi.fill(origin.identity.high, count)
  columns.request_lo.fill(origin.identity.low, count)
  columns.received.fill(origin.receivedMs, count)
  for (const rowIndex of rowIndexes) columns.place.push(rowIndex)
  for (const { metric } of points) columns.metric.push(metric)
  for (const { context } of points) columns.context.push(context)
  for (const { step } of points) columns.step.push(step ?? 0)
  for (const { timestamp } of points) columns.timestamp.push(timestamp ?? 0)
  for (const { epoch } of points) columns.epoch.push(epoch ?? 0)
  for (const { step, epoch, timestamp } of points) columns.present.push(toPresentBits(step, epoch, timestamp))
  for (const { value } of points) columns.value.push(value)
  block.endRows(count)
}
