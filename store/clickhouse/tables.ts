import { eventFeaturesColumns, eventFeaturesTable, monitoringTables, selectEventFeatures } from './monitoring-tables.ts'

/**
 * The tables of the stream, each column written once: the DDL and the encoder of blocks are both made from this list.
 *
 * A row's identity is the request it came with (`request_hi`, `request_lo`) and its `place` in that request. It stands
 * last in the sorting key of a Replacing table, so a row that is delivered twice collapses and rows that only look alike
 * never do. The content comes after it, so that even a client which uses one `Idempotency-Key` for two different
 * requests loses nothing.
 *
 * An absent step, epoch or timestamp is stored as 0 with its bit in `present` cleared; `timestamp` is then read as
 * `received`. No value is taken as a mark for absent: int64 extremes are kept as they are.
 */
export type ColumnType = 'UInt8' | 'UInt32' | 'UInt64' | 'Int64' | 'Float64' | 'String' | 'LowCardinality(String)'

export type Column = { name: string; type: ColumnType; codec: string }

export type Table = {
  name: string
  columns: readonly Column[]
  /** What reads filter by; held in memory as the sparse index. */
  primaryKey: string[]
  /** The rest of the sorting key. */
  identity: string[]
}

/** The bits of `present`. */
export const present = { step: 1, epoch: 2, timestamp: 4, offset: 8 } as const

const requestColumns = [
  { name: 'request_hi', type: 'UInt64', codec: 'Delta, ZSTD(1)' },
  { name: 'request_lo', type: 'UInt64', codec: 'Delta, ZSTD(1)' },
  { name: 'place', type: 'UInt32', codec: 'Delta, ZSTD(1)' },
] as const

/**
 * Plain ZSTD for values: Gorilla was measured to be worse on training curves. Delta for times: the metrics of a step have
 * the same ones, which ZSTD finds again among whole bytes and not in the bits of DoubleDelta (0.11 bytes a point, not 0.43).
 */
const pointColumns = [
  { name: 'experiment_id', type: 'UInt64', codec: 'Delta, ZSTD(1)' },
  { name: 'metric', type: 'LowCardinality(String)', codec: 'ZSTD(1)' },
  { name: 'context', type: 'LowCardinality(String)', codec: 'ZSTD(1)' },
  { name: 'step', type: 'Int64', codec: 'DoubleDelta, ZSTD(1)' },
  { name: 'timestamp', type: 'Int64', codec: 'Delta, ZSTD(1)' },
  ...requestColumns,
  { name: 'epoch', type: 'Int64', codec: 'Delta, ZSTD(1)' },
  { name: 'received', type: 'Int64', codec: 'Delta, ZSTD(1)' },
  { name: 'present', type: 'UInt8', codec: 'ZSTD(1)' },
  { name: 'value', type: 'Float64', codec: 'ZSTD(1)' },
] as const satisfies readonly Column[]

const lineColumns = [
  { name: 'experiment_id', type: 'UInt64', codec: 'Delta, ZSTD(1)' },
  { name: 'offset', type: 'Int64', codec: 'DoubleDelta, ZSTD(1)' },
  { name: 'timestamp', type: 'Int64', codec: 'DoubleDelta, ZSTD(1)' },
  ...requestColumns,
  { name: 'context', type: 'LowCardinality(String)', codec: 'ZSTD(1)' },
  { name: 'stderr', type: 'UInt8', codec: 'ZSTD(1)' },
  { name: 'received', type: 'Int64', codec: 'Delta, ZSTD(1)' },
  { name: 'present', type: 'UInt8', codec: 'ZSTD(1)' },
  { name: 'line', type: 'String', codec: 'ZSTD(3)' },
] as const satisfies readonly Column[]

const pointKeys = {
  primaryKey: ['experiment_id', 'metric', 'context', 'step'],
  identity: ['timestamp', 'request_hi', 'request_lo', 'place', 'epoch', 'present', 'reinterpretAsUInt64(value)'],
}

export const pointsTable = { name: 'points', columns: pointColumns, ...pointKeys } satisfies Table

/** Resource usage: shaped as points, apart from them for its own queue, throttle and retention. */
export const systemPointsTable = { name: 'system_points', columns: pointColumns, ...pointKeys } satisfies Table

export const outputLinesTable = {
  name: 'output_lines',
  columns: lineColumns,
  primaryKey: ['experiment_id', 'offset', 'timestamp'],
  identity: ['request_hi', 'request_lo', 'place', 'line', 'present'],
} satisfies Table

/** The tables of what experiments log. */
export const experimentTables: readonly Table[] = [pointsTable, systemPointsTable, outputLinesTable]

export const streamTables: readonly Table[] = [...experimentTables, ...monitoringTables]

/**
 * An order-preserving integer for a float (-inf < ... < -0 < 0 < ... < inf), so that ties can be settled by appending
 * more bits. Measured per point inserted, in a first form of the view: argMin over such a UInt256 costs 0.15 us, over a
 * tuple 0.4 us. The view as it stands is a third of what ClickHouse spends on a point (1.8 us with it, 1.2 us without).
 */
