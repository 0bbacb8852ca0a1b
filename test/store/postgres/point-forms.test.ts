import { afterAll, beforeAll, expect, it } from 'vitest'
import { type Database, openDatabase } from '../../../store/postgres/database.ts'
import {
  findWritableExperiments,
  insertExperiment,
  listWithoutForm,
  noteForm,
} from '../../../store/postgres/experiments/experiments.ts'
import { createUser, openOwnStores, uniqueName } from '../../kit/service.ts'

let database: Database
let user: { id: string; projectId: string }
beforeAll(async () => {
  const stores = await openOwnStores('postgres')
  database = openDatabase({ url: stores.postgresUrl, onError: () => undefined })
  const { workspaceName, userName } = await createUser(stores)
  user = (await database.row<typeof user>(
    `INSERT INTO projects (workspace_id, owner_id, name) SELECT w.id, u.id, 'p' FROM workspaces w, users u
     WHERE w.name = $1 AND u.user_name = $2 RETURNING id AS "projectId", owner_id AS id`,
    [workspaceName, userName],
  )) as typeof user
})
afterAll(() => database?.close())

const find = async (key: string) => (await findWritableExperiments(database, user.id, [key])).get(key)

const takesChunks = async (key: string) => (await find(key))?.takesChunks

async function create(): Promise<string> {
  const key = uniqueName('run').replaceAll('-', '')
  await insertExperiment(database, { key, projectId: user.projectId, userId: user.id, name: 'run', nowMs: Date.now() })
  return key
}

it('experiments take chunks from a moment on, and one never changes its form', async () => {
  await database.row(`UPDATE point_chunks SET since = 'infinity'`)
  const before = await create()
  expect(await takesChunks(before)).toBe(false)

  await database.row('UPDATE point_chunks SET since = now()')
  const after = await create()
  expect([await takesChunks(before), await takesChunks(after)]).toEqual([false, true])

  await database.row(`UPDATE point_chunks SET since = now() + interval '1 day'`)
  expect([await takesChunks(after), await takesChunks(await create())]).toEqual([true, false])
})

it('new experiments are without rows from a moment on', async () => {
  await database.row(`UPDATE point_rows SET since = 'infinity'`)
  const before = await create()
  await database.row('UPDATE point_rows SET since = now()')
  const after = await create()
  expect([(await find(before))?.hasRows, (await find(after))?.hasRows]).toEqual([true, false])
})

it.each(['point_chunks', 'point_rows'])('a new installation does so at once: %s', async (table) => {
  const stores = await openOwnStores('postgres')
  const own = openDatabase({ url: stores.postgresUrl, onError: () => undefined })
  const row = await own.row<{ isNow: boolean }>(`SELECT since <= now() AS "isNow" FROM ${table}`).finally(own.close)
  expect(row).toEqual({ isNow: true })
})

it('an experiment that a process of an earlier version creates has rows', async () => {
  const key = uniqueName('earlier').replaceAll('-', '')
  await database.row(
    `INSERT INTO experiments (key, project_id, user_id, name, start_time_ms, active_at_ms) VALUES ($1, $2, $3, 'run', 0, 0)`,
    [key, user.projectId, user.id],
  )
  expect(await find(key)).toMatchObject({ takesChunks: false, hasRows: true, hasChunks: false })
})

it.each(['hasRows', 'hasChunks'] as const)('an experiment is without a form until it was noted: %s', async (form) => {
  const [noted, other] = [await create(), await create()]
  const ids = [(await find(noted))?.id as bigint, (await find(other))?.id as bigint]
  expect(await noteForm(database, form, ids.slice(0, 1))).toBe(1)
  expect(await noteForm(database, form, ids.slice(0, 1))).toBe(0)
  expect([(await find(noted))?.[form], (await find(other))?.[form]]).toEqual([true, false])

  const page = { afterId: (ids[0] as bigint) - 1n, limit: 1 }
  expect(await listWithoutForm(database, form, page)).toEqual(ids.slice(1))
  expect(await listWithoutForm(database, form, { ...page, afterId: ids[1] as bigint })).toEqual([])
})
