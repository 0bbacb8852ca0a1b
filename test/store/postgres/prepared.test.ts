import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import { type Database, openDatabase } from '../../../store/postgres/database.ts'

let database: Database
beforeAll(() => {
  // One connection: a statement is prepared for each.
  database = openDatabase({ url: inject('stores').postgresUrl, connectionsMax: 1, onError: () => undefined })
})
afterAll(() => database.close())

const count = async () => {
  const text = 'SELECT count(*)::int AS rows FROM tried WHERE id >= $1'
  return (await database.row<{ rows: number }>(text, [2], 'tried from'))?.rows
}

it('a named statement is prepared once, and follows the rows and the tables as they change', async () => {
  await database.row('CREATE TEMP TABLE tried (id int)')
  for (let more = 1; more <= 8; more++) {
    await database.row('INSERT INTO tried VALUES ($1)', [more])
    expect(await count()).toBe(more - 1)
  }
  await database.row('ALTER TABLE tried ADD COLUMN name text, ADD PRIMARY KEY (id)')
  await database.transaction(async (queries) => {
    await queries.row('INSERT INTO tried VALUES (9)')
    expect(await queries.row('SELECT name FROM pg_prepared_statements')).toEqual({ name: 'tried from' })
  })
  expect(await count()).toBe(8)
  await database.row('DROP TABLE tried')
  await expect(count()).rejects.toMatchObject({ code: '42P01' })
  await database.row('CREATE TEMP TABLE tried (id bigint)')
  expect(await count()).toBe(0)
})

it('a name stands for one text', async () => {
  expect(await database.row('SELECT 1 AS it', [], 'one')).toEqual({ it: 1 })
  await expect(database.row('SELECT 2 AS it', [], 'one')).rejects.toThrow('unique')
})
