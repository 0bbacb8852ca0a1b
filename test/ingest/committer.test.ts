import { setTimeout as sleep } from 'node:timers/promises'
import zlib from 'node:zlib'
import { afterEach, describe, expect, it } from 'vitest'
import { createCommitter } from '../../ingest/committer.ts'
import { pushPoints } from '../../ingest/points/rows.ts'
import { readNativeBlock } from '../../store/clickhouse/blocks/native-slice.ts'
import { contentSize } from '../../store/clickhouse/blocks/zstd-frame.ts'
import { pointsTable } from '../../store/clickhouse/points/tables.ts'
import type { Block, QueueLoad } from '../../store/queue/queue.ts'
import { eventually } from '../kit/eventually.ts'

type Options = Partial<Parameters<typeof createCommitter<typeof pointsTable>>[0]> & {
  add?(block: Block): Promise<void>
  load?: QueueLoad | (() => Promise<QueueLoad>)
}

const closers: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const close of closers.splice(0)) await close()
})

/** A committer whose producer keeps the blocks it is given, and takes them as `add` says. */
function openCommitter({
  add = async () => {},
  load = { blocks: 0, memoryShare: 0, memoryMax: 0 },
  ...options
}: Options = {}) {
  const blocks: Block[] = []
  const committer = createCommitter({
    table: pointsTable,
    producer: {
      async add(block) {
        blocks.push(block)
        await add(block)
      },
      load: async () => (typeof load === 'function' ? await load() : load),
    },
    waitMs: 1,
    rowsMax: 1_000,
    bytesMax: 1_000_000,
    pendingBytesMax: 10_000_000,
    queueMax: { blocks: 100, bytes: 1_000_000 },
    onClosed: () => undefined,
    onLoad: () => undefined,
    ...options,
  })
  closers.push(() => committer.close())
  return { committer, blocks }
}

const origin = { experimentId: 1n, identity: { high: 1n, low: 1 }, receivedMs: 5 }
const point = { metric: 'loss', context: '', value: 1, step: 1, epoch: undefined, timestamp: undefined }

/** Commits one request of so many rows. */
function commit(committer: ReturnType<typeof openCommitter>['committer'], rows = 1, receivedMs = 5) {
  return committer.commit(receivedMs, rows, (block) => {
    pushPoints(block, origin, Array(rows).fill(point), [...Array(rows).keys()])
  })
}

const rowsOf = (block: Block) => readNativeBlock(zlib.zstdDecompressSync(block.bytes)).rows

