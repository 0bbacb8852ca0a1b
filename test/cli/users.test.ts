import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { StoreUrls } from '../../cli/settings.ts'
import { createClosers } from '../../runtime/closers.ts'
import { openSecrets } from '../../store/postgres/accounts/secrets.ts'
import { openDatabase } from '../../store/postgres/database.ts'
import { admitIdentity } from '../../store/postgres/identities/identities.ts'
import { eventually } from '../kit/eventually.ts'
import { createClient } from '../kit/http/client.ts'
import { expectPlainFailure } from '../kit/processes/expect.ts'
import { svc } from '../kit/processes/svc.ts'
import { openOwnStores, openTestService, uniqueName } from '../kit/service.ts'

const closers = createClosers()
const onClose = (close: () => unknown) => closers.push(async () => close())
afterAll(() => closers.closeAll())

let stores: StoreUrls
let service: Awaited<ReturnType<typeof openTestService>>
beforeAll(async () => {
  stores = await openOwnStores('postgres')
  service = await openTestService({ stores, settings: { SVC_MASTER_KEY: '' } })
  closers.push(service.close)
})

const run = (...words: string[]) => svc(words, { POSTGRES_URL: stores.postgresUrl }, onClose)
const users = (...words: string[]) => run('users', ...words)
const as = (apiKey: string | undefined) =>
  createClient(service.url, { apiKey: apiKey as string, workspaceName: 'default' })
const keyForm = /svc_[0-9A-Za-z]{49}/

describe('svc users', () => {
  it('adds a user with a key that works, gives it another, and removes it with both', async () => {
    const name = uniqueName('user')
    const added = await users('add', name)
    expect(added).toMatchObject({ code: 0, stderr: '' })
    expect(added.stdout).toMatch(new RegExp(`^The user ${name} was added, with the workspace ${name}\\.\nAPI key of`))
    const first = keyForm.exec(added.stdout)?.[0]
    const second = keyForm.exec((await users('key', name)).stdout)?.[0]
    for (const key of [first, second]) {
      expect((await as(key).get('/account-details')).body).toEqual({ userName: name, defaultWorkspaceName: name })
    }
    expect((await users('list')).stdout).toMatch(new RegExp(`^${name}  user +  ${name}  `, 'm'))

    expect((await users('remove', name)).stdout).toBe(`${name} was removed. Its keys are no longer accepted.\n`)
    for (const key of [first, second]) {
      await eventually(async () => expect((await as(key).get('/account-details')).status).toBe(401), 1_000)
    }
    expect((await users('list')).stdout).not.toContain(name)
  })

  it('answers JSON, and nothing else, when asked to', async () => {
    const name = uniqueName('user')
    const added = JSON.parse((await users('add', name, '--admin', '--workspace', 'default', '--json')).stdout)
    expect(added).toEqual({ userName: name, defaultWorkspaceName: 'default', apiKey: expect.stringMatching(keyForm) })
    expect((await as(added.apiKey).get('/admin/users')).status).toBe(200)
    const listed = JSON.parse((await users('list', '--json')).stdout) as { userName: string }[]
    expect(listed.find((it) => it.userName === name)).toMatchObject({ isAdmin: true, kind: 'user' })
    const rotated = JSON.parse((await users('key', name, '--rotate', '--json')).stdout)
    await eventually(async () => expect((await as(added.apiKey).get('/admin/users')).status).toBe(401), 1_000)
    expect((await as(rotated.apiKey).get('/admin/users')).status).toBe(200)
    expect(JSON.parse((await users('remove', name, '--json')).stdout)).toEqual({ removed: name })
  })

  it('gives roles, in the organization and in a workspace', async () => {
    const name = uniqueName('user')
    const { apiKey } = JSON.parse((await users('add', name, '--role', 'auditor', '--json')).stdout)
    expect((await as(apiKey).get('/admin/users')).status).toBe(200)
    expect((await users('role', name, 'member')).stdout).toBe(`${name} is now member of the organization.\n`)
    await eventually(async () => expect((await as(apiKey).get('/admin/users')).status).toBe(403))
    const given = await users('role', name, 'viewer', '--workspace', 'default', '--json')
    expect(JSON.parse(given.stdout)).toEqual({ userName: name, role: 'viewer', workspace: 'default' })
    const fields = { workspaceName: 'default', projectName: uniqueName('project') }
    expect((await as(apiKey).post('/write/experiment/create', fields)).status).toBe(403)
    await users('role', name, 'editor', '--workspace', 'default')
    expect((await as(apiKey).post('/write/experiment/create', fields)).status).toBe(200)
    await users('remove', name)
  })

  it('makes keys that may do less and end, lists them, and revokes one by its id', async () => {
    const name = uniqueName('user')
    await users('add', name)
    const words = ['key', name, '--scope', 'read', '--workspace', name, '--days', '30', '--name', 'a reader', '--json']
    const { apiKey, keyId } = JSON.parse((await users(...words)).stdout) as { apiKey: string; keyId: string }
    expect((await as(apiKey).get(`/projects?workspaceName=${name}`)).status).toBe(200)
    expect((await as(apiKey).post('/write/workspace/new', { name: uniqueName('w') })).status).toBe(403)
    const listed = JSON.parse((await users('keys', name, '--json')).stdout) as { keyId: string }[]
    const found = listed.find((it) => it.keyId === keyId)
    expect(found).toMatchObject({ name: 'a reader', scope: 'read', workspaceName: name, createdBy: 'svc users' })
    expect((await users('keys', name)).stdout).toContain(`read of ${name}`)
    expect((await users('revoke', keyId)).stdout).toBe(`The key ${keyId} is no longer accepted.\n`)
    await eventually(async () => expect((await as(apiKey).get('/account-details')).status).toBe(401), 1_000)
    await users('remove', name)
  })

  it('is written in the audit log', async () => {
    const name = uniqueName('user')
    const { apiKey } = JSON.parse((await users('add', name, '--admin', '--json')).stdout)
    const { entries } = (await as(apiKey).get('/admin/audit?pageSize=2')).body
    expect(entries).toEqual([
      expect.objectContaining({ userName: 'svc users', act: 'key.created', subject: name }),
      expect.objectContaining({ userName: 'svc users', act: 'user.created', subject: name }),
    ])
    await users('remove', name)
  })

  it('lets somebody who was removed sign in again at a provider', async () => {
    const [name, subject] = [uniqueName('user'), uniqueName('subject')]
    const database = openDatabase({ url: stores.postgresUrl, connectionsMax: 1, onError: () => undefined })
    try {
      const policy = {
        provider: 'corp',
        organizationName: 'default',
        createsUsers: true,
        linksByEmail: false,
        sessionMsMax: 3_600_000,
        keyMsMax: 3_600_000,
        groupRoles: [],
        allowedGroups: [],
        allowedEmailDomains: [],
      }
      const claims = { issuer: name, subject, userName: name, email: undefined, isEmailVerified: false, groups: [] }
      const signIn = () => admitIdentity(database, claims, policy)
      expect(await signIn()).toMatchObject({ userName: name })
      expect(await users('readmit', name)).toMatchObject({ code: 1, stderr: expect.stringContaining('No user') })
      await users('remove', name)
      expect(await signIn()).toEqual({ refusal: 'removed' })
      expect((await users('readmit', name)).stdout).toBe(`${name} may sign in again, as a new user.\n`)
      expect(await signIn()).toMatchObject({ userName: name })
    } finally {
      await database.close()
    }
  })

  it('says in a sentence what is in the way', async () => {
    const name = uniqueName('user')
    await users('add', name)
    expectPlainFailure(await users('add', name), /A user or service account ".+" already exists\./)
    expectPlainFailure(await users('add', 'default'), /A workspace "default" already exists\. Pass it with --workspace/)
    expectPlainFailure(await users('key', 'nobody'), /There is no user "nobody"\. "svc users list"/)
    expectPlainFailure(await users('remove', 'nobody'), /There is no user "nobody"/)
    expectPlainFailure(await users('remove', 'admin'), /admin is the only admin\. Add another one first/)
    expectPlainFailure(await users('list', '--organization', 'none'), /There is no organization "none"/)
    expectPlainFailure(await svc(['users', 'list'], {}, onClose), /POSTGRES_URL: must be set/)
    expectPlainFailure(await users('role', name, 'king'), /ROLE: must be one of member, auditor, admin/)
    expectPlainFailure(await users('role', name, 'viewer', '--workspace', 'none'), /There is no workspace "none"/)
    expectPlainFailure(await users('key', name, '--project', 'a'), /--project needs the --workspace/)
    expectPlainFailure(await users('key', name, '--scope', 'x'), /--scope: must be one of read, write, all/)
    expectPlainFailure(await users('key', name, '--days', 'x'), /--days: expected a number of days/)
    expectPlainFailure(await users('revoke', 'x'), /There is no key x\. "svc users keys" lists all/)
    for (const words of [[], ['add'], ['list', 'x'], ['shred', 'x'], ['key', 'a', 'b'], ['role', name]]) {
      expectPlainFailure(await users(...words), /Usage: svc users list \| add NAME/)
    }
  })
})

