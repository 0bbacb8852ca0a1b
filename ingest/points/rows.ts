import type { NativeBlock } from '../../store/clickhouse/blocks/native-block.ts'
import type { outputLinesTable, pointsTable } from '../../store/clickhouse/points/tables.ts'
import type { RequestId } from '../identity.ts'
import { type OutputLine, toLineBits } from '../output/output-line.ts'
import { type Point, toPresentBits } from './point.ts'

/** What all rows of one request share. */
export type Origin = { experimentId: bigint; identity: RequestId; receivedMs: number }

/** Adds points to an open block, each at its place in the request. */
export function pushPoints(
  block: NativeBlock<typeof pointsTable>,
  origin: Origin,
  points: readonly Point[],
  places: readonly number[],
) {
  const { columns } = block
  const count = points.length
  columns.experiment_id.fill(origin.experimentId, count)
  columns.request_hi.fill(origin.identity.high, count)
  columns.request_lo.fill(origin.identity.low, count)
  columns.received.fill(origin.receivedMs, count)
  for (const place of places) columns.place.push(place)
  for (const { metric } of points) columns.metric.push(metric)
  for (const { context } of points) columns.context.push(context)
  for (const { step } of points) columns.step.push(step ?? 0)
  for (const { timestamp } of points) columns.timestamp.push(timestamp ?? 0)
  for (const { epoch } of points) columns.epoch.push(epoch ?? 0)
  for (const point of points) columns.present.push(toPresentBits(point))
  for (const { value } of points) columns.value.push(value)
  block.endRows(count)
}

/** Adds a line of output to an open block, at its `place` in the request. */
export function pushLine(
  block: NativeBlock<typeof outputLinesTable>,
  origin: Origin,
  place: number,
  context: string,
  line: OutputLine,
) {
  const { columns } = block
  columns.experiment_id.push(origin.experimentId)
  columns.offset.push(line.offset ?? 0)
  columns.timestamp.push(line.localTimestamp ?? 0)
  columns.request_hi.push(origin.identity.high)
  columns.request_lo.push(origin.identity.low)
  columns.place.push(place)
  columns.context.push(context)
  columns.stderr.push(line.stderr ? 1 : 0)
  columns.received.push(origin.receivedMs)
  columns.present.push(toLineBits(line))
  columns.line.push(line.output)
  block.endRow()
}
