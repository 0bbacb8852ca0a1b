import { afterAll, beforeAll, expect, it } from 'vitest'
import { type Database, openDatabase } from '../../../store/postgres/database.ts'
import {
  findWritableExperiments,
  insertExperiment,
  markChunks,
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

async function takesChunks(key: string): Promise<boolean | undefined> {
  return (await findWritableExperiments(database, user.id, [key])).get(key)?.takesChunks
}

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

it('a new installation takes chunks at once', async () => {
  const stores = await openOwnStores('postgres')
  const own = openDatabase({ url: stores.postgresUrl, onError: () => undefined })
  const row = await own.row<{ isNow: boolean }>('SELECT since <= now() AS "isNow" FROM point_chunks').finally(own.close)
  expect(row).toEqual({ isNow: true })
})

it('an experiment that a process of an earlier version creates has rows', async () => {
  const key = uniqueName('earlier').replaceAll('-', '')
  await database.row(
    `INSERT INTO experiments (key, project_id, user_id, name, start_time_ms, active_at_ms) VALUES ($1, $2, $3, 'run', 0, 0)`,
    [key, user.projectId, user.id],
  )
  expect(await takesChunks(key)).toBe(false)
})

it('an experiment is read from one table until its first chunk was noted', async () => {
  const [noted, other] = [await create(), await create()]
  const [found] = (await findWritableExperiments(database, user.id, [noted])).values()
  await markChunks(database, [found?.id as bigint])

  const both = await findWritableExperiments(database, user.id, [noted, other])
  expect([noted, other].map((it) => both.get(it)?.hasChunks)).toEqual([true, false])
})
