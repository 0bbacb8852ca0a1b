import { zstdCompressSync } from 'node:zlib'
import { type StoreUrls, toClickHouse } from '../../cli/settings.ts'
import { countValues, type NewEvent, pushEvent, pushValues } from '../../ingest/monitoring/rows.ts'
import { groupEvents, pushValueChunks, toValueChunks } from '../../ingest/monitoring/value-chunks.ts'
import { createNativeBlock } from '../../store/clickhouse/blocks/native-block.ts'
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
} from '../../store/clickhouse/monitoring/tables.ts'
import { valueChunksTable } from '../../store/clickhouse/monitoring/value-chunks.ts'
import type { Table } from '../../store/clickhouse/table.ts'
import { openDatabase } from '../../store/postgres/database.ts'
import { toIdHash } from '../../store/postgres/monitoring/event-claims.ts'
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

type Written = { table: Table; block: Buffer }[]

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

/**
 * The blocks of a write, as ingest makes them: of two writes, one has its values in chunks where it has enough of them, the other in
 * rows.
 */
function toBlocks(modelId: bigint, kind: EventKind, events: StoredEvent[]) {
  const claim = nextClaim++
  const labelClaim = nextClaim++
  const own: NewEvent[] = []
  const labels: NewEvent[] = []
  for (const [place, event] of events.entries()) {
    const add = (to: NewEvent[], kind: EventKind, parts: Partial<Record<ValuePart, StoredEvent['features']>>) => {
      to[place] = toNewEvent(modelId, kind, event, parts)
    }
    const { features, prediction } = event
    if (kind === 'TRAINING_EVENTS') add(own, kind, { feature: features, prediction, label: event.labels })
    else if (kind !== 'LATE_LABELS') add(own, kind, { feature: features, prediction })
    if (kind !== 'TRAINING_EVENTS' && event.labels) add(labels, 'LATE_LABELS', { label: event.labels })
  }
  const asChunks = (nth++ & 1) === 1
  const blocks = [...pushAll(claim, own, asChunks), ...pushAll(labelClaim, labels, asChunks)]
  return { blocks, claim, labelClaim }
}

let nth = 0

function pushAll(claim: number, events: NewEvent[], asChunks: boolean): Written {
  const blocks = {
    events: createNativeBlock(eventsTable),
    rows: createNativeBlock(eventValuesTable),
    chunks: createNativeBlock(valueChunksTable),
  }
  const places = Object.keys(events).map(Number)
  for (const index of places) {
    const event = events[index] as NewEvent
    pushEvent(blocks.events, { claim, index }, event, event.timestampMs)
  }
  for (const group of groupEvents(events, places)) {
    const chunks = asChunks
      ? toValueChunks(
          group,
          group.events.reduce((sum, it) => sum + countValues(it), 0),
        )
      : undefined
    if (chunks) pushValueChunks(blocks.chunks, { claim, receivedMs: 0 }, chunks)
    else for (const index of group.places) pushValues(blocks.rows, { claim, index }, events[index] as NewEvent)
  }
  const written = [
    { table: eventsTable, block: blocks.events },
    { table: eventValuesTable, block: blocks.rows },
    { table: valueChunksTable, block: blocks.chunks },
  ] as const
  return written
    .filter((it) => it.block.rows > 0)
    .map(({ table, block }) => ({ table, block: zstdCompressSync(block.take()) }))
}

const toNewEvent = (
  modelId: bigint,
  kind: EventKind,
  { predictionId, version = '', timestamp }: StoredEvent,
  parts: Partial<Record<ValuePart, StoredEvent['features']>>,
): NewEvent => ({
  modelId,
  kind: eventKinds[kind],
  idHash: toIdHash(predictionId),
  predictionId,
  version,
  timestampMs: timestamp,
  parts: Object.entries(parts).flatMap(([part, scalars]) =>
    scalars ? [{ part: valueParts[part as ValuePart], scalars: toScalars(scalars) }] : [],
  ),
})

const toScalars = (scalars: NonNullable<StoredEvent['features']>) =>
  Object.fromEntries(
    Object.entries(scalars).map(([name, it]) => [name, it instanceof Float ? { float: it.value } : it]),
  )
