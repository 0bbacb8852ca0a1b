import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { type StoreUrls, toClickHouse } from '../../../cli/settings.ts'
import { migrateStores } from '../../../cli/stores.ts'
import { copyRows, restoreRows } from '../../../store/backup/clickhouse-rows.ts'
import { createFiles } from '../../../store/backup/files.ts'
import { toFileKey } from '../../../store/backup/manifest.ts'
import { type ClickHouse, openClickHouse } from '../../../store/clickhouse/connection.ts'
import { deleteExperimentRows } from '../../../store/clickhouse/deletions.ts'
import { checkClickHouse } from '../../../store/clickhouse/migrations/check.ts'
import { migrateClickHouse } from '../../../store/clickhouse/migrations/migrate.ts'
import { createEventReader } from '../../../store/clickhouse/monitoring/reader.ts'
import { rollUp } from '../../../store/clickhouse/monitoring/rollups/build.ts'
import { sweepRollups } from '../../../store/clickhouse/monitoring/rollups/drop.ts'
import { listRollups } from '../../../store/clickhouse/monitoring/rollups/rollups.ts'
import { listParts } from '../../../store/clickhouse/parts.ts'
import { experimentTables } from '../../../store/clickhouse/points/chunks.ts'
import { summaryTable } from '../../../store/clickhouse/points/summaries/summary.ts'
import { streamTables } from '../../../store/clickhouse/tables.ts'
import { openObjects } from '../../../store/objects/open-objects.ts'
import { openDatabase } from '../../../store/postgres/database.ts'
import { aPoint } from '../../kit/builders.ts'
import { eventually } from '../../kit/eventually.ts'
import { expectSame, fillEverything, readEverything, readSettled } from '../../kit/everything.ts'
import { createClient } from '../../kit/http/client.ts'
import { svc, toStoreSettings } from '../../kit/processes/svc.ts'
import { openOwnStores, openTestService, storesWith, testMasterKey, uniqueName } from '../../kit/service.ts'
import { type ClickHouseCluster, openClickHouseCluster } from '../../kit/stores/clickhouse-cluster.ts'
import { withDatabase } from '../../kit/stores/databases.ts'
import { startKeeper } from '../../kit/stores/keeper.ts'
import { openStoredEvents } from '../../monitoring/stored-events.ts'

let folder: string
let cluster: ClickHouseCluster
let stores: StoreUrls
let clickhouse: ClickHouse
const nodes: ClickHouse[] = []
beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'svc-cluster-'))
  cluster = await openClickHouseCluster({ folder, database: 'metrics', shards: 2 })
  const shared = storesWith('postgres')
  const name = uniqueName('cluster').replaceAll('-', '_')
  const postgres = new pg.Client({ connectionString: shared.postgresUrl })
  await postgres.connect()
  await postgres.query(`CREATE DATABASE ${name}`)
  await postgres.end()
  const postgresUrl = new URL(shared.postgresUrl)
  postgresUrl.pathname = `/${name}`
  stores = {
    ...shared,
    postgresUrl: postgresUrl.href,
    clickhouseUrl: cluster.url,
    clickhouseCluster: cluster.name,
    clickhouseInsertQuorum: 'auto',
  }
  await migrateStores(stores, undefined)
  clickhouse = openClickHouse(toClickHouse(stores))
  for (const url of cluster.nodeUrls) nodes.push(openClickHouse({ url }))
})
afterAll(async () => {
  await Promise.all([clickhouse, ...nodes].map((it) => it?.close()))
  await cluster?.close()
  await rm(folder, { recursive: true, force: true })
})

/** How many rows each node has of a table, those that came twice counted twice. */
const countOnNodes = (table: string, where: string, size = 'count()') =>
  Promise.all(
    nodes.map(async (it) => {
      const [row] = await it.rows<{ n: string }>(`SELECT ${size} AS n FROM metrics.${table}_local WHERE ${where}`)
      return Number(row?.n)
    }),
  )

