import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import type { Block } from '../../../store/queue/queue.ts'
import { createBatcher } from '../../../workers/inserts/batcher.ts'

const permanent = new Error('the rows can never be stored')
const passing = new Error('ClickHouse is away')

type Insert = { blocks: string[] }

/** A batcher whose inserts are kept, and succeed or fail as `outcome` says. */
function openBatcher(
  options: Partial<Parameters<typeof createBatcher>[0]> = {},
  outcome: (insert: Insert) => Promise<void> = async () => {},
) {
  const inserts: Insert[] = []
  const batcher = createBatcher({
    async insert(blocks) {
      const insert = { blocks: blocks.map(String) }
      inserts.push(insert)
      await outcome(insert)
    },
    isPermanent: (error) => error === permanent,
    storeAround: async () => undefined,
    rowsMax: 100,
    bytesMax: 1_000_000,
    blocksMax: 100,
    gapMs: 20,
    gapMsMax: 20,
    onStored: () => undefined,
    onError: () => undefined,
    ...options,
  })
  return { batcher, inserts }
}

function aBlock(name: string, rows = 1): Block {
  return { rows, receivedMs: 0, bytes: Buffer.from(name) }
}

describe('a batcher', () => {
  it('combines blocks that arrive during an insert into the next one', async () => {
    const first = Promise.withResolvers<void>()
    const { batcher, inserts } = openBatcher({}, ({ blocks }) =>
      blocks.includes('a') ? first.promise : Promise.resolve(),
    )

    const a = batcher.add(aBlock('a'))
    await Promise.resolve()
    const others = ['b', 'c', 'd'].map((name) => batcher.add(aBlock(name)))
    await Promise.all(others)
    first.resolve()
    await a

    expect(inserts.map((it) => it.blocks)).toEqual([['a'], ['b', 'c', 'd']])
  })

  it('completes a block only after its insert', async () => {
    const insert = Promise.withResolvers<void>()
    const { batcher } = openBatcher({}, () => insert.promise)
    let isDone = false

    const added = batcher.add(aBlock('a')).then(() => {
      isDone = true
    })
    await new Promise((resolve) => setImmediate(resolve))
    expect(isDone).toBe(false)
    insert.resolve()
    await added
    expect(isDone).toBe(true)
  })

  it('inserts at once when it has enough rows, or all blocks that can arrive', async () => {
    const never = { gapMs: 10 ** 9, gapMsMax: 10 ** 9 }
    const byRows = openBatcher({ ...never, rowsMax: 10 })
    await byRows.batcher.add(aBlock('first'))
    await Promise.all([byRows.batcher.add(aBlock('a', 5)), byRows.batcher.add(aBlock('b', 5))])
    const byBlocks = openBatcher({ ...never, blocksMax: 2 })
    await byBlocks.batcher.add(aBlock('first'))
    await Promise.all([byBlocks.batcher.add(aBlock('a')), byBlocks.batcher.add(aBlock('b'))])

    expect(byRows.inserts.at(-1)?.blocks).toEqual(['a', 'b'])
    expect(byBlocks.inserts.at(-1)?.blocks).toEqual(['a', 'b'])
  })

  it('waits longer for further blocks after a slow insert, and no longer after a quick one', async () => {
    let tookMs = 500
    const { batcher, inserts } = openBatcher({ gapMs: 1, gapMsMax: 10 ** 9 }, () => sleep(tookMs))
    await batcher.add(aBlock('slow'))
    tookMs = 0

    const one = batcher.add(aBlock('a'))
    await sleep(100)
    await Promise.all([one, batcher.add(aBlock('b'))])
    await batcher.add(aBlock('c'))
    await batcher.add(aBlock('d'))

    expect(inserts.map((it) => it.blocks)).toEqual([['slow'], ['a', 'b'], ['c'], ['d']])
  })

  it('repeats an insert that fails with the same blocks until it succeeds', async () => {
    let failures = 3
    const { batcher, inserts } = openBatcher({}, async () => {
      if (failures-- > 0) throw passing
    })

    await batcher.add(aBlock('a'))

    expect(inserts.map((it) => it.blocks)).toEqual(Array(4).fill(['a']))
  })

  it('quarantines only the poison block, and stores the others', async () => {
    const poison: string[] = []
    const { batcher, inserts } = openBatcher(
      {
        blocksMax: 3,
        gapMs: 10 ** 9,
        gapMsMax: 10 ** 9,
        storeAround: async (block, refusal) => {
          expect(refusal).toBe(permanent)
          poison.push(String(block.bytes))
        },
      },
      async ({ blocks }) => {
        if (blocks.includes('bad')) throw permanent
      },
    )
    await batcher.add(aBlock('first'))

    await Promise.all(['good', 'bad', 'better'].map((name) => batcher.add(aBlock(name))))

    expect(poison).toEqual(['bad'])
    expect(inserts.map((it) => it.blocks)).toContainEqual(['good'])
    expect(inserts.map((it) => it.blocks)).toContainEqual(['better'])
  })

  it('returns the job when poison rows can be neither stored nor quarantined now', async () => {
    const { batcher } = openBatcher(
      {
        storeAround: async () => {
          throw passing
        },
      },
      async () => {
        throw permanent
      },
    )
    await expect(batcher.add(aBlock('bad'))).rejects.toBe(passing)
  })

  it('flushes waiting blocks on close', async () => {
    const { batcher, inserts } = openBatcher({ gapMs: 10 ** 9, gapMsMax: 10 ** 9 })
    await batcher.add(aBlock('first'))
    const waiting = batcher.add(aBlock('a'))
    await batcher.close()
    await waiting
    expect(inserts.at(-1)?.blocks).toEqual(['a'])
  })

  it('gives up on close while ClickHouse is down, so that the job returns to the queue', async () => {
    const { batcher } = openBatcher({}, async () => {
      throw passing
    })
    const added = expect(batcher.add(aBlock('a'))).rejects.toBe(passing)
    await batcher.close()
    await added
  })
})
