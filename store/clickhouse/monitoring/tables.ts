import { addColumn, type Layout, onCluster, toLocal } from '../cluster/layout.ts'
import type { Column, Table } from '../table.ts'
import { valueChunksTable } from './value-chunks.ts'

/**
 * The events that deployed models report. Each scalar of an event is stored apart from the others, so that a distribution reads one
 * feature only, and an event may have thousands of them: as a row, or in a chunk with those of other events (`value-chunks.ts`).
 *
 * Postgres decides which event of a `predictionId` is accepted and numbers it (`claim`, `place`); all tables identify it by
 * this number alone. Claims grow with time, so they take hardly any room on disk. If a request does not confirm its claim,
 * another may take it over; the event of the first is then tombstoned in `voided_events` and is not read.
 */

/** The kinds of data set, as interface.md calls them. Labels that come with their event are rows of their own. */
export const eventKinds = { EVENTS: 1, TRAINING_EVENTS: 2, LATE_LABELS: 3 } as const

export type EventKind = keyof typeof eventKinds

/** An input of the model, its output, or the actual outcome. */
export const valueParts = { feature: 1, prediction: 2, label: 3 } as const

export type ValuePart = keyof typeof valueParts

/**
 * Scalars keep their type. `number` holds numbers and booleans (0, 1); `text` holds strings, and the digits of integers
 * that no float holds.
 */
export const valueTypes = { missing: 0, integer: 1, float: 2, boolean: 3, string: 4 } as const

const claimColumns = [
  { name: 'claim', type: 'UInt64', codec: 'Delta, ZSTD(1)' },
  { name: 'place', type: 'UInt32', codec: 'Delta, ZSTD(1)' },
] as const

const modelColumns = [
  { name: 'model_id', type: 'UInt64', codec: 'Delta, ZSTD(1)' },
  { name: 'kind', type: 'UInt8', codec: 'ZSTD(1)' },
] as const

const eventColumns = [
  ...modelColumns,
  ...claimColumns,
  { name: 'version', type: 'LowCardinality(String)', codec: 'ZSTD(1)' },
  { name: 'timestamp', type: 'Int64', codec: 'Delta, ZSTD(1)' },
  { name: 'received', type: 'Int64', codec: 'Delta, ZSTD(1)' },
  { name: 'prediction_id', type: 'String', codec: 'ZSTD(1)' },
] as const satisfies readonly Column[]

const valueColumns = [
  ...modelColumns,
  { name: 'version', type: 'LowCardinality(String)', codec: 'ZSTD(1)' },
  { name: 'part', type: 'UInt8', codec: 'ZSTD(1)' },
  { name: 'name', type: 'LowCardinality(String)', codec: 'ZSTD(1)' },
  { name: 'timestamp', type: 'Int64', codec: 'DoubleDelta, ZSTD(1)' },
  ...claimColumns,
  { name: 'type', type: 'UInt8', codec: 'ZSTD(1)' },
  { name: 'number', type: 'Float64', codec: 'ZSTD(1)' },
  { name: 'text', type: 'LowCardinality(String)', codec: 'ZSTD(1)' },
] as const satisfies readonly Column[]

const tombstoneColumns = [...modelColumns, ...claimColumns] as const satisfies readonly Column[]

export const eventsTable = {
  name: 'events',
  columns: eventColumns,
  primaryKey: ['model_id', 'kind', 'claim'],
  identity: ['place'],
} satisfies Table

/** Merges and deletions count the rows of a projection anew. */
const projectionSettings = [
  "deduplicate_merge_projection_mode = 'rebuild'",
  "lightweight_mutation_projection_mode = 'rebuild'",
]

export const eventValuesTable = {
  name: 'event_values',
  columns: valueColumns,
  primaryKey: ['model_id', 'kind', 'version', 'part', 'name', 'timestamp'],
  identity: ['claim', 'place'],
  settings: projectionSettings,
} satisfies Table

/** The columns of a value, of whichever table, in the order in which queries that join both name them. */
export const valueColumnNames = valueColumns.map((it) => it.name).join(', ')

export const tombstonesTable = {
  name: 'voided_events',
  columns: tombstoneColumns,
  primaryKey: ['model_id', 'kind', 'claim'],
  identity: ['place'],
} satisfies Table

export const monitoringTables: readonly Table[] = [eventsTable, eventValuesTable, valueChunksTable, tombstonesTable]

/** Features by version, and when they were reported: one row each, so that listing them reads no values. */
export const eventFeaturesTable = 'event_features'

/** The query of its view, which runs on each insert: rows that are delivered twice do not change its result. */
export const selectEventFeatures = (values: string, where = 'true') => `
    SELECT model_id, kind, part, name, version, min(timestamp) AS first, max(timestamp) AS last
    FROM ${values} WHERE ${where} GROUP BY model_id, kind, part, name, version`

/** The same from chunks. */
export const selectChunkFeatures = (chunks: string, where = 'true') => `
    SELECT model_id, kind, part, name, version, min(time_low) AS first, max(time_high) AS last
    FROM ${chunks} WHERE ${where} GROUP BY model_id, kind, part, name, version`

export const createChunkFeatures = (layout: Layout) =>
  `CREATE MATERIALIZED VIEW IF NOT EXISTS ${layout.database}.${eventFeaturesTable}_chunks_view${onCluster(layout)}
    TO ${layout.database}.${toLocal(layout, eventFeaturesTable)}
    AS ${selectChunkFeatures(`${layout.database}.${toLocal(layout, valueChunksTable.name)}`)}`

export const eventFeaturesColumns = `model_id UInt64, kind UInt8, part UInt8, name LowCardinality(String),
      version LowCardinality(String), first SimpleAggregateFunction(min, Int64), last SimpleAggregateFunction(max, Int64)`

/**
 * Finds the rows of some claims among those of a feature, which are sorted by time: claims grow with time, so a granule has
 * few of them. Tables of earlier versions lack it, and read more until merges have built it.
 */
export const addClaimIndex = (layout: Layout) =>
  `ALTER TABLE ${layout.database}.${toLocal(layout, eventValuesTable.name)}${onCluster(layout)} ADD INDEX IF NOT EXISTS claims claim TYPE minmax GRANULARITY 1`

/**
 * How many rows each part has of each claim: what rollups are compared with (`rollups/current.ts`), so that a reader that has
 * just started reads thousands of rows instead of every claim of every value. Parts of earlier versions are counted in the
 * background, and are read as a whole until then.
 */
export function addClaimCounts(layout: Layout): string[] {
  const alter = `ALTER TABLE ${layout.database}.${toLocal(layout, eventValuesTable.name)}${onCluster(layout)}`
  return [
    `${alter} MODIFY SETTING ${projectionSettings.join(', ')}`,
    `${alter} ADD PROJECTION IF NOT EXISTS claim_counts (SELECT model_id, kind, claim, count() GROUP BY model_id, kind, claim)`,
    `${alter} MATERIALIZE PROJECTION claim_counts`,
  ]
}

/**
 * Predictions and their labels are joined by this hash: an eighth of the ids to read and to compare. It is computed on
 * insert, and on read for rows of earlier versions. With ten million ids and a million labels, one read in two million has
 * a collision.
 */
export const addIdHash = (layout: Layout) =>
  addColumn(layout, eventsTable.name, 'id_hash UInt64 MATERIALIZED cityHash64(prediction_id) CODEC(NONE)')