/** Of both forms. */
async function countPointsOnNodes(where: string): Promise<number[]> {
  const [rows, inChunks] = [
    await countOnNodes('points', where),
    await countOnNodes('point_chunks', where, 'sum(count)'),
  ]
  return rows.map((it, node) => it + (inChunks[node] as number))
}

const experimentIds = async (keys: string[]) => {
  const database = openDatabase({ url: stores.postgresUrl, connectionsMax: 1, onError: () => undefined })
  const rows = await database.rows<{ id: string }>('SELECT id FROM experiments WHERE key = ANY($1)', [keys])
  await database.close()
  return rows.map((it) => it.id)
}

describe('experiments', () => {
  let service: Awaited<ReturnType<typeof openTestService>>
  const keys: string[] = []
  beforeAll(async () => {
    service = await openTestService({ stores })
    for (let nth = 0; nth < 12; nth++) {
      const experimentKey = await service.client.createExperiment()
      keys.push(experimentKey)
      const headers = { 'idempotency-key': `batch of ${experimentKey}` }
      const steps = Array.from({ length: 50 }, (_, step) => step)
      const loss = { metricName: 'loss', steps, values: steps.map((step) => nth * 100 + step) }
      // With an index of its own, each point is a row; otherwise they are a chunk.
      const series = [nth % 2 === 0 ? loss : { ...loss, firstIndex: 0 }]
      // Twice, as a client does that did not hear the answer.
      for (let time = 0; time < 2; time++) {
        const answer = await service.client.post(
          '/write/experiment/metrics/batch',
          { experimentKey, series },
          { headers },
        )
        expect(answer.body).toMatchObject({ code: 200, accepted: 50 })
      }
      await service.client.post('/write/experiment/output', { experimentKey, outputLines: [{ output: `line ${nth}` }] })
    }
  })
  afterAll(() => service?.close())

  it('are on one shard each, spread over all shards, and every point is read once', async () => {
    for (const [nth, key] of keys.entries()) {
      const points = await service.client.readPoints(key, 'loss', 50)
      expect(points.map((it) => Number(it.metricValue))).toEqual(
        Array.from({ length: 50 }, (_, step) => nth * 100 + step),
      )
    }
    const ids = await experimentIds(keys)
    expect(ids).toHaveLength(keys.length)
    const homes = await Promise.all(ids.map((id) => countPointsOnNodes(`experiment_id = ${id}`)))
    for (const counts of homes) expect(counts.filter((it) => it > 0)).toHaveLength(1)
    for (const node of nodes.keys()) expect(homes.some((counts) => (counts[node] as number) > 0)).toBe(true)
  })

  it('have summaries, output and charts that are read through all shards', async () => {
    for (const [nth, experimentKey] of keys.entries()) {
      await eventually(async () => {
        const summary = await service.client.get(
          `/experiment/metrics/summary?${new URLSearchParams({ experimentKey })}`,
        )
        expect(summary.body.values).toMatchObject([
          {
            name: 'loss',
            valueMin: `${nth * 100}.0`,
            valueMax: `${nth * 100 + 49}.0`,
            valueCurrent: `${nth * 100 + 49}.0`,
          },
        ])
        const output = await service.client.get(`/experiment/output?${new URLSearchParams({ experimentKey })}`)
        expect(output.body.output).toContain(`line ${nth}`)
      })
    }
    const chart = await service.client.post('/experiments/multi-metric-chart', {
      targetedExperiments: keys,
      metrics: ['loss'],
      params: [],
      independentMetrics: true,
      fetchFull: true,
    })
    expect(Object.keys(chart.body.experiments as object).toSorted()).toEqual(keys.toSorted())
  })

  it('are deleted from every shard, and others are unchanged', async () => {
    const gone = keys.slice(0, 6)
    const [goneIds, keptIds] = [await experimentIds(gone), await experimentIds(keys.slice(6))]
    const before = await countPointsOnNodes(`experiment_id IN (${keptIds})`)

    await deleteExperimentRows(clickhouse, goneIds.map(BigInt))

    for (const table of [...experimentTables.map((it) => it.name), summaryTable]) {
      expect(await countOnNodes(table, `experiment_id IN (${goneIds})`)).toEqual([0, 0])
    }
    // Merges make one row of two that came twice; none is lost.
    for (const key of keys.slice(6)) expect(await service.client.readMetric(key, 'loss')).toHaveLength(50)
    expect(before.reduce((sum, it) => sum + it)).toBeGreaterThanOrEqual(300)
  })

  it('are stored after a killed shard is back, each point once', async () => {
    const writes: Promise<{ status: number }>[] = []
    const posted = keys.slice(6)
    await cluster.kill(1)
    for (const experimentKey of posted) {
      writes.push(
        service.client.post('/write/experiment/metric', { experimentKey, ...aPoint({ metricName: 'after', step: 1 }) }),
      )
    }
    for (const answer of await Promise.all(writes)) expect(answer.status).toBe(200)
    await cluster.restart(1)

    for (const key of posted) expect(await service.client.readPoints(key, 'after', 1)).toHaveLength(1)
  })
})

