import { spawnSync } from 'node:child_process'
import { chmod, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { Redis } from 'ioredis'
import pg from 'pg'
import { afterEach, describe, expect, it } from 'vitest'
import { examine } from '../../../cli/doctor/doctor.ts'
import { createClosers } from '../../../runtime/closers.ts'
import type { Finding } from '../../../store/checks/finding.ts'
import { openClickHouse } from '../../../store/clickhouse/connection.ts'
import { findFreePort } from '../../../store/embedded/free-port.ts'
import { migratePostgres } from '../../../store/postgres/migrate.ts'
import { openQueueBackend } from '../../../store/queue/open-queue.ts'
import { openOrganization } from '../../api/accounts/organization.ts'
import { eventually } from '../../kit/eventually.ts'
import { openIdentityProvider } from '../../kit/http/identity-provider.ts'
import { aFolder, startUp, svc } from '../../kit/processes/svc.ts'
import { openOwnStores, openTestService, storesWith, testMasterKey } from '../../kit/service.ts'
import { insertParts } from '../../kit/stores/parts.ts'
import { openPostgresWithReplica } from '../../kit/stores/postgres-replica.ts'
import { startRedisServer } from '../../kit/stores/redis.ts'

const closers: (() => unknown)[] = []
const onClose = (close: () => unknown) => void closers.push(close)
afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close()
})

/** The one finding of that name. Processes of their own are started only where their output or exit code matters. */
async function look(env: Record<string, string>, name: string): Promise<Finding> {
  const findings = await examine(env)
  const found = findings.find((it) => it.name === name)
  if (!found) throw new Error(`nothing was found of ${name} among ${findings.map((it) => it.name).join(', ')}`)
  return found
}

async function run(url: string, sql: string) {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    await client.query(sql)
  } finally {
    await client.end()
  }
}

async function givenStores() {
  const { clickhouseUrl, postgresUrl, objectsUrl = '' } = storesWith('postgres')
  const stores = {
    CLICKHOUSE_URL: clickhouseUrl,
    POSTGRES_URL: postgresUrl,
    OBJECTS_URL: objectsUrl,
    // Other tests keep secrets in the same Postgres.
    SVC_MASTER_KEY: testMasterKey,
  }
  return { ...stores, SVC_PORT: String(await findFreePort()) }
}

/** On a busy machine a store may not answer in the time that the doctor gives it. */
async function examineUntilWell(args: string[], env: Record<string, string>) {
  return await eventually(async () => {
    const outcome = await svc(args, env, onClose)
    expect(outcome).toMatchObject({ code: 0, stderr: '' })
    return outcome
  }, 60_000)
}

