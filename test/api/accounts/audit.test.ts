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
  expect(detailsOf('user.changed')).toEqual({ role: 'admin' })
  expect(detailsOf('workspace-member.set')).toEqual({ workspaceName, role: 'owner' })
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

it('is filtered by who, what, workspace and time; filters join, page by page', async () => {
  const own = await openOrganization()
  const { admin: owner, workspaceName } = own
  const other = await own.createWorkspace(uniqueName('other'))
  const colleague = own.as(await own.createColleague('second', { isAdmin: true }))
  const put = (client: typeof owner, body: object) => client.send('PUT', '/admin/limits', JSON.stringify(body))
  const limits = { metricsPerMinute: 7 }
  await put(owner, { workspaceName, limits })
  await put(colleague, { workspaceName, limits })
  await put(colleague, { workspaceName: other, limits })
  await owner.createExperiment({ projectName: 'project' })
  const { projects } = (await owner.get(`/projects?workspaceName=${workspaceName}`)).body as {
    projects: { projectId: string }[]
  }
  await put(owner, { projectId: projects[0]?.projectId, limits })
  const webhookUrls = [{ url: 'https://hooks.example' }]
  await owner.post('/webhooks/config', { webhookConfigs: [{ workspaceName, webhookUrls }] })
  const all = (await read('', owner)).entries

  const ask = async (filter: Record<string, string>) => (await read(`?${new URLSearchParams(filter)}`, owner)).entries
  const keep = (test: (entry: Entry) => boolean) => all.filter(test)
  expect(await ask({ act: 'limits.set' })).toEqual(keep((it) => it.act === 'limits.set'))
  expect(await ask({ userName: 'second' })).toEqual(keep((it) => it.userName === 'second'))
  expect((await ask({ workspaceName: other })).map((it) => it.act)).toEqual(['limits.set'])
  expect((await ask({ workspaceName: 'second' })).map((it) => it.act)).toEqual(['user.created'])
  const ofWorkspace = await ask({ workspaceName })
  // That of the project counts for its workspace; so does what names the workspace as its subject.
  expect(ofWorkspace.map((it) => it.act)).toEqual(['webhooks.set', 'limits.set', 'limits.set', 'limits.set'])
  expect(await ask({ workspaceName, act: 'limits.set', userName: 'second' })).toEqual(
    keep((it) => it.userName === 'second' && it.details.workspaceName === workspaceName),
  )
  expect(await ask({ userName: 'nobody' })).toEqual([])

  const [newest, oldest] = [all[0]?.at as number, all.at(-1)?.at as number]
  expect(await ask({ from: String(oldest), to: String(newest + 1) })).toEqual(all)
  expect(await ask({ to: String(oldest) })).toEqual([])
  expect(await ask({ from: String(newest + 1) })).toEqual([])
  const middle = all[3]?.at as number
  expect(await ask({ from: String(middle) })).toEqual(keep((it) => it.at >= middle))
  expect(await ask({ to: String(middle) })).toEqual(keep((it) => it.at < middle))

  const paged: Entry[] = []
  for (let page: string | null = ''; page !== null; ) {
    const answer = await read(`?act=limits.set&pageSize=1${page && `&page=${page}`}`, owner)
    paged.push(...answer.entries)
    page = answer.nextPage
  }
  expect(paged).toEqual(keep((it) => it.act === 'limits.set'))
  const exported = await owner.get('/export/audit?format=jsonl&act=limits.set&userName=second')
  expect(exported.text.trim().split('\n')).toHaveLength(2)
  await own.close()
})

it('has entries of one time in the order in which they were made', async () => {
  const own = await openOrganization()
  const database = openDatabase({ url: storesWith('postgres').postgresUrl, onError: () => undefined })
  await database.row(
    `INSERT INTO audit_log (organization_id, actor, act, subject, at)
     SELECT $1, 'a', 'key.created', n::text, to_timestamp(1700000000 + n / 5) FROM generate_series(1, 23) n`,
    [own.organizationId],
  )
  await database.close()
  const subjects: string[] = []
  for (let page: string | null = ''; page !== null; ) {
    const answer = await read(`?userName=a&pageSize=4${page && `&page=${page}`}`, own.admin)
    subjects.push(...answer.entries.map((it) => it.subject))
    page = answer.nextPage
  }
  expect(subjects).toEqual(Array.from({ length: 23 }, (_, at) => String(23 - at)))
  await own.close()
})

it.each([
  ['act=user.eaten', /^act: must be one of user\.created, /],
  ['userName=', 'userName: must not be empty'],
  ['from=yesterday', 'from: expected ms since the Unix epoch'],
  ['to=-1', 'to: must be 0 or more'],
  ['to=1e300', /^to: /],
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
