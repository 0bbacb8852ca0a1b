import type { ClickHouse } from '../connection.ts'
import { selectValues } from './stored.ts'
import { eventsTable, tombstonesTable } from './tables.ts'

/**
 * Counts events, and reads single ones. `FINAL` merges what was delivered twice, and tombstoned events are left out, so counts
 * are exact.
 */

/** A condition: the row has no tombstone. `{models:Array(UInt64)}` are the models asked for. */
const isAlive = (database: string) =>
  `(model_id, kind, claim, place) NOT IN (SELECT model_id, kind, claim, place FROM ${database}.${tombstonesTable.name}
    WHERE model_id IN {models:Array(UInt64)})`

/** The events of one version and kind of a model: their number, their time range, and when the last one was received. */
export type VersionCounts = {
  modelId: string
  kind: number
  version: string
  events: number
  firstMs: number
  lastMs: number
  lastReceivedMs: number
}

type Row<T> = { [Name in keyof T]: T[Name] extends number ? number | string : T[Name] }

/** Counts the events of models, by version and kind. */
export async function countByVersion(clickhouse: ClickHouse, modelIds: bigint[]): Promise<VersionCounts[]> {
  if (modelIds.length === 0) return []
  const rows = await clickhouse.rows<Row<VersionCounts>>(
    `SELECT model_id AS modelId, kind, version, count() AS events, min(timestamp) AS firstMs, max(timestamp) AS lastMs,
       max(received) AS lastReceivedMs
     FROM ${clickhouse.database}.${eventsTable.name} FINAL
     WHERE model_id IN {models:Array(UInt64)} AND ${isAlive(clickhouse.database)}
     GROUP BY modelId, kind, version ORDER BY modelId, version, kind`,
    { models: modelIds },
  )
  return rows.map((it) => ({
    ...it,
    kind: Number(it.kind),
    events: Number(it.events),
    firstMs: Number(it.firstMs),
    lastMs: Number(it.lastMs),
    lastReceivedMs: Number(it.lastReceivedMs),
  }))
}

/** The time range of a model's events, in ms since the Unix epoch; undefined if it has none. */
export async function findTimeRange(
  clickhouse: ClickHouse,
  modelId: bigint,
): Promise<{ firstMs: number; lastMs: number } | undefined> {
  const rows = await clickhouse.rows<{ rows: string; firstMs: string; lastMs: string }>(
    `SELECT count() AS rows, min(timestamp) AS firstMs, max(timestamp) AS lastMs
     FROM ${clickhouse.database}.${eventsTable.name} WHERE model_id = {model:UInt64}`,
    { model: String(modelId) },
  )
  const [row] = rows
  return row && row.rows !== '0' ? { firstMs: Number(row.firstMs), lastMs: Number(row.lastMs) } : undefined
}

export type EventNumber = { modelId: bigint; kind: number; claim: bigint; place: number }

/** One scalar; see `valueTypes` for what the type means. */
export type StoredValue = { part: number; name: string; type: number; number: string; text: string }

export type StoredEvent = { version: string; timestampMs: number; receivedMs: number; values: StoredValue[] }

/** One event by its number, with all its scalars; undefined if it is not stored yet, or tombstoned. */
export async function findEvent(clickhouse: ClickHouse, event: EventNumber): Promise<StoredEvent | undefined> {
  const { database } = clickhouse
  const number = { model: event.modelId, kind: event.kind, claim: event.claim, place: event.place }
  const isEvent = `model_id = {model:UInt64} AND kind = {kind:UInt8} AND claim = {claim:UInt64} AND place = {place:UInt32}`
  const [found] = await clickhouse.rows<{ version: string; timestamp: string; received: string }>(
    `SELECT version, timestamp, received FROM ${database}.${eventsTable.name}
     WHERE ${isEvent} AND (claim, place) NOT IN (SELECT claim, place FROM ${database}.${tombstonesTable.name}
       WHERE ${isEvent}) LIMIT 1`,
    number,
  )
  if (!found) return undefined
  // Version and time are in the key of rows, and an index of chunks has their claims, so that they are found without a scan.
  const columns = 'part, name, type, number, text'
  const all = selectValues(database, columns, {
    common:
      'model_id = {model:UInt64} AND kind = {kind:UInt8} AND claim = {claim:UInt64} AND version = {version:String}',
    each: 'place = {place:UInt32} AND timestamp = {timestamp:Int64}',
  })
  const values = await clickhouse.rows<StoredValue>(
    `SELECT DISTINCT part, name, type, toString(its.number) AS number, text FROM (${all}) AS its ORDER BY part, name`,
    { ...number, version: found.version, timestamp: found.timestamp },
  )
  return {
    version: found.version,
    timestampMs: Number(found.timestamp),
    receivedMs: Number(found.received),
    values,
  }
}
