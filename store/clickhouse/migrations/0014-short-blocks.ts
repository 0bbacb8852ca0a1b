import { onCluster, toLocal } from '../cluster/layout.ts'
import { chunksTable, shortBlocks } from '../points/chunks.ts'
import type { Migration } from './migration.ts'

/** Chunks are compressed in shorter blocks, from the next merge on. */
export const shortenBlocks: Migration = {
  name: '0014-short-blocks',
  async up(clickhouse) {
    const table = `${clickhouse.database}.${toLocal(clickhouse, chunksTable.name)}`
    await clickhouse.command(`ALTER TABLE ${table}${onCluster(clickhouse)} MODIFY SETTING ${shortBlocks}`)
  },
}
