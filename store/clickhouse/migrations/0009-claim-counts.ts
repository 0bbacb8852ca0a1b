import { addClaimCounts } from '../monitoring/tables.ts'
import type { Migration } from './migration.ts'

/** Counts the values of each claim, so that rollups are checked without reading all values. */
export const countValuesOfClaims: Migration = {
  name: '0009-claim-counts',
  async up(clickhouse) {
    for (const statement of addClaimCounts(clickhouse)) await clickhouse.command(statement)
  },
}
