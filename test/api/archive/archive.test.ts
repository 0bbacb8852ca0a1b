import { readFileSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import path from 'node:path'
import { gunzipSync, gzipSync } from 'node:zlib'
import { extract, pack } from 'tar-stream'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type ClickHouse, openClickHouse } from '../../../store/clickhouse/connection.ts'
import { ensureUser } from '../../../store/postgres/accounts/accounts.ts'
import { createApiKey } from '../../../store/postgres/accounts/api-key.ts'
import { insertApiKey } from '../../../store/postgres/accounts/keys.ts'
import { type Database, openDatabase } from '../../../store/postgres/database.ts'
import { sweepGivenUpImports } from '../../../workers/retention/given-up-imports.ts'
import { aPoint } from '../../kit/builders.ts'
import { eventually } from '../../kit/eventually.ts'
import { expectSame, fillEverything, type Read, readEverything, readSettled } from '../../kit/everything.ts'
import { createClient, type TestClient } from '../../kit/http/client.ts'
import { aFolder, svc } from '../../kit/processes/svc.ts'
import { openOwnStores, openTestService, uniqueName } from '../../kit/service.ts'

/**
 * A project goes from one server to another: every read of it answers the same there. Both have one public address, or else
 * links would differ, and a user of one name.
 */
type Service = Awaited<ReturnType<typeof openTestService>>
type Target = { service: Service; database: Database; clickhouse: ClickHouse; apiKey: string; client: TestClient }

const closers: (() => unknown)[] = []
const onClose = (close: () => unknown) => void closers.push(close)
afterAll(async () => {
  for (const close of closers.toReversed()) await close()
})

let source: Service
let target: Target
let reads: Read[]
let before: Record<string, string>
let projectName: string
let archive: string

/** Of the project, and in an archive: share codes open a project of one server. */
const isOfProject = ({ path: it }: Read) =>
  /^\/(experiments?|project|get|artifacts|views|viz-instance|export)\b/.test(it) &&
  !/get-project-share-links|get-all\?workspace=|export\/(events|labels|audit)/.test(it)

