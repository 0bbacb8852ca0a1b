import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterEach, describe, expect, inject, it, vi } from 'vitest'
import type { StoreUrls } from '../../cli/settings.ts'
import { createClosers } from '../../runtime/closers.ts'
import { openDatabase } from '../../store/postgres/database.ts'
import { expectSame, fillEverything, type Read, readEverything, readSettled } from '../kit/everything.ts'
import { createClient } from '../kit/http/client.ts'
import { createCertificate, openReceiver } from '../kit/http/receiver.ts'
import { expectPlainFailure } from '../kit/processes/expect.ts'
import { aFolder, clientOf, type OnClose, startUp, svc } from '../kit/processes/svc.ts'
import { openOwnStores, openTestService, testMasterKey, uniqueName } from '../kit/service.ts'
import { startRedisServer } from '../kit/stores/redis.ts'
import { startS3 } from '../kit/stores/s3.ts'

const closers = createClosers()
afterEach(() => closers.closeAll())
const onClose: OnClose = (close) => closers.push(async () => void (await close()))

const apiKey = 'a-key-for-the-admin-of-this-test'

/** Stores are started and filled several times over. */
vi.setConfig({ testTimeout: 900_000, hookTimeout: 900_000 })

/** `npm start` on a folder of its own, filled with something of everything. */
async function startFilled() {
  const certificate = await createCertificate()
  const receiver = await openReceiver(certificate)
  closers.push(receiver.close)
  const env = {
    SVC_BOOTSTRAP_API_KEY: apiKey,
    // Answers have links in them, and the port is another one each time.
    SVC_PUBLIC_URL: 'http://svc.invalid',
    ...certificate.settings,
  }
  const folder = await aFolder(onClose)
  const up = await startUp(folder, env, onClose)
  const service = { url: up.url, apiKey, workspaceName: 'default', client: clientOf(up, apiKey) }
  const reads = await fillEverything(service, receiver.url)
  return { env, folder, up, service, reads, place: path.join(await aFolder(onClose), 'backups') }
}

async function wipe(folder: string) {
  const masterKey = await readFile(path.join(folder, 'master-key'))
  await rm(folder, { recursive: true, force: true, maxRetries: 10 })
  return async () => writeFile(path.join(folder, 'master-key'), masterKey, { mode: 0o600 })
}

async function run(args: string[], folder: string, env: Record<string, string> = {}) {
  const outcome = await svc(args, { ...(folder && { SVC_DATA_DIR: folder }), ...env }, onClose)
  expect(outcome.code, outcome.stderr).toBe(0)
  return outcome
}

describe('npm start', () => {
  it('copied while it is written to, wiped and restored, it answers every read with the same bytes', async () => {
    const { env, folder, up, service, reads, place } = await startFilled()
    // What is written meanwhile is in a workspace of its own.
    expect((await service.client.post('/write/workspace/new', { name: 'meanwhile' })).status).toBe(200)
    const before = await readSettled(service, reads)

    const writes = keepWriting(service.client)
    await writes.acknowledged(20)
    const atStart = writes.points.length
    const { stdout } = await run(['backup', '--to', place, '--json'], folder)
    await writes.acknowledged(atStart + 20)
    await writes.stop()
    const made = JSON.parse(stdout)
    expect(made).toMatchObject({ hasSecrets: true, clickhousePlace: 'file', missingObjects: [] })
    expect(made.objects).toBeGreaterThan(5)
    await run(['backup', 'verify', '--to', place], folder)

    up.kill('SIGTERM')
    await up.ended
    const giveMasterKey = await wipe(folder)
    const withoutKey = await svc(['restore', '--from', place], { SVC_DATA_DIR: folder }, onClose)
    expectPlainFailure(withoutKey, /encrypted with a master key, which no backup contains/)
    const wrongKey = { SVC_DATA_DIR: folder, SVC_MASTER_KEY: Buffer.alloc(32, 1).toString('base64') }
    expectPlainFailure(await svc(['restore', '--from', place], wrongKey, onClose), /another master key/)
    await mkdir(folder, { recursive: true, mode: 0o700 })
    await giveMasterKey()
    await run(['restore', '--from', place], folder)

    const again = await startUp(folder, env, onClose)
    expectSame(await readEverything({ url: again.url, apiKey }, reads), before)
    const points = await clientOf(again, apiKey).readMetric(writes.experimentKey(), 'while')
    const steps = points.map((it) => it.step as number)
    expect(steps.slice(0, atStart)).toEqual(writes.points.slice(0, atStart))
    expect(new Set(steps).size).toBe(steps.length)
    // What was accepted meanwhile is whole: the summary knows of exactly the points there are.
    await expectConsistent(clientOf(again, apiKey), writes.experimentKey(), steps)
    await expectGoesOn(clientOf(again, apiKey), reads)
  })
})

