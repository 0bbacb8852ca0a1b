import { type AddressInfo, connect, createServer } from 'node:net'
import { expect, it } from 'vitest'
import { openDatabase } from '../../../store/postgres/database.ts'
import { eventually } from '../../kit/eventually.ts'
import { storesWith, uniqueName } from '../../kit/service.ts'

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

it('a connection that Postgres ends in the moment it is made fails only what asked for it', async () => {
  const url = new URL(storesWith('postgres').postgresUrl)
  const name = uniqueName('ended')
  const other = openDatabase({ url: url.href, connectionsMax: 1, onError: () => undefined })
  // Holds "ready for query" back until Postgres has ended the connection, so that both arrive as one chunk.
  const readyForQuery = Buffer.from('Z\0\0\0\x05I', 'latin1')
  const held: Buffer[] = []
  let isHolding = true
  const server = createServer((inner) => {
    const outer = connect(Number(url.port), url.hostname)
    inner.pipe(outer).on('error', () => undefined)
    outer.on('end', () => inner.end(Buffer.concat(held)))
    outer.on('data', (chunk) => {
      if (held.length === 0 && !(isHolding && chunk.includes(readyForQuery))) return void inner.write(chunk)
      held.push(chunk)
    })
    inner.on('error', () => undefined)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const through = new URL(url)
  through.port = String((server.address() as AddressInfo).port)
  through.searchParams.set('application_name', name)
  const database = openDatabase({ url: through.href, connectionsMax: 1, onError: () => undefined })
  try {
    const cut = expect(database.transaction((queries) => queries.row('SELECT 1'))).rejects.toThrow()
    await eventually(() => expect(held).not.toEqual([]))
    await other.row('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1', [name])
    await cut
    isHolding = false
    held.length = 0
    expect(await database.transaction((queries) => queries.row('SELECT 1 AS one'))).toEqual({ one: 1 })
  } finally {
    await Promise.all([database.close(), other.close()])
    await new Promise((resolve) => server.close(resolve))
  }
})
