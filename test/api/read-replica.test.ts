import pg from 'pg'
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import type { StoreUrls } from '../../cli/settings.ts'
import { migrateStores } from '../../cli/stores.ts'
import { createClosers } from '../../runtime/closers.ts'
import { eventually } from '../kit/eventually.ts'
import { inForm } from '../kit/form.ts'
import { openTestService, storesWith, uniqueName } from '../kit/service.ts'
import { openPostgresWithReplica } from '../kit/stores/postgres-replica.ts'

const closers = createClosers()
afterAll(() => closers.closeAll())
const services = createClosers()
afterEach(() => services.closeAll())

let stores: StoreUrls
let servers: Awaited<ReturnType<typeof openPostgresWithReplica>>
beforeAll(async () => {
  servers = await openPostgresWithReplica(closers)
  const clickhouseUrl = new URL(storesWith('postgres').clickhouseUrl)
  clickhouseUrl.pathname = `/${uniqueName('replica').replaceAll('-', '_')}`
  stores = { ...storesWith('postgres'), clickhouseUrl: clickhouseUrl.href, postgresUrl: servers.primaryUrl }
  await migrateStores(stores, undefined)
})

async function openService(readUrl: string | undefined, of = stores) {
  const settings = { POSTGRES_URL: of.postgresUrl, POSTGRES_READ_URL: readUrl ?? '' }
  const service = await openTestService({ stores: of, settings, roles: new Set(['api']), isAdmin: true })
  services.push(() => service.close())
  const { client, workspaceName } = service
  const projectName = uniqueName('project')

  return {
    ...service,
    async create(): Promise<string> {
      const { body } = await client.post('/write/experiment/create', { workspaceName, projectName })
      return (body as { experimentKey: string }).experimentKey
    },
    /** The keys of all experiments, as the list has them and as the query has them. */
    async list(): Promise<{ listed: string[]; queried: string[] }> {
      const project = { workspaceName, projectName }
      const [list, query] = await Promise.all([
        client.get(`/experiments?${new URLSearchParams(project)}`),
        client.post('/project/query', { ...project, predicates: [] }),
      ])
      expect([list.status, query.status], `${list.text} ${query.text}`).toEqual([200, 200])
      const toKeys = ({ body }: { body: unknown }) =>
        (body as { experiments: { experimentKey: string }[] }).experiments.map((it) => it.experimentKey)
      return { listed: toKeys(list), queried: toKeys(query) }
    },
    async countReads(): Promise<{ primary: number; replica: number }> {
      const text = await (await fetch(`${service.url}/metrics`)).text()
      const count = (server: string) =>
        Number(text.match(new RegExp(`^svc_postgres_reads_total\\{server="${server}"\\} (\\d+)$`, 'm'))?.[1] ?? 0)
      return { primary: count('primary'), replica: count('replica') }
    },
  }
}

async function onReplica(sql: string) {
  const client = new pg.Client({ connectionString: servers.replicaUrl })
  await client.connect()
  await client.query(sql)
  await client.end()
}

it('the replica answers, and every list has the latest write', async () => {
  const { create, list, countReads } = await openService(servers.replicaUrl)
  const rounds = inForm({ short: 40, middle: 50, long: 1_000 })
  const made: string[] = []
  for (let round = 0; round < rounds; round++) {
    made.push(await create())
    expect(await list()).toEqual({ listed: made, queried: made })
  }
  const { primary, replica } = await countReads()
  expect(primary + replica).toBe(2 * rounds)
  expect(replica).toBeGreaterThan(0)
  // A quiet pair of servers is even within moments.
  await eventually(async () => {
    const before = await countReads()
    await list()
    expect(await countReads()).toEqual({ ...before, replica: before.replica + 2 })
  })
})

it('writers and readers side by side: no list misses what was acknowledged before it was asked for', async () => {
  const { create, list, countReads } = await openService(servers.replicaUrl)
  const acknowledged: string[] = [await create()]
  const rounds = inForm({ short: 15, middle: 20, long: 200 })
  await Promise.all([
    ...[1, 2, 3].map(async () => {
      for (let round = 0; round < rounds; round++) acknowledged.push(await create())
    }),
    ...[1, 2, 3].map(async () => {
      for (let round = 0; round < rounds; round++) {
        const before = [...acknowledged]
        const { listed, queried } = await list()
        expect(listed).toEqual(expect.arrayContaining(before))
        expect(queried).toEqual(expect.arrayContaining(before))
      }
    }),
  ])
  expect((await countReads()).replica).toBeGreaterThan(0)
})

