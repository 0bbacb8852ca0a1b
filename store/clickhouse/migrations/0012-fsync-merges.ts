import { onCluster } from '../cluster/layout.ts'
import { fsyncAfterMerge } from '../tables.ts'
import type { Migration } from './migration.ts'

/** Tables of earlier versions replaced parts that were on disk by one that might not be yet. */
export const fsyncMerges: Migration = {
  name: '0012-fsync-merges',
  async up(clickhouse) {
    const { database, cluster } = clickhouse
    const tables = await clickhouse.rows<{ name: string }>(
      `SELECT DISTINCT name FROM ${cluster === undefined ? 'system.tables' : `clusterAllReplicas('${cluster}', system.tables)`}
       WHERE database = {database:String} AND engine LIKE '%MergeTree' AND position(create_table_query, {setting:String}) = 0`,
      { database, setting: fsyncAfterMerge },
    )
    for (const { name } of tables) {
      await clickhouse.command(
        `ALTER TABLE ${database}.${name}${onCluster(clickhouse)} MODIFY SETTING ${fsyncAfterMerge}`,
      )
    }
  },
}
