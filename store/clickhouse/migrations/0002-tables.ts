import { createTables } from '../tables.ts'
import type { Migration } from './migration.ts'

/** Creates every table and view as `tables.ts` defines them today. A new server of a cluster gets its tables here too. */
export const createAllTables: Migration = {
  name: '0002-tables',
  async up(clickhouse) {
    for (const statement of createTables(clickhouse)) await clickhouse.command(statement)
  },
}
