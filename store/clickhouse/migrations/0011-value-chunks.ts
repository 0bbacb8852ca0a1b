import type { ClickHouse } from '../connection.ts'
import { replaceSqlValues, valuesView } from '../monitoring/sql/views.ts'
import { createChunkFeatures } from '../monitoring/tables.ts'
import { addChunkIndexes, valueChunksTable } from '../monitoring/value-chunks.ts'
import { createTable } from '../tables.ts'
import type { Migration } from './migration.ts'

/** The table of values of events as chunks, the view that keeps their features, and the view for the SQL of callers with both tables. */
export const addValueChunks: Migration = {
  name: '0011-value-chunks',
  async up(clickhouse) {
    const statements = [
      ...createTable(clickhouse, valueChunksTable),
      addChunkIndexes(clickhouse),
      createChunkFeatures(clickhouse),
      ...((await hasBothTables(clickhouse)) ? [] : [replaceSqlValues(clickhouse)]),
    ]
    for (const statement of statements) await clickhouse.command(statement)
  },
}

/** Whether the view is made already as 0006 makes it today. */
async function hasBothTables({ database, rows }: ClickHouse): Promise<boolean> {
  const [view] = await rows<{ definition: string }>(
    `SELECT create_table_query AS definition FROM system.tables WHERE database = {database:String} AND name = {name:String}`,
    { database, name: valuesView.name },
  )
  return view?.definition.includes(valueChunksTable.name) === true
}
