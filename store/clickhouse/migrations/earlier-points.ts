import type { ClickHouse } from '../connection.ts'
import { longInsert, toRanges } from '../long-inserts.ts'
import { summaryTable } from '../points/summary.ts'
import { pointsTable, systemPointsTable } from '../points/tables.ts'
import type { Table } from '../table.ts'

/**
 * Points of the versions that stored values as floats. What a table is sorted by cannot be changed, so they are copied:
 *
 * 1. `renameEarlierPoints`, before the tables are made: the old table gets another name, and its summary, which can be
 *    made again, goes.
 * 2. `copyEarlierPoints`, afterwards: a few experiments at a time, and then the old table goes.
 *
 * Each step can be repeated after a crash in the middle: a row that is copied twice is the same row. Roles of this version
 * do not start meanwhile (`checkClickHouse`). Workers of the one before are stopped first (`docs/upgrading.md`): an insert that
 * is under way at the rename goes on into the old table, and may come too late. New ones are refused, and repeated.
 */
const toEarlierName = (table: Table) => `${table.name}_earlier`

const movedTables: readonly Table[] = [pointsTable, systemPointsTable]

export async function renameEarlierPoints(clickhouse: ClickHouse): Promise<void> {
  const { database } = clickhouse
  const found = await clickhouse.rows<{ table: string }>(
    `SELECT table FROM system.columns
     WHERE database = {database:String} AND table IN {tables:Array(String)} AND name = 'value' AND default_kind = ''`,
    { database, tables: movedTables.map((it) => it.name) },
  )
  for (const table of movedTables.filter((it) => found.some((row) => row.table === it.name))) {
    if (table === pointsTable) {
      await clickhouse.command(`DROP TABLE IF EXISTS ${database}.${summaryTable}_view SYNC`)
      await clickhouse.command(`DROP TABLE IF EXISTS ${database}.${summaryTable} SYNC`)
    }
    await clickhouse.command(`RENAME TABLE ${database}.${table.name} TO ${database}.${toEarlierName(table)}`)
  }
}

/** The names of the tables that are not copied yet. */
export async function listEarlierPoints(clickhouse: ClickHouse): Promise<string[]> {
  const rows = await clickhouse.rows<{ name: string }>(
    'SELECT name FROM system.tables WHERE database = {database:String} AND name IN {tables:Array(String)}',
    { database: clickhouse.database, tables: movedTables.map(toEarlierName) },
  )
  return rows.map((it) => it.name)
}

/** @param say is told what is done, for it may take a while: a minute for some 50 million points */
export async function copyEarlierPoints(clickhouse: ClickHouse, say: (text: string) => void): Promise<void> {
  const { database } = clickhouse
  const earlier = await listEarlierPoints(clickhouse)
  for (const table of movedTables.filter((it) => earlier.includes(toEarlierName(it)))) {
    const from = `${database}.${toEarlierName(table)}`
    const kept = table.columns.filter((it) => it.storedAs === undefined).map((it) => it.name)
    const made = table.columns.flatMap((it) => it.storedAs ?? [])
    const experiments = await clickhouse.rows<{ id: string; count: string }>(
      `SELECT experiment_id AS id, count() AS count FROM ${from} GROUP BY id ORDER BY id`,
    )
    const total = experiments.reduce((sum, it) => sum + Number(it.count), 0)
    let copied = 0
    for (const { first, last, rows } of toRanges(experiments)) {
      await clickhouse.command(
        `INSERT INTO ${database}.${table.name} (${[...kept, ...made.map((it) => it.name)].join(', ')})
         SELECT ${[...kept, ...made.map((it) => it.from)].join(', ')} FROM ${from}
         WHERE experiment_id BETWEEN ${first} AND ${last}`,
        longInsert,
      )
      copied += rows
      say(`${table.name}: ${copied} of ${total} rows are in their new form`)
    }
    await clickhouse.command(`DROP TABLE ${from} SYNC`)
  }
}
