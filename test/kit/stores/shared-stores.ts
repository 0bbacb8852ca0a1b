import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { type Logger, pino } from 'pino'
import type { TestProject } from 'vitest/node'
import { migrateStores } from '../../../cli/stores.ts'
import { createClosers } from '../../../runtime/closers.ts'
import { openEmbeddedClickHouse } from '../../../store/embedded/clickhouse.ts'
import { openEmbeddedPostgres } from '../../../store/embedded/postgres.ts'
import { type ClickHouseTemplate, createClickHouseTemplate } from './clickhouse-template.ts'
import { createDatabase } from './databases.ts'
import { durableRedisOptions, startRedisServer } from './redis.ts'

/**
 * The stores that all tests share: real ones. ClickHouse and Postgres are looked for at CLICKHOUSE_URL and POSTGRES_URL,
 * else embedded engines are started; Redis at REDIS_URL, else as `redis-server` on the PATH. With SVC_TEST_DOCKER=1,
 * containers take the place of all that has no address. Tests that need Redis say when there is none.
 */
export type TestStores = {
  clickhouseUrl: string
  /** The user that runs the SQL of callers; only our own ClickHouse has it. */
  clickhouseSqlUrl?: string | undefined
  postgresUrl: string
  redisUrl: string | undefined
  objectsUrl: string
  /** A database in Postgres with all tables, to be copied. */
  templateDatabase: string
  /** The same of ClickHouse. */
  clickhouseTemplate: ClickHouseTemplate
  /** Where our own ClickHouse may write backups. */
  backupsFolder?: string | undefined
}

declare module 'vitest' {
  export interface ProvidedContext {
    stores: TestStores
  }
}

export default async function setup(project: TestProject) {
  const log = pino({ level: 'warn' }, pino.destination(2))
  const closers = createClosers()
  const folder = await mkdtemp(path.join(tmpdir(), 'svc-test-'))
  closers.push(() => rm(folder, { recursive: true, force: true }))

  try {
    const postgres = await openPostgres(path.join(folder, 'postgres'), log)
    closers.push(() => postgres.close())
    const clickhouse = await openClickHouse(path.join(folder, 'clickhouse'), log)
    closers.push(() => clickhouse.close())
    const redis = await openRedis(folder)
    if (redis) closers.push(() => redis.close())

    const stores = {
      postgresUrl: postgres.url,
      clickhouseUrl: clickhouse.url,
      clickhouseSqlUrl: clickhouse.sqlUrl,
      redisUrl: redis?.url,
      objectsUrl: pathToFileURL(path.join(folder, 'objects')).href,
      backupsFolder: clickhouse.backupsFolder,
    }
    await migrateStores({ ...stores, redisUrl: undefined }, undefined)
    const templateDatabase = `svc_template_${randomBytes(6).toString('hex')}`
    const postgresUrl = await createDatabase(postgres.url, templateDatabase)
    await migrateStores({ ...stores, postgresUrl, redisUrl: undefined }, undefined)
    const clickhouseTemplate = await createClickHouseTemplate(clickhouse.url, templateDatabase)
    project.provide('stores', { ...stores, templateDatabase, clickhouseTemplate })
  } catch (error) {
    await closers.closeAll().catch(() => undefined)
    throw error
  }
  return () => closers.closeAll()
}

type OpenStore = { url: string; sqlUrl?: string; close(): Promise<unknown>; backupsFolder?: string }

const givenStore = (url: string): OpenStore => ({ url, close: async () => undefined })
const wantsDocker = process.env.SVC_TEST_DOCKER === '1'

/** The images of deploy/compose.yaml. */
export const containerImages = {
  postgres: 'postgres:18',
  clickhouse: 'clickhouse/clickhouse-server:25.8',
  redis: 'redis:8',
}

/** Many tests share one Postgres, and some start a dozen processes. */
const connectionsMax = 500

async function openPostgres(folder: string, log: Logger): Promise<OpenStore> {
  if (process.env.POSTGRES_URL) return givenStore(process.env.POSTGRES_URL)
  if (!wantsDocker) return await openEmbeddedPostgres({ folder, log, connectionsMax })
  const environment = { POSTGRES_PASSWORD: 'test', POSTGRES_DB: 'svc' }
  const { address, close } = await startContainer({ image: containerImages.postgres, port: 5432, environment })
  return { url: `postgres://postgres:test@${address}/svc`, close }
}

async function openClickHouse(folder: string, log: Logger): Promise<OpenStore> {
  if (process.env.CLICKHOUSE_URL) return givenStore(process.env.CLICKHOUSE_URL)
  if (!wantsDocker) return await openEmbeddedClickHouse({ folder, log })
  const environment = { CLICKHOUSE_USER: 'svc', CLICKHOUSE_PASSWORD: 'test' }
  const { address, close } = await startContainer({
    image: containerImages.clickhouse,
    port: 8123,
    environment,
  })
  return { url: `http://svc:test@${address}/svc`, close }
}

async function openRedis(folder: string): Promise<OpenStore | undefined> {
  if (process.env.REDIS_URL) return givenStore(process.env.REDIS_URL)
  if (wantsDocker) {
    const command = ['redis-server', ...durableRedisOptions()]
    const { address, close } = await startContainer({ image: containerImages.redis, port: 6379, command })
    return { url: `redis://${address}`, close }
  }
  const local = await startRedisServer({ folder })
  if (local) return local
  console.warn(
    'Tests that need Redis are skipped: REDIS_URL is not set and there is no redis-server on the PATH. ' +
      'Install it (Debian: apt-get install redis-server), or set SVC_TEST_DOCKER=1 where Docker runs.',
  )
  return undefined
}

type Container = { image: string; port: number; environment?: Record<string, string>; command?: string[] }

async function startContainer({ image, port, environment = {}, command }: Container) {
  const { GenericContainer, Wait } = await import('testcontainers')
  let container = new GenericContainer(image)
    .withEnvironment(environment)
    .withExposedPorts(port)
    .withWaitStrategy(Wait.forListeningPorts())
  if (command) container = container.withCommand(command)
  const started = await container.start()
  return { address: `${started.getHost()}:${started.getMappedPort(port)}`, close: () => started.stop() }
}
