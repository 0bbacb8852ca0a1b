import { onCluster, toLocal } from '../cluster/layout.ts'
import { longInsert } from '../long-inserts.ts'
import { byMetricTable, createByMetric, selectByMetric } from '../points/summaries/by-metric.ts'
import { summaryTable } from '../points/summaries/summary.ts'
import { mergeTreeSettings } from '../tables.ts'
import type { Migration } from './migration.ts'

const filled = 'has all of points_summary'

/**
 * Orders the summary by metric, for searches. The view comes first: a row that it and the copy bring is one row. The comment of
 * the table says that it was copied.
 */
export const orderByMetric: Migration = {
  name: '0008-points-by-metric',
  async up(clickhouse) {
    const { database } = clickhouse
    for (const statement of createByMetric(clickhouse, mergeTreeSettings(clickhouse)))
      await clickhouse.command(statement)
    const local = toLocal(clickhouse, byMetricTable)
    const [table] = await clickhouse.rows<{ comment: string }>(
      'SELECT comment FROM system.tables WHERE database = {database:String} AND name = {local:String}',
      { database, local },
    )
    if (table?.comment === filled) return
    await clickhouse.command(
      `INSERT INTO ${database}.${byMetricTable} ${selectByMetric(`${database}.${summaryTable}`)}`,
      longInsert,
    )
    await clickhouse.command(`ALTER TABLE ${database}.${local}${onCluster(clickhouse)} MODIFY COMMENT '${filled}'`)
  },
}
