import { promisify } from 'node:util'
import zlib from 'node:zlib'
import { unavailable } from '../http/errors.ts'
import type { Span } from '../runtime/tracing.ts'
import { createNativeBlock, type NativeBlock } from '../store/clickhouse/blocks/native-block.ts'
import type { Table } from '../store/clickhouse/table.ts'
import type { Producer, QueueLoad } from '../store/queue/queue.ts'
import type { BlockTrace } from './block-trace.ts'

/**
 * Group commit: requests add their rows to the open block of their table and wait. The block closes by size, or a few
 * milliseconds after its first row; one queue job carries it, and everyone who waits is answered when the queue has it.
 * Nobody is answered before. If the queue refuses, all of them are refused, and may send again.
 *
 * A job costs the same whatever is in it, so under load a block waits longer, and grows while those before it are on their
 * way: the busier a process, the fewer jobs for a point.
 */
type Settings<T extends Table> = {
  table: T
  producer: Pick<Producer, 'add' | 'load'>
  /** How long the first row waits for company, unless much is coming. */
  waitMs: number
  rowsMax: number
  bytesMax: number
  /** Bytes of closed blocks that may be on their way; over it requests are refused. */
  pendingBytesMax: number
  /** What the queue may hold; over any of it requests are refused, before the queue or its memory is in danger. */
  queueMax: QueueMax
  onClosed(block: { rows: number; bytes: number; commitMs: number }): void
  onLoad(load: QueueLoad): void
  /** Where tracing is on. */
  trace?: BlockTrace
}

export type QueueMax = {
  blocks: number
  /** Compressed bytes, reckoned from the average of the blocks sent. */
  bytes: number
}

export type Committer<T extends Table> = {
  /**
   * Adds one request's rows and resolves when the queue has them.
   *
   * @param append pushes rows into the open block; should it fail half-way, the whole block is refused
   * @throws HttpError `unavailable`
   */
  commit(receivedMs: number, append: (block: NativeBlock<T>) => void): Promise<void>
  /**
   * What `commit` would refuse now, for those who have something else to do before.
   *
   * @throws HttpError `unavailable`
   */
  refuseWhenFull(): void
  /** Commits what is open and waits for all that is on its way. */
  close(): Promise<void>
}

const commitsAtOnce = 2
/** After a block of so many requests the next one waits longer by this factor. */
const busyRequests = 16
const busyFactor = 2.5
const loadCheckMs = 500
/** Counting a deep queue takes Postgres a while: the pause grows with it, or counting would be most of the work. */
const pausePerCheck = 20
/** The rest is for what Redis needs besides, above all while it rewrites its file. */
const memoryShareMax = 0.75
const retryAfterSeconds = 5
/** How much a new block counts in the average. */
const newestWeight = 0.02
const compress = promisify(zlib.zstdCompress)
const zstdFastest = { params: { [zlib.constants.ZSTD_c_compressionLevel]: 1 } }
// Small blocks are compressed on the spot: handing them to another thread costs more than the work.
const compressHereBytesMax = 64 * 1024

type Commit = {
  receivedMs: number
  requests: number
  /** Those of the requests that are traced. */
  spans: Span[]
  done: Promise<void>
  settle: (outcome: Promise<void>) => void
}

