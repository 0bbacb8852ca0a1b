import { setTimeout as sleep } from 'node:timers/promises'
import type { Block } from '../../store/queue/queue.ts'

/**
 * Gathers the blocks of one table into few, large inserts.
 *
 * Blocks wait here while their jobs are active: `add` resolves when the insert with the block is done, and only then is the
 * job completed. The batcher flushes at once when it has enough rows or bytes, or when it holds every job that this process
 * may take (no more can come until some are done). Otherwise it flushes `gapMs` after the last flush, so a light load makes
 * a few inserts a second and a heavy load makes large ones. Where inserts take long, be it for their rows or because others take
 * the cores, the gap grows with their duration, up to `gapMsMax`: most of the cost of a small insert does not depend on its rows.
 *
 * An insert that fails is repeated until it succeeds: while ClickHouse is down, the queue grows. When ClickHouse refuses an
 * insert for good, each block is inserted alone, and those that are refused again go to `storeAround`.
 */
type Settings = {
  insert(blocks: Buffer[]): Promise<void>
  /** True for an error that repeating cannot cure. */
  isPermanent(error: unknown): boolean
  /** Stores what can be stored of a block that was refused for good, and quarantines the rest. */
  storeAround(block: Block, insertError: unknown): Promise<void>
  rowsMax: number
  bytesMax: number
  /** How many blocks this process may hold. */
  blocksMax: number
  gapMs: number
  gapMsMax: number
  /** Called after each insert. */
  onStored(batch: { rows: number; oldestReceivedMs: number; insertMs: number }): void
  onError(error: unknown, what: string): void
  /** Runs the work on the blocks of a batch, inside its span when that is traced. */
  around?(blocks: Block[], work: () => Promise<void>): Promise<void>
}

type Waiting = { block: Block; done: () => void; failed: (error: unknown) => void }

const insertsAtOnce = 2
/** The gap is this many times the duration of the last insert, if that is more than `gapMs`: each insert is merged with others later. */
const gapPerInsert = 8
const retryFirstMs = 100
const retryLongestMs = 5_000

export function createBatcher(settings: Settings) {
  const { rowsMax, bytesMax, blocksMax, gapMs, gapMsMax } = settings
  const closing = new AbortController()
  let waiting: Waiting[] = []
  let rows = 0
  let bytes = 0
  let lastFlushAt = Number.NEGATIVE_INFINITY
  let timer: NodeJS.Timeout | undefined
  const inserting = new Set<Promise<void>>()

  function schedule() {
    clearTimeout(timer)
    timer = undefined
    if (waiting.length === 0 || inserting.size >= insertsAtOnce) return
    const isFull = rows >= rowsMax || bytes >= bytesMax || waiting.length + blocksInserting >= blocksMax
    const delayMs = isFull || closing.signal.aborted ? 0 : lastFlushAt + gap() - performance.now()
    if (delayMs <= 0) flush()
    else timer = setTimeout(flush, delayMs)
  }

  let blocksInserting = 0
  let insertMsLast = 0
  const gap = () => Math.min(gapMsMax, Math.max(gapMs, insertMsLast * gapPerInsert))

  function flush() {
    const batch = waiting
    waiting = []
    rows = 0
    bytes = 0
    lastFlushAt = performance.now()
    blocksInserting += batch.length
    const storing = settings.around
      ? settings.around(
          batch.map((it) => it.block),
          () => store(batch),
        )
      : store(batch)
    const work = storing.finally(() => {
      inserting.delete(work)
      schedule()
    })
    inserting.add(work)
    schedule()
  }

  async function store(batch: Waiting[]) {
    const startedAt = performance.now()
    try {
      await insertUntilDone(batch.map((it) => it.block.bytes))
    } catch (error) {
      if (!settings.isPermanent(error)) settle(batch, (it) => it.failed(error))
      else if (batch.length > 1) await Promise.all(batch.map((it) => store([it])))
      else await storePoisonBlock(batch, error)
      return
    }
    settle(batch, (it) => it.done())
    insertMsLast = performance.now() - startedAt
    settings.onStored({
      rows: batch.reduce((sum, it) => sum + it.block.rows, 0),
      oldestReceivedMs: Math.min(...batch.map((it) => it.block.receivedMs)),
      insertMs: insertMsLast,
    })
  }

  async function storePoisonBlock(batch: Waiting[], insertError: unknown) {
    try {
      for (const it of batch) await settings.storeAround(it.block, insertError)
      settle(batch, (it) => it.done())
    } catch (error) {
      settle(batch, (it) => it.failed(error))
    }
  }

  function settle(batch: Waiting[], tell: (it: Waiting) => void) {
    blocksInserting -= batch.length
    batch.forEach(tell)
  }

  async function insertUntilDone(blocks: Buffer[]) {
    for (let waitMs = retryFirstMs; ; waitMs = Math.min(waitMs * 2, retryLongestMs)) {
      try {
        return await settings.insert(blocks)
      } catch (error) {
        if (settings.isPermanent(error)) throw error
        settings.onError(error, 'an insert failed and will be repeated')
        // A closing process cannot wait for ClickHouse: the job goes back to the queue.
        if (closing.signal.aborted) throw error
        await sleep(waitMs, undefined, { signal: closing.signal }).catch(() => undefined)
      }
    }
  }

  return {
    /** Resolves when the block's rows are on disk in ClickHouse. */
    add(block: Block): Promise<void> {
      return new Promise((done, failed) => {
        waiting.push({ block, done, failed })
        rows += block.rows
        bytes += block.bytes.length
        if (
          timer === undefined ||
          rows >= rowsMax ||
          bytes >= bytesMax ||
          waiting.length + blocksInserting >= blocksMax
        ) {
          schedule()
        }
      })
    },

    /** Flushes the waiting blocks; from now on a failed insert is not repeated. */
    async close() {
      closing.abort()
      schedule()
      while (inserting.size > 0) await Promise.all(inserting)
    },
  }
}