const orderedValue = `bitXor(reinterpretAsUInt64(value),
  if(reinterpretAsInt64(value) < 0, 18446744073709551615, 9223372036854775808))`
const orderedTime = `bitXor(reinterpretAsUInt64(time), 9223372036854775808)`
const orderedStep = `bitXor(reinterpretAsUInt64(step), 9223372036854775808)`

/** Four UInt64 as one UInt256, the first one weighs most: by copying their bytes, for shifting and adding cost twice that. */
const pack = (...parts: [string, string, string, string]) =>
  `reinterpretAsUInt256(concat(${parts
    .toReversed()
    .map((it) => `reinterpretAsFixedString(${it})`)
    .join(', ')}))`

// The low bits of the request and the place: enough to settle ties the same way on every replica and every run.
const tieBreak = `bitOr(bitShiftLeft(bitAnd(request_lo, 1099511627775), 24), bitAnd(toUInt64(place), 16777215))`

/** The extreme with the smallest time and step of those with the same value; NaN only when there is nothing else. */
const minimumOrder = pack(`if(isNaN(value), 18446744073709551615, ${orderedValue})`, orderedTime, orderedStep, tieBreak)
const maximumOrder = pack(
  `if(isNaN(value), 0, ${orderedValue})`,
  `bitNot(${orderedTime})`,
  `bitNot(${orderedStep})`,
  tieBreak,
)
/** The current value is the newest by time, then by step, then by order of arrival. */
const currentOrder = pack(orderedTime, orderedStep, 'request_hi', tieBreak)

const pointTuple = 'Tuple(Float64, Int64, Int64, UInt8)'

/** One row per series, so that summaries cost the same however many points there are. */
export const summaryTable = 'points_summary'

type Layout = {
  database: string
}

/** What the view keeps of every insert. `rows` counts rows that came twice as two: it bounds, and is never shown. */
const selectSummary = (database: string) => `
    WITH if(bitAnd(present, ${present.timestamp}) != 0, timestamp, received) AS time, (value, step, time, present) AS point
    SELECT experiment_id, metric, context,
      argMinState(point, ${minimumOrder}) AS minimum,
      argMaxState(point, ${maximumOrder}) AS maximum,
      argMaxState(point, ${currentOrder}) AS current,
      count() AS rows
    FROM ${database}.${pointsTable.name} GROUP BY experiment_id, metric, context`

const rowsColumn = 'rows SimpleAggregateFunction(sum, UInt64)'

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
    `CREATE TABLE IF NOT EXISTS ${database}.${summaryTable} (
      experiment_id UInt64,
      metric LowCardinality(String),
      context LowCardinality(String),
      minimum AggregateFunction(argMin, ${pointTuple}, UInt256),
      maximum AggregateFunction(argMax, ${pointTuple}, UInt256),
      current AggregateFunction(argMax, ${pointTuple}, UInt256),
      ${rowsColumn}
    ) ENGINE = AggregatingMergeTree ORDER BY (experiment_id, metric, context)
    SETTINGS ${mergeTreeSettings}`,
    // Databases of earlier versions have the tables and the view without what came later.
    ...[...streamTables.map((it) => it.name), summaryTable].map(
      (table) =>
        `ALTER TABLE ${database}.${table} MODIFY SETTING min_free_disk_bytes_to_perform_insert = ${freeDiskBytesMin}`,
    ),
    ...[pointsTable, systemPointsTable].map(
      ({ name }) => `ALTER TABLE ${database}.${name} MODIFY COLUMN timestamp Int64 CODEC(Delta, ZSTD(1))`,
    ),
    `ALTER TABLE ${database}.${summaryTable} ADD COLUMN IF NOT EXISTS ${rowsColumn}`,
    `CREATE MATERIALIZED VIEW IF NOT EXISTS ${database}.${summaryTable}_view TO ${database}.${summaryTable}
    AS ${selectSummary(database)}`,
    `ALTER TABLE ${database}.${summaryTable}_view MODIFY QUERY ${selectSummary(database)}`,
    `CREATE TABLE IF NOT EXISTS ${database}.${eventFeaturesTable} (
      ${eventFeaturesColumns}
    ) ENGINE = AggregatingMergeTree ORDER BY (model_id, kind, part, name, version)
    SETTINGS ${mergeTreeSettings}`,
    `CREATE MATERIALIZED VIEW IF NOT EXISTS ${database}.${eventFeaturesTable}_view TO ${database}.${eventFeaturesTable}
    AS ${selectEventFeatures(database)}`,
  ]
}

function createTable(database: string, table: Table): string {
  const columns = table.columns.map((it) => `${it.name} ${it.type} CODEC(${it.codec})`).join(',\n      ')
  return `CREATE TABLE IF NOT EXISTS ${database}.${table.name} (
      ${columns}
    ) ENGINE = ReplacingMergeTree
    PRIMARY KEY (${table.primaryKey.join(', ')}) ORDER BY (${[...table.primaryKey, ...table.identity].join(', ')})
    SETTINGS ${mergeTreeSettings}`
}
