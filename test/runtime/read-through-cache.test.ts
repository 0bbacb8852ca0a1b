import { expect, it } from 'vitest'
import { createReadThroughCache } from '../../runtime/read-through-cache.ts'
import { eventually } from '../kit/eventually.ts'

const freshForMs = { found: 5, absent: 5 }

it('a cached value is returned without a query', async () => {
  let asked = 0
  const lookUp = createReadThroughCache({
    find: async () => ++asked,
    freshForMs: { found: 60_000, absent: 1 },
    entriesMax: 10,
  })
  expect(await lookUp('a', undefined)).toBe(1)
  expect(lookUp('a', undefined)).toBe(1)
})

it('concurrent lookups of one key share a query', async () => {
  let asked = 0
  const lookUp = createReadThroughCache({ find: async () => ++asked, freshForMs, entriesMax: 10 })
  expect(await Promise.all([1, 2, 3].map(() => lookUp('a', undefined)))).toEqual([1, 1, 1])
})

it('while the store is down, cached keys are served and others fail with its error, never as absent', async () => {
  const away = new Error('away')
  let answers = (id: string): Promise<string | undefined> => Promise.resolve(id === 'absent' ? undefined : id)
  let refusals = 0
  const lookUp = createReadThroughCache({ find: (id: string) => answers(id), freshForMs, entriesMax: 10 })
  expect(await lookUp('known', undefined)).toBe('known')
  expect(await lookUp('absent', undefined)).toBeUndefined()

  answers = async () => {
    refusals++
    throw away
  }
  await expect(lookUp('new', undefined)).rejects.toBe(away)
  await eventually(async () => {
    expect(await lookUp('known', undefined)).toBe('known')
    expect(refusals).toBeGreaterThan(5)
  })

  answers = async (id) => `${id} again`
  await eventually(async () => expect(await lookUp('known', undefined)).toBe('known again'))
})

it('an absent key is found soon after it is created', async () => {
  let found: string | undefined
  const lookUp = createReadThroughCache({ find: async () => found, freshForMs, entriesMax: 10 })
  expect(await lookUp('a', undefined)).toBeUndefined()
  found = 'made'
  await eventually(async () => expect(await lookUp('a', undefined)).toBe('made'))
})

it('with changes told, an answer is used until its change is told; one that was on the way then is asked again', async () => {
  let drop: (id: string) => void = () => undefined
  let isTold = true
  const changes = {
    onChange(listener: typeof drop) {
      drop = listener
    },
    coversSince: () => isTold,
  }
  let stored = 'first'
  let delay: Promise<unknown> = Promise.resolve()
  const find = async () => {
    const read = stored
    await delay
    return read
  }
  const lookUp = createReadThroughCache({ find, freshForMs: { found: 0, absent: 0 }, entriesMax: 10, changes })
  expect(await lookUp('a', undefined)).toBe('first')
  stored = 'second'
  expect(lookUp('a', undefined)).toBe('first')
  drop('a')
  expect(await lookUp('a', undefined)).toBe('second')

  // The store has read the old value when the change is told, before its answer is here.
  let answer: (value?: unknown) => void = () => undefined
  delay = new Promise((resolve) => {
    answer = resolve
  })
  const early = lookUp('b', undefined)
  stored = 'third'
  drop('b')
  answer()
  expect(await early).toBe('second')
  expect(await lookUp('b', undefined)).toBe('third')

  isTold = false
  stored = 'fourth'
  expect(await lookUp('a', undefined)).toBe('fourth')
})

it('a value that has changed is not served while the store is down', async () => {
  let drop: (id: string) => void = () => undefined
  const changes = {
    onChange(listener: typeof drop) {
      drop = listener
    },
    coversSince: () => true,
  }
  let isAway = false
  const lookUp = createReadThroughCache({
    async find(id: string) {
      if (isAway) throw new Error('away')
      return id
    },
    freshForMs,
    entriesMax: 10,
    changes,
  })
  expect(await lookUp('a', undefined)).toBe('a')
  isAway = true
  expect(await lookUp('a', undefined)).toBe('a')
  drop('a')
  await expect(lookUp('a', undefined)).rejects.toThrow('away')
})