/** Stores as a deployment has them; ClickHouse is the engine that all tests share, with databases of its own. */
async function openServers(backupsFolder: string) {
  const folder = await aFolder(onClose)
  const redis = await startRedisServer({ folder })
  if (redis) closers.push(redis.close)
  const own = await openOwnStores('postgres')
  return { stores: { ...own, redisUrl: redis?.url }, backupsFolder }
}

const shared = inject('stores')
const cannotRun = shared.redisUrl === undefined || shared.backupsFolder === undefined

describe.skipIf(cannotRun)('with Redis and S3', () => {
  it('what was in the queue is there as well, and other servers are filled', async (context) => {
    const s3Folder = await aFolder(onClose)
    const s3 = await startS3(s3Folder)
    if (!s3) return context.skip('there is no S3 server here')
    closers.push(s3.close)
    const inBucket = (name: string) => s3.url.replace(/\?/, `/${name}?`)
    const { stores, backupsFolder } = await openServers(shared.backupsFolder as string)
    const settings = { SVC_QUEUE_PREFIX: uniqueName('flow'), SVC_PUBLIC_URL: 'http://svc.invalid' }
    const first = { ...stores, objectsUrl: inBucket('first') }
    const all = await openTestService({ stores: first, settings, isAdmin: true })
    const reads = await fillEverything(all)
    const early = await all.client.createExperiment()
    const series = [{ metricName: 'early', steps: [0, 1, 2, 3], values: [0, 1, 2, 3] }]
    await all.client.post('/write/experiment/metrics/batch', { experimentKey: early, series })
    await all.client.post('/write/experiment/metric', { experimentKey: early, metricName: 'single', metricValue: 7 })
    await all.client.readPoints(early, 'early', 4)
    await all.client.readPoints(early, 'single', 1)
    const before = await readSettled(all, reads)
    await all.close()
    const toEnv = (it: StoreUrls) => ({
      CLICKHOUSE_URL: it.clickhouseUrl,
      POSTGRES_URL: it.postgresUrl,
      REDIS_URL: it.redisUrl ?? '',
      OBJECTS_URL: it.objectsUrl,
      SVC_BACKUP_URL: inBucket('backups'),
      SVC_BACKUP_CLICKHOUSE: pathToFileURL(backupsFolder).href,
      SVC_MASTER_KEY: testMasterKey,
      ...settings,
    })

    // Without a worker: what is acknowledged stays in the queue.
    const taking = await openTestService({ stores: first, settings, roles: new Set(['ingest', 'api'] as const) })
    const experimentKey = await taking.client.createExperiment()
    const predictionId = uniqueName('prediction')
    for (let step = 0; step < 25; step++) {
      const point = { experimentKey, metricName: 'queued', metricValue: step, step }
      expect((await taking.client.post('/write/experiment/metric', point)).status).toBe(200)
    }
    const event = { workspaceName: taking.workspaceName, modelName: 'queued', predictionId, features: { x: 1 } }
    expect((await taking.client.post('/mpm/v2/events/batch', { data: [event] })).body.accepted).toBe(1)
    // As if Postgres had been copied before the first row and the first chunk of the experiment came, and ClickHouse after them.
    const database = openDatabase({ url: first.postgresUrl, connectionsMax: 1, onError: () => undefined })
    const forgotten = await database.rows(
      'UPDATE experiments SET has_rows = false, has_chunks = false WHERE key = $1 AND has_rows AND has_chunks RETURNING key',
      [early],
    )
    await database.close()
    expect(forgotten).toEqual([{ key: early }])
    const { stdout } = await run(['backup', '--json'], '', toEnv(first))
    const made = JSON.parse(stdout)
    expect(made.queuedBlocks).toBeGreaterThanOrEqual(3)
    await taking.close()
    const second = (await openServers(backupsFolder)).stores
    const filled = { ...second, objectsUrl: inBucket('second') }
    await run(['restore', made.id], '', toEnv(filled))

    const again = await openTestService({ stores: filled, settings })
    closers.push(again.close)
    expectSame(await readEverything({ url: again.url, apiKey: all.apiKey }, reads), before)
    const client = createClient(again.url, taking)
    const points = await client.readMetric(experimentKey, 'queued')
    expect(points.map((it) => it.step)).toEqual(Array.from({ length: 25 }, (_, step) => step))
    const ofAll = createClient(again.url, all)
    expect((await ofAll.readMetric(early, 'early')).map((it) => it.step)).toEqual([0, 1, 2, 3])
    expect(await ofAll.readMetric(early, 'single')).toHaveLength(1)
    expect((await client.post('/mpm/v2/events/batch', { data: [event] })).body.duplicates).toBe(1)
    const query = new URLSearchParams({ workspaceName: taking.workspaceName, modelName: 'queued', predictionId })
    expect((await client.get(`/mpm/v2/event?${query}`)).body).toMatchObject({ features: [{ name: 'x', value: 1 }] })
    // A database that is in use is left alone.
    const inUse = await svc(['restore', made.id, '--replace'], toEnv(filled), onClose)
    expectPlainFailure(inUse, /other connections to the database in Postgres are open\. Stop every role/)
  })
})

