import { afterAll, beforeAll, expect, it } from 'vitest'
import { openDatabase } from '../../../store/postgres/database.ts'
import { storesWith, uniqueName } from '../../kit/service.ts'
import { codes, expectRefusal } from '../http-error.ts'
import { type Organization, openOrganization } from './organization.ts'

let organization: Organization
let admin: Organization['admin']
beforeAll(async () => {
  organization = await openOrganization()
  admin = organization.admin
})
afterAll(() => organization?.close())

type Entry = { at: number; userName: string; act: string; subject: string; details: Record<string, unknown> }
const read = async (query = '', client = admin) =>
  (await client.get(`/admin/audit${query}`)).body as { entries: Entry[]; nextPage: string | null }

it('every administrative act is written down: who, when, what, on what; newest first', async () => {
  const [person, account, secretName] = [uniqueName('person'), uniqueName('account'), uniqueName('secret')]
  const { workspaceName, organizationId } = organization
  const send = async (method: string, path: string, body?: unknown) => {
    const answer = await admin.send(method, path, body === undefined ? undefined : JSON.stringify(body))
    expect(answer.status, answer.text).toBe(200)
    return answer.body
  }
  const before = Date.now()
  await send('POST', '/admin/users', { userName: person })
  const { keyId } = await send('POST', '/admin/users/keys', { userName: person })
  await send('PUT', `/admin/users/${person}`, { isAdmin: true })
  await send('DELETE', `/admin/keys/${keyId}`)
  const membership = { workspaceName, userName: person, admin: true }
  await send('POST', '/write/add-workspace-member', membership)
  await send('DELETE', `/admin/users/${person}`)
  const { apiKey } = await send('POST', '/write/service-account', organization.account(account))
  await send('POST', `/write/service-account/${account}/create-api-key`, {})
  await send('POST', `/write/service-account/${account}/delete-api-key`, { apiKey })
  await send('GET', `/write/api/rotate?userName=${account}`)
  await send('DELETE', `/write/service-account/${account}`)
  const secrets = `/write/organization/${organizationId}/secrets`
  await send('PUT', secrets, { secretName, secretValue: 'never written down' })
  await send('DELETE', `${secrets}/${secretName}`)
  await send('PUT', '/admin/limits', { workspaceName, limits: { metricsPerMinute: 10 } })
  const url = 'https://hooks.example/a-token-in-the-path'
  const webhookConfigs = [{ workspaceName, webhookUrls: [{ url, header: { Authorization: 'never written down' } }] }]
  expect((await admin.post('/webhooks/config', { webhookConfigs })).status).toBe(204)
  await send('POST', '/webhooks/signing-secret', { workspaceName, url })

  const { entries, nextPage } = await read()

  expect(nextPage).toBeNull()
  expect(entries.toReversed().map(({ act, subject }) => [act, subject])).toEqual([
    ['user.created', person],
    ['key.created', person],
    ['user.changed', person],
    ['key.revoked', person],
    ['workspace-member.set', person],
    ['user.removed', person],
    // Its own workspace would have no owner.
    ['workspace-member.set', organization.userName],
    ['service-account.created', account],
    ['key.created', account],
    ['key.revoked', account],
    ['key.rotated', account],
    ['service-account.removed', account],
    ['secret.set', secretName],
    ['secret.deleted', secretName],
    ['limits.set', workspaceName],
    ['webhooks.set', workspaceName],
    ['webhook-secret.made', workspaceName],
  ])
  for (const { userName, at } of entries) {
    expect(userName).toBe(organization.userName)
    expect(Math.abs(at - before)).toBeLessThan(60_000)
  }
  const detailsOf = (act: string) => entries.findLast((it) => it.act === act)?.details
  expect(detailsOf('key.created')).toEqual({ keyId })
  expect(detailsOf('user.changed')).toEqual({ isAdmin: true })
  expect(detailsOf('workspace-member.set')).toEqual({ workspaceName, admin: true })
  expect(detailsOf('limits.set')).toEqual({ workspaceName, set: { metricsPerMinute: 10 }, unset: [] })
  expect(detailsOf('webhooks.set')).toEqual({ modelName: '*', how: 'merge', hosts: ['hooks.example'] })
  expect(JSON.stringify(entries)).not.toContain('never written down')
  expect(JSON.stringify(entries)).not.toContain('a-token-in-the-path')
  expect(JSON.stringify(entries)).not.toContain(apiKey)
})

it('is paged, each entry once, and only for admins of the organization', async () => {
  const { entries } = await read()
  const paged: Entry[] = []
  for (let page: string | null = ''; page !== null; ) {
    const answer = await read(`?pageSize=3${page && `&page=${page}`}`)
    expect(answer.entries.length).toBeLessThanOrEqual(3)
    paged.push(...answer.entries)
    page = answer.nextPage
  }
  expect(paged).toEqual(entries)
  expect((await read('', organization.stranger)).entries).toEqual([])
})

it.each([
  ['pageSize=0', 'pageSize: must be 1 or more'],
  ['pageSize=1001', 'pageSize: must be 1000 or fewer'],
  ['pageSize=x', 'pageSize: expected an integer'],
  ['page=x', 'page: expected the nextPage of an earlier answer'],
  ['page=1&page=2', 'page: expected a string'],
])('%s is refused by name', async (query, message) => {
  expectRefusal(await admin.get(`/admin/audit?${query}`), 400, codes.badRequest, message)
})

it('a rejected or failed action leaves no entry, and an action without an entry is rolled back', async () => {
  const own = await openOrganization()
  const database = openDatabase({ url: storesWith('postgres').postgresUrl, onError: () => undefined })
  const name = uniqueName('account')
  await own.admin.post('/write/service-account', own.account(name, { teamName: 'nowhere' }))
  await own.admin.post(`/write/service-account/${name}/create-api-key`, {})
  await own.admin.send('DELETE', '/admin/keys/none', undefined)
  expect((await read('', own.admin)).entries).toEqual([])

  await database.row(
    `ALTER TABLE audit_log ADD CONSTRAINT refused CHECK (subject <> '${name}' OR act <> 'service-account.created')`,
  )
  try {
    const answer = await own.admin.post('/write/service-account', own.account(name))
    expect([answer.status, answer.body.sdk_error_code]).toEqual([500, 7777777])
  } finally {
    await database.row('ALTER TABLE audit_log DROP CONSTRAINT refused')
    await database.close()
  }
  expect((await own.admin.get('/admin/users')).text).not.toContain(name)
  expect((await own.admin.get('/admin/keys')).text).not.toContain(name)
  await own.close()
})
