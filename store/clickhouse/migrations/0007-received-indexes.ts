import { addReceivedIndexes } from '../points/tables.ts'
import type { Migration } from './migration.ts'

/** What finds points and lines by the time of their acceptance. */
export const createReceivedIndexes: Migration = {
  name: '0007-received-indexes',
  async up(clickhouse) {
    for (const statement of addReceivedIndexes(clickhouse)) await clickhouse.command(statement)
  },
}
