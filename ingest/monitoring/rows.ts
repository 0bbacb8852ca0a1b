import type { NativeBlock } from '../../store/clickhouse/blocks/native-block.ts'
import { type eventsTable, type eventValuesTable, valueTypes } from '../../store/clickhouse/monitoring/tables.ts'
import type { ClaimedId } from '../../store/postgres/monitoring/event-claims.ts'
import type { Scalar, Scalars } from './event.ts'

/** An event or a set of labels, to be stored if it is the first with its prediction id. */
export type NewEvent = ClaimedId & {
  modelId: bigint
  predictionId: string
  version: string
  timestampMs: number
  /** Features, prediction, labels: what `part` says. */
  parts: { part: number; scalars: Scalars }[]
}

/** The number of an event: the claim of its batch, and its index in the batch. */
export type EventNumber = { claim: number; index: number }

/** Adds an event to an open block. */
export function pushEvent(
  { columns, endRow }: NativeBlock<typeof eventsTable>,
  { claim, index }: EventNumber,
  event: NewEvent,
  receivedMs: number,
) {
  columns.model_id.push(event.modelId)
  columns.kind.push(event.kind)
  columns.claim.push(claim)
  columns.place.push(index)
  columns.version.push(event.version)
  columns.timestamp.push(event.timestampMs)
  columns.received.push(receivedMs)
  columns.prediction_id.push(event.predictionId)
  endRow()
}

/** Adds the scalars of an event to an open block, a row each. */
export function pushValues(
  block: NativeBlock<typeof eventValuesTable>,
  { claim, index }: EventNumber,
  { modelId, kind, version, timestampMs, parts }: NewEvent,
) {
  const { columns } = block
  for (const { part, scalars } of parts) {
    let count = 0
    for (const name in scalars) {
      count++
      columns.name.push(name)
      pushScalar(columns, scalars[name] as Scalar)
      block.endRow()
    }
    columns.model_id.fill(modelId, count)
    columns.kind.fill(kind, count)
    columns.version.fill(version, count)
    columns.part.fill(part, count)
    columns.timestamp.fill(timestampMs, count)
    columns.claim.fill(claim, count)
    columns.place.fill(index, count)
  }
}

type ValueColumns = NativeBlock<typeof eventValuesTable>['columns']

/** Scalars keep their type. -0 is a float, because integers have no -0. */
function pushScalar({ type, number, text }: ValueColumns, value: Scalar) {
  switch (typeof value) {
    case 'number':
      type.push(Number.isSafeInteger(value) && !Object.is(value, -0) ? valueTypes.integer : valueTypes.float)
      number.push(value)
      text.push('')
      return
    case 'string':
      type.push(valueTypes.string)
      number.push(0)
      text.push(value)
      return
    case 'boolean':
      type.push(valueTypes.boolean)
      number.push(value ? 1 : 0)
      text.push('')
      return
    case 'bigint':
      type.push(valueTypes.integer)
      number.push(Number(value))
      text.push(String(value))
      return
  }
  type.push(value === null ? valueTypes.missing : valueTypes.float)
  number.push(value === null ? 0 : value.float)
  text.push('')
}

/** How many rows the scalars of an event are. */
export function countValues({ parts }: NewEvent): number {
  let count = 0
  for (const { scalars } of parts) for (const _ in scalars) count++
  return count
}
