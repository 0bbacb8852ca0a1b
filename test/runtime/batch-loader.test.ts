import { AsyncLocalStorage } from 'node:async_hooks'
import { expect, it } from 'vitest'
import { createBatchLoader } from '../../runtime/batch-loader.ts'

it('concurrent requests are loaded in batches of limited size', async () => {
  const asked: number[][] = []
  const askFor = createBatchLoader(async (ids: number[]) => {
    asked.push(ids)
    return new Map(ids.filter((id) => id % 2 === 0).map((id) => [id, String(id)]))
  })
  const ids = Array.from({ length: 2_500 }, (_, at) => at)
  const answers = await Promise.all(ids.map((id) => askFor(id)))
  expect(answers).toEqual(ids.map((id) => (id % 2 === 0 ? String(id) : undefined)))
  expect(asked.map((it) => it.length)).toEqual([1_000, 1_000, 500])
})

it('requests that arrive during a query are loaded together after it', async () => {
  const asked: string[][] = []
  const turns: (() => void)[] = []
  const askFor = createBatchLoader(async (ids: string[]) => {
    asked.push(ids)
    await new Promise<void>((resolve) => turns.push(resolve))
    return new Map(ids.map((id) => [id, id.toUpperCase()]))
  })
  const first = askFor('a')
  await Promise.resolve()
  const others = Promise.all([askFor('b'), askFor('c'), askFor('b')])
  turns.shift()?.()
  expect(await first).toBe('A')
  await expect.poll(() => turns.length).toBe(1)
  turns.shift()?.()
  expect(await others).toEqual(['B', 'C', 'B'])
  expect(asked).toEqual([['a'], ['b', 'c']])
})

it('a failed query rejects only its own requests, and the next query runs', async () => {
  let isAway = true
  const askFor = createBatchLoader(async () => {
    if (isAway) throw new Error('away')
    return new Map()
  })
  await expect(askFor(1n)).rejects.toThrow('away')
  isAway = false
  expect(await askFor(1n)).toBeUndefined()
})

it('a query is in the context of none of its callers', async () => {
  const caller = new AsyncLocalStorage<string>()
  const callers: (string | undefined)[] = []
  const askFor = createBatchLoader(async () => {
    callers.push(caller.getStore())
    return new Map()
  })
  await caller.run('first', () => askFor(1))
  await Promise.all(['second', 'third'].map((it) => caller.run(it, () => askFor(1))))
  expect(callers).toEqual([undefined, undefined])
})
