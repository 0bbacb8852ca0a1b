import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { type Database, openDatabase } from '../../../store/postgres/database.ts'
import {
  type ClaimedId,
  claimEvents,
  confirmClaims,
  deleteUnsentTombstones,
  findEventNumber,
  findHolders,
  giveUpClaim,
  listUnsentTombstones,
  takeOverEvents,
  toIdHash,
} from '../../../store/postgres/monitoring/event-claims.ts'
import { ensureMonitoredModel } from '../../../store/postgres/monitoring/models.ts'
import { createUser, openOwnStores, uniqueName } from '../../kit/service.ts'

let database: Database
let workspaceId: string
let modelId: bigint
beforeAll(async () => {
  const stores = await openOwnStores('postgres')
  database = openDatabase({ url: stores.postgresUrl, onError: () => undefined })
  const { workspaceName } = await createUser(stores)
  const workspace = await database.row<{ id: string }>('SELECT id FROM workspaces WHERE name = $1', [workspaceName])
  workspaceId = workspace?.id as string
})
afterAll(() => database?.close())
beforeEach(async () => {
  const model = await ensureMonitoredModel(database, { workspaceId, name: uniqueName('model'), modelsMax: 1_000 })
  modelId = model?.id as bigint
})

const long = 60_000
const id = (name: string, kind = 1): ClaimedId => ({ modelId, kind, idHash: toIdHash(name) })
const from = (claim: bigint, ...names: string[]) => names.map((name) => ({ ...id(name), from: claim }))

it('free ids are claimed, and taken ones are returned', async () => {
  const first = await claimEvents(database, [id('a'), id('b')])
  expect(first.lost).toEqual([])
  const second = await claimEvents(database, [id('c'), id('b'), id('a', 3)])
  expect(second.lost).toEqual([1])
  expect(second.claim).toBeGreaterThan(first.claim)
  expect(await findEventNumber(database, id('b'))).toEqual({ claim: first.claim, place: 1 })
  expect(await findEventNumber(database, id('a', 3))).toEqual({ claim: second.claim, place: 2 })
  expect(await findEventNumber(database, id('d'))).toBeUndefined()
})

it('a claim is open until it is confirmed, and confirmed once', async () => {
  const { claim } = await claimEvents(database, [id('a')])
  expect(await findHolders(database, [id('b'), id('a')], long)).toEqual([undefined, { claim, state: 'open' }])
  expect(await confirmClaims(database, [claim])).toEqual(new Set([claim]))
  expect(await findHolders(database, [id('a')], 0)).toEqual([{ claim, state: 'confirmed' }])
  expect(await confirmClaims(database, [claim])).toEqual(new Set())
})

it('an id is not taken over while its claim is open or confirmed', async () => {
  const { claim } = await claimEvents(database, [id('a')])
  expect((await takeOverEvents(database, from(claim, 'a'), long)).lost).toEqual([0])
  await confirmClaims(database, [claim])
  expect((await takeOverEvents(database, from(claim, 'a'), 0)).lost).toEqual([0])
  expect(await findEventNumber(database, id('a'))).toEqual({ claim, place: 0 })
  expect((await listUnsentTombstones(database, 1_000)).filter((it) => it.modelId === modelId)).toEqual([])
})

it('a stale claim is taken over: it can no longer be confirmed, and its number becomes a tombstone', async () => {
  const old = await claimEvents(database, [id('z'), id('a')])
  expect((await findHolders(database, [id('a')], 0))[0]?.state).toBe('free')
  const taken = await takeOverEvents(database, from(old.claim, 'a'), 0)
  expect(taken.lost).toEqual([])
  expect(await confirmClaims(database, [old.claim])).toEqual(new Set())
  expect(await findEventNumber(database, id('a'))).toEqual({ claim: taken.claim, place: 0 })
  const tombstones = (await listUnsentTombstones(database, 1_000)).filter((it) => it.modelId === modelId)
  expect(tombstones).toEqual([{ claim: old.claim, place: 1, modelId, kind: 1 }])
  await deleteUnsentTombstones(database, tombstones)
  expect((await listUnsentTombstones(database, 1_000)).filter((it) => it.modelId === modelId)).toEqual([])
  // The other id of the claim is nobody's either: its owner was told to send again.
  expect(await findHolders(database, [id('z'), id('a')], long)).toEqual([
    { claim: old.claim, state: 'free' },
    { claim: taken.claim, state: 'open' },
  ])
})