describe('monitored models', () => {
  it('are rolled up on their shard, and repeated deliveries count once', async () => {
    const events = openStoredEvents(stores)
    try {
      const workspaceName = uniqueName('workspace')
      await events.database.row(
        'INSERT INTO workspaces (name, organization_id) SELECT $1, id FROM organizations LIMIT 1',
        [workspaceName],
      )
      const models = await Promise.all(['a', 'b', 'c', 'd', 'e', 'f'].map((name) => events.model(workspaceName, name)))
      for (const model of models) {
        const written = await events.write(
          model,
          'EVENTS',
          Array.from({ length: 200 }, (_, at) => ({
            predictionId: `p${at}`,
            timestamp: 1_700_000_000_000 + at,
            features: { amount: at % 7, country: at % 2 ? 'NL' : 'DE' },
          })),
        )
        await written.again()
      }
      const limits = { settledMs: -1_000_000, eventsMin: 1, eventsMax: 1_000 }
      const reader = createEventReader(clickhouse)
      for (const modelId of models) {
        expect(await rollUp(reader, { modelId, kind: 'EVENTS' }, limits)).toBe(1)
        const [rollup] = await listRollups(clickhouse, { modelId, kind: 'EVENTS' })
        expect(rollup).toMatchObject({ rows: { events: 200, event_values: 400 } })
      }
      const homes = await Promise.all(models.map((it) => countOnNodes('rollup_values', `model_id = ${it}`)))
      for (const counts of homes) expect(counts.filter((it) => it > 0)).toHaveLength(1)
      const shards = new Set((await listParts(clickhouse, ['events'])).map((it) => it.shard))
      expect(shards).toEqual(new Set([1, 2]))
      await sweepRollups(clickhouse)
    } finally {
      await events.close()
    }
  })
})

