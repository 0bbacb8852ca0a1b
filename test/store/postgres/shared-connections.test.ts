import { expect, it } from 'vitest'
import { openDatabase } from '../../../store/postgres/database.ts'
import { createTenants } from '../../../throttle/tenants.ts'
import { storesWith } from '../../kit/service.ts'

/** A pool of one connection, and requests of tenants. */
function openShared(connectWaitMs?: number) {
  const tenants = createTenants({
    find: async () => undefined,
    defaults: { workspace: {}, organization: {} },
    onRefused: () => undefined,
    onError: () => undefined,
  })
  const database = openDatabase({
    url: storesWith('postgres').postgresUrl,
    connectionsMax: 1,
    ...(connectWaitMs !== undefined && { connectWaitMs }),
    share: tenants.share,
    onError: () => undefined,
  })
  const as = <T>(userId: string, work: () => T) => tenants.within({ organizationId: null, userId }, work)
  return { database, as }
}

/** A transaction that keeps its connection until it is told to end. */
function hold(database: ReturnType<typeof openDatabase>) {
  const { promise, resolve } = Promise.withResolvers<void>()
  return { end: resolve, ended: database.transaction(() => promise) }
}

it('tenants take turns at the connections, and each has its statements in order', async () => {
  const { database, as } = openShared()
  try {
    const order: string[] = []
    const ask = (userId: string, what: string) =>
      as(userId, async () => {
        await database.row('SELECT 1')
        order.push(what)
      })
    const held = as('greedy', () => hold(database))
    const greedy = ['a', 'b', 'c'].map((it) => ask('greedy', it))
    const quiet = ask('quiet', 'of the quiet one')
    held.end()
    await Promise.all([held.ended, ...greedy, quiet])
    expect(order).toEqual(['a', 'of the quiet one', 'b', 'c'])
  } finally {
    await database.close()
  }
})

it('a statement or a transaction that fails gives its turn to the next', async () => {
  const { database, as } = openShared()
  try {
    await as('one', async () => {
      await expect(database.row('SELECT 1 / 0')).rejects.toThrow('division by zero')
      await expect(database.transaction((queries) => queries.row('SELECT 1 / 0'))).rejects.toThrow('division by zero')
      const refused = database.transaction(() => Promise.reject(new Error('refused')))
      await expect(refused).rejects.toThrow(expect.objectContaining({ message: 'refused', name: 'Error' }))
      expect(await database.row('SELECT 1 AS one')).toEqual({ one: 1 })
    })
  } finally {
    await database.close()
  }
})

it('one whose turn does not come in time finds the store away', async () => {
  const { database, as } = openShared(50)
  try {
    const held = as('greedy', () => hold(database))
    const late = [() => database.row('SELECT 1'), () => database.transaction(async () => undefined)]
    for (const it of late) await expect(as('quiet', it)).rejects.toThrow(expect.objectContaining({ name: 'StoreAway' }))
    held.end()
    await held.ended
    expect(await as('quiet', () => database.row('SELECT 1 AS one'))).toEqual({ one: 1 })
  } finally {
    await database.close()
  }
})
