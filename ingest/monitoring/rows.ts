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
      const value = scalars[name] as Scalar
      columns.type.push(toType(value))
      columns.number.push(toNumber(value))
      columns.text.push(toText(value))
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

/** Scalars keep their type. -0 is a float, because integers have no -0. */
export function toType(value: Scalar): number {
  switch (typeof value) {
    case 'number':
      return Number.isSafeInteger(value) && !Object.is(value, -0) ? valueTypes.integer : valueTypes.float
    case 'string':
      return valueTypes.string
    case 'boolean':
      return valueTypes.boolean
    case 'bigint':
      return valueTypes.integer
  }
  return value === null ? valueTypes.missing : valueTypes.float
}

export function toNumber(value: Scalar): number {
  switch (typeof value) {
    case 'number':
      return value
    case 'string':
      return 0
    case 'boolean':
      return value ? 1 : 0
    case 'bigint':
      return Number(value)
  }
  return value === null ? 0 : value.float
}

export function toText(value: Scalar): string {
  return typeof value === 'string' ? value : typeof value === 'bigint' ? String(value) : ''
}

/** How many scalars an event has. */
export function countValues({ parts }: NewEvent): number {
  let count = 0
  for (const { scalars } of parts) for (const _ in scalars) count++
  return count
}
