import { onCluster, toLocal } from './cluster/layout.ts'
import type { ClickHouse } from './connection.ts'
import { experimentTables } from './points/chunks.ts'
import { byMetricTable } from './points/summaries/by-metric.ts'
import { summaryTable } from './points/summaries/summary.ts'

/**
 * Deletes all rows of experiments from every table. Resolves when they are off the disk. ClickHouse rewrites every part
 * that holds such rows, so pass many experiments at once.
 */
export async function deleteExperimentRows(clickhouse: ClickHouse, experimentIds: bigint[]): Promise<void> {
  for (const table of [...experimentTables.map((it) => it.name), summaryTable, byMetricTable]) {
    await clickhouse.command(
      `ALTER TABLE ${clickhouse.database}.${toLocal(clickhouse, table)}${onCluster(clickhouse)} DELETE WHERE experiment_id IN (${experimentIds.join(', ')})`,
      { mutations_sync: 2 },
    )
  }
}