it('a claim that was given up is taken over at once, repeatedly', async () => {
  const first = await claimEvents(database, [id('a')])
  await giveUpClaim(database, first.claim)
  const second = await takeOverEvents(database, from(first.claim, 'a'), long)
  await giveUpClaim(database, second.claim)
  const third = await takeOverEvents(database, from(second.claim, 'a'), long)
  expect(third.lost).toEqual([])
  expect(await confirmClaims(database, [third.claim])).toEqual(new Set([third.claim]))
  const tombstones = (await listUnsentTombstones(database, 1_000)).filter((it) => it.modelId === modelId)
  expect(tombstones.map((it) => it.claim)).toEqual([first.claim, second.claim])
})

it('concurrent takeovers give each id to exactly one claim', async () => {
  const names = Array.from({ length: 50 }, (_, at) => `id ${at}`)
  const old = await claimEvents(
    database,
    names.map((name) => id(name)),
  )
  await giveUpClaim(database, old.claim)
  const attempts = Array.from({ length: 8 }, () => names.toSorted(() => Math.random() - 0.5))
  const results = await Promise.all(
    attempts.map(async (shuffled) => {
      for (;;) {
        const taken = await takeOverEvents(database, from(old.claim, ...shuffled), long).catch((error) => {
          // One of two that wait for each other is sent back, and comes again.
          if (error.code !== '40P01') throw error
        })
        if (taken) return shuffled.filter((_, place) => !taken.lost.includes(place))
      }
    }),
  )
  expect(results.flat().toSorted()).toEqual(names.toSorted())
  const tombstones = (await listUnsentTombstones(database, 1_000)).filter((it) => it.modelId === modelId)
  expect(tombstones.map((it) => it.place)).toEqual(names.map((_, at) => at))
})

it('a claim is either confirmed or taken over, whichever comes first', async () => {
  for (let turn = 0; turn < 40; turn++) {
    const { claim } = await claimEvents(database, [id(`race ${turn}`)])
    const [confirmed, taken] = await Promise.all([
      confirmClaims(database, [claim]),
      takeOverEvents(database, from(claim, `race ${turn}`), 0),
    ])
    expect(confirmed.has(claim)).toBe(taken.lost.length === 1)
  }
})

it('concurrent claims of the same ids, in any order, give each id to exactly one', async () => {
  const names = Array.from({ length: 200 }, (_, at) => `id ${at}`)
  const attempts = Array.from({ length: 8 }, () => names.toSorted(() => Math.random() - 0.5))
  const results = await Promise.all(
    attempts.map(async (shuffled) => {
      const { lost } = await claimEvents(
        database,
        shuffled.map((name) => id(name)),
      )
      const isLost = new Set(lost)
      return shuffled.filter((_, place) => !isLost.has(place))
    }),
  )
  expect(results.flat().toSorted()).toEqual(names.toSorted())
})

it('claims are deleted with their model, and a deleted model gets none', async () => {
  await claimEvents(database, [id('a'), id('b')])
  await database.row('DELETE FROM monitored_models WHERE id = $1', [modelId])
  expect(await database.rows('SELECT 1 FROM event_claims WHERE model_id = $1', [modelId])).toEqual([])
  expect((await claimEvents(database, [id('a')])).lost).toEqual([0])
  expect(await findHolders(database, [id('a')], long)).toEqual([undefined])
})

it('claims take chunks from a moment on, which is now in a new installation', async () => {
  const claim = async () => {
    const { claim: old, takesChunks } = await claimEvents(database, [id('a')])
    await giveUpClaim(database, old)
    const taken = await takeOverEvents(database, from(old, 'a'), long)
    await database.row('DELETE FROM event_claims WHERE model_id = $1', [modelId])
    return [takesChunks, taken.takesChunks]
  }
  expect(await claim()).toEqual([true, true])
  await database.row(`UPDATE value_chunks SET since = now() + interval '1 hour'`)
  expect(await claim()).toEqual([false, false])
  await database.row('UPDATE value_chunks SET since = now()')
  expect(await claim()).toEqual([true, true])
})
