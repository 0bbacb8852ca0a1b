import { createDistributed, type Layout, onCluster, toEngine, toLocal } from '../../cluster/layout.ts'

/**
 * Rollups: how often a model's events have which value, summed up over all events of a range of numbers (`claim`). Most
 * reads are about all events, or nearly: they sum rollups and read the rows of what is in none.
 *
 * Rows of events are only ever added, so a rollup holds what is there exactly when there are as many rows as it was made
 * of. That is looked up before each use, part by part, and remembered of parts, which never change. Nothing else has to be
 * kept in step: not merges, not restarts, not other processes. What comes late, comes twice or is voided makes a rollup
 * count for nothing until it is made anew.
 *
 * Four neighbours make one of the next level, and one holds all there is (`rollup-joins.ts`), so that a read sums up few of
 * them, whatever time it is about.
 *
 * The values are inserted first, and a rollup is there once it has its row in `rollups`.
 */
export const rollupsTable = 'rollups'
/** Of all versions together: what most reads ask for. */
export const rollupValuesTable = 'rollup_values'
/** Version by version, of rollups that have several. */
export const rollupVersionValuesTable = 'rollup_version_values'
export const rollupFeaturesTable = 'rollup_features'
export const rollupTables = [rollupsTable, rollupValuesTable, rollupVersionValuesTable, rollupFeaturesTable] as const

/** The level of a rollup of all there was; the others are made of events (0), or of some of the level below. */
export const wholeLevel = 255

/**
 * `first` and `last` are of the timestamps of all rows. The arrays have one element for each version. One that was `dropped`
 * (ms since the Unix epoch) is used by no new read, and goes once those under way have ended.
 */
const rollupsColumns = `model_id UInt64, kind UInt8, low UInt64, high UInt64, id UInt64, dropped Int64, level UInt8,
      event_rows UInt64, value_rows UInt64, voided UInt64, first Int64, last Int64,
      versions Array(String), counts Array(UInt64), firsts Array(Int64), lasts Array(Int64), received Array(Int64)`

/** What is counted together. */
export const cellColumns = 'model_id, kind, part, name, type, number, text, is_rounded, center, is_hashed'

/**
 * `weight` values of a feature are alike. Of a feature with many different numbers they were rounded around `center`, but
 * `least` and `most` are exact where they are those of the feature; of one with many categories there are hashes.
 */
const toValuesColumns = (
  version: string,
) => `model_id UInt64, kind UInt8, part UInt8, name LowCardinality(String), rollup UInt64,
      ${version}type UInt8 CODEC(ZSTD(1)), number Float64 CODEC(ZSTD(1)), text LowCardinality(String) CODEC(ZSTD(1)),
      weight UInt64 CODEC(T64, ZSTD(1)), is_rounded UInt8 CODEC(ZSTD(1)), center Float64 CODEC(ZSTD(1)), is_hashed UInt8 CODEC(ZSTD(1)),
      least Float64 CODEC(ZSTD(1)), most Float64 CODEC(ZSTD(1))`

/** How a rollup holds features: what its values say of themselves, without reading them. */
const rollupFeaturesColumns = `model_id UInt64, kind UInt8, rollup UInt64, part UInt8, name LowCardinality(String),
      is_rounded UInt8, center Float64, is_hashed UInt8`

/** The statement that says so of a rollup. */
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
