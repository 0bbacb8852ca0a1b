import { spawnSync } from 'node:child_process'
import { Redis } from 'ioredis'
import { afterEach, describe, expect, it } from 'vitest'
import { findFreePort } from '../../store/embedded/free-port.ts'
import { expectPlainFailure } from '../kit/processes/expect.ts'
import { aFolder, startRole, svc } from '../kit/processes/svc.ts'
import { storesWith, testMasterKey } from '../kit/service.ts'
import { startRedisServer } from '../kit/stores/redis.ts'

const closers: (() => unknown)[] = []
const onClose = (close: () => unknown) => void closers.push(close)
afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close()
})

const canRunRedis = spawnSync('redis-server', ['--version']).status === 0
if (!canRunRedis) console.warn('Redis set up wrongly was not tried: there is no redis-server on the PATH.')

describe.skipIf(!canRunRedis)('a Redis that could lose what was acknowledged is refused with what to change:', () => {
  it.each([
    ['it keeps nothing on disk', 'ingest', 'appendonly', 'no', /Redis keeps nothing on disk.*--appendonly yes/],
    ['it evicts', 'up', 'maxmemory-policy', 'allkeys-lru', /Redis evicts data .*--maxmemory-policy noeviction/],
  ])('%s', async (_what, role, setting, value, said) => {
    const redis = await startRedisServer({ folder: await aFolder(onClose) })
    if (!redis) throw new Error('redis-server did not start')
    onClose(redis.close)
    const client = new Redis(redis.url)
    await client.config('SET', setting, value)
    client.disconnect()
    const { clickhouseUrl, postgresUrl } = storesWith('postgres')
    const addresses = { CLICKHOUSE_URL: clickhouseUrl, POSTGRES_URL: postgresUrl, REDIS_URL: redis.url }
    const env = { ...addresses, SVC_MASTER_KEY: testMasterKey }

    // All roles open the queue by the same lines, and `svc up` all roles.
    expectPlainFailure(await svc([role], { ...env, SVC_PORT: String(await findFreePort()) }, onClose), said)
  })
})

it.skipIf(!canRunRedis)(
  'a Redis that answers before it has written is used, with a warning that says what to change',
  async () => {
    const redis = await startRedisServer({ folder: await aFolder(onClose) })
    if (!redis) throw new Error('redis-server did not start')
    onClose(redis.close)
    const client = new Redis(redis.url)
    await client.config('SET', 'appendfsync', 'everysec')
    client.disconnect()
    const { clickhouseUrl, postgresUrl, objectsUrl } = storesWith('postgres')
    const said = /Redis runs with \W*appendfsync everysec.*--appendfsync always/

    const worker = await startRole('worker', { clickhouseUrl, postgresUrl, objectsUrl, redisUrl: redis.url })
    onClose(async () => {
      worker.kill('SIGKILL')
      await worker.ended
    })
    expect(worker.output()).toMatch(said)
    const addresses = { CLICKHOUSE_URL: clickhouseUrl, POSTGRES_URL: postgresUrl, REDIS_URL: redis.url }
    const env = { ...addresses, SVC_MASTER_KEY: testMasterKey }
    const { code, stdout } = await svc(['doctor'], { ...env, SVC_PORT: String(await findFreePort()) }, onClose)
    expect([code, stdout]).toEqual([1, expect.stringMatching(said)])
  },
)
