import { chunksTable } from '../points/chunks.ts'
import { createSummaryOfChunks } from '../points/summaries/summary.ts'
import { addReceivedIndex } from '../points/tables.ts'
import { createTable } from '../tables.ts'
import type { Migration } from './migration.ts'

/** The table of points as chunks of a series, which new experiments use, and the view that summarizes them. */
export const addPointChunks: Migration = {
  name: '0010-point-chunks',
  async up(clickhouse) {
    const statements = [
      ...createTable(clickhouse, chunksTable),
      addReceivedIndex(clickhouse, chunksTable),
      createSummaryOfChunks(clickhouse),
    ]
    for (const statement of statements) await clickhouse.command(statement)
  },
}
