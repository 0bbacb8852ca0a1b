import { zstdCompressSync } from 'node:zlib'
import { type StoreUrls, toClickHouse } from '../../cli/settings.ts'
import { createNativeBlock, type NativeBlock } from '../../store/clickhouse/blocks/native-block.ts'
import { openClickHouse } from '../../store/clickhouse/connection.ts'
import { createEventReader } from '../../store/clickhouse/monitoring/reader.ts'
import {
  type EventKind,
  eventKinds,
  eventsTable,
  eventValuesTable,
  tombstonesTable,
  type ValuePart,
  valueParts,
  valueTypes,
} from '../../store/clickhouse/monitoring/tables.ts'
import { openDatabase } from '../../store/postgres/database.ts'
import { ensureMonitoredModel } from '../../store/postgres/monitoring/models.ts'
import { upsertReferenceSet } from '../../store/postgres/monitoring/reference-sets.ts'

export type Scalar = number | string | boolean | null

/** A whole number that is to be stored as a float. */
export class Float {
  readonly value: number
  constructor(value: number) {
    this.value = value
  }
}

export type StoredEvent = {
  predictionId: string
  timestamp: number
  version?: string
  features?: Record<string, Scalar | Float>
  prediction?: Record<string, Scalar | Float>
  labels?: Record<string, Scalar | Float>
}

type Written = { table: typeof eventsTable | typeof eventValuesTable; block: Buffer }[]

let nextClaim = Date.now() * 1_000

/** Events as they stand in the tables, put there directly: what their reads make of them is what is tested. */
export function openStoredEvents(stores: StoreUrls) {
  const clickhouse = openClickHouse(toClickHouse(stores))
  const database = openDatabase({ url: stores.postgresUrl, connectionsMax: 2, onError: () => undefined })

  async function insert(written: Written) {
    for (const { table, block } of written) await clickhouse.insertBlocks(table, [block])
  }

  return {
    clickhouse,
    eventReader: createEventReader(clickhouse),
    database,

    async model(workspaceName: string, name: string): Promise<bigint> {
      const workspace = await database.row<{ id: string }>('SELECT id FROM workspaces WHERE name = $1', [workspaceName])
      const model = await ensureMonitoredModel(database, {
        workspaceId: workspace?.id as string,
        name,
        modelsMax: 1_000_000,
      })
      return model?.id as bigint
    },

    async reference(dataSetId: bigint, modelName: string) {
      await upsertReferenceSet(database, { dataSetId, modelName, modelVersion: '', uploadedAtMs: Date.now() })
    },

    /** @returns what was written, to be written `again` as a queue does that delivers twice; and its claims */
    async write(modelId: bigint, kind: EventKind, events: StoredEvent[]) {
      const written = toBlocks(modelId, kind, events)
      await insert(written.blocks)
      return { claim: written.claim, labelClaim: written.labelClaim, again: () => insert(written.blocks) }
    },

    /** Takes back events, as when their prediction ids were taken over. */
    async void(modelId: bigint, kind: EventKind, claim: number, places: number[]) {
      const block = createNativeBlock(tombstonesTable)
      for (const place of places) {
        block.columns.model_id.push(modelId)
        block.columns.kind.push(eventKinds[kind])
        block.columns.claim.push(claim)
        block.columns.place.push(place)
        block.endRow()
      }
      await clickhouse.insertBlocks(tombstonesTable, [zstdCompressSync(block.take())])
    },

    async close() {
      await Promise.all([clickhouse.close(), database.close()])
    },
  }
}

export type StoredEvents = ReturnType<typeof openStoredEvents>

function toBlocks(modelId: bigint, kind: EventKind, events: StoredEvent[]) {
  const eventRows = createNativeBlock(eventsTable)
  const valueRows = createNativeBlock(eventValuesTable)
  const [claim, labelClaim] = [nextClaim++, nextClaim++]
  events.forEach((event, place) => {
    const isLabelOnly = kind === 'LATE_LABELS'
    if (!isLabelOnly) {
      addEvent(eventRows, modelId, kind, { claim, place }, event)
      addValues(valueRows, modelId, kind, { claim, place }, event, 'feature', event.features)
      addValues(valueRows, modelId, kind, { claim, place }, event, 'prediction', event.prediction)
    }
    if (event.labels === undefined) return
    if (kind === 'TRAINING_EVENTS') {
      addValues(valueRows, modelId, kind, { claim, place }, event, 'label', event.labels)
      return
    }
    addEvent(eventRows, modelId, 'LATE_LABELS', { claim: labelClaim, place }, event)
    addValues(valueRows, modelId, 'LATE_LABELS', { claim: labelClaim, place }, event, 'label', event.labels)
  })
  const blocks: Written = []
  if (eventRows.rows > 0) blocks.push({ table: eventsTable, block: zstdCompressSync(eventRows.take()) })
  if (valueRows.rows > 0) blocks.push({ table: eventValuesTable, block: zstdCompressSync(valueRows.take()) })
  return { blocks, claim, labelClaim }
}

type EventNumber = { claim: number; place: number }

function addEvent(
  block: NativeBlock<typeof eventsTable>,
  modelId: bigint,
  kind: EventKind,
  { claim, place }: EventNumber,
  event: StoredEvent,
) {
  const { columns } = block
  columns.model_id.push(modelId)
  columns.kind.push(eventKinds[kind])
  columns.claim.push(claim)
  columns.place.push(place)
  columns.version.push(event.version ?? '')
  columns.timestamp.push(event.timestamp)
  columns.received.push(event.timestamp)
  columns.prediction_id.push(event.predictionId)
  block.endRow()
}

function addValues(
  block: NativeBlock<typeof eventValuesTable>,
  modelId: bigint,
  kind: EventKind,
  { claim, place }: EventNumber,
  event: StoredEvent,
  part: ValuePart,
  values: Record<string, Scalar | Float> = {},
) {
  const { columns } = block
  for (const [name, value] of Object.entries(values)) {
    const { type, number, text } = toStored(value)
    columns.model_id.push(modelId)
    columns.kind.push(eventKinds[kind])
    columns.version.push(event.version ?? '')
    columns.part.push(valueParts[part])
    columns.name.push(name)
    columns.timestamp.push(event.timestamp)
    columns.claim.push(claim)
    columns.place.push(place)
    columns.type.push(type)
    columns.number.push(number)
    columns.text.push(text)
    block.endRow()
  }
}

function toStored(value: Scalar | Float): { type: number; number: number; text: string } {
  if (value === null) return { type: valueTypes.missing, number: 0, text: '' }
  if (value instanceof Float) return { type: valueTypes.float, number: value.value, text: '' }
  if (typeof value === 'string') return { type: valueTypes.string, number: 0, text: value }
  if (typeof value === 'boolean') return { type: valueTypes.boolean, number: Number(value), text: '' }
  return { type: Number.isInteger(value) ? valueTypes.integer : valueTypes.float, number: value, text: '' }
}