// Everything there is to read is filled in, and read three times over.
describe('a backup', { timeout: 900_000 }, () => {
  it('of a cluster that is written to restores into an empty cluster, which answers every read with the same bytes', async () => {
    const place = await mkdtemp(path.join(folder, 'backups-'))
    const settings = { SVC_QUEUE_PREFIX: uniqueName('backup'), SVC_PUBLIC_URL: 'http://svc.invalid' }
    const service = await openTestService({ stores, settings, isAdmin: true })
    const reads = await fillEverything(service)
    const svcOn = async (its: StoreUrls, ...args: string[]) => {
      const environment = { ...toStoreSettings(its), SVC_MASTER_KEY: testMasterKey, ...settings }
      const outcome = await svc(args, environment, (close) => onTestFinished(async () => void (await close())))
      expect(outcome.code, outcome.stderr).toBe(0)
      return outcome.stdout
    }
    expect((await service.client.post('/write/workspace/new', { name: 'meanwhile' })).status).toBe(200)
    const before = await readSettled(service, reads)
    // In a workspace of its own, for what is written while the backup is made.
    const experimentKey = await service.client.createExperiment({
      workspaceName: 'meanwhile',
      projectName: 'meanwhile',
    })
    const write = async (step: number) => {
      const answer = await service.client.post('/write/experiment/metric', { experimentKey, ...aPoint({ step }) })
      expect(answer.status).toBe(200)
    }
    const acknowledged = Array.from({ length: 20 }, (_, step) => step)
    for (const step of acknowledged) await write(step)
    let isMade = false
    const backup = svcOn(stores, 'backup', '--to', place, '--json').finally(() => {
      isMade = true
    })
    for (let step = acknowledged.length; !isMade; step++) await write(step)
    const made = JSON.parse(await backup)
    await service.close()
    expect(made).toMatchObject({ clickhousePlace: 'rows', missingObjects: [] })

    const own = await openOwnStores('postgres')
    const objectsUrl = pathToFileURL(await mkdtemp(path.join(folder, 'objects-'))).href
    const clickhouseUrl = withDatabase(cluster.url, 'restored')
    const empty = { ...stores, postgresUrl: own.postgresUrl, clickhouseUrl, objectsUrl }
    await svcOn(empty, 'restore', '--from', place)
    const again = await openTestService({ stores: empty, settings })
    expectSame(await readEverything({ url: again.url, apiKey: service.apiKey }, reads), before)
    const points = await createClient(again.url, service).readMetric(experimentKey, 'loss')
    await again.close()
    const steps = points.map((it) => it.step)
    expect(steps.slice(0, acknowledged.length)).toEqual(acknowledged)
    expect(new Set(steps).size).toBe(steps.length)
    const restored = nodes.map((it) => it.rows<{ n: string }>('SELECT count() AS n FROM restored.points_local'))
    for (const rows of await Promise.all(restored)) expect(Number(rows[0]?.n)).toBeGreaterThan(0)
  })

  it('has each row once, in files of some experiments each, and restores into a single server', async () => {
    const target = await openObjects(pathToFileURL(await mkdtemp(path.join(folder, 'ranges-'))).href)
    onTestFinished(target.close)
    const files = createFiles(target, 'ranges')
    const { tables } = await copyRows(clickhouse, files, () => undefined, 60)
    expect(tables.find((it) => it.name === 'points')?.files.length).toBeGreaterThan(2)
    const restored = openClickHouse({
      url: withDatabase(storesWith('postgres').clickhouseUrl, uniqueName('ranges').replaceAll('-', '_')),
    })
    onTestFinished(restored.close)

    await restoreRows(
      restored,
      tables,
      (file) => target.get(toFileKey('ranges', file)),
      () => undefined,
    )

    for (const { name, columns } of tables) {
      const contents = ({ database, rows }: ClickHouse) =>
        rows(`SELECT count() AS n, sum(cityHash64(${columns.join(', ')})) AS hash FROM ${database}.${name} FINAL`)
      expect(await contents(restored)).toEqual(await contents(clickhouse))
    }
  })
})

