import { afterAll, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest'
import { ensureUser } from '../../../store/postgres/accounts/accounts.ts'
import { administer, insertAudit, listAudit } from '../../../store/postgres/accounts/audit.ts'
import { type ChainedEntry, checkChain, expireAudit, readChain } from '../../../store/postgres/accounts/audit-chain.ts'
import { type Database, openDatabase } from '../../../store/postgres/database.ts'
import { uniqueName } from '../../kit/service.ts'

let database: Database
/** Another process. */
let other: Database
const open = () =>
  openDatabase({ url: inject('stores').postgresUrl, connectionsMax: 4, onError: (error) => console.error(error) })
beforeAll(() => {
  database = open()
  other = open()
})
afterAll(() => Promise.all([database?.close(), other?.close()]))

let organizationId: string
let actor: { organizationId: string; userName: string }
beforeEach(async () => {
  const names = { userName: uniqueName('admin'), workspaceName: uniqueName('workspace') }
  const made = await ensureUser(database, { ...names, organizationName: uniqueName('organization'), isAdmin: true })
  organizationId = made.organizationId
  actor = { organizationId, userName: 'Åsa' }
})

async function add(count: number) {
  for (let n = 1; n <= count; n++) {
    await insertAudit(database, actor, 'limits.set', `subject ${n}`, {
      n,
      text: 'naïve, "quoted"',
      deep: [{ a: null }],
    })
  }
}
const check = () => readChain(database, organizationId, checkChain)
const faults = async () => (await check()).faults
/** In SQL, `mine` is the condition for rows of the organization. */
const alter = (sql: string, values: unknown[] = []) =>
  database.rows(sql.replaceAll('mine', 'organization_id = $1'), [organizationId, ...values])

async function readAll(): Promise<ChainedEntry[]> {
  return await readChain(database, organizationId, (entries) => Array.fromAsync(entries))
}

it('entries that nobody touched follow each other, and their hashes can be computed from what is exported', async () => {
  await add(5)
  const whole = await check()
  expect(whole).toMatchObject({ entries: 5, first: { position: 1 }, last: { position: 5 }, faults: [] })
  const exported = JSON.parse(JSON.stringify(await readAll())) as ChainedEntry[]
  expect(await checkChain(exported, undefined)).toEqual(whole)
  expect(exported.map((it) => it.previousHash).slice(1)).toEqual(exported.map((it) => it.hash).slice(0, -1))
})

it.each([
  ['actor', "'somebody else'"],
  ['act', "'key.created'"],
  ['subject', "subject || ' '"],
  ['details', 'details || \'{"n": 2.0}\''],
  ['at', "at + interval '1 microsecond'"],
])('an altered %s is found', async (column, value) => {
  await add(3)
  await alter(`UPDATE audit_log SET ${column} = ${value} WHERE mine AND position = 2`)
  expect(await faults()).toEqual([{ position: 2, reason: 'it was altered, or the entry before it was' }])
})

it('an altered entry whose hash was computed anew is found at the entry after it', async () => {
  await add(3)
  await alter(
    `UPDATE audit_log l SET actor = 'x', hash = audit_hash((SELECT hash FROM audit_log WHERE mine AND position = 1),
       organization_id, position, at, 'x', act, subject, details) WHERE mine AND position = 2`,
  )
  expect(await faults()).toEqual([{ position: 3, reason: 'it was altered, or the entry before it was' }])
})

it('removed entries are found, wherever they stood', async () => {
  await add(7)
  await alter('DELETE FROM audit_log WHERE mine AND position IN (1, 3, 4, 7)')
  expect(await faults()).toEqual([
    { position: 1, reason: 'the entry 1 is missing' },
    { position: 3, reason: 'the entries 3 to 4 are missing' },
    { position: 7, reason: 'the log ended with the entry 7' },
  ])
})

it('removed entries whose places were given to others are found', async () => {
  await add(4)
  await alter('DELETE FROM audit_log WHERE mine AND position = 2')
  await alter('UPDATE audit_log SET position = position - 1 WHERE mine AND position = 3')
  await alter('UPDATE audit_log SET position = position - 1 WHERE mine AND position = 4')
  expect(await faults()).toEqual([
    { position: 2, reason: 'it was altered, or the entry before it was' },
    { position: 3, reason: 'it was altered, or the entry before it was' },
    { position: 4, reason: 'the log ended with the entry 4' },
  ])
})

it('swapped entries are found', async () => {
  await add(4)
  await alter('UPDATE audit_log SET position = -2 WHERE mine AND position = 2')
  await alter('UPDATE audit_log SET position = 2 WHERE mine AND position = 3')
  await alter('UPDATE audit_log SET position = 3 WHERE mine AND position = -2')
  expect((await faults()).map((it) => it.position)).toEqual([2, 3, 4])
})

it('an entry that was slipped in at the end, past the chain, is found', async () => {
  await add(2)
  await alter(
    `INSERT INTO audit_log (organization_id, actor, act, subject, details, at, position, hash)
     SELECT organization_id, actor, act, subject, details, at, 3, audit_hash(hash, organization_id, 3, at, actor, act, subject, details)
     FROM audit_log WHERE mine AND position = 2`,
  )
  expect(await faults()).toEqual([{ position: 3, reason: 'the log ends with the entry 2' }])
})

it('many writers of several processes make one chain, in the order of the list', async () => {
  const write = (on: Database, n: number) =>
    n % 2 === 0
      ? administer(on, actor, (_queries, note) => note('limits.set', `subject ${n}`))
      : on.transaction((queries) => insertAudit(queries, actor, 'limits.set', `subject ${n}`))
  await Promise.all(Array.from({ length: 60 }, (_, n) => write(n % 3 === 0 ? other : database, n)))
  expect(await check()).toMatchObject({ entries: 60, last: { position: 60 }, faults: [] })
  const listed = await listAudit(database, { organizationId, beforeId: undefined, limit: 100 })
  expect(listed.toReversed().map((it) => it.subject)).toEqual((await readAll()).map((it) => it.subject))
})

it('a transaction that is rolled back leaves no gap', async () => {
  await add(1)
  const failed = database.transaction(async (queries) => {
    await insertAudit(queries, actor, 'limits.set', 'never')
    throw new Error('rolled back')
  })
  await expect(failed).rejects.toThrow('rolled back')
  await add(1)
  expect(await check()).toMatchObject({ entries: 2, faults: [] })
})

describe('entries that have expired', () => {
  // Other tests have entries of the last years in the same Postgres.
  const year = 365 * 24 * 3_600_000
  const age = (positions: string) =>
    `INSERT INTO audit_log (organization_id, actor, act, subject, at)
     SELECT $1, 'old', 'limits.set', n::text, now() - interval '40 years' + interval '1 hour' * n FROM generate_series(${positions}) n`
  const expire = () => expireAudit(database, Date.now() - 30 * year)

  it('are deleted from the beginning; what remains follows them, and tells of it', async () => {
    await alter(age('1, 6'))
    await add(2)
    const sixth = (await readAll())[5]?.hash
    expect(await expire()).toBeGreaterThanOrEqual(6)

    expect(await check()).toMatchObject({ entries: 3, first: { position: 7 }, last: { position: 9 }, faults: [] })
    const entries = await readAll()
    expect(entries[0]?.previousHash).toBe(sixth)
    expect(entries.at(-1)).toMatchObject({ act: 'audit.expired', userName: 'svc' })
    expect(JSON.parse(entries.at(-1)?.details ?? '')).toEqual({ position: 6, hash: sixth, entries: 6 })
    await expire()
    expect((await check()).entries).toBe(3)
    // A part of the log is whole by itself.
    expect((await checkChain(entries, undefined)).faults).toEqual([])
  })

  it('are no excuse for others: entries that were removed as if they had expired are found', async () => {
    await add(5)
    await alter(
      `UPDATE audit_chains SET anchor_position = 2,
         anchor_hash = (SELECT hash FROM audit_log WHERE mine AND position = 2) WHERE mine`,
    )
    await alter('DELETE FROM audit_log WHERE mine AND position <= 2')
    expect(await faults()).toEqual([
      { position: 2, reason: 'no entry tells that the entries up to this one have expired' },
    ])
  })

  it('do not make more of themselves', async () => {
    await alter(age('1, 2'))
    await expire()
    await alter("UPDATE audit_log SET at = at - interval '40 years' WHERE mine")
    await expire()
    expect((await check()).entries).toBe(1)
  })
})
