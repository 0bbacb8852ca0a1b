import { createSqlViews } from '../monitoring/sql/views.ts'
import { mergeTreeSettings } from '../tables.ts'
import type { Migration } from './migration.ts'

/** The views that the SQL of callers reads, and the tokens that open them. */
export const addSqlViews: Migration = {
  name: '0006-sql-views',
  async up(clickhouse) {
    for (const statement of createSqlViews(clickhouse, mergeTreeSettings(clickhouse)))
      await clickhouse.command(statement)
  },
}
