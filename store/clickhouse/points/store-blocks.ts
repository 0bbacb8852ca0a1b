import { ClickHouseError } from '@clickhouse/client'
import { contentSize } from '../blocks/zstd-frame.ts'
import type { ClickHouse } from '../connection.ts'
import { longInsert } from '../long-inserts.ts'
import type { Table } from '../table.ts'
import { chunkBlocks, chunksTable } from './chunks.ts'
import { summarizeBlocks, summaryColumns } from './summaries/states.ts'
import { ofSentBlocks, selectSummary, selectSummaryOfChunks, summaryTable } from './summaries/summary.ts'
import { pointsTable } from './tables.ts'

/**
 * How ClickHouse summarizes the blocks of a table. In those of earlier versions the columns that it computes as it stores them are
 * 0 here: a worker summarizes these.
 */
const selects: Record<string, string> = {
  [pointsTable.name]: ofSentBlocks(pointsTable, selectSummary),
  [chunksTable.name]: ofSentBlocks(chunkBlocks, (blocks) => selectSummaryOfChunks(blocks, 'throwIf(count = 0) = 0')),
}
const thrown = '395'

/**
 * Of so many bytes and less, before compression, a worker makes the summary: ClickHouse takes 20 ms to analyze the query that does,
 * of more it takes less for a point (measured: 20,000 points cost either as much).
 */
const bytesHereMax = 512 * 1024

/**
 * Inserts blocks of a table of the stream (`insertBlocks`), and the summaries of points. Resolves once all is on disk. Safe to
 * repeat.
 *
 * The points come first: those that ClickHouse refuses are in no summary.
 */
export async function storeBlocks(
  clickhouse: ClickHouse,
  table: Table,
  blocks: Buffer[],
  summarizedHereMax = bytesHereMax,
): Promise<void> {
  const storing = clickhouse.insertBlocks(table, blocks)
  const select = selects[table.name]
  if (select === undefined) return await storing
  // While ClickHouse is busy with the points.
  const summary = sumSizes(blocks) <= summarizedHereMax ? trySummarize(blocks) : undefined
  await storing
  const insert = (made: Buffer) => clickhouse.insertBlocks(summaryColumns, [made])
  if (summary) return await insert(summary)
  try {
    await clickhouse.insertSelected(summaryTable, select, blocks)
  } catch (error) {
    if (!(error instanceof ClickHouseError && error.code === thrown)) throw error
    for (const it of blocks) {
      const made = trySummarize([it])
      await (made ? insert(made) : clickhouse.insertSelected(summaryTable, select, [it]))
    }
  }
}

const sumSizes = (blocks: Buffer[]) =>
  blocks.reduce((sum, it) => sum + (contentSize(it) ?? Number.POSITIVE_INFINITY), 0)

function trySummarize(blocks: Buffer[]): Buffer | undefined {
  try {
    return summarizeBlocks(blocks)
  } catch {
    // Of a later version, maybe: ClickHouse knows. It refuses what is damaged, with a better reason.
    return undefined
  }
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
