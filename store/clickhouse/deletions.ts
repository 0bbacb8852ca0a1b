import { onCluster, toLocal } from './cluster/layout.ts'
import type { ClickHouse } from './connection.ts'
import { summaryTable } from './points/summary.ts'
import { experimentTables } from './points/tables.ts'

/**
 * Takes all rows of some experiments out of every table that has any. Resolves when they are off the disk. The parts that
 * hold them are written anew, so it is for many experiments at a time.
 */
export async function deleteExperimentRows(clickhouse: ClickHouse, experimentIds: bigint[]): Promise<void> {
  for (const table of [...experimentTables.map((it) => it.name), summaryTable]) {
    await clickhouse.command(
      `ALTER TABLE ${clickhouse.database}.${toLocal(clickhouse, table)}${onCluster(clickhouse)} DELETE WHERE experiment_id IN (${experimentIds.join(', ')})`,
      { mutations_sync: 2 },
    )
  }
}
