import { afterAll, beforeAll, expect, it } from 'vitest'
import { createErrorLog } from '../../../ingest/monitoring/error-log.ts'
import { type Database, openDatabase } from '../../../store/postgres/database.ts'
import {
  addIngestionErrors,
  deleteIngestionErrors,
  type IngestionError,
  listIngestionErrors,
} from '../../../store/postgres/monitoring/ingestion-errors.ts'
import { createUser, openOwnStores } from '../../kit/service.ts'

let database: Database
let workspaceId: string
beforeAll(async () => {
  const stores = await openOwnStores('postgres')
  database = openDatabase({ url: stores.postgresUrl, onError: () => undefined })
  const { workspaceName } = await createUser(stores)
  const row = await database.row<{ id: string }>('SELECT id FROM workspaces WHERE name = $1', [workspaceName])
  workspaceId = row?.id as string
})
afterAll(() => database?.close())

const dayMs = 24 * 3_600_000
const aFault = (fault: string, modelName = 'model') => ({
  workspaceId,
  modelName,
  call: 'events/batch',
  fault,
  sample: 'p',
})
const anError = (changes: Partial<IngestionError> = {}): IngestionError => ({
  ...aFault('fault'),
  count: 1,
  firstAtMs: Date.now(),
  lastAtMs: Date.now(),
  ...changes,
})
const list = (modelName?: string) => listIngestionErrors(database, { workspaceId, modelName, limit: 1_000 })

it('beyond a limit, errors of different kinds are counted together', async () => {
  const written: IngestionError[] = []
  const log = createErrorLog({
    write: async (errors) => {
      written.push(...errors)
    },
    onError: (error) => {
      throw error
    },
    kindsMax: 3,
  })
  for (let kind = 0; kind < 100; kind++) for (let time = 0; time < 2; time++) log.add(aFault(`fault ${kind}`))
  await log.close()
  expect(written.map((it) => [it.fault, it.modelName, it.count])).toEqual([
    ['fault 0', 'model', 2],
    ['fault 1', 'model', 2],
    ['fault 2', 'model', 2],
    ['other faults: there were too many kinds to list', '', 194],
  ])
})

it('equal errors of one day share a row with a count; each day has its own', async () => {
  const now = Date.now()
  await addIngestionErrors(database, [anError({ count: 2, firstAtMs: now - 5, lastAtMs: now - 5 })])
  await addIngestionErrors(database, [
    anError({ count: 3, sample: 'q', firstAtMs: now, lastAtMs: now }),
    anError({ count: 1, firstAtMs: now - dayMs, lastAtMs: now - dayMs }),
    anError({ modelName: 'other', firstAtMs: now + 1, lastAtMs: now + 1 }),
  ])
  expect((await list('model')).map((it) => [it.count, it.sample, it.firstAtMs, it.lastAtMs])).toEqual([
    [5n, 'q', BigInt(now - 5), BigInt(now)],
    [1n, 'p', BigInt(now - dayMs), BigInt(now - dayMs)],
  ])
  expect(await list()).toHaveLength(3)
})

it('errors beyond their retention, and those of deleted workspaces, are deleted', async () => {
  const old = Date.now() - 9 * dayMs
  await addIngestionErrors(database, [
    anError({ modelName: 'old', firstAtMs: old, lastAtMs: old }),
    anError({ modelName: 'new' }),
  ])
  await deleteIngestionErrors(database, 7)
  expect([await list('old'), await list('new')]).toEqual([[], [expect.objectContaining({ modelName: 'new' })]])
  const nobodys = '00000000-0000-0000-0000-000000000000'
  await addIngestionErrors(database, [anError({ workspaceId: nobodys })])
  expect(await listIngestionErrors(database, { workspaceId: nobodys, modelName: undefined, limit: 1 })).toEqual([])
})
