import zlib from 'node:zlib'
import { readNativeBlock, type SliceableBlock } from '../../store/clickhouse/blocks/native-slice.ts'
import type { Block } from '../../store/queue/queue-backend.ts'

type Settings = {
  insert(blocks: Buffer[]): Promise<void>
  isPermanent(error: unknown): boolean
  /** Keeps rows that can never be stored, with the reason. */
  setAside(block: Block, reason: string): Promise<void>
}

/**
 * Stores what can be stored of a block that ClickHouse refuses for good: the block is halved until the poison rows stand
 * alone, those are set aside, and all others are inserted. A block that cannot be read at all is set aside whole.
 *
 * Rejects when ClickHouse or the place for dead letters is away. It can then be called again: rows that were inserted
 * already collapse with themselves.
 */
export async function storeAroundPoisonRows(block: Block, refusal: unknown, settings: Settings): Promise<void> {
  const native = openBlock(block)
  if (!native) return await settings.setAside(block, toReason(refusal))
  await storeRange(0, native.rows, refusal)

  async function storeRange(from: number, to: number, reason: unknown): Promise<void> {
    if (to - from === 1) return await settings.setAside(toBlock(from, to), toReason(reason))
    const middle = Math.floor((from + to) / 2)
    await insertRange(from, middle)
    await insertRange(middle, to)
  }

  async function insertRange(from: number, to: number): Promise<void> {
    try {
      await settings.insert([toBlock(from, to).bytes])
    } catch (error) {
      if (!settings.isPermanent(error)) throw error
      await storeRange(from, to, error)
    }
  }

  function toBlock(from: number, to: number): Block {
    const bytes = zlib.zstdCompressSync((native as SliceableBlock).slice(from, to))
    return { rows: to - from, receivedMs: block.receivedMs, bytes }
  }
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