/** Answers without the id of the workspace, which is the target's own. */
const withoutWorkspaceId = (answers: Record<string, string>) =>
  Object.fromEntries(Object.entries(answers).map(([read, it]) => [read, it.replaceAll(/"workspaceId":"[^"]+"/g, '')]))

async function openService() {
  const stores = await openOwnStores('postgres')
  const settings = { SVC_PUBLIC_URL: 'https://svc.example' }
  const service = await openTestService({ stores, settings, isAdmin: true })
  onClose(service.close)
  return { service, stores }
}

const runExport = (project: string, file: string) =>
  svc(['export', '--url', source.url, '--project', project, '--archive', file], { SVC_API_KEY: source.apiKey }, onClose)
const runImport = (file: string, ...more: string[]) =>
  svc(
    ['import', file, '--url', target.service.url, '--workspace', source.workspaceName, '--json', ...more],
    { SVC_API_KEY: target.apiKey },
    onClose,
  )

beforeAll(async () => {
  const [from, to] = await Promise.all([openService(), openService()])
  source = from.service
  const { userName, workspaceName } = source
  const database = openDatabase({ url: to.stores.postgresUrl, connectionsMax: 2, onError: () => undefined })
  onClose(() => database.close())
  const { userId } = await ensureUser(database, {
    userName,
    workspaceName,
    organizationName: 'of the copy',
    isAdmin: true,
  })
  const apiKey = createApiKey()
  await insertApiKey(database, userId, apiKey)
  const { url } = to.service
  const clickhouse = openClickHouse({ url: to.stores.clickhouseUrl })
  onClose(() => clickhouse.close())
  target = { service: to.service, database, clickhouse, apiKey, client: createClient(url, { apiKey, workspaceName }) }

  reads = (await fillEverything(source)).filter(isOfProject)
  before = withoutWorkspaceId(await readSettled(source, reads))
  const [project] = reads.filter((it) => it.path.startsWith('/project?'))
  projectName = (await source.client.get(project?.path as string)).body.projectName as string
  archive = path.join(await aFolder(onClose), 'project.tar')
  const { code, stderr } = await runExport(projectName, archive)
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
}, 240_000)

const countRows = async () =>
  await target.database.row<Record<string, bigint>>(
    `SELECT (SELECT count(*) FROM projects) AS projects, (SELECT count(*) FROM experiments) AS experiments,
       (SELECT count(*) FROM assets) AS assets, (SELECT count(*) FROM artifacts) AS artifacts`,
  )

type Member = { name: string; content: Buffer }

async function readMembers(): Promise<Member[]> {
  const tar = extract()
  tar.end(readFileSync(archive))
  const members: Member[] = []
  for await (const entry of tar)
    members.push({
      name: entry.header.name,
      content: Buffer.concat(await Array.fromAsync(entry as AsyncIterable<Buffer>)),
    })
  return members
}

async function write(members: Member[]): Promise<string> {
  const tar = pack()
  for (const { name, content } of members) tar.entry({ name }, content)
  tar.finalize()
  const file = path.join(path.dirname(archive), `${uniqueName('changed')}.tar`)
  writeFileSync(file, Buffer.concat(await Array.fromAsync(tar as AsyncIterable<Buffer>)))
  return file
}

/** The archive with other rows in a table. */
async function withRow(table: string, change: (row: Record<string, unknown>) => void): Promise<string> {
  const members = await readMembers()
  for (const member of members) {
    if (!member.name.startsWith(`tables/${table}-`)) continue
    const rows = gunzipSync(member.content)
      .toString()
      .trimEnd()
      .split('\n')
      .map((it) => JSON.parse(it))
    for (const row of rows) change(row)
    member.content = gzipSync(rows.map((it) => `${JSON.stringify(it)}\n`).join(''))
  }
  return await write(members)
}

async function expectRefused(file: string, message: RegExp, ...more: string[]) {
  const { code, stderr } = await runImport(file, ...more)
  expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringMatching(message) })
}

it('a damaged, cut-off or forged archive is refused by the name of the member, and nothing of it stays', async () => {
  const empty = await countRows()
  const whole = readFileSync(archive)
  const members = await readMembers()
  const at = (name: RegExp) => members.findIndex((it) => name.test(it.name))
  const changed = (name: RegExp, content: (before: Buffer) => Buffer) =>
    write(members.map((it) => (name.test(it.name) ? { ...it, content: content(it.content) } : it)))
  const flipped = (it: Buffer) => Buffer.from(it.map((byte, place) => (place === it.length - 20 ? byte ^ 1 : byte)))
  const cut = path.join(path.dirname(archive), 'cut.tar')

  writeFileSync(cut, whole.subarray(0, Math.floor(whole.length * 0.6)))
  await expectRefused(cut, /HTTP 400: objects\/\d+: here the archive is damaged or cut off/)
  await expectRefused(await write(members.slice(0, -1)), /the archive is cut off\. Nothing was imported/)
  await expectRefused(await changed(/^objects\/00000002/, flipped), /objects\/00000002: is damaged/)
  await expectRefused(await changed(/^logged\/points-/, flipped), /logged\/points-00001\.jsonl\.gz: is damaged/)
  const longer = (it: Buffer) => gzipSync(gunzipSync(it).toString().replace(/\]$/m, ',0]'))
  await expectRefused(
    await changed(/^logged\/points-/, longer),
    /logged\/points-00001\.jsonl\.gz: line 1: must be a list of 12\. Nothing was imported/,
  )
  // A row that is wrong because of the damage: the rows come before the end that is missing.
  const endless = (it: Buffer) => longer(it).subarray(0, -8)
  await expectRefused(await changed(/^logged\/points-/, endless), /logged\/points-00001\.jsonl\.gz: is damaged/)
  await expectRefused(await write(members.toSpliced(at(/^objects/), 1)), /objects\/00000001: is missing/)
  const newer = (it: Buffer) => Buffer.from(it.toString().replace('"version": 1', '"version": 2'))
  await expectRefused(
    await changed(/^archive\.json/, newer),
    /archive\.json: version: this server reads archives of version 1/,
  )
  await expectRefused(
    await write([...members, { name: '../../etc/passwd', content: Buffer.from('x') }]),
    /passwd: comes after SHA256SUMS/,
  )
  await expectRefused(
    await withRow('artifact_versions', (row) => {
      row.artifact_id = 'of somebody else'
    }),
    /tables\/artifact_versions-00001\.jsonl\.gz: line 1: artifact_id: the archive has no such row/,
  )
  await expectRefused(
    await withRow('experiments', (row) => {
      row.name = 'x'.repeat(2_000)
    }),
    /experiments-00001\.jsonl\.gz: line 1: name: must have 1000 characters or fewer/,
  )
  expect(await countRows()).toEqual(empty)
})

let brokenOff: string[]