describe('svc doctor', () => {
  it('ends with exit code 0 when all is well, and says what it looked at, as JSON too', async () => {
    const env = await givenStores()
    const service = await openTestService({ settings: { SVC_PORT: env.SVC_PORT } })
    onClose(() => service.close())

    const { stdout } = await examineUntilWell(['doctor'], env)

    for (const name of [
      'settings',
      'Postgres at .*',
      'ClickHouse at .*',
      'objects at .*',
      `service at ${service.url}`,
    ]) {
      expect(stdout).toMatch(new RegExp(`^  ${name} +ok\\b`, 'm'))
    }
    expect(stdout).toContain('written, read and deleted')
    expect(stdout).toContain('ready; ingest, worker, webhook-worker, api')
    expect(stdout).not.toContain('\x1b[')

    const report = JSON.parse((await examineUntilWell(['doctor', '--json'], env)).stdout)
    expect(report).toMatchObject({ ok: true, node: process.version })
    expect(report.findings).toContainEqual({ name: 'settings', state: 'ok', says: '' })
    expect(report.findings.filter((it: Finding) => it.state === 'wrong')).toEqual([])
    const names = report.findings.map((it: Finding) => it.name)
    for (const name of ['clock of Postgres', 'clock of ClickHouse', 'ClickHouse parts', 'dead letters', 'queue']) {
      expect(names).toContain(name)
    }
  })

  it('ends with exit code 1 and names each part that is not well', async () => {
    const away = `127.0.0.1:${await findFreePort()}`
    const env = {
      ...(await givenStores()),
      POSTGRES_URL: `postgres://svc:secret@${away}/svc`,
      REDIS_URL: `redis://${away}`,
      OBJECTS_URL: `s3://access:secret@${away}/bucket?tls=false`,
    }

    const { code, stdout } = await svc(['doctor', '--json'], env, onClose)

    expect(code).toBe(1)
    expect(JSON.parse(stdout).ok).toBe(false)
    const { findings } = JSON.parse(stdout) as { findings: Finding[] }
    const expectFound = (name: string, state: string, says: RegExp) => {
      expect(findings).toContainEqual({ name, state, says: expect.stringMatching(says) })
    }
    expectFound(`Postgres at ${away}`, 'wrong', /ECONNREFUSED/)
    expectFound(`objects at ${away}/bucket`, 'wrong', /The object store at .* cannot be used: /)
    expectFound(`Redis at ${away}`, 'wrong', /ECONNREFUSED|closed/)
    expectFound(`ClickHouse at ${new URL(env.CLICKHOUSE_URL).host}`, 'ok', /^\d+\.\d+/)
    expectFound(`service at http://127.0.0.1:${env.SVC_PORT}`, 'wrong', /does not answer: start it with "npm start"/)
    expect(stdout).not.toContain('secret')
  })

  it('tells a master key that is missing, or not the one in use', async () => {
    const own = await openOwnStores('postgres')
    const { SVC_PORT } = await givenStores()
    const env = {
      CLICKHOUSE_URL: own.clickhouseUrl,
      POSTGRES_URL: own.postgresUrl,
      SVC_DATA_DIR: await aFolder(onClose),
      SVC_PORT,
    }
    const { client, organizationId, close } = await openOrganization({ stores: own })
    onClose(close)
    const lookWith = async (key: Record<string, string>) => {
      const { state, message } = await look({ ...env, ...key }, 'master key')
      return `${state}: ${message}`
    }

    expect(await lookWith({})).toBe('ok: not set, and not needed yet')
    const secret = JSON.stringify({ secretName: 'hook', secretValue: 'x' })
    expect((await client.send('PUT', `/write/organization/${organizationId}/secrets`, secret)).status).toBe(200)

    expect(await lookWith({ SVC_MASTER_KEY: testMasterKey })).toBe('ok: decrypts 1 secret')
    expect(await lookWith({})).toMatch(/^wrong: .*set SVC_MASTER_KEY/)
    expect(await lookWith({ SVC_MASTER_KEY: Buffer.alloc(32, 9).toString('base64') })).toContain('svc secrets rotate')

    // One that was moved in the table opens nowhere else.
    await run(own.postgresUrl, "UPDATE organization_secrets SET name = 'moved'")
    expect(await lookWith({ SVC_MASTER_KEY: testMasterKey })).toMatch(
      /^wrong: does not decrypt 1 of 1 secret \(moved\)/,
    )
  })

  it('tells a master key in the data folder that is damaged, or that others may read', async () => {
    const folder = await aFolder(onClose)
    const file = path.join(folder, 'master-key')
    const env = { SVC_DATA_DIR: folder, SVC_PORT: String(await findFreePort()) }
    const lookAgain = async () => {
      const { state, message } = await look(env, 'master key')
      return `${state}: ${message}`
    }

    expect(await lookAgain()).toBe('ok: ')
    await writeFile(file, Buffer.alloc(32, 1).toString('base64'), { mode: 0o644 })
    expect(await lookAgain()).toMatch(/^wrong: .*chmod 600/s)
    await chmod(file, 0o600)
    expect(await lookAgain()).toBe('ok: ')
    await writeFile(file, 'short')
    expect(await lookAgain()).toContain('is damaged')
  })

  it('before a first start asks whether the data folder can be made', async () => {
    const folder = path.join(await aFolder(onClose), 'not', 'yet')
    const env = { SVC_DATA_DIR: folder, SVC_PORT: String(await findFreePort()) }

    expect((await look(env, `data folder ${folder}`)).state).toBe('ok')
  })

  it('tells a stranger on the port from the service', async () => {
    const stranger = createServer((_request, answer) => answer.end('hello')).listen(0, '127.0.0.1')
    onClose(() => stranger.close())
    await new Promise((resolve) => stranger.once('listening', resolve))
    const env = { ...(await givenStores()), SVC_PORT: String((stranger.address() as AddressInfo).port) }

    const found = await look(env, `service at http://127.0.0.1:${env.SVC_PORT}`)

    expect(found).toMatchObject({
      state: 'wrong',
      message: expect.stringMatching(/another program answers there/),
    })
  })

  it('asks the identity providers to describe themselves', async () => {
    const publicUrl = 'https://svc.example.com'
    const provider = await openIdentityProvider({ clientId: 'svc', clientSecret: 'x', publicUrl, id: 'corp' })
    onClose(provider.close)
    const of = { name: 'Corp', clientId: 'svc' }
    const providers = [
      { ...of, id: 'corp', issuer: provider.issuer },
      { ...of, id: 'inside', issuer: provider.issuer.replace('localhost', '127.0.0.1') },
      { ...of, id: 'other', issuer: `${provider.issuer}/nothing-here` },
    ]
    const SVC_SSO = JSON.stringify({ providers })
    const env = { SVC_PUBLIC_URL: publicUrl, SVC_SSO, SVC_SSO_PRIVATE_HOSTS: 'localhost', ...(await givenStores()) }
    const findings = (await examine(env)).filter((it) => it.name.startsWith('identity provider'))
    expect(findings.map((it) => [it.name, it.state])).toEqual([
      ['identity provider corp', 'ok'],
      ['identity provider inside', 'wrong'],
      ['identity provider other', 'wrong'],
    ])
    const [corp, inside, other] = findings.map((it) => it.message)
    expect(corp).toBe(`${provider.issuer}, asked for openid profile email groups offline_access; a page to sign out`)
    expect(inside).toContain('SVC_SSO_PRIVATE_HOSTS')
    expect(other).toContain('does not describe itself')
  })

  it('tells wrong settings, as JSON too', async () => {
    const wrong = { SVC_PORT: 'x', REDIS_URL: 'y' }

    const { code, stdout } = await svc(['doctor', '--json'], wrong, onClose)

    expect(code).toBe(1)
    expect(JSON.parse(stdout).findings).toEqual([
      { name: 'settings', state: 'wrong', says: expect.stringMatching(/SVC_PORT: must be a port.*\n.*REDIS_URL: /) },
    ])
  })

  it('looks at the embedded stores of a service that runs', async () => {
    const folder = await aFolder(onClose)
    const up = await startUp(folder, {}, onClose)
    const env = { SVC_DATA_DIR: folder, SVC_PORT: new URL(up.url).port }

    const { code, stdout } = await eventually(async () => {
      const report = await svc(['doctor'], env, onClose)
      expect(report.code, report.stdout).toBe(0)
      return report
    }, 120_000)

    expect([code, stdout]).toEqual([0, expect.stringMatching(/Postgres at .* ok .*ClickHouse at .* ok /s)])
    expect(stdout).toMatch(/^ {2}queue +ok +empty$/m)
  })

  it('warns of what will go wrong, with what to do, and ends with 0', async () => {
    const own = await openOwnStores('postgres')
    const { url, close } = await openTestService({ stores: own })
    onClose(close)
    await run(
      own.postgresUrl,
      "INSERT INTO dead_letters (queue, rows, received_ms, reason, block) VALUES ('metrics', 7, 1, 'x', '')",
    )
    const env = {
      CLICKHOUSE_URL: own.clickhouseUrl,
      POSTGRES_URL: own.postgresUrl,
      SVC_MASTER_KEY: testMasterKey,
      SVC_URL: url,
    }

    // On a machine that is very busy a store may not answer in time, which is wrong and more than a warning.
    await eventually(async () => {
      const { code, stdout } = await svc(['doctor', '--json'], env, onClose)
      expect(JSON.parse(stdout).findings.find((it: Finding) => it.name === 'dead letters')).toMatchObject({
        state: 'warning',
        says: expect.stringMatching(/^1 with 7 rows .*svc dead-letters list/),
      })
      expect([code, JSON.parse(stdout).ok]).toEqual([0, true])
    }, 120_000)
  })

  it('tells what is in the queue and is not stored', async () => {
    const own = await openOwnStores('postgres')
    const backend = openQueueBackend({ ...own, prefix: 'svc', onError: () => undefined })
    onClose(() => backend.close())
    const producer = await backend.openProducer('output')
    const env = { CLICKHOUSE_URL: own.clickhouseUrl, POSTGRES_URL: own.postgresUrl, SVC_MASTER_KEY: testMasterKey }
    // A machine that is very busy may answer none of the stores in time.
    const found = () => eventually(() => look(env, 'queue output'), 120_000)

    await producer.add({ rows: 1, receivedMs: Date.now() - 5 * 60_000, bytes: Buffer.from('x') })
    await producer.add({ rows: 1, receivedMs: Date.now() - 60_000, bytes: Buffer.from('x') })
    expect(await found()).toMatchObject({
      state: 'warning',
      message: expect.stringMatching(/^2 blocks, the oldest has waited 5 min: check that workers/),
    })
  })

  it('tells parts that are not merged, and a mutation that fails again and again', async () => {
    const own = await openOwnStores('postgres')
    const clickhouse = openClickHouse({ url: own.clickhouseUrl })
    onClose(() => clickhouse.close())
    const table = `${clickhouse.database}.points`
    await clickhouse.command(`SYSTEM STOP MERGES ${table}`)
    await insertParts(clickhouse, 510)
    const env = { CLICKHOUSE_URL: own.clickhouseUrl, POSTGRES_URL: own.postgresUrl, SVC_MASTER_KEY: testMasterKey }
    const found = (name: string) => eventually(() => look(env, name), 120_000)

    expect(await found('ClickHouse parts')).toMatchObject({
      state: 'warning',
      message: expect.stringMatching(/^points has \d+ in a partition; inserts are slowed down from \d+ on/),
    })

    await clickhouse.command(`SYSTEM START MERGES ${table}`)
    await clickhouse.command(`ALTER TABLE ${table} DELETE WHERE throwIf(metric = 'many', 'cannot be') = 1`, {
      mutations_sync: 0,
      validate_mutation_query: 0,
    })
    await eventually(async () => {
      expect(await look(env, 'ClickHouse mutations')).toMatchObject({
        state: 'warning',
        message: expect.stringContaining('1 keep failing'),
      })
    }, 120_000)
    await clickhouse.command(`KILL MUTATION WHERE database = '${clickhouse.database}' SYNC`)
    expect(await found('ClickHouse mutations')).toMatchObject({ state: 'ok' })
  })

  it('tells a folder for assets that cannot be written', async () => {
    const file = path.join(await aFolder(onClose), 'file')
    await writeFile(file, 'not a folder')
    const env = { ...(await givenStores()), OBJECTS_URL: pathToFileURL(file).href }

    expect((await look(env, `objects at ${file}`)).state).toBe('wrong')
  })
})

