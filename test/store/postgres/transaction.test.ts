import { expect, it } from 'vitest'
import { openDatabase } from '../../../store/postgres/database.ts'
import { eventually } from '../../kit/eventually.ts'
import { storesWith } from '../../kit/service.ts'

it('a connection lost within a transaction fails only that transaction', async () => {
  const faults: Error[] = []
  const url = storesWith('postgres').postgresUrl
  const database = openDatabase({ url, connectionsMax: 1, onError: (error) => faults.push(error) })
  const other = openDatabase({ url, connectionsMax: 1, onError: () => undefined })
  try {
    const cut = database.transaction(async (queries) => {
      const row = await queries.row<{ pid: number }>('SELECT pg_backend_pid() AS pid')
      await other.row('SELECT pg_terminate_backend($1)', [row?.pid])
      await eventually(() => expect(faults).not.toEqual([]))
      await queries.row('SELECT 1')
    })
    await expect(cut).rejects.toThrow()
    expect(await database.transaction((queries) => queries.row('SELECT 1 AS one'))).toEqual({ one: 1 })
  } finally {
    await Promise.all([database.close(), other.close()])
  }
})
