import { addClaimIndex, addIdHash } from '../monitoring/tables.ts'
import type { Migration } from './migration.ts'

/** What finds events by their claim and joins labels to predictions. */
export const addEventIndexes: Migration = {
  name: '0005-event-indexes',
  async up(clickhouse) {
    for (const statement of [addClaimIndex(clickhouse), ...addIdHash(clickhouse)]) await clickhouse.command(statement)
  },
}