describe('svc doctor of a replica of Postgres', () => {
  it('says whether it is one, how far behind it is, and what holds it up', async () => {
    const { push, closeAll } = createClosers()
    onClose(closeAll)
    const { primaryUrl, replicaUrl, stopReplica } = await openPostgresWithReplica({ push, closeAll })
    await migratePostgres(primaryUrl)
    const env = { ...(await givenStores()), POSTGRES_URL: primaryUrl }
    const lookAt = async (url: string) => {
      const { state, message } = await look(
        { ...env, POSTGRES_READ_URL: url },
        `Postgres replica at ${new URL(url).host}`,
      )
      return `${state}: ${message}`
    }

    expect(await lookAt(primaryUrl)).toBe('ok: is the primary itself')
    await eventually(async () => expect(await lookAt(replicaUrl)).toMatch(/^ok: (up to date|\d+ ms behind)$/))
    await run(replicaUrl, 'SELECT pg_wal_replay_pause()')
    await run(primaryUrl, 'CREATE TABLE written_meanwhile (id int)')
    expect(await lookAt(replicaUrl)).toMatch(/^warning: has paused its replay/)
    expect(await lookAt(storesWith('postgres').postgresUrl)).toMatch(/^wrong: is no replica of the one at POSTGRES_URL/)
    await stopReplica()
    expect(await lookAt(replicaUrl)).toMatch(/^warning: .*ECONNREFUSED.*: the primary answers every read meanwhile$/)
  })
})

