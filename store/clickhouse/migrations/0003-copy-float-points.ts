import type { ClickHouse } from '../connection.ts'
import { longInsert, toRanges } from '../long-inserts.ts'
import type { Table } from '../table.ts'
import { floatTables, toFloatName } from './0001-rename-float-points.ts'
import type { Migration } from './migration.ts'

/**
 * Copies the points of the renamed tables, some experiments at a time, and drops each table when all its rows are copied.
 * Takes about a minute for 50 million points. A row that is copied twice collapses into one, so a killed copy starts again.
 */
export const copyFloatPoints: Migration = {
  name: '0003-copy-float-points',
  async up(clickhouse, say) {
    if (clickhouse.cluster !== undefined) return
    const { database } = clickhouse
    const found = await clickhouse.rows<{ name: string }>(
      'SELECT name FROM system.tables WHERE database = {database:String} AND name IN {tables:Array(String)}',
      { database, tables: floatTables.map(toFloatName) },
    )
    const names = new Set(found.map((it) => it.name))
    for (const table of floatTables) if (names.has(toFloatName(table))) await copyRows(clickhouse, table, say)
  },
}

async function copyRows(clickhouse: ClickHouse, table: Table, say: (text: string) => void): Promise<void> {
  const { database } = clickhouse
  const from = `${database}.${toFloatName(table)}`
  const plain = table.columns.filter((it) => it.storedAs === undefined).map((it) => it.name)
  const converted = table.columns.flatMap((it) => it.storedAs ?? [])
  const experiments = await clickhouse.rows<{ id: string; count: string }>(
    `SELECT experiment_id AS id, count() AS count FROM ${from} GROUP BY id ORDER BY id`,
  )
  const total = experiments.reduce((sum, it) => sum + Number(it.count), 0)
  let copied = 0
  for (const { first, last, rows } of toRanges(experiments)) {
    await clickhouse.command(
      `INSERT INTO ${database}.${table.name} (${[...plain, ...converted.map((it) => it.name)].join(', ')})
       SELECT ${[...plain, ...converted.map((it) => it.from)].join(', ')} FROM ${from}
       WHERE experiment_id BETWEEN ${first} AND ${last}`,
      longInsert,
    )
    copied += rows
    say(`${table.name}: ${copied} of ${total} rows are in their new form`)
  }
  await clickhouse.command(`DROP TABLE ${from} SYNC`)
}
