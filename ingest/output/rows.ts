import type { NativeBlock } from '../../store/clickhouse/blocks/native-block.ts'
import { type outputLinesTable, present } from '../../store/clickhouse/points/tables.ts'
import type { Origin } from '../identity.ts'
import type { OutputBody, OutputLine } from './output-line.ts'

/** Adds lines of output to an open block. */
export function pushLines(
  block: NativeBlock<typeof outputLinesTable>,
  origin: Origin,
  { outputLines, context, runContext }: OutputBody,
) {
  const { columns } = block
  const count = outputLines.length
  columns.experiment_id.fill(origin.experimentId, count)
  columns.request_hi.fill(origin.identity.high, count)
  columns.request_lo.fill(origin.identity.low, count)
  columns.received.fill(origin.receivedMs, count)
  columns.context.fill(context ?? runContext ?? '', count)
  for (let index = 0; index < count; index++) {
    const line = outputLines[index] as OutputLine
    columns.place.push(index)
    columns.offset.push(line.offset ?? 0)
    columns.timestamp.push(line.localTimestamp ?? 0)
    columns.stderr.push(line.stderr ? 1 : 0)
    columns.present.push(toLineBits(line))
    columns.line.push(line.output)
  }
  block.endRows(count)
}

/** The optional fields that a line has, as the stored bits. */
function toLineBits({ localTimestamp, offset }: OutputLine): number {
  return (localTimestamp === undefined ? 0 : present.timestamp) | (offset === undefined ? 0 : present.offset)
}