const elsewhere = { workspaceName: 'meanwhile', projectName: 'meanwhile' }

/** Writes points and events one after the other, and keeps account of what was acknowledged. */
function keepWriting(client: ReturnType<typeof clientOf>) {
  const points: number[] = []
  let experimentKey = ''
  let isStopped = false
  const writing = (async () => {
    experimentKey = await client.createExperiment(elsewhere)
    for (let step = 0; !isStopped; step++) {
      const metric = { experimentKey, metricName: 'while', metricValue: step, step }
      if ((await client.post('/write/experiment/metric', metric)).status === 200) points.push(step)
      const data = [{ workspaceName: 'meanwhile', modelName: 'while', predictionId: `p${step}`, features: { step } }]
      await client.post('/mpm/v2/events/batch', { data })
      // New experiments, so that ids are given while the stores are copied one after the other.
      if (step % 5 === 0) {
        const other = await client.createExperiment(elsewhere)
        await client.post('/write/experiment/metric', { experimentKey: other, metricName: 'a', metricValue: 1 })
      }
    }
  })()
  closers.push(async () => {
    isStopped = true
    await writing.catch(() => undefined)
  })
  return {
    points,
    experimentKey: () => experimentKey,
    async acknowledged(count: number) {
      await expect.poll(() => points.length, { timeout: 60_000 }).toBeGreaterThanOrEqual(count)
    },
    async stop() {
      isStopped = true
      await writing
    },
  }
}

async function expectConsistent(client: ReturnType<typeof clientOf>, experimentKey: string, steps: number[]) {
  const { body } = await client.get(`/experiment/metrics/summary?experimentKey=${experimentKey}`)
  const [summary] = body.values as { stepMax: number; valueMax: string }[]
  expect(Number(summary?.valueMax)).toBe(Math.max(...steps))
  const query = new URLSearchParams({ workspaceName: 'meanwhile', modelName: 'while' })
  const { body: counted } = await client.get(`/mpm/v2/events/count?${query}`)
  const counts = counted.counts as { events: number }[]
  const total = counts.reduce((sum, it) => sum + Number(it.events), 0)
  // Every event that is there has its id, and every id that is confirmed has its event: sent again, none is taken twice.
  const ids = Array.from({ length: total }, (_, at) => `p${at}`)
  let duplicates = 0
  for (let at = 0; at < total; at += 50) {
    const some = ids.slice(at, at + 50)
    await Promise.all(
      some.map(async (predictionId) => {
        const found = await client.get(
          `/mpm/v2/event?${new URLSearchParams({ ...Object.fromEntries(query), predictionId })}`,
        )
        expect(found.status, predictionId).toBe(200)
      }),
    )
    const data = some.map((predictionId) => ({
      workspaceName: 'meanwhile',
      modelName: 'while',
      predictionId,
      features: { step: -1 },
    }))
    duplicates += Number((await client.post('/mpm/v2/events/batch', { data })).body.duplicates)
  }
  expect(duplicates).toBeGreaterThanOrEqual(Math.min(total, steps.length) - 1)
}

/** New ids are given after those of the copy, and writes are stored. */
async function expectGoesOn(client: ReturnType<typeof clientOf>, reads: Read[]) {
  const experimentKey = await client.createExperiment({ projectName: 'afterwards' })
  expect(await client.readMetric(experimentKey, 'loss')).toEqual([])
  await client.post('/write/experiment/metric', { experimentKey, metricName: 'loss', metricValue: 1 })
  await client.readPoints(experimentKey, 'loss', 1)
  expect(reads.length).toBeGreaterThan(50)
}
