import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createClosers } from '../../../runtime/closers.ts'
import { openSecrets } from '../../../store/postgres/accounts/secrets.ts'
import { type Database, openDatabase } from '../../../store/postgres/database.ts'
import { openOwnStores, uniqueName } from '../../kit/service.ts'

const closers = createClosers()
let database: Database
beforeAll(async () => {
  const { postgresUrl } = await openOwnStores('postgres')
  database = openDatabase({ url: postgresUrl, onError: () => undefined })
  closers.push(() => database.close())
})
afterAll(() => closers.closeAll())

const masterKey = randomBytes(32)

async function createOrganization() {
  const row = await database.row<{ id: string }>('INSERT INTO organizations (name) VALUES ($1) RETURNING id', [
    uniqueName('organization'),
  ])
  return { organizationId: (row as { id: string }).id, userName: 'somebody' }
}

it('a secret is found only under its name and in its organization', async () => {
  const secrets = openSecrets({ database, masterKey })
  const [one, other] = [await createOrganization(), await createOrganization()]
  await secrets.put(one, 'name', 'value')
  expect(await secrets.find(one.organizationId, 'name')).toBe('value')
  expect(await secrets.find(one.organizationId, 'Name')).toBeUndefined()
  expect(await secrets.find(other.organizationId, 'name')).toBeUndefined()
})

it('equal secrets have different ciphertexts, and no row contains their value', async () => {
  const secrets = openSecrets({ database, masterKey })
  const actor = await createOrganization()
  for (const name of ['a', 'b']) await secrets.put(actor, name, 'the same value')
  const rows = await database.rows<{ encrypted: Buffer }>(
    'SELECT encrypted FROM organization_secrets WHERE organization_id = $1',
    [actor.organizationId],
  )
  const [a, b] = rows.map((it) => it.encrypted) as [Buffer, Buffer]
  expect(a).not.toEqual(b)
  expect(a.includes('the same')).toBe(false)
})

it('an encrypted text of another table decrypts only in its place and organization', async () => {
  const secrets = openSecrets({ database, masterKey })
  const [one, other] = [await createOrganization(), await createOrganization()]
  const texts = [
    { place: ['table', '1', 'a'], value: 'first' },
    { place: ['table', '1', 'b'], value: '' },
  ]
  const sealed = await database.transaction((queries) => secrets.encryptTexts(queries, one.organizationId, texts))
  await database.transaction((queries) => secrets.encryptTexts(queries, other.organizationId, texts))
  const [first, second] = sealed.map((value, at) => ({ place: texts[at]?.place as string[], value })) as [
    { place: string[]; value: Buffer },
    { place: string[]; value: Buffer },
  ]

  expect(await secrets.decryptTexts(one.organizationId, [first, second])).toEqual(['first', ''])
  expect(sealed.some((it) => it.includes('first'))).toBe(false)
  await expect(secrets.decryptTexts(other.organizationId, [first])).rejects.toThrow('does not open')
  await expect(secrets.decryptTexts(one.organizationId, [{ place: second.place, value: first.value }])).rejects.toThrow(
    'does not open',
  )
  await secrets.put(one, 'table', 'a secret of a name')
  await expect(
    openSecrets({ database, masterKey: randomBytes(32) }).decryptTexts(one.organizationId, [first]),
  ).rejects.toThrow('The master key is not the one')
})

