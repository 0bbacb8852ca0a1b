import { promisify } from 'node:util'
import zlib from 'node:zlib'
import { unavailable } from '../http/errors.ts'
import type { Span } from '../runtime/tracing.ts'
import { createNativeBlock, type NativeBlock } from '../store/clickhouse/blocks/native-block.ts'
import type { Table } from '../store/clickhouse/table.ts'
import type { Producer, QueueLoad } from '../store/queue/queue.ts'
import type { BlockTrace } from './block-trace.ts'

/**
 * Group commit. Requests add their rows to the open block of a table and wait. The block closes when it is full, or a few
 * milliseconds after its first row. One queue job carries it, and its requests are answered when the queue has it, never
 * earlier. If the queue rejects the block, all its requests fail and can be sent again.
 *
 * The cost of a job does not depend on its size, so under load blocks wait longer and grow while earlier ones are being sent:
 * the busier a process, the more rows per job.
 *
 * Requests with many rows have an open block of their own: compressing and sending it would delay those with few.
 */
type Settings<T extends Table> = {
  table: T
  producer: Pick<Producer, 'add' | 'load'>
  /** Group-commit delay: how long a block stays open after its first row; longer under load. */
  waitMs: number
  rowsMax: number
  bytesMax: number
  /** The limit of bytes in closed blocks that the queue does not have yet; over it requests are rejected. */
  pendingBytesMax: number
  /** The limits of the queue; over them requests are rejected, before Redis runs out of memory. */
  queueMax: QueueMax
  onClosed(block: { rows: number; bytes: number; commitMs: number }): void
  onLoad(load: QueueLoad): void
  /** Absent when tracing is off. */
  trace?: BlockTrace
}

export type QueueMax = {
  blocks: number
  /** Compressed bytes, estimated from the average of the blocks sent. */
  bytes: number
}

export type Committer<T extends Table> = {
  /**
   * Adds one request's rows and resolves when the queue has them.
   *
   * @param rows how many
   * @param append pushes rows into the open block; if it throws, the whole block fails
   * @throws HttpError `unavailable`
   */
  commit(receivedMs: number, rows: number, append: (block: NativeBlock<T>) => void): Promise<void>
  /**
   * Throws what `commit` would throw now, for callers with work to do before it.
   *
   * @throws HttpError `unavailable`
   */
  refuseWhenFull(): void
  /** Commits the open block and waits until the queue has all blocks. */
  close(): Promise<void>
}

/** Of each lane. */
const commitsAtOnce = 2
const manyRows = 200
/** A block with this many requests means load: the next one stays open longer by `busyFactor`. */
const busyRequests = 16
const busyFactor = 2.5
const loadCheckMs = 500
/** The pause between checks, in durations of a check: counting a deep queue is slow. */
const pausePerCheck = 20
/** Redis needs the rest, above all while it rewrites its file. */
const memoryShareMax = 0.75
/** Redis keeps a block as base64, and some more beside it. */
const memoryPerByte = 1.5
const retryAfterSeconds = 5
/** The weight of a new block in the moving average. */
const newestWeight = 0.02
const compress = promisify(zlib.zstdCompress)
const zstdFastest = { params: { [zlib.constants.ZSTD_c_compressionLevel]: 1 } }
// Small blocks are compressed on this thread: handing them to another one costs more than the work.
const compressHereBytesMax = 64 * 1024

type Commit = {
  receivedMs: number
  requests: number
  /** The spans of the traced requests. */
  spans: Span[]
  done: Promise<void>
  settle: (outcome: Promise<void>) => void
}

