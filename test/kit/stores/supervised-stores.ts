import { mkdir } from 'node:fs/promises'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { Redis } from 'ioredis'
import pg from 'pg'
import { pino } from 'pino'
import type { StoreUrls } from '../../../cli/settings.ts'
import type { Closers } from '../../../runtime/closers.ts'
import { openEmbeddedClickHouse } from '../../../store/embedded/clickhouse.ts'
import { findFreePort } from '../../../store/embedded/free-port.ts'
import { openEmbeddedPostgres } from '../../../store/embedded/postgres.ts'
import { type Command, readCommand, readParent } from '../processes/running-command.ts'
import { type KeptProcess, keepProcess } from '../processes/supervised-process.ts'
import type { QueueKind } from '../service.ts'
import { redisArguments } from './shared-stores.ts'
import { mountSmallDisk, type SmallDisk } from './small-disk.ts'

export type Stores = {
  urls: StoreUrls
  clickhouse: KeptProcess
  postgres: KeptProcess
  redis: KeptProcess | undefined
  /** What ClickHouse keeps its files on, when it was asked for. */
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
 * Starts stores of our own that can be killed. The embedded engines make their files and say how they are run; then they
 * are run again under our own keeper, which can also leave them down.
 */
export async function openStores({ folder, queue, closers, diskBytes }: Settings): Promise<Stores> {
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
  const process = keepProcess({
    kind: 'postgres',
    name: 'postgres',
    command,
    tellsPid: true,
    checkReady: () => askPostgres(embedded.url),
  })
  return { url: embedded.url, process }
}

async function openClickHouse(folder: string, closers: Closers, diskBytes: number | undefined) {
  const embedded = await openEmbeddedClickHouse({ folder, log })
  let command: Command = await readCommand(embedded.pid())
  await embedded.close()
  const disk = diskBytes === undefined ? undefined : await mountSmallDisk(path.join(folder, 'data'), diskBytes, closers)
  if (disk) command = disk.around(command)
  const { origin } = new URL(embedded.url)
  const process = keepProcess({
    kind: 'clickhouse',
    name: 'clickhouse',
    command,
    tellsPid: true,
    async checkReady() {
      const answer = await fetch(`${origin}/ping`, { signal: AbortSignal.timeout(1_000) })
      if (!answer.ok) throw new Error(`HTTP ${answer.status}`)
    },
  })
  return { url: embedded.url, process, disk }
}

async function openRedis(folder: string) {
  await mkdir(folder, { recursive: true })
  const port = await findFreePort()
  const url = `redis://127.0.0.1:${port}`
  const command = { file: 'redis-server', args: redisArguments({ port, folder }), environment: process.env }
  return { url, process: keepProcess({ kind: 'redis', name: 'redis', command, checkReady: () => askRedis(url) }) }
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

/** While Redis reads its append-only file it refuses, also a PING. */
async function askRedis(url: string) {
  const redis = new Redis(url, {
    lazyConnect: true,
    retryStrategy: () => null,
    maxRetriesPerRequest: 0,
    commandTimeout: 1_000,
  })
  redis.on('error', () => undefined)
  try {
    await redis.connect()
    await redis.ping()
  } finally {
    redis.disconnect()
  }
}
