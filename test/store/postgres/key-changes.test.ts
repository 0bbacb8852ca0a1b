import { afterEach, beforeAll, describe, expect, inject, it } from 'vitest'
import { createKeyCheck } from '../../../http/key-check.ts'
import { createClosers } from '../../../runtime/closers.ts'
import { ensureUser, findAccount } from '../../../store/postgres/accounts/accounts.ts'
import { createApiKey, toKeyHash } from '../../../store/postgres/accounts/api-key.ts'
import { openKeyChanges } from '../../../store/postgres/accounts/key-changes.ts'
import { insertApiKey, revokeKeys } from '../../../store/postgres/accounts/keys.ts'
import { type Database, openDatabase } from '../../../store/postgres/database.ts'
import { eventually } from '../../kit/eventually.ts'
import { uniqueName } from '../../kit/service.ts'
import { openProxy } from '../../kit/stores/proxy.ts'

const closers = createClosers()
afterEach(() => closers.closeAll())

let database: Database
beforeAll(() => {
  database = openDatabase({ url: inject('stores').postgresUrl, onError: () => undefined })
  return () => database.close()
})

async function createUser() {
  const user = { userName: uniqueName('user'), workspaceName: uniqueName('workspace'), isAdmin: false }
  const { userId } = await ensureUser(database, { ...user, organizationName: uniqueName('organization') })
  const key = createApiKey()
  await insertApiKey(database, userId, key)
  return { userId, key }
}

/** A key check that hears of changes through a proxy, and counts how often it asks the store itself. */
async function open() {
  const proxy = await openProxy(inject('stores').postgresUrl)
  closers.push(() => proxy.close())
  const faults: unknown[] = []
  const changes = openKeyChanges({ url: proxy.url, onError: (error) => faults.push(error) })
  closers.push(() => changes.close())
  let asked = 0
  const checkKey = createKeyCheck({
    findCaller(keyHash) {
      asked++
      return findAccount(database, keyHash)
    },
    changes,
    authHeaders: [],
  })
  const isKnown = async (key: string) => {
    try {
      await checkKey({ authorization: key })
      return true
    } catch {
      return false
    }
  }
  const isListening = () => changes.coversSince(performance.now())
  await eventually(() => expect(isListening()).toBe(true))
  return { proxy, faults, changes, isKnown, isListening, asked: () => asked }
}

const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

describe('keys that a process remembers', () => {
  it('are not queried again while changes are reported', async () => {
    const { key } = await createUser()
    const { isKnown, asked } = await open()
    const until = performance.now() + 2_500
    while (performance.now() < until) {
      expect(await isKnown(key)).toBe(true)
      await wait(50)
    }
    // A machine that is too busy to confirm the connection in time costs a question; a life of a second would cost three.
    expect(asked()).toBeLessThanOrEqual(2)
  })

  it('are rejected when revoked, and accepted when created, as soon as the change is reported', async () => {
    const { userId, key } = await createUser()
    const { isKnown, changes } = await open()
    const later = createApiKey()
    expect([await isKnown(key), await isKnown(later)]).toEqual([true, false])
    const told = new Set<string>()
    changes.onChange((it) => told.add(it))

    await revokeKeys(database, userId)
    await insertApiKey(database, userId, later)

    await eventually(() => {
      for (const it of [key, later]) expect(told).toContain(toKeyHash(it).toString('hex'))
    })
    expect([await isKnown(key), await isKnown(later)]).toEqual([false, true])
  })

  it('are reported when their user is removed, made an admin, or given other limits', async () => {
    const { userId, key } = await createUser()
    const { changes } = await open()
    const told: string[] = []
    changes.onChange((it) => told.push(it))
    const toldOf = (it: string) => told.filter((hash) => hash === toKeyHash(it).toString('hex')).length
    const acts = [
      'UPDATE users SET is_admin = true WHERE id = $1',
      `UPDATE api_keys SET limits = '{"metricsPerMinute": 1}' WHERE user_id = $1`,
      'UPDATE users SET deleted_at = now() WHERE id = $1',
    ]
    for (const [at, act] of acts.entries()) {
      await database.row(act, [userId])
      await eventually(() => expect(toldOf(key)).toBe(at + 1))
    }
    // What says nothing about the key tells nothing: activity is written every second.
    await database.row('UPDATE users SET last_active_at_ms = 1 WHERE id = $1', [userId])
    const { key: marker } = await createUser()
    await eventually(() => expect(toldOf(marker)).toBe(1))
    expect(toldOf(key)).toBe(acts.length)
  })

  it.each([
    ['is cut', 'cut'],
    ['hangs', 'freeze'],
  ] as const)(
    'are refused within a second of being revoked while the connection that tells of it %s',
    async (_, how) => {
      const { userId, key } = await createUser()
      const { proxy, isKnown, isListening, faults } = await open()
      expect(await isKnown(key)).toBe(true)

      proxy[how]()
      await revokeKeys(database, userId)
      const revokedAt = performance.now()
      let refusedAfterMs: number | undefined
      while (refusedAfterMs === undefined && performance.now() < revokedAt + 5_000) {
        if (!(await isKnown(key))) refusedAfterMs = performance.now() - revokedAt
        await wait(20)
      }
      // A second, and what one turn of this loop takes on a busy machine.
      expect(refusedAfterMs).toBeLessThan(1_250)

      await eventually(() => {
        expect(isListening()).toBe(false)
        expect(faults.length).toBeGreaterThan(0)
      })
      proxy.restore()
      await eventually(() => expect(isListening()).toBe(true))
      expect(faults).toHaveLength(1)
    },
  )

  it('that were revoked during a lost connection are rejected after the reconnect', async () => {
    const { userId, key } = await createUser()
    const { proxy, isKnown, isListening } = await open()
    expect(await isKnown(key)).toBe(true)
    proxy.cut()
    await revokeKeys(database, userId)
    proxy.restore()
    await eventually(() => expect(isListening()).toBe(true))
    await eventually(async () => expect(await isKnown(key)).toBe(false), 1_000)
  })

  it('a key with a wrong checksum is rejected without a query', async () => {
    const { key } = await createUser()
    const { isKnown, asked } = await open()
    const typo = key.slice(0, -1) + (key.endsWith('x') ? 'y' : 'x')
    expect(await isKnown(typo)).toBe(false)
    expect(asked()).toBe(0)
    expect(await isKnown(key)).toBe(true)
    expect(asked()).toBe(1)
  })
})
