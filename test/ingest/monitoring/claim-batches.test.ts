import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { unavailable } from '../../../http/errors.ts'
import { createClaimBatches } from '../../../ingest/monitoring/claim-batches.ts'
import type { NewEvent } from '../../../ingest/monitoring/rows.ts'
import { createNativeBlock } from '../../../store/clickhouse/blocks/native-block.ts'
import { eventsTable, eventValuesTable } from '../../../store/clickhouse/monitoring/tables.ts'
import { valueChunksTable } from '../../../store/clickhouse/monitoring/value-chunks.ts'
import type { Table } from '../../../store/clickhouse/table.ts'
import { type Database, openDatabase } from '../../../store/postgres/database.ts'
import { listUnsentTombstones, toIdHash } from '../../../store/postgres/monitoring/event-claims.ts'
import { ensureMonitoredModel } from '../../../store/postgres/monitoring/models.ts'
import { createUser, openOwnStores, uniqueName } from '../../kit/service.ts'

/** Claim batches on a real Postgres, with a queue that does as it is told. */
let database: Database
let workspaceId: string
let modelId: bigint
beforeAll(async () => {
  const stores = await openOwnStores('postgres')
  database = openDatabase({ url: stores.postgresUrl, onError: () => undefined })
  const { workspaceName } = await createUser(stores)
  const row = await database.row<{ id: string }>('SELECT id FROM workspaces WHERE name = $1', [workspaceName])
  workspaceId = row?.id as string
})
afterAll(() => database?.close())
beforeEach(async () => {
  const model = await ensureMonitoredModel(database, { workspaceId, name: uniqueName('model'), modelsMax: 1_000 })
  modelId = model?.id as bigint
})

const anEvent = (predictionId: string, kind = 1): NewEvent => ({
  modelId,
  kind,
  idHash: toIdHash(predictionId),
  predictionId,
  version: '',
  timestampMs: 1,
  parts: [{ part: 1, scalars: { a: 1 } }],
})

type Queue = { commit(): Promise<void>; refuseWhenFull?(): void }

/** One process: its queue takes what `commit` lets through. */
function openProcess(queue: Queue, leaseMs = 60_000, pauseMs = 0) {
  const rows = { events: 0, eventValues: 0, eventValueChunks: 0 }
  const toCommitter = <T extends Table>(table: T, name: keyof typeof rows) => ({
    async commit(_receivedMs: number, _rows: number, append: (block: ReturnType<typeof createNativeBlock<T>>) => void) {
      const block = createNativeBlock(table)
      append(block)
      await queue.commit()
      rows[name] += block.rows
    },
    refuseWhenFull: () => queue.refuseWhenFull?.(),
    close: async () => undefined,
  })
  const takenOver: number[] = []
  const claimBatches = createClaimBatches({
    queries: database,
    committers: {
      events: toCommitter(eventsTable, 'events'),
      eventValues: toCommitter(eventValuesTable, 'eventValues'),
      eventValueChunks: toCommitter(valueChunksTable, 'eventValueChunks'),
    },
    waitMs: 1,
    leaseMs,
    pauseMs,
    onTakenOver: () => takenOver.push(1),
    onError: (error) => {
      throw error
    },
  })
  return { store: claimBatches.store, rows, takenOver }
}

const works: Queue = { commit: async () => undefined }
const voidsOfModel = async () => (await listUnsentTombstones(database, 1_000)).filter((it) => it.modelId === modelId)

it('only the first event of an id is stored, within a call, across concurrent calls, and later', async () => {
  const { store, rows } = openProcess(works)
  const [one, two] = await Promise.all([
    store([anEvent('a'), anEvent('a'), anEvent('b')]),
    store([anEvent('b'), anEvent('c'), anEvent('a', 3)]),
  ])
  expect([one, two]).toEqual([
    [true, false, true],
    [false, true, true],
  ])
  expect(await store([anEvent('c'), anEvent('d')])).toEqual([false, true])
  expect(await store([])).toEqual([])
  expect(rows).toEqual({ events: 5, eventValues: 5, eventValueChunks: 0 })
})

it('ids that the queue rejected are free: the next sender gets them under a new number', async () => {
  let isDown = true
  const { store, rows, takenOver } = openProcess({
    async commit() {
      if (isDown) throw unavailable('down')
    },
  })
  await expect(store([anEvent('a')])).rejects.toMatchObject({ kind: 'unavailable' })
  await expect(store([anEvent('a')])).rejects.toMatchObject({ kind: 'unavailable' })
  isDown = false
  expect(await store([anEvent('a'), anEvent('b')])).toEqual([true, true])
  expect(await store([anEvent('a')])).toEqual([false])
  expect(rows).toEqual({ events: 2, eventValues: 2, eventValueChunks: 0 })
  // Whether the queue has the refused ones or not: ClickHouse will be told to leave them out.
  expect(await voidsOfModel()).toHaveLength(2)
  expect(takenOver).toHaveLength(2)
})

it('after the queue has rejected a block, nothing is claimed for a while', async () => {
  let tries = 0
  const { store } = openProcess(
    {
      async commit() {
        tries++
        throw unavailable('down')
      },
    },
    60_000,
    60_000,
  )
  await expect(store([anEvent('a')])).rejects.toMatchObject({ kind: 'unavailable' })
  const triesBefore = tries
  for (let at = 0; at < 50; at++) await expect(store([anEvent('b')])).rejects.toMatchObject({ kind: 'unavailable' })
  expect(tries).toBe(triesBefore)
  expect(await database.rows('SELECT 1 FROM event_claims WHERE model_id = $1', [modelId])).toHaveLength(1)
})