it('a replica that stands still is passed over: the primary answers with the newest, and no read fails', async () => {
  const { create, list, countReads } = await openService(servers.replicaUrl)
  const made = [await create()]
  await eventually(async () => {
    await list()
    expect((await countReads()).replica).toBeGreaterThan(0)
  })
  await onReplica('SELECT pg_wal_replay_pause()')
  const before = await countReads()
  for (let round = 0; round < 20; round++) {
    made.push(await create())
    expect(await list()).toEqual({ listed: made, queried: made })
  }
  expect((await countReads()).replica).toBe(before.replica)

  await onReplica('SELECT pg_wal_replay_resume()')
  await eventually(async () => {
    await list()
    expect((await countReads()).replica).toBeGreaterThan(before.replica)
  })
  expect(await list()).toEqual({ listed: made, queried: made })
})

it('assets, columns, artifacts, registered models and the audit log are read there too', async () => {
  const { create, client, workspaceName, countReads, list } = await openService(servers.replicaUrl)
  const experimentKey = await create()
  const { projectId } = (await client.get(`/experiment/metadata?experimentKey=${experimentKey}`)).body as {
    projectId: string
  }
  await list()
  const before = await countReads()
  const paths = [
    `/experiment/asset/list?experimentKey=${experimentKey}`,
    `/project/column-names?projectId=${projectId}`,
    `/artifacts/get-all?workspace=${workspaceName}`,
    `/registry-model?workspaceName=${workspaceName}`,
    '/admin/audit',
  ]
  for (const path of paths) {
    const { status, text } = await client.get(path)
    expect(status, `${path}: ${text}`).toBe(200)
  }
  const after = await countReads()
  // The columns are three questions, the models two.
  expect(after.primary + after.replica - before.primary - before.replica).toBe(8)
})

it('without the setting the primary answers everything', async () => {
  const { create, list, countReads } = await openService(undefined)
  const made = [await create()]
  expect(await list()).toEqual({ listed: made, queried: made })
  expect(await countReads()).toEqual({ primary: 2, replica: 0 })
})

it('the address of the primary counts as no replica', async () => {
  const { create, list } = await openService(servers.primaryUrl)
  const made = [await create()]
  expect(await list()).toEqual({ listed: made, queried: made })
})

it('a foreign server or database fails the start', async () => {
  const refusal = /POSTGRES_READ_URL \(127\.0\.0\.1:\d+\) is no replica of the one at POSTGRES_URL/
  await expect(openService(storesWith('postgres').postgresUrl)).rejects.toThrow(refusal)
  const other = new URL(servers.replicaUrl)
  other.pathname = '/postgres'
  await expect(openService(other.href)).rejects.toThrow(refusal)
})

it('reads that the replica cancels are answered by the primary', async () => {
  const { create, list, countReads } = await openService(servers.replicaUrl)
  const made = [await create()]
  let isReading = true
  let ended = 0
  const ending = (async () => {
    const client = new pg.Client({ connectionString: servers.replicaUrl })
    await client.connect()
    while (isReading) {
      const { rowCount } = await client.query(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()`,
      )
      ended += rowCount ?? 0
    }
    await client.end()
  })()
  try {
    await eventually(async () => {
      made.push(await create())
      expect(await list()).toEqual({ listed: made, queried: made })
      expect(ended).toBeGreaterThan(5)
    })
  } finally {
    isReading = false
    await ending
  }
  await eventually(async () => {
    const { replica } = await countReads()
    await list()
    expect((await countReads()).replica).toBeGreaterThan(replica)
  })
})

it('a replica that is down, also at the start, causes no errors', async () => {
  const { create, list, countReads } = await openService(servers.replicaUrl)
  const made = [await create()]
  await eventually(async () => {
    await list()
    expect((await countReads()).replica).toBeGreaterThan(0)
  })
  const reading = (async () => {
    for (let round = 0; round < 30; round++) {
      made.push(await create())
      expect(await list()).toEqual({ listed: made, queried: made })
    }
  })()
  await Promise.all([servers.stopReplica(), reading])
  const { replica } = await countReads()
  made.push(await create())
  expect(await list()).toEqual({ listed: made, queried: made })
  expect((await countReads()).replica).toBe(replica)

  const late = await openService(servers.replicaUrl)
  const key = await late.create()
  expect(await late.list()).toEqual({ listed: [key], queried: [key] })
})
