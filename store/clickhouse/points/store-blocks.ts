import type { ClickHouse } from '../connection.ts'
import { longInsert } from '../long-inserts.ts'
import type { Table } from '../table.ts'
import { chunksTable } from './chunks.ts'
import { summarizeBlocks, summaryColumns } from './summaries/states.ts'
import { selectSummary, selectSummaryOfChunks, summaryTable } from './summaries/summary.ts'
import { pointsTable } from './tables.ts'

const summarized: readonly string[] = [pointsTable.name, chunksTable.name]

/**
 * Inserts blocks of a table of the stream (`insertBlocks`), and the summaries of points. Resolves once all is on disk. Safe to
 * repeat.
 *
 * The points come first: those that ClickHouse refuses are in no summary.
 */
export async function storeBlocks(clickhouse: ClickHouse, table: Table, blocks: Buffer[]): Promise<void> {
  if (!summarized.includes(table.name)) return await clickhouse.insertBlocks(table, blocks)
  // While ClickHouse is busy with the points.
  const summarizing = summarizeBlocks(blocks)
  // Bytes that cannot be read are refused there, with a better reason.
  summarizing.catch(() => undefined)
  await clickhouse.insertBlocks(table, blocks)
  await clickhouse.insertBlocks(summaryColumns, [await summarizing])
}

/** Adds the summaries of stored points and chunks that meet a condition. Safe to repeat. */
export async function summarizeStored(clickhouse: ClickHouse, where: string): Promise<void> {
  const { database } = clickhouse
  for (const summaries of [
    selectSummary(`${database}.${pointsTable.name}`, where),
    selectSummaryOfChunks(`${database}.${chunksTable.name}`, where),
  ]) {
    await clickhouse.command(`INSERT INTO ${database}.${summaryTable} ${summaries}`, longInsert)
  }
}
