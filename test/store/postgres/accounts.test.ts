import { createHash } from 'node:crypto'
import { crc32 } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { bootstrap, ensureUser, findAccount } from '../../../store/postgres/accounts/accounts.ts'
import { createApiKey, isMistyped } from '../../../store/postgres/accounts/api-key.ts'
import { listAudit } from '../../../store/postgres/accounts/audit.ts'
import { addKey, revokeKey } from '../../../store/postgres/accounts/key-admin.ts'
import { insertApiKey } from '../../../store/postgres/accounts/keys.ts'
import { findOrganization, insertUser, listUsers, removeUser } from '../../../store/postgres/accounts/users.ts'
import { type Database, openDatabase } from '../../../store/postgres/database.ts'
import { openOwnStores, uniqueName } from '../../kit/service.ts'

let database: Database
beforeAll(() => {
  database = openDatabase({ url: inject('stores').postgresUrl, onError: () => undefined })
})
afterAll(() => database?.close())

const toHash = (key: string) => createHash('sha256').update(key).digest('hex')

const digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const fromBase62 = (text: string) => [...text].reduce((sum, it) => sum * 62n + BigInt(digits.indexOf(it)), 0n)

async function createUser() {
  const user = { userName: uniqueName('user'), workspaceName: uniqueName('workspace'), isAdmin: false }
  const { userId } = await ensureUser(database, { ...user, organizationName: uniqueName('organization') })
  return { ...user, userId }
}

describe('API keys', () => {
  it('have 256 random bits, a prefix that scanners find and a checksum that tells a typo', () => {
    const keys = Array.from({ length: 100 }, createApiKey)
    expect(new Set(keys).size).toBe(100)
    for (const key of keys) {
      const [, secret, checksum] = key.match(/^svc_([0-9A-Za-z]{43})([0-9A-Za-z]{6})$/) as string[]
      expect(fromBase62(checksum as string)).toBe(BigInt(crc32(secret as string)))
      expect(fromBase62(secret as string)).toBeLessThan(2n ** 256n)
      expect(isMistyped(key)).toBe(false)
    }
  })

  it('with one wrong character are detected', () => {
    const key = createApiKey()
    for (let at = 4; at < key.length; at++) {
      const typo = key.slice(0, at) + (key[at] === 'x' ? 'y' : 'x') + key.slice(at + 1)
      expect(isMistyped(typo), typo).toBe(true)
    }
    // Of other forms nothing can be said: those of older versions and those that a setting gives.
    for (const other of [`svc_${'0'.repeat(72)}`, 'any-key-of-a-setting', key.slice(0, -1), `${key}x`]) {
      expect(isMistyped(other)).toBe(false)
    }
  })

  it.each([
    ['as made here', createApiKey()],
    ['as short as a setting may give it', uniqueName('0')],
  ])('a key %s is stored only as its hash: no row of the database has it in plain text', async (_, key) => {
    const { userId, userName, workspaceName } = await createUser()
    await insertApiKey(database, userId, key)

    const rows = await database.rows<{ row: string; hash: string; shown: string }>(
      `SELECT to_jsonb(k)::text AS row, encode(key_hash, 'hex') AS hash, shown_prefix AS shown
         FROM api_keys k WHERE user_id = $1`,
      [userId],
    )

    expect(rows).toHaveLength(1)
    expect(rows[0]?.row).not.toContain(key)
    expect(rows[0]?.row).not.toContain(Buffer.from(key).toString('hex'))
    expect(rows[0]?.hash).toBe(toHash(key))
    expect(rows[0]?.shown.length).toBeLessThanOrEqual(Math.min(12, key.length / 2))
    expect(key.startsWith(rows[0]?.shown as string)).toBe(true)
    expect(await findAccount(database, toHash(key))).toMatchObject({
      userId,
      userName,
      isAdmin: false,
      defaultWorkspaceName: workspaceName,
    })
  })

  it('an unknown or revoked one has no owner', async () => {
    const { userId } = await createUser()
    const key = createApiKey()
    expect(await findAccount(database, toHash(key))).toBeUndefined()
    await insertApiKey(database, userId, key)
    await database.row('UPDATE api_keys SET revoked_at = now() WHERE user_id = $1', [userId])

    expect(await findAccount(database, toHash(key))).toBeUndefined()
  })

  it('a registered one stays with its first user', async () => {
    const [first, second] = [await createUser(), await createUser()]
    const key = createApiKey()
    await insertApiKey(database, first.userId, key)
    await insertApiKey(database, second.userId, key)

    expect(await findAccount(database, toHash(key))).toMatchObject({ userId: first.userId })
  })
})