export function createCommitter<T extends Table>(settings: Settings<T>): Committer<T> {
  let pendingBytes = 0
  let blockBytesAverage = 0
  let load: QueueLoad = { blocks: 0, memoryShare: 0, memoryMax: 0 }
  /** What was added since the load was asked for: on a busy machine seconds lie between two answers. */
  let addedBytes = 0
  let loadCheck: NodeJS.Timeout | undefined
  scheduleLoadCheck(loadCheckMs)

  function scheduleLoadCheck(afterMs: number) {
    loadCheck = setTimeout(checkLoad, afterMs)
    loadCheck.unref()
  }

  async function checkLoad() {
    const startedAt = performance.now()
    const addedBefore = addedBytes
    try {
      load = await settings.producer.load()
      addedBytes -= addedBefore
      settings.onLoad(load)
    } catch {
      // A queue that is down rejects blocks itself; the last known load stays.
    }
    if (loadCheck) scheduleLoadCheck(Math.max(loadCheckMs, (performance.now() - startedAt) * pausePerCheck))
  }

  function refuseWhenFull() {
    const { blocks, bytes } = settings.queueMax
    if (load.blocks > blocks || load.blocks * blockBytesAverage > bytes) {
      throw unavailable('The queue is too deep: workers cannot keep up.', undefined, retryAfterSeconds)
    }
    const { memoryShare, memoryMax } = load
    const share = memoryMax === 0 ? memoryShare : memoryShare + (addedBytes * memoryPerByte) / memoryMax
    if (share > memoryShareMax) {
      throw unavailable('The memory of the queue is nearly full.', undefined, retryAfterSeconds)
    }
    if (pendingBytes > settings.pendingBytesMax) throw unavailable('This process has too many writes under way.')
  }

  async function send(native: Buffer, rows: number, receivedMs: number, spans: Span[]) {
    const startedAt = performance.now()
    const traced = settings.trace?.begin(spans, rows)
    pendingBytes += native.length
    try {
      const bytes =
        native.length <= compressHereBytesMax
          ? zlib.zstdCompressSync(native, zstdFastest)
          : await compress(native, { ...zstdFastest, pledgedSrcSize: native.length })
      const queued = traced?.queue()
      await settings.producer.add({ rows, receivedMs, bytes, trace: queued?.traceparent })
      addedBytes += bytes.length
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

  const lanes = { few: createLane(settings, send), many: createLane(settings, send) }

  return {
    commit(receivedMs, rows, append) {
      try {
        refuseWhenFull()
      } catch (error) {
        return Promise.reject(error)
      }
      return (rows < manyRows ? lanes.few : lanes.many).add(receivedMs, append)
    },

    refuseWhenFull,

    async close() {
      clearTimeout(loadCheck)
      loadCheck = undefined
      await Promise.all([lanes.few.close(), lanes.many.close()])
    },
  }
}

type Send = (native: Buffer, rows: number, receivedMs: number, spans: Span[]) => Promise<void>

/** An open block, and those before it that are being sent. */
function createLane<T extends Table>(settings: Settings<T>, send: Send) {
  const block = createNativeBlock(settings.table)
  const sends = new Set<Promise<void>>()
  let open: Commit | undefined
  let isBusy = false
  let timer: NodeJS.Timeout | undefined

  function openCommit(receivedMs: number): Commit {
    const { promise, resolve } = Promise.withResolvers<void>()
    timer = setTimeout(closeBlock, isBusy ? settings.waitMs * busyFactor : settings.waitMs)
    return { receivedMs, requests: 0, spans: [], done: promise, settle: resolve }
  }

  /** Drops the open block: an incomplete row would shift every row after it. */
  function failBlock(error: unknown) {
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
    // While `commitsAtOnce` blocks are being sent, this one stays open and grows.
    if (sends.size >= commitsAtOnce && block.byteLength() < settings.bytesMax) return
    const { receivedMs, requests, spans, settle } = open
    isBusy = requests >= busyRequests
    open = undefined
    const rows = block.rows
    const sending = send(block.take(), rows, receivedMs, spans)
    sends.add(sending)
    settle(sending)
    const settled = () => {
      sends.delete(sending)
      if (open && timer === undefined) closeBlock()
    }
    sending.then(settled, settled)
  }

  return {
    add(receivedMs: number, append: (block: NativeBlock<T>) => void): Promise<void> {
      open ??= openCommit(receivedMs)
      const { done } = open
      open.requests++
      const span = settings.trace?.current()
      if (span) open.spans.push(span)
      try {
        append(block)
      } catch (error) {
        failBlock(error)
      }
      if (block.rows >= settings.rowsMax || block.byteLength() >= settings.bytesMax) closeBlock()
      return done
    },

    /** Sends the open block and waits until the queue has all blocks. */
    async close() {
      while (open || sends.size > 0) {
        if (sends.size < commitsAtOnce) closeBlock()
        await Promise.allSettled(sends)
      }
    },
  }
}
