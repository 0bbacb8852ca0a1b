import { createSqlViews } from '../monitoring/sql/views.ts'
import { valueChunksTable } from '../monitoring/value-chunks.ts'
import { createTable, mergeTreeSettings } from '../tables.ts'
import type { Migration } from './migration.ts'

/** The views that the SQL of callers reads, and the tokens that open them. */
export const addSqlViews: Migration = {
  name: '0006-sql-views',
  async up(clickhouse) {
    // A view is checked when it is made, so all tables that today's views read have to be there.
    const statements = [
      ...createTable(clickhouse, valueChunksTable),
      ...createSqlViews(clickhouse, mergeTreeSettings(clickhouse)),
    ]
    for (const statement of statements) await clickhouse.command(statement)
  },
}
