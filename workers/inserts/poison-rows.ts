import zlib from 'node:zlib'
import { readNativeBlock, type SliceableBlock } from '../../store/clickhouse/blocks/native-slice.ts'
import type { Block } from '../../store/queue/queue.ts'

type Settings = {
  insert(blocks: Buffer[]): Promise<void>
  isPermanent(error: unknown): boolean
  /** Keeps rows that can never be stored as a dead letter, with the reason. */
  quarantine(block: Block, reason: string): Promise<void>
}

type PoisonRow = { block: Block; reason: string }

/** With more of them the block itself is wrong: for example a column is missing, and ClickHouse refuses every row. */
export const poisonRowsMax = 16

/**
 * Stores what can be stored of a block that ClickHouse refuses for good. It halves the block until each poison row stands
 * alone, inserts all other rows, and quarantines each poison row. It quarantines the whole block as one dead letter when
 * there are more than `poisonRowsMax` poison rows or the block cannot be read. Rows that it inserted before it gave up
 * are then in the table and in the dead letter: a replay collapses them.
 *
 * Rejects when ClickHouse or the store of dead letters is down. The caller can repeat the call: nothing is quarantined
 * before the search is over, and rows that are inserted twice collapse.
 */
export async function storeAroundPoisonRows(
  block: Block,
  insertError: unknown,
  { insert, isPermanent, quarantine }: Settings,
): Promise<void> {
  const native = openBlock(block)
  if (!native) return await quarantine(block, toReason(insertError))

  const poisonRows: PoisonRow[] = []
  let insertsLeft = maxInserts(native.rows)
  if (await searchRange(0, native.rows, insertError)) {
    for (const row of poisonRows) await quarantine(row.block, row.reason)
  } else {
    await quarantine(
      block,
      `${toReason(insertError)}\nMore than ${poisonRowsMax} of its ${native.rows} rows were refused.`,
    )
  }

  /** Inserts all but the poison rows of a range that was refused. False when it gave up. */
  async function searchRange(from: number, to: number, reason: unknown): Promise<boolean> {
    if (to - from === 1) {
      poisonRows.push({ block: toBlock(from, to), reason: toReason(reason) })
      return poisonRows.length <= poisonRowsMax
    }
    const middle = Math.floor((from + to) / 2)
    return (await insertRange(from, middle)) && (await insertRange(middle, to))
  }

  async function insertRange(from: number, to: number): Promise<boolean> {
    if (insertsLeft-- === 0) return false
    try {
      await insert([toBlock(from, to).bytes])
      return true
    } catch (error) {
      if (!isPermanent(error)) throw error
      return await searchRange(from, to, error)
    }
  }

  function toBlock(from: number, to: number): Block {
    const bytes = zlib.zstdCompressSync((native as SliceableBlock).slice(from, to))
    return { rows: to - from, receivedMs: block.receivedMs, bytes }
  }
}

/**
 * Enough to find `poisonRowsMax` rows wherever they are: on the way to each of them, every halving makes two inserts.
 * The limit only ends a search in which ClickHouse refuses large ranges but takes their halves.
 */
export function maxInserts(rows: number): number {
  return 2 * poisonRowsMax * Math.ceil(Math.log2(rows))
}

function openBlock(block: Block): SliceableBlock | undefined {
  try {
    const native = readNativeBlock(zlib.zstdDecompressSync(block.bytes))
    return native.rows > 0 ? native : undefined
  } catch {
    // Damaged bytes have no rows to tell apart.
    return undefined
  }
}

function toReason(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
