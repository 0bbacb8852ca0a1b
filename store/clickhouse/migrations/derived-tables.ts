import { onCluster, toLocal } from '../cluster/layout.ts'
import type { ClickHouse } from '../connection.ts'
import { longInsert, toRanges } from '../long-inserts.ts'
import { rollupTables } from '../monitoring/rollups/tables.ts'
import { eventFeaturesTable, eventValuesTable, selectEventFeatures } from '../monitoring/tables.ts'
import { selectSummary, summaryTable } from '../points/summary.ts'
import { pointsTable } from '../points/tables.ts'

/** Tables that hold nothing which cannot be made again of the others. */
export const derivedTables = [summaryTable, eventFeaturesTable, ...rollupTables] as const

/**
 * Makes the derived tables anew of what is stored; rollups are left to the workers. Nothing may be inserted meanwhile. Can be
 * repeated.
 *
 * @param say is told what is done, for it may take a while
 */
export async function rebuildDerived(clickhouse: ClickHouse, say: (text: string) => void): Promise<void> {
  const { database } = clickhouse
  for (const table of derivedTables)
    await clickhouse.command(`TRUNCATE TABLE ${database}.${toLocal(clickhouse, table)}${onCluster(clickhouse)} SYNC`)
  const experiments = await clickhouse.rows<{ id: string; count: string }>(
    `SELECT experiment_id AS id, count() AS count FROM ${database}.${pointsTable.name} GROUP BY id ORDER BY id`,
  )
  const total = experiments.reduce((sum, it) => sum + Number(it.count), 0)
  let done = 0
  for (const { first, last, rows } of toRanges(experiments)) {
    await clickhouse.command(
      `INSERT INTO ${database}.${summaryTable} ${selectSummary(`${database}.${pointsTable.name}`, `experiment_id BETWEEN ${first} AND ${last}`)}`,
      longInsert,
    )
    done += rows
    say(`${done} of ${total} points are summed up`)
  }
  await clickhouse.command(
    `INSERT INTO ${database}.${eventFeaturesTable} ${selectEventFeatures(`${database}.${eventValuesTable.name}`)}`,
    longInsert,
  )
}
