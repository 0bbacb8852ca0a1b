import type { ClickHouse } from '../connection.ts'
import { summaryTable } from '../points/summaries/summary.ts'
import { pointsTable, systemPointsTable } from '../points/tables.ts'
import type { Table } from '../table.ts'
import type { Migration } from './migration.ts'

/**
 * Versions before 0.1.0 stored values as floats. ClickHouse cannot change what a table is sorted by, so the rows move to new
 * tables in three migrations: this one renames the old tables and drops their summary, 0002 creates the new ones, and 0003
 * copies the rows and drops the old ones.
 *
 * Stop the workers of the old version first: an insert that runs during the rename still writes to the old table, possibly
 * after its rows were copied. Later inserts fail, and the queue repeats them.
 */
export const floatTables: readonly Table[] = [pointsTable, systemPointsTable]

export const toFloatName = (table: Table) => `${table.name}_earlier`

export const renameFloatPoints: Migration = {
  name: '0001-rename-float-points',
  async up(clickhouse) {
    // The versions with float values knew no clusters.
    if (clickhouse.cluster !== undefined) return
    const { database } = clickhouse
    for (const table of await listFloatTables(clickhouse)) {
      if (table === pointsTable) {
        await clickhouse.command(`DROP TABLE IF EXISTS ${database}.${summaryTable}_view SYNC`)
        await clickhouse.command(`DROP TABLE IF EXISTS ${database}.${summaryTable} SYNC`)
      }
      await clickhouse.command(`RENAME TABLE ${database}.${table.name} TO ${database}.${toFloatName(table)}`)
    }
  },
}

/** Newer tables have `value` only for inserts (EPHEMERAL). */
async function listFloatTables({ database, rows }: ClickHouse): Promise<Table[]> {
  const found = await rows<{ table: string }>(
    `SELECT table FROM system.columns
     WHERE database = {database:String} AND table IN {tables:Array(String)} AND name = 'value' AND default_kind = ''`,
    { database, tables: floatTables.map((it) => it.name) },
  )
  return floatTables.filter((it) => found.some((row) => row.table === it.name))
}
