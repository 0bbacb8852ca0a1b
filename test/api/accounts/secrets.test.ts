import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createClosers } from '../../../runtime/closers.ts'
import { openSecrets } from '../../../store/postgres/accounts/secrets.ts'
import { openDatabase } from '../../../store/postgres/database.ts'
import { openTestService, storesWith, testMasterKey, uniqueName } from '../../kit/service.ts'
import { codes, expectRefusal } from '../http-error.ts'
import { type Organization, openOrganization } from './organization.ts'

const closers = createClosers()
let organization: Organization
let find: (name: string) => Promise<string | undefined>
beforeAll(async () => {
  organization = await openOrganization()
  closers.push(organization.close)
  const database = openDatabase({ url: storesWith('postgres').postgresUrl, onError: () => undefined })
  closers.push(() => database.close())
  const secrets = openSecrets({ database, masterKey: Buffer.from(testMasterKey, 'base64') })
  find = (name) => secrets.find(organization.organizationId, name)
})
afterAll(() => closers.closeAll())

const toPath = (organizationId = organization.organizationId) => `/write/organization/${organizationId}/secrets`
const put = (secretName: unknown, secretValue: unknown, path = toPath(), client = organization.admin) =>
  client.send('PUT', path, JSON.stringify({ secretName, secretValue }))
const remove = (name: string, path = toPath(), client = organization.admin) =>
  client.send('DELETE', `${path}/${encodeURIComponent(name)}`, undefined)

describe('organization secrets', () => {
  it('are added, replaced and deleted, each answered with 200 Ok in plain text', async () => {
    const name = uniqueName('secret')
    for (const value of ['first', 'second']) {
      const answer = await put(name, value)
      expect([answer.status, answer.text, answer.headers.get('content-type')]).toEqual([
        200,
        '200 Ok',
        expect.stringMatching(/^text\/plain/),
      ])
      expect(await find(name)).toBe(value)
    }
    const removed = await remove(name)
    expect([removed.status, removed.text]).toEqual([200, '200 Ok'])
    expect(await find(name)).toBeUndefined()
    expectRefusal(await remove(name), 400, 8000075, `secretName: there is no secret "${name}"`)
  })

  it('are listed by name for admins, without their values', async () => {
    const [one, two] = ['b', 'a'].map((it) => uniqueName(`listed-${it}`)) as [string, string]
    await put(one, 'hidden-one')
    await put(two, 'hidden-two')
    const read = (client = organization.admin, id = organization.organizationId) =>
      client.get(`/organization/${id}/secrets`)
    const answer = await read()
    expect(answer.text).not.toContain('hidden')
    const listed = answer.body.secrets as { secretName: string; updatedAt: number }[]
    const names = listed.map((it) => it.secretName)
    expect(names.indexOf(two)).toBeLessThan(names.indexOf(one))
    expect(Math.abs(Date.now() - (listed[0]?.updatedAt ?? 0))).toBeLessThan(60_000)
    expectRefusal(await read(organization.stranger), 400, 8000070, /^organizationId: there is no such organization/)
    const { organizationId } = (await organization.stranger.get('/admin/users')).body
    expect((await read(organization.stranger, organizationId as string)).body).toEqual({ secrets: [] })
  })

  it('can have any text and any name', async () => {
    const values = ['x', ' ', 'ü\n漢\u{1f600}', '"}', 'x'.repeat(8_000)]
    const names = ['a/b', 'ü %41 漢', '..%2f', 'x:y?z#w'].map(uniqueName)
    names.push(uniqueName('long').padEnd(200, '漢'))
    for (const [at, name] of names.entries()) {
      expect((await put(name, values[at])).status).toBe(200)
      expect(await find(name)).toBe(values[at])
      expect((await remove(name)).status, name).toBe(200)
    }
  })

  it('set concurrently have one whole value', async () => {
    const name = uniqueName('secret')
    const values = Array.from({ length: 8 }, (_, at) => String(at).repeat(1_000))
    const answers = await Promise.all(values.map((value) => put(name, value)))
    expect(answers.map((it) => it.status)).toEqual(Array(8).fill(200))
    expect(values).toContain(await find(name))
  })

  it.each([
    ['secretName', undefined, 'is missing'],
    ['secretName', null, 'is missing'],
    ['secretName', '', 'must not be empty'],
    ['secretName', 5, 'expected a string'],
    ['secretName', 'n'.repeat(201), 'must have 200 characters or fewer'],
    ['secretName', 'a\0b', 'must not hold NUL or half of a surrogate pair'],
    ['secretValue', undefined, 'is missing'],
    ['secretValue', '', 'must not be empty'],
    ['secretValue', { a: 'hidden' }, 'expected a string'],
    ['secretValue', `hidden\ud800`, 'must not hold NUL or half of a surrogate pair'],
    ['secretValue', 'hidden'.repeat(2_000), 'must have 8000 characters or fewer'],
  ])('%s as %j is refused by name, and never repeated', async (field, value, message) => {
    const fields = { secretName: 'name', secretValue: 'value', [field]: value }
    const answer = await put(fields.secretName, fields.secretValue)
    expectRefusal(answer, 400, codes.badRequest, `${field}: ${message}`)
    expect(answer.text).not.toContain('hidden')
  })

  it('of a foreign organization, an absent one and an invalid id answer the same, and store nothing', async () => {
    const { organizationId } = (await organization.stranger.get('/admin/users')).body
    const foreign = toPath(organizationId as string)
    const texts = []
    for (const path of [foreign, toPath('0'.repeat(36)), toPath('x')]) {
      texts.push((await put('name', 'value', path)).text, (await remove('name', path)).text)
    }
    expect(new Set(texts).size).toBe(1)
    expectRefusal(await put('name', 'value', foreign), 400, 8000070, /^organizationId: there is no such organization/)
    expect((await remove('name', foreign, organization.stranger)).body.sdk_error_code).toBe(8000075)
  })

  it('are rejected by a service without a master key, with what to set', async () => {
    const service = await openTestService({ isAdmin: true, settings: { SVC_MASTER_KEY: '' } })
    const { organizationId } = (await service.client.get('/admin/users')).body
    const answer = await put('name', 'value', toPath(organizationId as string), service.client)
    expectRefusal(answer, 400, 8000076, /started without SVC_MASTER_KEY/)
    await service.close()
  })
})

