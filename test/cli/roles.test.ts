import { randomBytes } from 'node:crypto'
import { connect } from 'node:net'
import pg from 'pg'
import { afterEach, describe, expect, it } from 'vitest'
import type { Role } from '../../cli/service.ts'
import type { StoreUrls } from '../../cli/settings.ts'
import { openClickHouse } from '../../store/clickhouse/connection.ts'
import { findFreePort } from '../../store/embedded/free-port.ts'
import { aPoint } from '../kit/builders.ts'
import { eventually } from '../kit/eventually.ts'
import { createClient } from '../kit/http/client.ts'
import { expectPlainFailure } from '../kit/processes/expect.ts'
import { aFolder, runSvc, startRole, svc } from '../kit/processes/svc.ts'
import { availableQueues, createUser, openOwnStores, storesWith, uniqueName } from '../kit/service.ts'
import { createDatabase, withDatabase } from '../kit/stores/databases.ts'

const closers: (() => unknown)[] = []
const onClose = (close: () => unknown) => void closers.push(close)
afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close()
})

async function start(role: Role, stores: StoreUrls, settings?: Record<string, string>) {
  const running = await startRole(role, stores, settings)
  onClose(async () => {
    running.kill('SIGKILL')
    await running.ended
  })
  return running
}

describe.each(availableQueues())('roles as processes of their own, with the queue in %s', (queue) => {
  it('answer only what is theirs, and end with exit code 0 on SIGTERM: what they acknowledged is readable', async () => {
    const stores = await openOwnStores(queue)
    const user = await createUser(stores)
    const prefix = { SVC_QUEUE_PREFIX: uniqueName('queue') }
    const [api, ingest, worker] = await Promise.all([
      start('api', stores, prefix),
      start('ingest', stores, prefix),
      start('worker', stores, prefix),
    ])
    const reader = createClient(api.url, user)
    const writer = createClient(ingest.url, user)

    expect((await writer.get('/account-details')).status).toBe(404)
    expect((await reader.post('/write/experiment/metric', {})).status).toBe(404)
    expect((await createClient(worker.url, user).get('/account-details')).status).toBe(404)
    expect((await createClient(worker.url, user).post('/write/experiment/metric', {})).status).toBe(404)
    for (const path of ['/livez', '/readyz', '/metrics']) {
      expect((await fetch(worker.url + path)).status, path).toBe(200)
    }
    expect(await (await fetch(`${worker.url}/metrics`)).text()).toContain('process_cpu_seconds_total')

    const experimentKey = await reader.createExperiment()
    const answers = Array.from({ length: 100 }, (_, step) =>
      writer.post('/write/experiment/metric', { experimentKey, ...aPoint({ step }) }).catch(() => undefined),
    )
    // Nor may a connection that asks nothing hold up the end.
    const silent = connect(Number(new URL(ingest.url).port), '127.0.0.1').on('error', () => undefined)
    onClose(() => silent.destroy())
    await Promise.any(answers)
    ingest.kill('SIGTERM')
    expect(await ingest.ended).toEqual({ code: 0, signal: null })

    const acknowledged = (await Promise.all(answers)).filter((it) => it?.status === 200).length
    await eventually(async () => {
      expect((await reader.readMetric(experimentKey, 'loss')).length).toBeGreaterThanOrEqual(acknowledged)
    })
    worker.kill('SIGTERM')
    expect(await worker.ended).toEqual({ code: 0, signal: null })
    expect(worker.output()).toContain('"msg":"drained"')
  })
})