it('a row that is renamed, changed, or moved to another organization, with or without its data key, does not decrypt', async () => {
  const secrets = openSecrets({ database, masterKey })
  const [one, other] = [await createOrganization(), await createOrganization()]
  const refused = /^the secret ".+" does not open: its row was changed or moved$/
  const set = async () => {
    for (const { organizationId } of [one, other]) {
      await database.row('DELETE FROM organization_secrets WHERE organization_id = $1', [organizationId])
      await database.row('DELETE FROM organization_data_keys WHERE organization_id = $1', [organizationId])
    }
    await secrets.put(one, 'name', 'value')
    await secrets.put(other, 'own', 'value')
  }

  await set()
  await database.row("UPDATE organization_secrets SET name = 'renamed' WHERE organization_id = $1", [
    one.organizationId,
  ])
  await expect(secrets.find(one.organizationId, 'renamed')).rejects.toThrow(refused)

  await set()
  const move = 'UPDATE organization_secrets SET organization_id = $2 WHERE organization_id = $1'
  await database.row(move, [one.organizationId, other.organizationId])
  await expect(secrets.find(other.organizationId, 'name')).rejects.toThrow(refused)
  expect(await secrets.find(other.organizationId, 'own')).toBe('value')

  await set()
  await database.row('DELETE FROM organization_data_keys WHERE organization_id = $1', [other.organizationId])
  await database.row('UPDATE organization_data_keys SET organization_id = $2 WHERE organization_id = $1', [
    one.organizationId,
    other.organizationId,
  ])
  await database.row(move, [one.organizationId, other.organizationId])
  await expect(secrets.find(other.organizationId, 'name')).rejects.toThrow(refused)

  for (const place of [0, 12, 28]) {
    await set()
    await database.row(
      `UPDATE organization_secrets SET encrypted = set_byte(encrypted, $2, get_byte(encrypted, $2) # 1)
       WHERE organization_id = $1`,
      [one.organizationId, place],
    )
    await expect(secrets.find(one.organizationId, 'name')).rejects.toThrow(refused)
  }
})

it('the master key is rotated without downtime: a process with both keys reads and writes before, during and after', async () => {
  const [before, after] = [masterKey, randomBytes(32)]
  const actor = await createOrganization()
  const old = openSecrets({ database, masterKey: before })
  await old.put(actor, 'name', 'value')
  const both = openSecrets({ database, masterKey: after, previousMasterKey: before })
  const bothTheOtherWay = openSecrets({ database, masterKey: before, previousMasterKey: after })
  const { organizationId } = actor
  // Started with the new key, but it is not in use yet: what they write the others can read.
  const early = await createOrganization()
  await both.put(early, 'name', 'early')
  expect(await old.find(early.organizationId, 'name')).toBe('early')
  const stranger = openSecrets({ database, masterKey: randomBytes(32) })
  await expect(stranger.check()).rejects.toThrow(/^The master key is not the one/)
  await expect(stranger.put(actor, 'name', 'lost')).rejects.toThrow(/^The master key is not the one/)
  await expect(stranger.rotate('svc secrets')).rejects.toThrow(/^The master key is not the one/)

  const faults: unknown[] = []
  let isOver = false
  const use = async (secrets: typeof both, name: string) => {
    for (let count = 0; !isOver; count++) {
      await secrets.put(actor, name, `value ${count}`).catch((error) => faults.push(error))
      const read = await secrets.find(organizationId, name).catch((error) => faults.push(error))
      if (read !== `value ${count}`) faults.push(`read ${read}, not ${count}`)
    }
  }
  const uses = [use(both, 'a'), use(bothTheOtherWay, 'b')]
  const { count } = (await database.row<{ count: bigint }>('SELECT count(*) FROM organization_data_keys')) as {
    count: bigint
  }
  expect(await both.rotate('svc secrets')).toBe(Number(count))
  expect(await both.rotate('svc secrets')).toBeUndefined()
  // There and back again, while they go on.
  expect(await bothTheOtherWay.rotate('svc secrets')).toBe(Number(count))
  expect(await both.rotate('svc secrets')).toBe(Number(count))
  isOver = true
  await Promise.all(uses)
  expect(faults).toEqual([])

  const renewed = openSecrets({ database, masterKey: after })
  await renewed.check()
  expect(await renewed.find(organizationId, 'name')).toBe('value')
  expect(await renewed.find(early.organizationId, 'name')).toBe('early')
  await expect(old.check()).rejects.toThrow(/^The master key is not the one/)
  await expect(old.find(organizationId, 'name')).rejects.toThrow(/^The master key is not the one/)
})