it('an import whose client goes away in the middle leaves nothing, and the next one is whole', async () => {
  const empty = await countRows()
  const bytes = readFileSync(archive)
  const query = new URLSearchParams({ workspaceName: source.workspaceName })
  const request = http.request(`${target.service.url}/api/rest/v2/write/project/import?${query}`, {
    method: 'POST',
    headers: { authorization: target.apiKey, 'content-type': 'application/x-tar', 'content-length': bytes.length },
  })
  request.on('error', () => undefined)
  request.write(bytes.subarray(0, Math.floor(bytes.length * 0.7)))
  await eventually(async () => {
    const row = await target.database.row('SELECT 1 FROM imports WHERE NOT is_given_up')
    expect(row).toBeDefined()
  })
  request.destroy()
  await eventually(async () => {
    expect(await target.database.row('SELECT 1 FROM imports WHERE NOT is_given_up')).toBeUndefined()
  })
  expect(await countRows()).toEqual(empty)

  const given = await target.database.rows<{ ids: string[] }>('SELECT experiment_ids::text[] AS ids FROM imports')
  brokenOff = given.flatMap((it) => it.ids)
  expect(await countPoints(brokenOff)).toBeGreaterThan(0)
  // So it would be had the server been killed: nobody gave the import up.
  await target.database.row('UPDATE imports SET is_given_up = false')
})

async function countPoints(experimentIds: string[]): Promise<number> {
  const { clickhouse } = target
  const [row] = await clickhouse.rows<{ rows: string }>(
    `SELECT count() AS rows FROM ${clickhouse.database}.points WHERE experiment_id IN (${experimentIds.join(', ')})`,
  )
  return Number(row?.rows)
}

it('every read of an imported project answers byte for byte what it answered where it came from; repeated, nothing changes', async () => {
  const first = await runImport(archive)
  expect({ code: first.code, stderr: first.stderr }).toEqual({ code: 0, stderr: '' })
  expect(JSON.parse(first.stdout)).toMatchObject({ projectName, isNew: true, experiments: 2, unknownUsers: [] })
  expect(reads.length).toBeGreaterThan(70)
  const copy = { url: target.service.url, apiKey: target.apiKey }
  expectSame(withoutWorkspaceId(await readEverything(copy, reads)), before)

  const rows = await countRows()
  const again = await runImport(archive)
  expect({ code: again.code, stderr: again.stderr }).toEqual({ code: 0, stderr: '' })
  expect(JSON.parse(again.stdout)).toMatchObject({ projectName, isNew: false })
  expect(await countRows()).toEqual(rows)
  expectSame(withoutWorkspaceId(await readEverything(copy, reads)), before)
  const audit = (await target.client.get('/admin/audit')).text
  expect(audit.match(/project\.imported/g)).toHaveLength(1)

  // What the broken import had stored belongs to no experiment: it is swept, and nothing else.
  await sweepGivenUpImports(target.database, target.clickhouse)
  expect(await countPoints(brokenOff)).toBe(0)
  expect(await target.database.rows('SELECT project_id FROM imports')).toHaveLength(1)
  expectSame(withoutWorkspaceId(await readEverything(copy, reads)), before)
})

it('what an imported experiment logs further goes on where it was', async () => {
  const [experimentKey] = (await target.database.rows<{ key: string }>('SELECT key FROM experiments ORDER BY id')).map(
    (it) => it.key,
  )
  const metric = aPoint({ metricName: uniqueName('new'), metricValue: 3 })
  expect((await target.client.post('/write/experiment/metric', { experimentKey, ...metric })).status).toBe(200)
  await eventually(async () => {
    const { body } = await target.client.get(`/experiment/metrics/get-all?experimentKey=${experimentKey}`)
    expect(JSON.stringify(body)).toContain(metric.metricName)
  })
})

it('an archive is refused where its name or ids are taken, and to all but admins', async () => {
  const other = uniqueName('other')
  await source.client.createExperiment({ projectName: other })
  const file = path.join(path.dirname(archive), 'other.tar')
  expect((await runExport(other, file)).code).toBe(0)
  await target.client.createExperiment({ projectName: other })
  await expectRefused(file, /has a project "[^"]+" already: give the copy another name/)
  const renamed = await runImport(file, '--project', `${other} of the source`)
  expect(JSON.parse(renamed.stdout)).toMatchObject({ projectName: `${other} of the source`, isNew: true })
  // Another archive of the same project.
  expect((await runExport(other, file)).code).toBe(0)
  await expectRefused(file, /This server has project \w+ already/, '--project', uniqueName('third'))

  await target.database.row('UPDATE users SET is_admin = false WHERE user_name = $1', [source.userName])
  const apiKey = createApiKey()
  const user = await target.database.row<{ id: string }>('SELECT id FROM users WHERE user_name = $1', [source.userName])
  await insertApiKey(target.database, user?.id as string, apiKey)
  const { code, stderr } = await svc(
    ['import', file, '--url', target.service.url, '--workspace', source.workspaceName],
    { SVC_API_KEY: apiKey },
    onClose,
  )
  expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringMatching(/HTTP 403: Only an admin/) })
})