describe('group commit', () => {
  it('puts concurrent requests with all their rows into one block', async () => {
    const { committer, blocks } = openCommitter()

    await Promise.all([commit(committer, 2, 7), commit(committer, 3, 8), commit(committer, 1, 9)])

    expect(blocks.map((it) => [it.rows, rowsOf(it), it.receivedMs])).toEqual([[6, 6, 7]])
  })

  it('a block says how large it is before compression, which decides who summarizes it', async () => {
    const { committer, blocks } = openCommitter({ rowsMax: 10_000 })
    for (const rows of [1, 5_000]) await commit(committer, rows)
    const sizes = blocks.map((it) => zlib.zstdDecompressSync(it.bytes).length)
    expect(sizes[0]).toBeLessThan(1_000)
    expect(sizes[1]).toBeGreaterThan(128 * 1024)
    expect(blocks.map((it) => contentSize(it.bytes))).toEqual(sizes)
  })

  it('acknowledges no request before the queue has its block', async () => {
    const queue = Promise.withResolvers<void>()
    const { committer, blocks } = openCommitter({ add: () => queue.promise })
    let answered = 0
    const answers = [commit(committer), commit(committer)].map((it) => it.then(() => answered++))

    await eventually(() => expect(blocks).toHaveLength(1))
    expect(answered).toBe(0)
    queue.resolve()
    await Promise.all(answers)
    expect(answered).toBe(2)
  })

  it('acknowledges a request with few rows while the queue takes blocks of requests with many', async () => {
    const queue = Promise.withResolvers<void>()
    const { committer, blocks } = openCommitter({
      rowsMax: 500,
      add: ({ rows }) => (rows < 500 ? Promise.resolve() : queue.promise),
    })
    let answered = 0
    const greedy = Array.from({ length: 5 }, () => commit(committer, 500).then(() => answered++))
    await commit(committer, 1)
    expect(answered).toBe(0)
    queue.resolve()
    await Promise.all([...greedy, commit(committer, 300)])
    expect(blocks.filter((it) => it.rows === 1)).toHaveLength(1)
    expect(blocks.reduce((sum, it) => sum + it.rows, 0)).toBe(2_801)
  })

  it('rejects all requests of a block that the queue rejects, and continues with the next', async () => {
    let isAway = true
    const { committer, blocks } = openCommitter({
      add: async () => {
        if (isAway) throw new Error('gone')
      },
    })

    const outcomes = await Promise.allSettled([commit(committer), commit(committer)])
    for (const outcome of outcomes) expect(outcome).toMatchObject({ status: 'rejected', reason: { status: 503 } })
    isAway = false
    await commit(committer, 4)
    expect(blocks.at(-1)?.rows).toBe(4)
  })

  it('lets the open block grow while all queue writes are busy', async () => {
    const queue = Promise.withResolvers<void>()
    const { committer, blocks } = openCommitter({ add: () => queue.promise })
    const answers: Promise<void>[] = []
    for (let way = 1; way <= 2; way++) {
      answers.push(commit(committer))
      await eventually(() => expect(blocks).toHaveLength(way))
    }

    for (let request = 0; request < 10; request++) answers.push(commit(committer))
    queue.resolve()
    await Promise.all(answers)

    expect(blocks.map((it) => it.rows)).toEqual([1, 1, 10])
  })

  it('increases the group-commit delay after a block of many requests', async () => {
    const { committer, blocks } = openCommitter({ waitMs: 1_000 })
    await Promise.all(Array.from({ length: 16 }, () => commit(committer)))

    const one = commit(committer)
    await sleep(1_200)
    await Promise.all([one, commit(committer)])

    expect(blocks.map((it) => it.rows)).toEqual([16, 2])
  })

  it('closes a block by rows without waiting', async () => {
    const { committer, blocks } = openCommitter({ waitMs: 10 ** 6, rowsMax: 10 })
    await commit(committer, 25)
    expect(blocks.map((it) => it.rows)).toEqual([25])
  })

  it('rejects requests early when the queue is too deep, or too much is in flight', async () => {
    const deep = openCommitter({ load: { blocks: 101, memoryShare: 0, memoryMax: 0 } })
    await eventually(() => expect(commit(deep.committer)).rejects.toMatchObject({ status: 503 }))
    const queue = Promise.withResolvers<void>()
    const full = openCommitter({ add: () => queue.promise, pendingBytesMax: 100 })
    const first = commit(full.committer, 10)
    await eventually(() => expect(full.blocks).toHaveLength(1))
    await expect(commit(full.committer)).rejects.toMatchObject({ status: 503, headers: { 'retry-after': '1' } })
    queue.resolve()
    await first
  })

  it('rejects requests while the queue holds too many bytes, estimated from the sent blocks', async () => {
    const load = { blocks: 3, memoryShare: 0, memoryMax: 0 }
    const { committer, blocks } = openCommitter({ load, queueMax: { blocks: 100, bytes: 1_000 } })
    await commit(committer)
    const blockBytes = (blocks[0] as Block).bytes.length
    load.blocks = Math.ceil(1_000 / blockBytes) + 1
    await eventually(() => expect(commit(committer)).rejects.toMatchObject({ status: 503 }))
    load.blocks = 1
    await eventually(() => commit(committer))
  })

  it('rejects requests before the memory of Redis is full, and accepts them again when there is space', async () => {
    const load = { blocks: 0, memoryShare: 0.76, memoryMax: 0 }
    const { committer } = openCommitter({ load })
    await eventually(() => expect(commit(committer)).rejects.toMatchObject({ headers: { 'retry-after': '5' } }))
    load.memoryShare = 0.74
    await eventually(() => commit(committer))
  })

  it('reckons with what it has added since it asked how full Redis is', async () => {
    const load = { blocks: 0, memoryShare: 0.7, memoryMax: 2_000 }
    const asked = Promise.withResolvers<void>()
    let isAsked = false
    const { committer, blocks } = openCommitter({
      load: async () => {
        // The second answer comes when the test is over.
        if (isAsked) await asked.promise
        isAsked = true
        return load
      },
    })
    await eventually(() => expect(isAsked).toBe(true))
    await eventually(() => expect(commit(committer)).rejects.toMatchObject({ headers: { 'retry-after': '5' } }))
    const bytes = blocks.reduce((sum, it) => sum + it.bytes.length, 0)
    expect(bytes).toBeGreaterThan(0)
    expect(bytes).toBeLessThan(300)
    asked.resolve()
  })

  it('rejects a block with an incomplete row, and the next block is complete', async () => {
    const { committer, blocks } = openCommitter()
    const company = commit(committer)
    const broken = committer.commit(5, 1, (block) => {
      block.columns.metric.push('only this')
      throw new Error('half-way')
    })

    for (const outcome of await Promise.allSettled([company, broken])) {
      expect(outcome).toMatchObject({ status: 'rejected', reason: { status: 503 } })
    }
    await commit(committer, 2)
    expect(blocks.map((it) => [it.rows, rowsOf(it)])).toEqual([[2, 2]])
  })

  it('commits the open block on close', async () => {
    const { committer, blocks } = openCommitter({ waitMs: 10 ** 6 })
    const answer = commit(committer, 3)
    await committer.close()
    await answer
    expect(blocks.map((it) => it.rows)).toEqual([3])
  })
})
