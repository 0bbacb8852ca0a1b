import { afterAll, beforeAll, expect, it } from 'vitest'
import type { StoreUrls } from '../../../cli/settings.ts'
import { type ClickHouse, openClickHouse } from '../../../store/clickhouse/connection.ts'
import { deleteExperimentRows } from '../../../store/clickhouse/deletions.ts'
import { experimentTables } from '../../../store/clickhouse/points/chunks.ts'
import { summaryTable } from '../../../store/clickhouse/points/summaries/summary.ts'
import { checkChain, readChain } from '../../../store/postgres/accounts/audit-chain.ts'
import { type Database, openDatabase } from '../../../store/postgres/database.ts'
import { deleteExperiments, listDeletedBefore } from '../../../store/postgres/experiments/experiments.ts'
import { purgeDeletedProjects } from '../../../store/postgres/projects/deletion.ts'
import { createRetention } from '../../../workers/retention/retention.ts'
import { aPoint } from '../../kit/builders.ts'
import { lookInto, openOwnObjects } from '../../kit/clients/assets.ts'
import { eventually } from '../../kit/eventually.ts'
import { createUser, openOwnStores, openTestService, uniqueName } from '../../kit/service.ts'

let service: Awaited<ReturnType<typeof openTestService>>
let clickhouse: ClickHouse
let database: Database
let objects: Awaited<ReturnType<typeof openOwnObjects>>
let stores: StoreUrls
beforeAll(async () => {
  objects = await openOwnObjects()
  stores = { ...(await openOwnStores('postgres')), objectsUrl: objects.url }
  clickhouse = openClickHouse({ url: stores.clickhouseUrl })
  database = openDatabase({ url: stores.postgresUrl, onError: () => undefined })
  service = await openTestService({ stores })
})
afterAll(async () => {
  await service?.close()
  await Promise.all([clickhouse?.close(), database?.close()])
  await objects?.close()
})

const hourMs = 3_600_000

/** An experiment with something of everything, whose rows can be read. */
async function aFullExperiment() {
  const { client } = service
  const experimentKey = await client.createExperiment()
  const write = async (name: string, body: object) => {
    expect((await client.post(`/write/experiment/${name}`, { experimentKey, ...body })).status).toBe(200)
  }
  await write('metric', aPoint())
  await write('load-metrics', { loadAverage: 1 })
  await write('output', { outputLines: [{ output: 'line' }] })
  await write('parameter', { parameterName: 'a', parameterValue: 1 })
  await write('tags', { addedTags: ['a'] })
  await write('html', { html: 'a' })
  await write('upload-text-sample', { content: 'a' })
  await write('assets/remote/batch', { remoteAssets: [{ link: 's3://a/b' }] })
  const upload = async (query: Record<string, string>) => {
    const path = `/write/experiment/upload-asset?${new URLSearchParams({ experimentKey, fileName: 'a', ...query })}`
    const answer = await client.postRaw(path, 'bytes', { headers: { 'content-type': 'text/plain' } })
    expect(answer.status).toBe(200)
    return answer.body.assetId as string
  }
  const assetId = await upload({})
  await upload({ type: 'model-element', groupingName: 'net' })
  const opened = await client.post('/write/artifacts/upsert', { experimentKey, artifactName: uniqueName('artifact') })
  const { artifactVersionId } = opened.body as { artifactVersionId: string }
  await upload({ artifactVersionId })
  await client.get(
    `/artifacts/version?${new URLSearchParams({
      versionId: artifactVersionId,
      experimentKey,
      consumerExperimentKey: experimentKey,
    })}`,
  )
  await client.post('/write/project/create', {
    workspaceName: service.workspaceName,
    projectName: 'linked',
    projectDescription: '',
    isPublic: false,
  })
  await client.get(`/write/project/symlink?exerimentKey=${experimentKey}&projectName=linked`)
  await client.readPoints(experimentKey, 'loss', 1)
  await client.readPoints(experimentKey, 'sys.load.average', 1)
  const row = await database.row<{ id: bigint }>('SELECT id FROM experiments WHERE key = $1', [experimentKey])
  const id = (row as { id: bigint }).id
  await expect.poll(() => countRows(id)).toEqual([1, 0, 1, 1, 1])
  // Metrics, resource usage, output, parameters and others are counted, a little later.
  await expect.poll(async () => (await countRelated(id)).experiment_counters, { timeout: 10_000 }).toBe(5)
  return { experimentKey, id, assetId }
}

const countRows = (id: bigint) =>
  Promise.all(
    [...experimentTables.map((it) => it.name), summaryTable].map(async (table) => {
      const [row] = await clickhouse.rows<{ rows: string }>(
        `SELECT count() AS rows FROM ${clickhouse.database}.${table} WHERE experiment_id = ${id}`,
      )
      return Number(row?.rows)
    }),
  )