describe('a role that cannot work says so in a sentence and ends with exit code 1:', () => {
  const stores = () => toEnvironment(storesWith('postgres'))

  // Every role is opened by the same lines: which one it is makes no difference to what follows.
  it('which addresses are missing, together with what is wrong', async () => {
    const outcome = await svc(['worker'], { SVC_PORT: 'x' }, onClose)

    expectPlainFailure(outcome, /\n {2}SVC_PORT: .*\n {2}CLICKHOUSE_URL: must be set.*\n {2}POSTGRES_URL: must be set/)
  })

  it('api, that OBJECTS_URL is no place for assets; without it, it says where it keeps them', async () => {
    const { OBJECTS_URL: _, ...others } = stores()

    const wrong = await svc(['api'], { ...others, OBJECTS_URL: 'http://localhost' }, onClose)
    expectPlainFailure(wrong, /\n {2}OBJECTS_URL: must be file:\/\/\/folder, or s3:/)

    const folder = await aFolder(onClose)
    const api = await start('api', { ...storesWith('postgres'), objectsUrl: '' }, { SVC_DATA_DIR: folder })
    expect(api.output()).toMatch(/OBJECTS_URL is not set: assets are stored on this machine only/)
    expect(api.output()).toContain(`${folder}/objects`)
  })

  it('webhook-worker, that it needs the master key', async () => {
    expectPlainFailure(await svc(['webhook-worker'], stores(), onClose), /SVC_MASTER_KEY must be set/)
  })

  it('api, that its bucket cannot be reached', async () => {
    const address = `127.0.0.1:${await findFreePort()}`
    const env = { ...stores(), OBJECTS_URL: `s3://access:secret@${address}/bucket?tls=false` }
    const outcome = await svc(['api'], env, onClose)
    expectPlainFailure(outcome, new RegExp(`The object store at ${address} cannot be used: `))
    expect(outcome.stderr).not.toContain('secret')
  })

  it('that the stores need "svc migrate"', async () => {
    const empty = await openEmptyStores()

    expectPlainFailure(await svc(['ingest'], toEnvironment(empty), onClose), /run "svc migrate" first/)
  })

  it('that there is no master key, in production mode; a wrong one; and goes on with a right one', async () => {
    const own = toEnvironment(await openOwnStores('postgres'))
    const production = { ...own, NODE_ENV: 'production' }
    const outcome = await svc(['up'], production, onClose)
    expectPlainFailure(outcome, /SVC_MASTER_KEY: must be set when NODE_ENV is production: .*openssl rand -base64 32/)
    const short = await svc(['api'], { ...production, SVC_MASTER_KEY: 'c2hvcnQ=' }, onClose)
    expectPlainFailure(short, /SVC_MASTER_KEY: must be 32 bytes in base64 or hex: .*openssl rand -base64 32/)
    const SVC_MASTER_KEY = randomBytes(32).toString('hex')
    await start('api', await openOwnStores('postgres'), { NODE_ENV: 'production', SVC_MASTER_KEY })
  })

  it('that Postgres is on an older schema', async () => {
    const stores = await openOwnStores('postgres')
    const client = new pg.Client({ connectionString: stores.postgresUrl })
    await client.connect()
    await client.query('DELETE FROM svc_migrations WHERE id = (SELECT max(id) FROM svc_migrations)')
    await client.end()

    const said = /Postgres is on an older schema \(missing: \d{4}_\w+\): run "svc migrate" first\./
    expectPlainFailure(await svc(['api'], toEnvironment(stores), onClose), said)
  })

  it('that ClickHouse would keep repeated rows twice', async () => {
    const stores = await openOwnStores('postgres')
    const clickhouse = openClickHouse({ url: stores.clickhouseUrl })
    const table = `${clickhouse.database}.points`
    await clickhouse.command(`DROP TABLE ${table}`)
    await clickhouse.command(`CREATE TABLE ${table} (experiment_id UInt64) ENGINE = MergeTree ORDER BY experiment_id`)
    await clickhouse.close()

    const said = new RegExp(`${table} would keep a repeated insert twice: .*"svc migrate"`)
    expectPlainFailure(await svc(['worker'], toEnvironment(stores), onClose), said)
  })

  it('that ClickHouse needs "svc migrate", when Postgres does not', async () => {
    const { clickhouseUrl } = await openEmptyStores()

    const outcome = await svc(['worker'], { ...stores(), CLICKHOUSE_URL: clickhouseUrl }, onClose)

    expectPlainFailure(outcome, /ClickHouse has no table .*run "svc migrate" first/)
  })

  it.each([
    ['Postgres', 'POSTGRES_URL', 'postgres://svc:secret@'],
    ['ClickHouse', 'CLICKHOUSE_URL', 'http://svc:secret@'],
    ['Redis', 'REDIS_URL', 'redis://:secret@'],
  ])('%s does not answer', async (store, setting, start) => {
    const address = `127.0.0.1:${await findFreePort()}`

    const outcome = await svc(['ingest'], { ...stores(), [setting]: `${start}${address}` }, onClose)

    expectPlainFailure(outcome, new RegExp(`^svc: ${store} at ${address} cannot be used: .*(ECONNREFUSED|closed)`))
    expect(outcome.stderr).not.toContain('secret')
  })

  it.each([
    ['Postgres', 'POSTGRES_URL'],
    ['ClickHouse', 'CLICKHOUSE_URL'],
  ])('%s does not know the password', async (store, setting) => {
    const url = new URL(stores()[setting] as string)
    url.password = 'wrong'

    const outcome = await svc(['api'], { ...stores(), [setting]: url.href }, onClose)

    expectPlainFailure(outcome, new RegExp(`^svc: ${store} at ${url.host} cannot be used: .*(auth|password)`, 'i'))
  })
})

