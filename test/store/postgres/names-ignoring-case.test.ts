import { afterEach, expect, inject, it } from 'vitest'
import { createClosers } from '../../../runtime/closers.ts'
import { type Database, openDatabase } from '../../../store/postgres/database.ts'
import { migratePostgres, migrationNames } from '../../../store/postgres/migrate.ts'
import { uniqueName } from '../../kit/service.ts'
import { createDatabase } from '../../kit/stores/databases.ts'

const closers = createClosers()
afterEach(() => closers.closeAll())

const before = migrationNames().findIndex((it) => it.startsWith('0016_'))

async function openEarlier() {
  const url = await createDatabase(inject('stores').postgresUrl, uniqueName('earlier').replaceAll('-', '_'))
  await migratePostgres(url, before)
  const database = openDatabase({ url, onError: () => undefined })
  closers.push(() => database.close())
  const [place] = await database.rows<{ workspaceId: string; userId: string }>(
    `WITH o AS (INSERT INTO organizations (name) VALUES ('o') RETURNING id),
       u AS (INSERT INTO users (organization_id, user_name) SELECT id, 'u' FROM o RETURNING id),
       w AS (INSERT INTO workspaces (organization_id, name) SELECT id, unnest(ARRAY['w', 'v']) FROM o RETURNING id)
     SELECT w.id AS "workspaceId", u.id AS "userId" FROM w, u`,
  )
  return { url, database, ...(place as { workspaceId: string; userId: string }) }
}

const namesOf = async (database: Database) =>
  (await database.rows<{ name: string }>('SELECT name FROM registry_models ORDER BY created_at_ms')).map(
    (it) => it.name,
  )

it('models whose names collide get numbers, with their webhooks and a line of history; the oldest keeps its name', async () => {
  const { url, database, workspaceId, userId } = await openEarlier()
  const models = ['Net', 'net', 'NET', 'net (2)', 'Übung', 'übung', 'other']
  for (const [at, name] of models.entries()) {
    await database.row(
      `INSERT INTO registry_models (workspace_id, user_id, name, description, is_public, created_at_ms, updated_at_ms)
       VALUES ($1, $2, $3, '', false, $4, $4)`,
      [workspaceId, userId, name, at],
    )
  }
  const receivers = [
    ['net', 'http://a'],
    ['Other', 'http://b'],
    ['other', 'http://b'],
  ]
  for (const [at, [name, address]] of receivers.entries()) {
    await database.row(
      `INSERT INTO webhook_receivers (workspace_id, model_name, url, triggers, is_git_host, headers, header_names,
         signing_secret, user_name, created_at_ms) VALUES ($1, $2, $3, '{}', false, '', '{}', '', 'u', $4)`,
      [workspaceId, name, address, at],
    )
  }

  await migratePostgres(url)

  expect(await namesOf(database)).toEqual(['Net', 'net (3)', 'NET (4)', 'net (2)', 'Übung', 'übung (2)', 'other'])
  const left = await database.rows<{ name: string; url: string }>(
    'SELECT model_name AS name, url FROM webhook_receivers WHERE removed_at_ms IS NULL ORDER BY created_at_ms',
  )
  expect(left).toEqual([
    { name: 'net (3)', url: 'http://a' },
    { name: 'Other', url: 'http://b' },
  ])
  const history = await database.rows<{ before: unknown; after: unknown }>(
    "SELECT before, after FROM registry_events WHERE action = 'MODEL_RENAMED' ORDER BY id",
  )
  expect(history[0]).toEqual({ before: { registryModelName: 'net' }, after: { registryModelName: 'net (3)' } })
  expect(history).toHaveLength(3)
})
