import { onCluster } from '../cluster/layout.ts'
import { summaryViews } from '../points/summaries/summary.ts'
import type { Migration } from './migration.ts'

/**
 * Workers add to the summary themselves. Only a new database loses the views that did: workers of an earlier version may still write
 * to others for a day, after which workers drop them (`points/summaries/earlier-views.ts`).
 */
export const summarizeInWorkers: Migration = {
  name: '0013-summaries-by-workers',
  async up(clickhouse, _say, earlier) {
    if (summaryViews.some((it) => earlier.has(it))) return
    for (const it of summaryViews) {
      await clickhouse.command(`DROP VIEW IF EXISTS ${clickhouse.database}.${it}${onCluster(clickhouse)} SYNC`)
    }
  },
}
