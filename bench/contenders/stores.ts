import { randomBytes } from 'node:crypto'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { Redis } from 'ioredis'
import { pino } from 'pino'
import type { StoreUrls } from '../../cli/settings.ts'
import { migrateStores } from '../../cli/stores.ts'
import type { Closers } from '../../runtime/closers.ts'
import { openClickHouse } from '../../store/clickhouse/connection.ts'
import { openEmbeddedClickHouse } from '../../store/embedded/clickhouse.ts'
import { openEmbeddedPostgres } from '../../store/embedded/postgres.ts'
import { createApiKey } from '../../store/postgres/accounts/api-key.ts'
import { openDatabase } from '../../store/postgres/database.ts'
import { readCpuSeconds } from '../../test/kit/processes/usage.ts'
import { type AppendFsync, startRedisServer } from '../../test/kit/stores/redis.ts'

export type BenchStores = {
  /** Deleted when the stores are closed, unless it is `kept`. */
  folder: string
  /** Includes the URL of Redis if there is one, also for a queue in Postgres. */
  urls: StoreUrls
  apiKey: string
  masterKey: string
  /** Separates our keys in a shared Redis. */
  queuePrefix: string
  /** Seconds of CPU of each store so far; undefined without /proc. */
  readCpu(): Promise<Record<string, number> | undefined>
  /** Versions, and the fsync policy of Redis. */
  describe(): Promise<{ clickhouse: string; postgres: string; redis?: { version: string; appendFsync: string } }>
}

/**
 * Starts ClickHouse and Postgres in a temporary folder, and uses Redis at REDIS_URL or starts one. Never uses the stores of
 * a deployment, because scenarios empty the tables. A `kept` folder is reused and stays.
 */
export async function openBenchStores(
  closers: Closers,
  appendFsync: AppendFsync = 'always',
  kept?: string,
): Promise<BenchStores> {
  const log = pino({ level: 'error' }, pino.destination(2))
  const folder = kept ?? (await mkdtemp(path.join(tmpdir(), 'svc-bench-')))
  if (kept === undefined) closers.push(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }))
  await mkdir(folder, { recursive: true })
  const postgres = await openEmbeddedPostgres({ folder: path.join(folder, 'postgres'), log })
  closers.push(() => postgres.close())
  const clickhouse = await openEmbeddedClickHouse({ folder: path.join(folder, 'clickhouse'), log, isNice: true })
  closers.push(() => clickhouse.close())
  const queuePrefix = `bench-${randomBytes(4).toString('hex')}`
  const redis = await openRedis(path.join(folder, 'redis'), { appendFsync, prefix: queuePrefix, closers })

  const apiKey = await keepText(path.join(folder, 'api-key'), createApiKey())
  const masterKey = await keepText(path.join(folder, 'master-key'), randomBytes(32).toString('base64'))
  const urls = {
    clickhouseUrl: clickhouse.url,
    postgresUrl: postgres.url,
    redisUrl: redis?.url,
    objectsUrl: pathToFileURL(path.join(folder, 'objects')).href,
  }
  await migrateStores({ ...urls, redisUrl: undefined }, apiKey)
  return {
    folder,
    urls,
    apiKey,
    masterKey,
    queuePrefix,
    async readCpu() {
      const seconds = await readCpuSeconds([clickhouse.pid(), postgres.pid()])
      if (!seconds) return undefined
      const [inClickHouse = 0, inPostgres = 0] = seconds
      return { clickhouse: inClickHouse, postgres: inPostgres, ...(redis && { redis: await redis.readCpu() }) }
    },
    async describe() {
      const inClickHouse = openClickHouse({ url: clickhouse.url })
      const inPostgres = openDatabase({ url: postgres.url, connectionsMax: 1, onError: () => undefined })
      try {
        const engine = await inClickHouse.rows<{ version: string }>('SELECT version() AS version')
        const database = await inPostgres.row<{ server_version: string }>('SHOW server_version')
        return {
          clickhouse: `ClickHouse ${engine[0]?.version}`,
          postgres: `Postgres ${database?.server_version}`,
          ...(redis && { redis: await redis.describe() }),
        }
      } finally {
        await Promise.all([inClickHouse.close(), inPostgres.close()])
      }
    },
  }
}

/** Reads a file; creates it with `text` if it is missing. */
async function keepText(file: string, text: string): Promise<string> {
  await writeFile(file, text, { flag: 'wx', mode: 0o600 }).catch((error) => {
    if (error.code !== 'EEXIST') throw error
  })
  return await readFile(file, 'utf8')
}

type BenchRedis = {
  url: string
  readCpu(): Promise<number>
  describe(): Promise<{ version: string; appendFsync: string }>
}

type RedisSettings = { appendFsync: AppendFsync; prefix: string; closers: Closers }

async function openRedis(folder: string, settings: RedisSettings): Promise<BenchRedis | undefined> {
  const { appendFsync, prefix, closers } = settings
  const own = process.env.REDIS_URL ? undefined : await startRedisServer({ folder, appendFsync })
  if (own) closers.push(own.close)
  const url = own?.url ?? process.env.REDIS_URL
  if (!url) return undefined
  const redis = new Redis(url)
  redis.on('error', () => undefined)
  closers.push(async () => {
    for await (const keys of redis.scanStream({ match: `${prefix}:*`, count: 1_000 })) {
      if (keys.length > 0) await redis.unlink(keys)
    }
    redis.disconnect()
  })
  return {
    url,
    async readCpu() {
      const info = await redis.info('cpu')
      const used = (name: string) => Number(new RegExp(`^${name}:([\\d.]+)`, 'm').exec(info)?.[1] ?? 0)
      return ['used_cpu_user', 'used_cpu_sys', 'used_cpu_user_children', 'used_cpu_sys_children']
        .map(used)
        .reduce((sum, it) => sum + it)
    },
    async describe() {
      const info = await redis.info('server')
      const [, appendFsync] = (await redis.config('GET', 'appendfsync')) as string[]
      return {
        version: `Redis ${/^redis_version:(.*?)\r?$/m.exec(info)?.[1]}`,
        appendFsync: appendFsync ?? 'unknown',
      }
    },
  }
}