it('while the queue is full, nothing is claimed', async () => {
  const full = openProcess({
    ...works,
    refuseWhenFull() {
      throw unavailable('full')
    },
  })
  await expect(full.store([anEvent('a')])).rejects.toMatchObject({ kind: 'unavailable' })
  expect(await database.rows('SELECT 1 FROM event_claims WHERE model_id = $1', [modelId])).toEqual([])
})

it('a loser of an id waits for the outcome of its claim', async () => {
  const { promise, resolve } = Promise.withResolvers<void>()
  const slow = openProcess({ commit: () => promise })
  const other = openProcess(works)
  const first = slow.store([anEvent('a')])
  await sleep(50)
  const second = other.store([anEvent('a'), anEvent('b')])
  expect(await Promise.race([second, sleep(300, 'waits')])).toBe('waits')
  resolve()
  expect([await first, await second]).toEqual([[true], [false, true]])
  expect(await voidsOfModel()).toEqual([])
})

it('a waiting claim takes over when the first gives up', async () => {
  const { promise, reject } = Promise.withResolvers<void>()
  const slow = openProcess({ commit: () => promise })
  const other = openProcess(works)
  const first = slow.store([anEvent('a')])
  first.catch(() => undefined)
  await sleep(50)
  const second = other.store([anEvent('a')])
  reject(unavailable('down'))
  await expect(first).rejects.toMatchObject({ kind: 'unavailable' })
  expect(await second).toEqual([true])
  expect(await voidsOfModel()).toHaveLength(1)
})

it('a stale claim is taken over, and its events are not acknowledged', async () => {
  const { promise, resolve } = Promise.withResolvers<void>()
  const hung = openProcess({ commit: () => promise }, 200)
  const [one, two] = [openProcess(works, 200), openProcess(works, 200)]
  const first = hung.store([anEvent('a'), anEvent('b')])
  first.catch(() => undefined)
  await sleep(50)
  const others = await Promise.all([one.store([anEvent('a')]), two.store([anEvent('a')])])
  expect(others.flat().toSorted()).toEqual([false, true])
  resolve()
  await expect(first).rejects.toMatchObject({ kind: 'unavailable' })
  // Its client sends again: what was taken is a duplicate, what was not is stored.
  expect(await hung.store([anEvent('a'), anEvent('b')])).toEqual([false, true])
  expect(await voidsOfModel()).toHaveLength(2)
})

it('a stale claim that nobody took over can still be confirmed', async () => {
  const slow = openProcess({ commit: () => sleep(200) }, 10)
  expect(await slow.store([anEvent('a')])).toEqual([true])
})

it('events of a deleted model are rejected', async () => {
  const { store } = openProcess(works)
  await database.row('DELETE FROM monitored_models WHERE id = $1', [modelId])
  await expect(store([anEvent('a')])).rejects.toMatchObject({ kind: 'unavailable' })
})

it('many events with many values are queued in several jobs', async () => {
  const { store, rows } = openProcess(works)
  const scalars = Object.fromEntries(Array.from({ length: 30_000 }, (_, at) => [`f${at}`, at]))
  const events = Array.from({ length: 7 }, (_, at) => ({ ...anEvent(`wide ${at}`), parts: [{ part: 1, scalars }] }))
  expect(await store(events)).toEqual(events.map(() => true))
  expect(rows).toEqual({ events: 7, eventValues: 210_000, eventValueChunks: 0 })
})

it('many events of a model are queued as chunks, and few of another one as rows', async () => {
  const { store, rows } = openProcess(works)
  const events = [
    ...Array.from({ length: 20 }, (_, at) => anEvent(`one ${at}`)),
    ...Array.from({ length: 3 }, (_, at) => anEvent(`other ${at}`, 3)),
  ]
  expect(await store(events)).toEqual(events.map(() => true))
  expect(rows).toEqual({ events: 23, eventValues: 3, eventValueChunks: 1 })
  // Of a repetition nothing is stored, and duplicates do not count.
  expect(await store([...events, anEvent('new')])).toEqual([...events.map(() => false), true])
  expect(rows).toEqual({ events: 24, eventValues: 4, eventValueChunks: 1 })
})

it('ids that are taken over are queued as chunks too', async () => {
  let isDown = true
  const { store, rows } = openProcess({
    async commit() {
      if (isDown) throw unavailable('down')
    },
  })
  const events = Array.from({ length: 20 }, (_, at) => anEvent(`${at}`))
  await expect(store(events)).rejects.toMatchObject({ kind: 'unavailable' })
  isDown = false
  expect(await store(events)).toEqual(events.map(() => true))
  expect(rows).toEqual({ events: 20, eventValues: 0, eventValueChunks: 1 })
})

it('until chunks may be stored, all values are rows', async () => {
  await database.row(`UPDATE value_chunks SET since = now() + interval '1 hour'`)
  try {
    const { store, rows } = openProcess(works)
    await store(Array.from({ length: 20 }, (_, at) => anEvent(`${at}`)))
    expect(rows).toEqual({ events: 20, eventValues: 20, eventValueChunks: 0 })
  } finally {
    await database.row('UPDATE value_chunks SET since = now()')
  }
})