describe('svc migrate', () => {
  it('makes empty stores usable and prints the first key, once', async () => {
    const stores = await openEmptyStores()

    const first = await svc(['migrate'], toEnvironment(stores), onClose)
    const second = await svc(['migrate'], toEnvironment(stores), onClose)

    expect(first).toMatchObject({ code: 0, stderr: '' })
    expect(second).toEqual({ code: 0, stderr: '', stdout: 'The stores are up to date.\n' })
    const apiKey = /shown only once: (svc_\w+)/.exec(first.stdout)?.[1] as string
    const api = await start('api', stores)
    const answer = await createClient(api.url, { apiKey, workspaceName: 'default' }).get('/account-details')
    expect(answer.body).toMatchObject({ defaultWorkspaceName: 'default' })
  })

  it('--wait changes nothing, says what it waits for, and ends when another has migrated', async () => {
    const stores = await openEmptyStores()
    const waiting = runSvc(['migrate', '--wait'], toEnvironment(stores), onClose)
    await eventually(() => expect(waiting.stdout()).toMatch(/^Waiting: Postgres is on an older schema/))

    expect((await svc(['migrate'], toEnvironment(stores), onClose)).code).toBe(0)

    expect(await waiting.ended).toEqual({ code: 0, signal: null })
    expect(waiting.stdout()).toMatch(/The stores are up to date\.\n$/)
    expect(waiting.stdout()).not.toContain('API key')
  })

  it('--wait also waits for stores that do not answer yet', async () => {
    const postgresUrl = `postgres://svc:secret@127.0.0.1:${await findFreePort()}/svc`
    const waiting = runSvc(['migrate', '--wait'], toEnvironment({ ...storesWith('postgres'), postgresUrl }), onClose)

    await eventually(() => expect(waiting.stdout()).toMatch(/^Waiting: Postgres at 127\.0\.0\.1:\d+ cannot be used/))

    expect(waiting.stdout()).not.toContain('secret')
    expect(waiting.hasEnded()).toBe(false)
  })

  it('may run twice at once: both end well, and one of them prints the key', async () => {
    const stores = await openEmptyStores()

    const both = await Promise.all([1, 2].map(() => svc(['migrate'], toEnvironment(stores), onClose)))

    expect(both.map(({ code, stderr }) => ({ code, stderr }))).toEqual(Array(2).fill({ code: 0, stderr: '' }))
    expect(both.filter(({ stdout }) => stdout.includes('svc_'))).toHaveLength(1)
  })

  it('names the store that does not answer', async () => {
    const env = toEnvironment(storesWith('postgres'))
    const address = `127.0.0.1:${await findFreePort()}`

    const noPostgres = await svc(['migrate'], { ...env, POSTGRES_URL: `postgres://svc@${address}/svc` }, onClose)
    expectPlainFailure(noPostgres, new RegExp(`^svc: Postgres at ${address} cannot be used`))
    const noClickHouse = await svc(['migrate'], { ...env, CLICKHOUSE_URL: `http://${address}` }, onClose)
    expectPlainFailure(noClickHouse, new RegExp(`^svc: ClickHouse at ${address} cannot be used`))
  })
})

function toEnvironment({ clickhouseUrl, postgresUrl, redisUrl, objectsUrl }: StoreUrls): Record<string, string> {
  const stores = { CLICKHOUSE_URL: clickhouseUrl, POSTGRES_URL: postgresUrl, REDIS_URL: redisUrl ?? '' }
  return { ...stores, OBJECTS_URL: objectsUrl ?? '', SVC_PORT: '0' }
}

/** Databases of their own on the shared servers, without a table. */
async function openEmptyStores(): Promise<StoreUrls> {
  const { clickhouseUrl, postgresUrl, objectsUrl } = storesWith('postgres')
  const name = uniqueName('empty').replaceAll('-', '_')
  return {
    clickhouseUrl: withDatabase(clickhouseUrl, name),
    postgresUrl: await createDatabase(postgresUrl, name),
    redisUrl: undefined,
    objectsUrl,
  }
}
