import { onCluster, systemTable } from '../../cluster/layout.ts'
import type { ClickHouse } from '../../connection.ts'
import { summarizeInWorkers } from '../../migrations/0013-summaries-by-workers.ts'
import { migrationsTable } from '../../migrations/migrate.ts'
import { summaryViews } from './summary.ts'

/** Workers of an earlier version may write for a day after the migration (docs/upgrading.md). */
const hoursKept = 24

/**
 * Drops the views that fill the summary, once only workers write that do so themselves. Returns whether it did.
 */
export async function dropEarlierViews(clickhouse: ClickHouse): Promise<boolean> {
  const { database } = clickhouse
  const views = await clickhouse.rows(
    `SELECT 1 FROM ${systemTable(clickhouse, 'tables')} WHERE database = {database:String} AND name IN ({views:Array(String)}) LIMIT 1`,
    { database, views: summaryViews },
  )
  if (views.length === 0) return false
  const [last] = await clickhouse.rows<{ is_over: number }>(
    `SELECT max(applied_at) <= now() - INTERVAL ${hoursKept} HOUR AS is_over FROM ${database}.${migrationsTable}
     WHERE name = {name:String}`,
    { name: summarizeInWorkers.name },
  )
  if (!last?.is_over) return false
  for (const it of summaryViews) {
    await clickhouse.command(`DROP VIEW IF EXISTS ${database}.${it}${onCluster(clickhouse)} SYNC`)
  }
  return true
}
