import { mkdir } from 'node:fs/promises'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import pg from 'pg'
import { pino } from 'pino'
import type { StoreUrls } from '../../../cli/settings.ts'
import type { Closers } from '../../../runtime/closers.ts'
import { openEmbeddedClickHouse } from '../../../store/embedded/clickhouse.ts'
import { findFreePort } from '../../../store/embedded/free-port.ts'
import { openEmbeddedPostgres } from '../../../store/embedded/postgres.ts'
import { checkAnswers } from '../processes/process.ts'
import { readCommand, readParent } from '../processes/running-command.ts'
import { type SupervisedProcess, supervise } from '../processes/supervised-process.ts'
import type { QueueKind } from '../service.ts'
import { pingRedis, redisCommand } from './redis.ts'
import { mountSmallDisk, type SmallDisk } from './small-disk.ts'

export type StoreKind = 'clickhouse' | 'postgres' | 'redis'

type SupervisedStore = SupervisedProcess<StoreKind>

export type SupervisedStores = {
  urls: StoreUrls
  clickhouse: SupervisedStore
  postgres: SupervisedStore
  redis: SupervisedStore | undefined
  /** Holds the files of ClickHouse, when `diskBytes` was given. */
  disk: SmallDisk | undefined
}

type Settings = {
  folder: string
  queue: QueueKind
  closers: Closers
  /** Puts the files of ClickHouse on a disk of this size. */
  diskBytes?: number | undefined
}

const log = pino({ level: 'warn' }, pino.destination(2))

/**
 * Starts stores that can be killed and held down. Each embedded engine is started once to create its files; its command
 * is then read from /proc and run under our own supervisor. Linux only.
 */
export async function openSupervisedStores(settings: Settings): Promise<SupervisedStores> {
  const { folder, queue, closers, diskBytes } = settings
  const postgres = await openPostgres(path.join(folder, 'postgres'))
  closers.push(postgres.process.close)
  const clickhouse = await openClickHouse(path.join(folder, 'clickhouse'), closers, diskBytes)
  closers.push(clickhouse.process.close)
  const redis = queue === 'redis' ? await openRedis(path.join(folder, 'redis')) : undefined
  if (redis) closers.push(redis.process.close)
  await Promise.all([postgres.process.ready(), clickhouse.process.ready(), redis?.process.ready()])
  return {
    urls: {
      postgresUrl: postgres.url,
      clickhouseUrl: clickhouse.url,
      redisUrl: redis?.url,
      objectsUrl: pathToFileURL(path.join(folder, 'objects')).href,
    },
    postgres: postgres.process,
    clickhouse: clickhouse.process,
    redis: redis?.process,
    disk: clickhouse.disk,
  }
}

async function openPostgres(folder: string) {
  const embedded = await openEmbeddedPostgres({ folder, log })
  // The server's parent is the process that ends it when we are gone.
  const command = await readCommand(await readParent(embedded.pid()))
  await embedded.close()
  const process = supervise({
    kind: 'postgres',
    name: 'postgres',
    command,
    printsPid: true,
    checkReady: () => askPostgres(embedded.url),
  })
  return { url: embedded.url, process }
}

async function openClickHouse(folder: string, closers: Closers, diskBytes: number | undefined) {
  const embedded = await openEmbeddedClickHouse({ folder, log })
  const command = await readCommand(embedded.pid())
  await embedded.close()
  const disk = diskBytes === undefined ? undefined : await mountSmallDisk(path.join(folder, 'data'), diskBytes, closers)
  const { origin } = new URL(embedded.url)
  const process = supervise({
    kind: 'clickhouse',
    name: 'clickhouse',
    command: disk ? disk.around(command) : command,
    printsPid: true,
    checkReady: () => checkAnswers(`${origin}/ping`),
  })
  return { url: embedded.url, process, disk }
}

async function openRedis(folder: string) {
  await mkdir(folder, { recursive: true })
  const port = await findFreePort()
  const url = `redis://127.0.0.1:${port}`
  const command = redisCommand({ folder, port })
  return { url, process: supervise({ kind: 'redis', name: 'redis', command, checkReady: () => pingRedis(url) }) }
}

async function askPostgres(url: string) {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 1_000 })
  client.on('error', () => undefined)
  try {
    await client.connect()
    await client.query('SELECT 1')
  } finally {
    await client.end().catch(() => undefined)
  }
}
