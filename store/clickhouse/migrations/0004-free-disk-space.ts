import { onCluster, toLocal } from '../cluster/layout.ts'
import { summaryTable } from '../points/summaries/summary.ts'
import { freeDiskBytesMin, firstStreamTables as streamTables } from '../tables.ts'
import type { Migration } from './migration.ts'

/** Tables of early versions accept inserts until the disk is full. */
export const keepDiskSpaceFree: Migration = {
  name: '0004-free-disk-space',
  async up(clickhouse) {
    for (const table of [...streamTables.map((it) => it.name), summaryTable]) {
      await clickhouse.command(
        `ALTER TABLE ${clickhouse.database}.${toLocal(clickhouse, table)}${onCluster(clickhouse)}
         MODIFY SETTING min_free_disk_bytes_to_perform_insert = ${freeDiskBytesMin}`,
      )
    }
  },
}
