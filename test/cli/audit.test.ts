import { readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { StoreUrls } from '../../cli/settings.ts'
import { createClosers } from '../../runtime/closers.ts'
import { ensureUser } from '../../store/postgres/accounts/accounts.ts'
import { insertAudit } from '../../store/postgres/accounts/audit.ts'
import { type Database, openDatabase } from '../../store/postgres/database.ts'
import { migratePostgres } from '../../store/postgres/migrate.ts'
import { expectPlainFailure } from '../kit/processes/expect.ts'
import { aFolder, svc } from '../kit/processes/svc.ts'
import { openOwnStores } from '../kit/service.ts'

const closers = createClosers()
const onClose = (close: () => unknown) => closers.push(async () => close())
afterAll(() => closers.closeAll())

let stores: StoreUrls
let database: Database
let folder: string
const organizations: Record<string, string> = {}
beforeAll(async () => {
  stores = await openOwnStores('postgres')
  await migratePostgres(stores.postgresUrl)
  database = openDatabase({ url: stores.postgresUrl, connectionsMax: 1, onError: () => undefined })
  closers.push(() => database.close())
  folder = await aFolder(onClose)
  for (const organizationName of ['first', 'second']) {
    const user = { userName: organizationName, workspaceName: organizationName, isAdmin: true }
    const { organizationId } = await ensureUser(database, { ...user, organizationName })
    organizations[organizationName] = organizationId
    for (let n = 1; n <= 4; n++) await add(organizationName, `${organizationName} ${n}`)
  }
})

const add = (organization: string, subject: string) =>
  insertAudit(
    database,
    { organizationId: organizations[organization] ?? '', userName: 'tester' },
    'limits.set',
    subject,
  )
const run = (...words: string[]) => svc(['audit', ...words], { POSTGRES_URL: stores.postgresUrl }, onClose)
const fail = async (words: string[], said: RegExp) => expectPlainFailure(await run(...words), said)

describe('svc audit', () => {
  it('exports lines that can be verified without the service, and find what an insider wrote anew', async () => {
    const file = path.join(folder, 'earlier.jsonl')
    expect(await run('export', '--organization', 'first', '--out', file)).toMatchObject({ code: 0, stderr: '' })
    const text = await readFile(file, 'utf8')
    expect((await run('export', '--organization', 'first')).stdout).toBe(text)
    // Without a store.
    const offline = await svc(['audit', 'verify', file], {}, onClose)
    expect(offline).toMatchObject({ code: 0, stderr: '' })
    expect(offline.stdout).toMatch(/^[0-9a-f-]{36}: entries 1 to 4 follow each other; the last hash is [0-9a-f]{64}\n$/)
    await writeFile(file.replace('earlier', 'altered'), text.replace('first 3', 'first 2'))
    const altered = await run('verify', file.replace('earlier', 'altered'), '--json')
    expect(altered.code).toBe(1)
    expect(JSON.parse(altered.stdout)[0].faults).toEqual([
      { position: 3, reason: 'it was altered, or the entry before it was' },
    ])

    await add('first', 'first 5')
    expect((await run('verify', '--against', file)).code).toBe(0)
    // Whoever writes all hashes anew, too, cannot write those of an earlier export.
    await database.rows(`DELETE FROM audit_log WHERE organization_id = $1`, [organizations.first])
    await database.rows(`DELETE FROM audit_chains WHERE organization_id = $1`, [organizations.first])
    for (let n = 1; n <= 3; n++) await add('first', `first ${n}`)
    expect((await run('verify', '--organization', 'first')).code).toBe(0)
    const shorter = await run('verify', '--against', file)
    expect(shorter).toMatchObject({ code: 1, stdout: expect.stringContaining('has this entry, and the log has not') })
    await add('first', 'another')
    expect((await run('verify', '--against', file)).stdout).toMatch(/ {2}entry 4: .* has another entry here\n$/)
  })

  it('verifies the logs of all organizations, and says which entry of which is broken', async () => {
    await database.rows(`UPDATE audit_log SET actor = 'x' WHERE organization_id = $1 AND position = 2`, [
      organizations.second,
    ])
    const { code, stdout, stderr } = await run('verify')
    expect([code, stderr]).toEqual([1, ''])
    expect(stdout).toMatch(/^first: entries 1 to \d follow each other; /m)
    expect(stdout).toContain(
      'second: the audit log is not what was written\n  entry 2: it was altered, or the entry before it was\n',
    )
  })

  it('refuses what it cannot do by name', async () => {
    const file = path.join(folder, 'wrong.jsonl')
    await writeFile(file, '{"position": 0}\n')
    await fail(['verify', file], /wrong\.jsonl, line 1: organizationId: /)
    await fail(['verify', '--organization', 'third'], /There is no organization "third"\./)
    await fail(['export', '--out', file, '--organization', 'first'], /EEXIST/)
    await fail(['eat'], /Usage: svc audit verify/)
  })
})