describe('a secret that an admin allows to some workspaces', () => {
  const allow = (name: string, workspaceNames: unknown, client = organization.admin) =>
    client.send('PUT', `${toPath()}/${name}/workspaces`, JSON.stringify({ workspaceNames }))
  const name = uniqueName('allowed')
  const url = 'https://hook.invalid/'
  const configure = (workspaceName: string, secretName = name) => {
    const webhookUrls = [{ url, header: { 'Authorization-Org-Secret-Ref': secretName } }]
    return organization.admin.post('/webhooks/config', { webhookConfigs: [{ workspaceName, webhookUrls }] })
  }

  it('is named by the webhooks of these only, and listed with them', async () => {
    const [one, two] = [await organization.createWorkspace(uniqueName('one')), uniqueName('two')]
    await organization.createWorkspace(two)
    await put(name, 'value')
    expect((await configure(two)).status).toBe(204)
    expect((await allow(name, [one])).text).toBe('200 Ok')
    expect((await configure(one)).status).toBe(204)
    const message = `webhookConfigs[0].webhookUrls: the secret "${name}" is not for the workspace "${two}": an admin can allow it.`
    expectRefusal(await configure(two), 403, 8000153, message)
    const listed = async () => {
      const { secrets } = (await organization.admin.get(`/organization/${organization.organizationId}/secrets`)).body
      return (secrets as { secretName: string; workspaceNames: unknown }[]).find((it) => it.secretName === name)
    }
    expect(await listed()).toMatchObject({ workspaceNames: [one] })
    // A new value leaves it as it is.
    await put(name, 'other')
    expect(await listed()).toMatchObject({ workspaceNames: [one] })
    const { entries } = (await organization.admin.get('/admin/audit?act=secret.allowed&pageSize=1')).body
    expect(entries).toMatchObject([{ subject: name, details: { workspaceNames: [one] } }])
    expect((await allow(name, null)).status).toBe(200)
    expect((await configure(two)).status).toBe(204)
    expect(await listed()).toMatchObject({ workspaceNames: null })
  })

  it('is refused with the field at fault', async () => {
    await put(name, 'value')
    expectRefusal(await allow(name, ['none']), 400, codes.workspaceUnknown, /^workspaceNames: .+ no workspace "none"/)
    expectRefusal(await allow('none', null), 400, 8000075, /^secretName: there is no secret "none"/)
    expectRefusal(await allow(name, 'x'), 400, codes.badRequest, /^workspaceNames: /)
    expect((await allow(name, null, organization.stranger)).status).toBe(400)
  })

  it('is not sent to a workspace that it was taken from', async () => {
    const workspaceName = await organization.createWorkspace(uniqueName('taken'))
    const database = openDatabase({ url: storesWith('postgres').postgresUrl, onError: () => undefined })
    closers.push(() => database.close())
    const row = await database.row<{ id: string }>('SELECT id FROM workspaces WHERE name = $1', [workspaceName])
    const secrets = openSecrets({ database, masterKey: Buffer.from(testMasterKey, 'base64') })
    const findFor = () => secrets.find(organization.organizationId, name, row?.id)
    await put(name, 'value')
    expect(await findFor()).toBe('value')
    await allow(name, [])
    expect(await findFor()).toBeUndefined()
    await allow(name, [workspaceName])
    expect(await findFor()).toBe('value')
  })
})
