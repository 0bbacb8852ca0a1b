import { createDistributed, type Layout, onCluster, toEngine, toLocal } from '../../cluster/layout.ts'

/**
 * Rollups: the counts of equal values of a model's features, over all events of a range of claims. Most questions are about
 * all events, or nearly: they add up rollups, and read raw rows outside of them only.
 *
 * A rollup is used only while it is current (`current.ts`), which is checked before each use. So merges, restarts and other
 * processes need no coordination. A row that arrives late and a new tombstone make a rollup stale until it is made anew.
 *
 * Four neighbours are joined to one of the next level, and one may hold all events (`joins.ts`), so that a question of any
 * time adds up few of them.
 *
 * Values are inserted first; the row in `rollups` publishes them.
 */
export const rollupsTable = 'rollups'
/** Of all versions together, which most questions are about. */
export const rollupValuesTable = 'rollup_values'
/** Version by version, of rollups that have several. */
export const rollupVersionValuesTable = 'rollup_version_values'
export const rollupFeaturesTable = 'rollup_features'
export const rollupTables = [rollupsTable, rollupValuesTable, rollupVersionValuesTable, rollupFeaturesTable] as const

/** The level of a rollup of all events there were; others are made of events (0) or of rollups of the level below. */
export const wholeLevel = 255

/**
 * `first` and `last` are timestamps of all rows. The arrays have an element for each version. A rollup that is `dropped` (ms
 * since the Unix epoch) is not used by new reads, and is deleted once older reads have ended. `voided` counts tombstones.
 */
const rollupsColumns = `model_id UInt64, kind UInt8, low UInt64, high UInt64, id UInt64, dropped Int64, level UInt8,
      event_rows UInt64, value_rows UInt64, voided UInt64, first Int64, last Int64,
      versions Array(String), counts Array(UInt64), firsts Array(Int64), lasts Array(Int64), received Array(Int64)`

/** The columns of a cell: values that are equal in them are counted together. */
export const cellColumns = 'model_id, kind, part, name, type, number, text, is_rounded, center, is_hashed'

/**
 * A cell: `weight` equal values of a feature. If the feature has many different numbers, they are rounded around `center`;
 * `least` and `most` stay exact in the cells of its minimum and maximum. If it has many categories, `text` has hashes.
 */
const toValuesColumns = (
  version: string,
) => `model_id UInt64, kind UInt8, part UInt8, name LowCardinality(String), rollup UInt64,
      ${version}type UInt8 CODEC(ZSTD(1)), number Float64 CODEC(ZSTD(1)), text LowCardinality(String) CODEC(ZSTD(1)),
      weight UInt64 CODEC(T64, ZSTD(1)), is_rounded UInt8 CODEC(ZSTD(1)), center Float64 CODEC(ZSTD(1)), is_hashed UInt8 CODEC(ZSTD(1)),
      least Float64 CODEC(ZSTD(1)), most Float64 CODEC(ZSTD(1))`

/** How a rollup holds each feature, so that this is known without reading its values. */
const rollupFeaturesColumns = `model_id UInt64, kind UInt8, rollup UInt64, part UInt8, name LowCardinality(String),
      is_rounded UInt8, center Float64, is_hashed UInt8`

/** Fills it from the values of a rollup. */
export const insertRollupFeatures = (database: string, where: string) =>
  `INSERT INTO ${database}.${rollupFeaturesTable} SELECT model_id, kind, rollup AS id, part, name, max(is_rounded),
     anyIf(center, is_rounded = 1), max(is_hashed)
   FROM ${database}.${rollupValuesTable} WHERE ${where} GROUP BY model_id, kind, id, part, name`

export const createRollupTables = (layout: Layout, settings: string) => [
  ...createRollupTable(layout, rollupsTable, rollupsColumns, {
    engine: 'ReplacingMergeTree',
    parameter: 'dropped',
    orderBy: 'model_id, kind, low, high, id',
    settings,
  }),
  ...createRollupTable(layout, rollupFeaturesTable, rollupFeaturesColumns, {
    engine: 'MergeTree',
    orderBy: 'model_id, kind, rollup',
    settings,
  }),
  ...createRollupTable(layout, rollupValuesTable, toValuesColumns(''), {
    engine: 'MergeTree',
    orderBy: 'model_id, kind, part, name, rollup, type, number, text',
    settings,
  }),
  ...createRollupTable(layout, rollupVersionValuesTable, toValuesColumns('version LowCardinality(String), '), {
    engine: 'MergeTree',
    orderBy: 'model_id, kind, part, name, rollup, version, type, number, text',
    settings,
  }),
]

function createRollupTable(
  layout: Layout,
  name: string,
  columns: string,
  shape: { engine: string; parameter?: string; orderBy: string; settings: string },
): string[] {
  const local = toLocal(layout, name)
  return [
    `CREATE TABLE IF NOT EXISTS ${layout.database}.${local}${onCluster(layout)} (
      ${columns}
    ) ENGINE = ${toEngine(layout, local, shape.engine, shape.parameter)} ORDER BY (${shape.orderBy}) SETTINGS ${shape.settings}`,
    ...createDistributed(layout, name, 'model_id'),
  ]
}
