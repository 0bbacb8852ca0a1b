import { experimentTables } from './experiment-tables.ts'
import {
  addClaimIndex,
  addIdHash,
  eventFeaturesColumns,
  eventFeaturesTable,
  monitoringTables,
  selectEventFeatures,
} from './monitoring-tables.ts'
import { createSummary, summaryTable } from './points-summary.ts'
import { createRollupTables } from './rollup-tables.ts'

/**
 * The tables of the stream, each column written once: the DDL and the encoder of blocks are both made from this list.
 *
 * A row's identity is the request it came with (`request_hi`, `request_lo`) and its `place` in that request. It stands
 * last in the sorting key of a Replacing table, so a row that is delivered twice collapses and rows that only look alike
 * never do. The content comes after it, so that even a client which uses one `Idempotency-Key` for two different
 * requests loses nothing.
 */
export type ColumnType = 'UInt8' | 'UInt32' | 'UInt64' | 'Int64' | 'Float64' | 'String' | 'LowCardinality(String)'

export type Column = {
  name: string
  /** As it stands in blocks, and in the table unless `storedAs` says otherwise. */
  type: ColumnType
  codec: string
  /** The column that keeps it instead, made of it as rows are inserted. */
  storedAs?: { name: string; type: ColumnType; from: string }
}

export type Table = {
  name: string
  columns: readonly Column[]
  /** What reads filter by; held in memory as the sparse index. */
  primaryKey: string[]
  /** The rest of the sorting key. */
  identity: string[]
}

export const streamTables: readonly Table[] = [...experimentTables, ...monitoringTables]

type Layout = {
  database: string
}

/** Enough for what is being inserted and merged when an insert is let in. */
const freeDiskBytesMin = 64 * 1024 * 1024

/**
 * What all tables have in common. The fsyncs make an inserted part as durable as the job that is then completed. Inserts are refused, and repeated, before the disk is full:
 * a merge that meets its end was seen to leave parts with empty files behind.
 */
const mergeTreeSettings = [
  'fsync_after_insert = 1',
  'fsync_part_directory = 1',
  `min_free_disk_bytes_to_perform_insert = ${freeDiskBytesMin}`,
].join(', ')

/** All statements that make the tables; each can be repeated. */
export function createStatements({ database }: Layout): string[] {
  return [
    `CREATE DATABASE IF NOT EXISTS ${database}`,
    ...streamTables.map((table) => createTable(database, table)),
    ...createSummary(database, mergeTreeSettings),
    // Databases of earlier versions have the tables without it.
    ...[...streamTables.map((it) => it.name), summaryTable].map(
      (table) =>
        `ALTER TABLE ${database}.${table} MODIFY SETTING min_free_disk_bytes_to_perform_insert = ${freeDiskBytesMin}`,
    ),
    `CREATE TABLE IF NOT EXISTS ${database}.${eventFeaturesTable} (
      ${eventFeaturesColumns}
    ) ENGINE = AggregatingMergeTree ORDER BY (model_id, kind, part, name, version)
    SETTINGS ${mergeTreeSettings}`,
    `CREATE MATERIALIZED VIEW IF NOT EXISTS ${database}.${eventFeaturesTable}_view TO ${database}.${eventFeaturesTable}
    AS ${selectEventFeatures(database)}`,
    addClaimIndex(database),
    addIdHash(database),
    ...createRollupTables(database, mergeTreeSettings),
  ]
}

function createTable(database: string, table: Table): string {
  const columns = table.columns.map((it) => describeColumn(it, table)).join(',\n      ')
  return `CREATE TABLE IF NOT EXISTS ${database}.${table.name} (
      ${columns}
    ) ENGINE = ReplacingMergeTree
    PRIMARY KEY (${table.primaryKey.join(', ')}) ORDER BY (${[...table.primaryKey, ...table.identity].join(', ')})
    SETTINGS ${mergeTreeSettings}`
}

/**
 * A column that is stored as another one is there for inserts only. They must name it, or else a worker of a version that
 * did not would store zeros.
 */
function describeColumn({ name, type, codec, storedAs }: Column, table: Table): string {
  if (storedAs === undefined) return `${name} ${type} CODEC(${codec})`
  const refusal = `throwIf(${table.primaryKey[0]} >= 0, 'an insert into ${table.name} must name the column ${name}')`
  return `${name} ${type} EPHEMERAL to${type}(${refusal}), ${storedAs.name} ${storedAs.type} DEFAULT ${storedAs.from} CODEC(${codec})`
}