/** Rows that belong to an experiment, by the tables of Postgres that refer to experiments, whichever those are. */
async function countRelated(id: bigint): Promise<Record<string, number>> {
  const references = await database.rows<{ table: string; column: string }>(
    `SELECT c.conrelid::regclass::text AS table, a.attname AS column FROM pg_constraint c
     JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = c.conkey[1]
     WHERE c.confrelid = 'experiments'::regclass AND c.contype = 'f' ORDER BY 1`,
  )
  const counts = references.map(async ({ table, column }) => {
    const row = await database.row<{ rows: bigint }>(`SELECT count(*) AS rows FROM ${table} WHERE ${column} = $1`, [id])
    return [table, Number(row?.rows)] as const
  })
  return Object.fromEntries(await Promise.all(counts))
}

/** The tables of Postgres in which a text stands in whatever column. */
async function findTablesWith(text: string): Promise<string[]> {
  const tables = await database.rows<{ name: string }>(
    `SELECT oid::regclass::text AS name FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace`,
  )
  const found: string[] = []
  for (const { name } of tables) {
    const row = await database.row(`SELECT 1 FROM ${name} AS entry WHERE strpos(entry::text, $1) > 0 LIMIT 1`, [text])
    if (row) found.push(name)
  }
  return found.toSorted()
}

function openRetention(ids: bigint[], keptForMs: number) {
  return createRetention({
    deleteOld: async () => undefined,
    deleteProjects: (timeMs) => purgeDeletedProjects(database, timeMs),
    // Only what this test made: others delete experiments, too.
    listDeletedBefore: async (timeMs) =>
      (await listDeletedBefore(database, timeMs, 1_000)).filter((it) => ids.includes(it)),
    deleteRows: (experimentIds) => deleteExperimentRows(clickhouse, experimentIds),
    deleteExperiments: (experimentIds) => deleteExperiments(database, experimentIds),
    keptForMs,
    everyMs: hourMs,
    onError: () => undefined,
  })
}

it('an experiment past its restore period is deleted everywhere, and all others are unchanged', async () => {
  const [expired, recent, kept] = [await aFullExperiment(), await aFullExperiment(), await aFullExperiment()]
  for (const { experimentKey } of [expired, recent]) {
    await service.client.get(`/write/experiment/delete?experimentKey=${experimentKey}`)
  }
  const before = await countRelated(expired.id)
  const filled = Object.keys(before).filter((table) => (before[table] ?? 0) > 0)
  expect(filled).toEqual(
    expect.arrayContaining(['artifact_consumers', 'assets', 'experiment_models', 'experiment_values']),
  )
  const files = (await lookInto(stores).findFiles()).length
  await database.row(`UPDATE experiments SET deleted_at = now() - interval '2 hours' WHERE id = $1`, [expired.id])

  const retention = openRetention([expired.id, recent.id, kept.id], hourMs)
  await retention.sweep()
  await retention.close()

  expect(await countRows(expired.id)).toEqual([0, 0, 0, 0, 0])
  expect(await countRelated(expired.id)).toEqual(Object.fromEntries(Object.keys(before).map((table) => [table, 0])))
  // An artifact belongs to the workspace, and says where it began.
  expect(await findTablesWith(expired.experimentKey)).toEqual(['artifacts'])
  expect(await findTablesWith(kept.experimentKey)).toContain('artifact_versions')
  const restore = await service.client.get(`/write/experiment/restore?experimentKey=${expired.experimentKey}`)
  expect([restore.status, restore.body.sdk_error_code]).toEqual([400, 90211])
  for (const { id } of [recent, kept]) {
    expect(await countRows(id)).toEqual([1, 0, 1, 1, 1])
    expect(await countRelated(id)).toEqual(before)
  }
  // What is loose is freed with the next asset that goes: that is five files, one of them not of the expired experiment.
  await service.client.get(`/write/experiment/asset/delete?experimentKey=${kept.experimentKey}&assetId=${kept.assetId}`)
  expect((await lookInto(stores).findFiles()).length).toBe(files - 5)
  expect(await lookInto(stores).findLeftovers()).toEqual([])
  await service.client.get(`/write/experiment/restore?experimentKey=${recent.experimentKey}`)
  expect(await service.client.readMetric(recent.experimentKey, 'loss')).toHaveLength(1)
})