describe('users', () => {
  it('created twice are one, with one workspace', async () => {
    const user = { userName: uniqueName('user'), workspaceName: uniqueName('workspace'), isAdmin: false }
    const organizationName = uniqueName('organization')

    const first = await ensureUser(database, { ...user, organizationName })

    expect(await ensureUser(database, { ...user, organizationName })).toEqual(first)
  })
})

describe('a first start', () => {
  it('by many processes creates one admin and one key, which is shown once', async () => {
    const { postgresUrl } = await openOwnStores('postgres')
    const own = openDatabase({ url: postgresUrl, onError: () => undefined })
    await own.row('DELETE FROM api_keys')

    const made = await Promise.all(Array.from({ length: 5 }, () => bootstrap(own, undefined)))

    const keys = made.flatMap((it) => it.newKey ?? [])
    expect(keys).toHaveLength(1)
    expect(await own.rows('SELECT user_name FROM users')).toEqual([{ user_name: 'admin' }])
    expect(await findAccount(own, toHash(keys[0] as string))).toMatchObject({
      userName: 'admin',
      isAdmin: true,
      defaultWorkspaceName: 'default',
    })
    expect(await bootstrap(own, undefined)).toEqual({})
    await own.close()
  })

  it('never restores a removed admin; it creates a key only if no admin has one', async () => {
    const { postgresUrl } = await openOwnStores('postgres')
    const own = openDatabase({ url: postgresUrl, onError: () => undefined })
    const { organizationId } = (await findOrganization(own, 'default')) as { organizationId: string }
    const actor = { organizationId, userName: 'test' }
    await insertUser(own, actor, { userName: 'boss', role: 'admin', workspaceName: 'default' })
    const boss = { userName: 'boss', isService: false }
    const key = await addKey(own, actor, boss)
    expect(await removeUser(own, actor, { userName: 'admin', isService: false })).toBe('done')

    expect(await bootstrap(own, undefined)).toEqual({})
    expect((await listUsers(own, organizationId)).map((it) => it.userName)).toEqual(['boss'])

    expect(await revokeKey(own, actor, boss, key?.apiKey as string)).toBe('revoked')
    const { newKey } = await bootstrap(own, undefined)
    expect(await findAccount(own, toHash(newKey as string))).toMatchObject({ userName: 'boss', isAdmin: true })
    expect((await listAudit(own, { organizationId, beforeId: undefined, limit: 1 }))[0]).toMatchObject({
      actor: 'svc',
      act: 'key.created',
      subject: 'boss',
    })
    await own.close()
  })

  it('adds the key from the settings, at each start', async () => {
    const { postgresUrl } = await openOwnStores('postgres')
    const own = openDatabase({ url: postgresUrl, onError: () => undefined })
    const key = uniqueName('given-key')

    expect(await bootstrap(own, key)).toEqual({})
    expect(await bootstrap(own, key)).toEqual({})

    expect(await findAccount(own, toHash(key))).toMatchObject({ userName: 'admin' })
    await own.close()
  })
})

describe('a transaction', () => {
  it('commits all of its work or nothing, and releases its connection', async () => {
    const own = openDatabase({ url: inject('stores').postgresUrl, connectionsMax: 1, onError: () => undefined })
    const name = uniqueName('organization')
    const count = async () =>
      (await own.rows<{ id: string }>('SELECT id FROM organizations WHERE name = $1', [name])).length
    const insert = 'INSERT INTO organizations (name) VALUES ($1)'

    await expect(
      own.transaction(async (queries) => {
        await queries.row(insert, [name])
        throw new Error('half-way')
      }),
    ).rejects.toThrow('half-way')
    expect(await count()).toBe(0)

    await own.transaction((queries) => queries.row(insert, [name]))
    expect(await count()).toBe(1)
    await own.close()
  })
})