describe('svc secrets rotate', () => {
  it('takes the new master key into use, once; and says what is missing', async () => {
    const [before, after] = [randomBytes(32), randomBytes(32)]
    const database = openDatabase({ url: stores.postgresUrl, onError: () => undefined })
    closers.push(() => database.close())
    const { id } = (await database.row<{ id: string }>("SELECT id FROM organizations WHERE name = 'default'")) as {
      id: string
    }
    const old = openSecrets({ database, masterKey: before })
    await old.put({ organizationId: id, userName: 'test' }, 'name', 'value')
    const env = { POSTGRES_URL: stores.postgresUrl, SVC_MASTER_KEY: after.toString('base64') }
    const rotate = (more: Record<string, string>, ...words: string[]) =>
      svc(['secrets', 'rotate', ...words], { ...env, ...more }, onClose)
    const both = { SVC_MASTER_KEY_PREVIOUS: before.toString('hex') }

    expectPlainFailure(await rotate({}), /Set the new master key as SVC_MASTER_KEY and the old one as/)
    const wrong = { SVC_MASTER_KEY_PREVIOUS: randomBytes(32).toString('hex') }
    expectPlainFailure(await rotate(wrong), /The master key is not the one that secrets in Postgres are encrypted with/)
    const short = { SVC_MASTER_KEY_PREVIOUS: 'c2hvcnQ=' }
    expectPlainFailure(await rotate(short), /SVC_MASTER_KEY_PREVIOUS: must be 32 bytes in base64 or hex/)
    expect((await rotate(both)).stdout).toBe(
      'The new master key is in use (data keys re-encrypted: 1). You can remove SVC_MASTER_KEY_PREVIOUS.\n',
    )
    expect(JSON.parse((await rotate(both, '--json')).stdout)).toEqual({ rotated: false, dataKeys: 0 })
    expect(await openSecrets({ database, masterKey: after }).find(id, 'name')).toBe('value')

    // A service that was not told of it does not start, rather than fail later.
    const stale = openTestService({ stores, settings: { SVC_MASTER_KEY: before.toString('base64') } })
    await expect(stale).rejects.toThrow(/^The master key is not the one/)
    expectPlainFailure(await run('secrets', 'shred'), /Usage: svc secrets rotate/)
  })
})