describe('migrations', () => {
  it('can be repeated, and all tables exist', async () => {
    await migrateClickHouse(clickhouse)
    await checkClickHouse(clickhouse)
    expect(cluster.statements.every((it) => / ON CLUSTER 'test_cluster'/.test(it))).toBe(true)
    const made = cluster.statements.filter((it) => it.includes('ReplicatedReplacingMergeTree'))
    for (const { name } of streamTables) expect(made.some((it) => it.includes(`metrics.${name}_local`))).toBe(true)
  })

  it('are run for a server that joins with an empty disk', async () => {
    const [, joined] = nodes as [ClickHouse, ClickHouse]
    const record = 'metrics.svc_migrations'
    const servers = await clickhouse.rows<{ server: string }>(`SELECT DISTINCT server FROM ${record} ORDER BY server`)
    expect(servers).toHaveLength(2)
    const [identity] = await joined.rows<{ port: string }>('SELECT tcpPort() AS port')
    await clickhouse.command(`DELETE FROM ${record} WHERE server LIKE '%:${identity?.port} %'`)
    await joined.command('DROP DATABASE metrics SYNC')

    await migrateClickHouse(clickhouse)

    await checkClickHouse(clickhouse)
    expect(await clickhouse.rows(`SELECT DISTINCT server FROM ${record} ORDER BY server`)).toEqual(servers)
    const [tables, others] = await Promise.all(
      nodes.map((it) => it.rows(`SELECT name, engine FROM system.tables WHERE database = 'metrics' ORDER BY name`)),
    )
    expect(tables).toEqual(others)
  })

  it('bring tables of an earlier version up to date on whichever server has them', async () => {
    const [, second] = nodes as [ClickHouse, ClickHouse]
    const setting = 'min_compressed_bytes_to_fsync_after_merge'
    await second.command(`ALTER TABLE metrics.points_local RESET SETTING ${setting}`)
    for (const it of nodes) await it.command("DELETE FROM metrics.svc_migrations WHERE name = '0012-fsync-merges'")
    const listWithout = async () =>
      await Promise.all(
        nodes.map((it) =>
          it.rows(
            `SELECT name FROM system.tables WHERE database = 'metrics' AND engine LIKE '%MergeTree' AND create_table_query NOT LIKE '%${setting} = 1%'`,
          ),
        ),
      )
    expect(await listWithout()).toEqual([[], [{ name: 'points_local' }]])

    await migrateClickHouse(clickhouse)

    expect(await listWithout()).toEqual([[], []])
    await checkClickHouse(clickhouse)
  })

  it('fail with the reason when the server has no such cluster', async () => {
    const other = openClickHouse({ url: cluster.url, cluster: 'elsewhere' })
    await expect(migrateClickHouse(other)).rejects.toThrow(/knows no such cluster in remote_servers: test_cluster/)
    await other.close()
  })

  it('do not use the tables of a cluster as those of a single server, or the reverse', async () => {
    const single = openClickHouse({ url: cluster.url })
    await expect(checkClickHouse(single)).rejects.toThrow(/are those of a cluster: set CLICKHOUSE_CLUSTER/)
    await single.close()
    const url = new URL(cluster.url)
    url.pathname = '/single'
    const other = openClickHouse({ url: url.href })
    await migrateClickHouse(other)
    await other.close()
    const wrong = openClickHouse({ url: url.href, cluster: cluster.name })
    await expect(migrateClickHouse(wrong)).rejects.toThrow(/those of a single server.*docs\/scaling\.md/)
    await wrong.close()
  })

  it('create replicated tables in a real Keeper, one per table, shard and replica', async ({ skip }) => {
    const keeper = await startKeeper(path.join(folder, 'keeper'))
    if (!keeper) return skip('there is no ZooKeeper here (Debian: apt-get install zookeeper)')
    const replicated = await openClickHouseCluster({
      folder: path.join(folder, 'replicated'),
      database: 'metrics',
      shards: 2,
      keeperPort: keeper.port,
    })
    const opened = openClickHouse({ url: replicated.url, cluster: replicated.name })
    try {
      await migrateClickHouse(opened)
      await migrateClickHouse(opened)
      await checkClickHouse(opened)
      type Replica = { name: string; place: string; replica: string }
      for (const [at, url] of replicated.nodeUrls.entries()) {
        const node = openClickHouse({ url })
        const made = await node.rows<Replica>(
          'SELECT table AS name, zookeeper_path AS place, replica_name AS replica FROM system.replicas ORDER BY name',
        )
        await node.close()
        expect(made.map((it) => it.name)).toEqual(expect.arrayContaining(streamTables.map((it) => `${it.name}_local`)))
        for (const { name, place, replica } of made) {
          expect(place).toBe(`/clickhouse/tables/test_cluster/${at + 1}/metrics/${name}`)
          expect(replica).toBe('a')
        }
      }
    } finally {
      await opened.close()
      await replicated.close()
      await keeper.close()
    }
  })
})
