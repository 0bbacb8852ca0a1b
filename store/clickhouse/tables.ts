import {
  clusterTableSettings,
  createDistributed,
  type Layout,
  onCluster,
  type ShardedBy,
  toEngine,
  toLocal,
} from './cluster/layout.ts'
import { createRollupTables } from './monitoring/rollups/tables.ts'
import {
  createChunkFeatures,
  eventFeaturesColumns,
  eventFeaturesTable,
  eventValuesTable,
  monitoringTables,
  selectEventFeatures,
} from './monitoring/tables.ts'
import { valueChunksTable } from './monitoring/value-chunks.ts'
import { chunksTable, experimentTables } from './points/chunks.ts'
import { createByMetric } from './points/summaries/by-metric.ts'
import { createSummary, createSummaryOfChunks } from './points/summaries/summary.ts'
import type { Column, Table } from './table.ts'

/**
 * The tables of the stream. Each column is declared once: the DDL and the block encoder are both made from this list.
 *
 * A row is identified by its request (`request_hi`, `request_lo`) and its index in that request (`place`). The identity is
 * the end of the sorting key of a Replacing table, so a row that is delivered twice collapses into one, and equal rows of
 * different requests do not. The content follows the identity, so a client that uses one `Idempotency-Key` for two
 * different requests loses nothing.
 */
export const streamTables: readonly Table[] = [...experimentTables, ...monitoringTables]

/** Those of the first versions, which the migrations of their time change. */
export const firstStreamTables = streamTables.filter((it) => it !== chunksTable && it !== valueChunksTable)

/** Space for the inserts and merges that are running when an insert begins. */
export const freeDiskBytesMin = 64 * 1024 * 1024

/** ClickHouse's own. */
const indexGranularity = 8_192

/**
 * The settings of all tables. The fsyncs make an inserted part durable before its job is completed, and a merged or mutated part
 * before the parts that it replaces are deleted: an embedded engine may do that at once. ClickHouse refuses inserts before the disk
 * is full, and the queue repeats them: a merge on a full disk was seen to leave parts with empty files.
 *
 * In the order in which ALTER leaves them: one that a later migration adds goes last.
 */
export const mergeTreeSettings = (
  layout: Layout,
  table: Pick<Table, 'indexGranularity' | 'settings' | 'laterSettings'> = {},
) =>
  [
    'fsync_after_insert = 1',
    'fsync_part_directory = 1',
    `min_free_disk_bytes_to_perform_insert = ${freeDiskBytesMin}`,
    ...clusterTableSettings(layout),
    `index_granularity = ${table.indexGranularity ?? indexGranularity}`,
    ...(table.settings ?? []),
    fsyncAfterMerge,
    ...(table.laterSettings ?? []),
  ].join(', ')

/** Of any size. */
export const fsyncAfterMerge = 'min_compressed_bytes_to_fsync_after_merge = 1'

/** The statements that create all tables and views; each is safe to repeat. */
export function createTables(layout: Layout): string[] {
  const { database } = layout
  const settings = mergeTreeSettings(layout)
  const features = toLocal(layout, eventFeaturesTable)
  return [
    ...streamTables.flatMap((table) => createTable(layout, table)),
    ...createSummary(layout, settings),
    createSummaryOfChunks(layout),
    ...createByMetric(layout, settings),
    `CREATE TABLE IF NOT EXISTS ${database}.${features}${onCluster(layout)} (
      ${eventFeaturesColumns}
    ) ENGINE = ${toEngine(layout, features, 'AggregatingMergeTree')} ORDER BY (model_id, kind, part, name, version)
    SETTINGS ${settings}`,
    `CREATE MATERIALIZED VIEW IF NOT EXISTS ${database}.${eventFeaturesTable}_view${onCluster(layout)} TO ${database}.${features}
    AS ${selectEventFeatures(`${database}.${toLocal(layout, eventValuesTable.name)}`)}`,
    createChunkFeatures(layout),
    ...createDistributed(layout, eventFeaturesTable, 'model_id'),
    ...createRollupTables(layout, settings),
  ]
}

export function createTable(layout: Layout, table: Table): string[] {
  const columns = [
    ...table.columns.map((it) => describeColumn(it, table)),
    ...(table.derived ?? []).map(({ name, type, from, codec }) => `${name} ${type} DEFAULT ${from} CODEC(${codec})`),
  ].join(',\n      ')
  const local = toLocal(layout, table.name)
  return [
    `CREATE TABLE IF NOT EXISTS ${layout.database}.${local}${onCluster(layout)} (
      ${columns}
    ) ENGINE = ${toEngine(layout, local, 'ReplacingMergeTree', table.version)}
    PRIMARY KEY (${table.primaryKey.join(', ')}) ORDER BY (${[...table.primaryKey, ...table.identity].join(', ')})
    SETTINGS ${mergeTreeSettings(layout, table)}`,
    ...createDistributed(layout, table.name, table.primaryKey[0] as ShardedBy),
  ]
}

/**
 * A column with `storedAs` exists for inserts only. An insert that does not name it fails: a worker before 0.1.0 would store
 * zeros otherwise.
 */
function describeColumn({ name, type, codec, storedAs }: Column, table: Table): string {
  if (storedAs === undefined) return `${name} ${type} CODEC(${codec})`
  const failUnlessNamed = `throwIf(${table.primaryKey[0]} >= 0, 'an insert into ${table.name} must name the column ${name}')`
  return `${name} ${type} EPHEMERAL to${type}(${failUnlessNamed}), ${storedAs.name} ${storedAs.type} DEFAULT ${storedAs.from} CODEC(${codec})`
}