export function createCommitter<T extends Table>(settings: Settings<T>): Committer<T> {
  const block = createNativeBlock(settings.table)
  const onTheWay = new Set<Promise<void>>()
  let open: Commit | undefined
  let isBusy = false
  let timer: NodeJS.Timeout | undefined
  let pendingBytes = 0
  let blockBytesAverage = 0
  let load: QueueLoad = { blocks: 0, memoryShare: 0 }
  let loadCheck: NodeJS.Timeout | undefined
  scheduleLoadCheck(loadCheckMs)

  function scheduleLoadCheck(afterMs: number) {
    loadCheck = setTimeout(checkLoad, afterMs)
    loadCheck.unref()
  }

  async function checkLoad() {
    const startedAt = performance.now()
    try {
      load = await settings.producer.load()
      settings.onLoad(load)
    } catch {
      // A queue that does not answer refuses blocks by itself; what was last known stays meanwhile.
    }
    if (loadCheck) scheduleLoadCheck(Math.max(loadCheckMs, (performance.now() - startedAt) * pausePerCheck))
  }

  function refuseWhenFull() {
    const { blocks, bytes } = settings.queueMax
    if (load.blocks > blocks || load.blocks * blockBytesAverage > bytes) {
      throw unavailable('The queue is too deep: workers cannot keep up.', undefined, retryAfterSeconds)
    }
    if (load.memoryShare > memoryShareMax) {
      throw unavailable('The memory of the queue is nearly full.', undefined, retryAfterSeconds)
    }
    if (pendingBytes > settings.pendingBytesMax) throw unavailable('This process has too many writes under way.')
  }

  function openCommit(receivedMs: number): Commit {
    const { promise, resolve } = Promise.withResolvers<void>()
    timer = setTimeout(closeBlock, isBusy ? settings.waitMs * busyFactor : settings.waitMs)
    return { receivedMs, requests: 0, spans: [], done: promise, settle: resolve }
  }

  /** A row that is there in part would shift every row after it: nobody's rows in this block can be trusted. */
  function refuseBlock(error: unknown) {
    block.take()
    open?.settle(Promise.reject(unavailable('This process could not take the write.', error)))
    open = undefined
    clearTimeout(timer)
    timer = undefined
  }

  function closeBlock() {
    clearTimeout(timer)
    timer = undefined
    if (!open) return
    // While all ways to the queue are busy the block stays open and grows: the next one is larger, not later.
    if (onTheWay.size >= commitsAtOnce && block.byteLength() < settings.bytesMax) return
    const { receivedMs, requests, spans, settle } = open
    isBusy = requests >= busyRequests
    open = undefined
    const rows = block.rows
    const sending = send(block.take(), rows, receivedMs, spans)
    onTheWay.add(sending)
    settle(sending)
    const settled = () => {
      onTheWay.delete(sending)
      if (open && timer === undefined) closeBlock()
    }
    sending.then(settled, settled)
  }

  async function send(native: Buffer, rows: number, receivedMs: number, spans: Span[]) {
    const startedAt = performance.now()
    const traced = settings.trace?.begin(spans, rows)
    pendingBytes += native.length
    try {
      const bytes =
        native.length <= compressHereBytesMax
          ? zlib.zstdCompressSync(native, zstdFastest)
          : await compress(native, zstdFastest)
      const queued = traced?.queue()
      await settings.producer.add({ rows, receivedMs, bytes, trace: queued?.traceparent })
      queued?.end()
      traced?.end()
      blockBytesAverage += (bytes.length - blockBytesAverage) * (blockBytesAverage === 0 ? 1 : newestWeight)
      settings.onClosed({ rows, bytes: bytes.length, commitMs: performance.now() - startedAt })
    } catch (error) {
      traced?.end(error)
      throw unavailable('The queue does not take writes.', error)
    } finally {
      pendingBytes -= native.length
    }
  }

  return {
    commit(receivedMs, append) {
      try {
        refuseWhenFull()
      } catch (error) {
        return Promise.reject(error)
      }
      open ??= openCommit(receivedMs)
      const { done } = open
      open.requests++
      const span = settings.trace?.current()
      if (span) open.spans.push(span)
      try {
        append(block)
      } catch (error) {
        refuseBlock(error)
      }
      if (block.rows >= settings.rowsMax || block.byteLength() >= settings.bytesMax) closeBlock()
      return done
    },

    refuseWhenFull,

    async close() {
      clearTimeout(loadCheck)
      loadCheck = undefined
      while (open || onTheWay.size > 0) {
        if (onTheWay.size < commitsAtOnce) closeBlock()
        await Promise.allSettled(onTheWay)
      }
    },
  }
}
