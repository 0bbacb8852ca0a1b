import { afterEach, expect, inject, it } from 'vitest'
import { createClosers } from '../../../runtime/closers.ts'
import { openDatabase } from '../../../store/postgres/database.ts'
import { tryLock } from '../../../store/postgres/lock.ts'

const closers = createClosers()
afterEach(() => closers.closeAll())

it('a lock is held by one transaction at a time, and is free when that ends or fails', async () => {
  const database = openDatabase({ url: inject('stores').postgresUrl, onError: () => undefined })
  closers.push(() => database.close())
  const number = 7_392_999
  const take = () => database.transaction((queries) => tryLock(queries, number))

  await database.transaction(async (queries) => {
    expect(await tryLock(queries, number)).toBe(true)
    expect(await take()).toBe(false)
  })
  const failing = database.transaction(async (queries) => {
    expect(await tryLock(queries, number)).toBe(true)
    throw new Error('failed')
  })
  await expect(failing).rejects.toThrow('failed')
  expect(await take()).toBe(true)
})