it('a deleted project past its restore period is gone, and a recent one comes back', async () => {
  const { client, workspaceName } = service
  const [expired, recent] = await Promise.all(
    [uniqueName('expired'), uniqueName('recent')].map(async (projectName) => {
      const experimentKey = await client.createExperiment({ projectName })
      const { body } = await client.get(`/project?${new URLSearchParams({ workspaceName, projectName })}`)
      await client.post('/write/project/delete', { workspaceName, projectName, deleteAllExperiments: false })
      return { projectId: body.projectId as string, projectName, experimentKey }
    }),
  )
  await database.row(`UPDATE projects SET deleted_at = now() - interval '2 hours' WHERE id = $1`, [expired?.projectId])
  const retention = openRetention([], hourMs)
  await retention.sweep()
  await retention.close()

  const restore = (projectId = '') => client.post('/write/project/restore', { projectId })
  const gone = await restore(expired?.projectId)
  expect([gone.status, gone.body.sdk_error_code]).toEqual([400, 8000007])
  expect((await restore(recent?.projectId)).body).toMatchObject({ msg: 'Restored', projectName: recent?.projectName })
  const place = async (key = '') => (await client.get(`/experiment/metadata?experimentKey=${key}`)).body.projectName
  expect(await place(expired?.experimentKey)).toBe('Uncategorized Experiments')
  expect(await place(recent?.experimentKey)).toBe(recent?.projectName)
})

it('a worker deletes entries of the audit log that are older than its setting, and a whole chain remains', async () => {
  // Of an organization of its own: entries expire from the beginning of a log.
  const { userName } = await createUser(stores)
  const find = 'SELECT organization_id AS id FROM users WHERE user_name = $1'
  const organizationId = (await database.row<{ id: string }>(find, [userName]))?.id as string
  await database.row(
    `INSERT INTO audit_log (organization_id, actor, act, subject, at)
     SELECT $1, 'old', 'limits.set', n::text, now() - interval '1 day' * n FROM unnest(ARRAY[50, 40, 31, 29, 1]) n`,
    [organizationId],
  )
  const listOld = async () => {
    const entries = await readChain(database, organizationId, (all) => Array.fromAsync(all))
    return entries.filter((it) => it.userName === 'old').map((it) => it.subject)
  }
  // A worker without the setting keeps all: the service of this file has run one since the beginning.
  expect(await listOld()).toEqual(['50', '40', '31', '29', '1'])
  const worker = await openTestService({
    stores,
    roles: new Set(['worker']),
    settings: { SVC_AUDIT_KEPT_DAYS: '30' },
    intervals: { sweepMs: 50 },
  })
  await eventually(async () => expect(await listOld()).toEqual(['29', '1']), 120_000)
  await worker.close()
  expect((await readChain(database, organizationId, checkChain)).faults).toEqual([])
})

it('a worker notes rows and chunks that Postgres has forgotten, as when it was put back to an earlier time', async () => {
  const { client } = service
  const experimentKey = await client.createExperiment()
  const series = [{ metricName: 'loss', steps: [0, 1, 2, 3], values: [0, 1, 2, 3] }]
  await client.post('/write/experiment/metric', { experimentKey, metricName: 'accuracy', metricValue: 1 })
  await client.post('/write/experiment/metrics/batch', { experimentKey, series })
  await client.readPoints(experimentKey, 'loss', 4)
  await client.readPoints(experimentKey, 'accuracy', 1)

  const forget =
    'UPDATE experiments SET has_rows = false, has_chunks = false WHERE key = $1 AND has_rows AND has_chunks RETURNING key'
  expect(await database.rows(forget, [experimentKey])).toHaveLength(1)
  const worker = await openTestService({ stores, roles: new Set(['worker']), intervals: { sweepMs: 50 } })
  await client.readPoints(experimentKey, 'loss', 4)
  await client.readPoints(experimentKey, 'accuracy', 1)
  await worker.close()
})

it('an interrupted sweep is resumed, and a sweep without work deletes nothing', async () => {
  const deeds: string[] = []
  let left = [1n, 2n]
  let isAway = true
  const retention = createRetention({
    deleteOld: async () => undefined,
    deleteProjects: async () => undefined,
    listDeletedBefore: async () => left,
    async deleteRows(ids) {
      deeds.push(`rows ${ids}`)
      if (isAway) throw new Error('away')
    },
    async deleteExperiments(ids) {
      deeds.push(`experiments ${ids}`)
      left = []
    },
    keptForMs: 0,
    everyMs: hourMs,
    onError: () => undefined,
  })
  await expect(retention.sweep()).rejects.toThrow('away')
  isAway = false
  await retention.sweep()
  await retention.sweep()
  expect(deeds).toEqual(['rows 1,2', 'rows 1,2', 'experiments 1,2'])
})

it('sweeps periodically, and continues after a failed sweep', async () => {
  let left = [1n]
  const errors: unknown[] = []
  const retention = createRetention({
    deleteOld: async () => undefined,
    deleteProjects: async () => undefined,
    listDeletedBefore: async () => left,
    async deleteRows() {
      if (errors.length < 2) throw new Error('away')
    },
    async deleteExperiments() {
      left = []
    },
    keptForMs: 0,
    everyMs: 5,
    onError: (error) => errors.push(error),
  })
  await expect.poll(() => left).toEqual([])
  expect(errors).toHaveLength(2)
  await retention.close()
})
