import type { NativeBlock } from '../store/clickhouse/native-block.ts'
import type { outputLinesTable, pointsTable } from '../store/clickhouse/tables.ts'
import type { RequestId } from './identity.ts'
import { type OutputLine, toLineBits } from './output-line.ts'
import { type Point, toPresentBits } from './point.ts'

/** What all rows of one request share. */
export type Origin = { experimentId: bigint; identity: RequestId; receivedMs: number }

/** Adds a point to an open block, at its `place` in the request. */
export function pushPoint(block: NativeBlock<typeof pointsTable>, origin: Origin, place: number, point: Point) {
  const { columns } = block
  columns.experiment_id.push(origin.experimentId)
  columns.metric.push(point.metric)
  columns.context.push(point.context)
  columns.step.push(point.step ?? 0)
  columns.timestamp.push(point.timestamp ?? 0)
  columns.request_hi.push(origin.identity.high)
  columns.request_lo.push(origin.identity.low)
  columns.place.push(place)
  columns.epoch.push(point.epoch ?? 0)
  columns.received.push(origin.receivedMs)
  columns.present.push(toPresentBits(point))
  columns.value.push(point.value)
  block.endRow()
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
