import { type Layout, onCluster, toLocal } from '../cluster/layout.ts'
import type { Table } from '../table.ts'

/**
 * The values of one name of many events, as one row: a chunk. All its events have one claim, model, kind and version, so the block
 * that repeats it is the same to the byte, and the chunk is one row however many values it has: sorting, merging and comparing
 * costs a fifth of that of a row for each value.
 *
 * Ingest stores as chunks what has many events of a model at once (`ingest/monitoring/value-chunks.ts`), and rows otherwise. Reads
 * have the values of both tables.
 *
 * The values are in the order of their places. An array is empty where all have what the row says: the same time
 * (`timestamp_all`) or type (`type_all`), places that count on from `first_place`, only zeros, only empty texts.
 */
export const valueChunksTable = {
  name: 'event_value_chunks',
  columns: [
    { name: 'model_id', type: 'UInt64', codec: 'Delta, ZSTD(1)' },
    { name: 'kind', type: 'UInt8', codec: 'ZSTD(1)' },
    { name: 'part', type: 'UInt8', codec: 'ZSTD(1)' },
    { name: 'name', type: 'LowCardinality(String)', codec: 'ZSTD(1)' },
    { name: 'version', type: 'LowCardinality(String)', codec: 'ZSTD(1)' },
    { name: 'claim', type: 'UInt64', codec: 'Delta, ZSTD(1)' },
    { name: 'first_place', type: 'UInt32', codec: 'Delta, ZSTD(1)' },
    { name: 'count', type: 'UInt32', codec: 'ZSTD(1)' },
    { name: 'received', type: 'Int64', codec: 'Delta, ZSTD(1)' },
    { name: 'timestamp_all', type: 'Int64', codec: 'Delta, ZSTD(1)' },
    { name: 'type_all', type: 'UInt8', codec: 'ZSTD(1)' },
    { name: 'places', type: 'Array(UInt32)', codec: 'Delta, ZSTD(1)' },
    { name: 'timestamps', type: 'Array(Int64)', codec: 'DoubleDelta, ZSTD(1)' },
    { name: 'types', type: 'Array(UInt8)', codec: 'ZSTD(1)' },
    // A third less than at level 1, which looks at seven bytes at once: floats that differ in the last ones have no such match.
    { name: 'numbers', type: 'Array(Float64)', codec: 'ZSTD(3)' },
    { name: 'texts', type: 'Array(LowCardinality(String))', codec: 'ZSTD(1)' },
  ],
  derived: [
    { name: 'time_low', type: 'Int64', codec: 'Delta, ZSTD(1)', from: timeEnd('arrayMin') },
    { name: 'time_high', type: 'Int64', codec: 'Delta, ZSTD(1)', from: timeEnd('arrayMax') },
  ],
  primaryKey: ['model_id', 'kind', 'part', 'name', 'claim'],
  identity: ['version', 'first_place'],
  indexGranularity: 256,
} as const satisfies Table

function timeEnd(pick: 'arrayMin' | 'arrayMax') {
  return `if(empty(timestamps), timestamp_all, ${pick}(timestamps))`
}

/** The columns of `event_values` that each value of a chunk has for itself. */
const perValue = {
  timestamp: 'arrayResize(timestamps, count, timestamp_all)',
  place: 'if(empty(places), arrayMap(at -> toUInt32(first_place + at), range(count)), places)',
  type: 'arrayResize(types, count, type_all)',
  number: 'arrayResize(numbers, count)',
  text: 'arrayResize(texts, count)',
} as const

/**
 * A query with a row for each value of chunks, under the names of the columns of `event_values`. Takes out of the chunks only what
 * it names.
 */
export function selectUnfolded(chunks: string, columns: string, where: string | undefined): string {
  const words = new Set(`${columns} ${where ?? ''}`.match(/\w+/g))
  const named = Object.entries(perValue).filter(([name]) => words.has(name))
  const arrays = named.length === 0 ? [['place', perValue.place]] : named
  return `SELECT ${columns} FROM ${chunks} ARRAY JOIN ${arrays.map(([name, array]) => `${array} AS ${name}`).join(', ')}${where === undefined ? '' : ` WHERE ${where}`}`
}

/**
 * Values of one name and version as arrays, which a query looks at without a row for each: chunks with all the arrays that
 * they may leave out, but for `texts`.
 */
export const selectFoldedChunks = (chunks: string) =>
  `SELECT name, version, claim, count, time_low, time_high, ${perValue.type} AS types, ${perValue.number} AS numbers, texts,
     ${perValue.place} AS places, arrayResize([claim], count, claim) AS claims FROM ${chunks} AS chunks`

/** Rows of `event_values` in this form, those of many claims together: events that came one by one have each their own. */
export const selectFoldedRows = (rows: string) =>
  `SELECT name, version, min(its_claim) AS claim, toUInt32(count()) AS count, min(timestamp) AS time_low, max(timestamp) AS time_high,
     groupArray(type) AS types, groupArray(number) AS numbers, CAST(groupArray(text), 'Array(LowCardinality(String))') AS texts,
     groupArray(place) AS places, groupArray(its_claim) AS claims
   FROM (SELECT * EXCEPT claim, claim AS its_claim FROM ${rows}) GROUP BY name, version, intDiv(its_claim, 1000)`

/** Find the chunks of some claims, and those with times in some range, among those of a name. */
export const addChunkIndexes = (layout: Layout) =>
  `ALTER TABLE ${layout.database}.${toLocal(layout, valueChunksTable.name)}${onCluster(layout)}
    ADD INDEX IF NOT EXISTS claims claim TYPE minmax GRANULARITY 1,
    ADD INDEX IF NOT EXISTS times (time_low, time_high) TYPE minmax GRANULARITY 1`
