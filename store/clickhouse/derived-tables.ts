import { onCluster, toLocal } from './cluster/layout.ts'
import type { ClickHouse } from './connection.ts'
import { longInsert, toRanges } from './long-inserts.ts'
import { migrationsTable } from './migrations/migrate.ts'
import { rollupTables } from './monitoring/rollups/tables.ts'
import { sqlTokensTable, sqlViews } from './monitoring/sql/views.ts'
import { eventFeaturesTable, eventValuesTable, selectChunkFeatures, selectEventFeatures } from './monitoring/tables.ts'
import { valueChunksTable } from './monitoring/value-chunks.ts'
import { chunksTable } from './points/chunks.ts'
import { summarizeStored } from './points/store-blocks.ts'
import { byMetricTable } from './points/summaries/by-metric.ts'
import { summaryTable } from './points/summaries/summary.ts'
import { pointsTable } from './points/tables.ts'

/** Tables whose rows are computed from other tables. A restore rebuilds them. */
const derivedTables = [summaryTable, byMetricTable, eventFeaturesTable, ...rollupTables] as const

/**
 * The tables that a backup leaves out. Without the record of migrations, the migrations after a restore run from the first on
 * and create the derived tables and the views again.
 */
export const tablesNotBackedUp: readonly string[] = [
  ...derivedTables,
  migrationsTable,
  sqlTokensTable,
  ...sqlViews.map((it) => it.name),
]

/**
 * Empties the derived tables and fills them from the stored rows. Workers rebuild the rollups later. Nothing may insert
 * meanwhile. Safe to repeat.
 *
 * @param say prints progress: this may take minutes
 */
export async function rebuildDerived(clickhouse: ClickHouse, say: (text: string) => void): Promise<void> {
  const { database } = clickhouse
  for (const table of derivedTables)
    await clickhouse.command(`TRUNCATE TABLE ${database}.${toLocal(clickhouse, table)}${onCluster(clickhouse)} SYNC`)
  const experiments = await clickhouse.rows<{ id: string; count: string }>(
    `SELECT id, sum(size) AS count FROM (
       SELECT experiment_id AS id, toUInt32(1) AS size FROM ${database}.${pointsTable.name} UNION ALL
       SELECT experiment_id AS id, count AS size FROM ${database}.${chunksTable.name}) GROUP BY id ORDER BY id`,
  )
  const total = experiments.reduce((sum, it) => sum + Number(it.count), 0)
  let done = 0
  for (const { first, last, rows } of toRanges(experiments)) {
    const where = `experiment_id BETWEEN ${first} AND ${last}`
    await summarizeStored(clickhouse, where)
    done += rows
    say(`${done} of ${total} points are in the summaries`)
  }
  for (const features of [
    selectEventFeatures(`${database}.${eventValuesTable.name}`),
    selectChunkFeatures(`${database}.${valueChunksTable.name}`),
  ]) {
    await clickhouse.command(`INSERT INTO ${database}.${eventFeaturesTable} ${features}`, longInsert)
  }
}