const canRunRedis = spawnSync('redis-server', ['--version']).status === 0

describe.skipIf(!canRunRedis)('svc doctor of a Redis', () => {
  it('looks at its memory, and at whether it takes writes', async () => {
    const redis = await startRedisServer({ folder: await aFolder(onClose) })
    if (!redis) throw new Error('redis-server did not start')
    onClose(redis.close)
    const client = new Redis(redis.url)
    onClose(() => client.disconnect())
    const env = { ...(await givenStores()), REDIS_URL: redis.url }
    const name = `Redis at ${new URL(redis.url).host}`

    expect(await look(env, name)).toMatchObject({
      state: 'warning',
      message: expect.stringContaining('has no maxmemory'),
    })
    await client.config('SET', 'maxmemory', '1gb')
    expect(await look(env, name)).toMatchObject({ state: 'ok', message: expect.stringMatching(/of 1\.1 GB used/) })
    await client.set('filling', Buffer.alloc(20_000_000))
    await client.config('SET', 'maxmemory', '24mb')
    expect(await look(env, name)).toMatchObject({
      state: 'wrong',
      message: expect.stringContaining('writes are refused'),
    })
    await client.config('SET', 'maxmemory', '1gb')
    const other = await startRedisServer({ folder: await aFolder(onClose) })
    if (!other) throw new Error('redis-server did not start')
    onClose(other.close)
    await client.replicaof('127.0.0.1', other.port)
    expect(await look(env, name)).toMatchObject({ state: 'wrong', message: expect.stringContaining('is a replica') })
  })
})
