import { spawn } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Redis } from 'ioredis'
import { pino } from 'pino'
import type { TestProject } from 'vitest/node'
import { createClosers } from '../../cli/closers.ts'
import { migrateStores } from '../../cli/stores.ts'
import { openEmbeddedClickHouse } from '../../store/embedded/clickhouse.ts'
import { findFreePort } from '../../store/embedded/free-port.ts'
import { openEmbeddedPostgres } from '../../store/embedded/postgres.ts'
import { eventually } from './eventually.ts'

/**
 * The stores that all tests share: real ones, given by address or started here. Redis is looked for at REDIS_URL, then
 * as `redis-server` on the PATH, then, when SVC_TEST_DOCKER=1, in a container; tests that need it say when it is absent.
 */
export type TestStores = { clickhouseUrl: string; postgresUrl: string; redisUrl: string | undefined }

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
    const postgres = process.env.POSTGRES_URL
      ? undefined
      : await openEmbeddedPostgres({ folder: path.join(folder, 'postgres'), log })
    if (postgres) closers.push(() => postgres.close())
    const clickhouse = process.env.CLICKHOUSE_URL
      ? undefined
      : await openEmbeddedClickHouse({ folder: path.join(folder, 'clickhouse'), log })
    if (clickhouse) closers.push(() => clickhouse.close())
    const redis = await openRedis(folder)
    if (redis) closers.push(redis.close)

    const stores: TestStores = {
      postgresUrl: postgres?.url ?? (process.env.POSTGRES_URL as string),
      clickhouseUrl: clickhouse?.url ?? (process.env.CLICKHOUSE_URL as string),
      redisUrl: redis?.url,
    }
    await migrateStores({ ...stores, redisUrl: undefined }, undefined)
    project.provide('stores', stores)
  } catch (error) {
    await closers.closeAll().catch(() => undefined)
    throw error
  }
  return () => closers.closeAll()
}

type OpenRedis = { url: string; close(): Promise<unknown> }

async function openRedis(folder: string): Promise<OpenRedis | undefined> {
  if (process.env.REDIS_URL) return { url: process.env.REDIS_URL, close: async () => undefined }
  const local = await startRedisServer({ folder })
  if (local) return local
  if (process.env.SVC_TEST_DOCKER === '1') {
    const { GenericContainer } = await import('testcontainers')
    const container = await new GenericContainer('redis:7')
      .withCommand(['redis-server', '--appendonly', 'yes', '--maxmemory-policy', 'noeviction'])
      .withExposedPorts(6379)
      .start()
    return {
      url: `redis://${container.getHost()}:${container.getMappedPort(6379)}`,
      close: () => container.stop(),
    }
  }
  console.warn(
    'Tests that need Redis are skipped: REDIS_URL is not set and there is no redis-server on the PATH. ' +
      'Install it (Debian: apt-get install redis-server), or set SVC_TEST_DOCKER=1 where Docker runs.',
  )
  return undefined
}

type RedisServer = OpenRedis & { pid: number; port: number }

/** Starts a redis-server of our own with its files in `folder`; undefined when there is no such program. */
export async function startRedisServer({
  folder,
  port,
}: {
  folder: string
  port?: number
}): Promise<RedisServer | undefined> {
  const listenPort = port ?? (await findFreePort())
  const child = spawn(
    'redis-server',
    [
      '--port',
      String(listenPort),
      '--bind',
      '127.0.0.1',
      '--dir',
      folder,
      '--save',
      '',
      '--appendonly',
      'yes',
      '--maxmemory-policy',
      'noeviction',
    ],
    { stdio: 'ignore' },
  )
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  const started = await new Promise<boolean>((resolve) => {
    child.once('spawn', () => resolve(true))
    child.once('error', () => resolve(false))
  })
  if (!started) return undefined
  const url = `redis://127.0.0.1:${listenPort}`
  await eventually(() => pingRedis(url))
  return {
    url,
    port: listenPort,
    pid: child.pid as number,
    async close() {
      child.kill('SIGKILL')
      await ended
    },
  }
}

async function pingRedis(url: string) {
  const redis = new Redis(url, { lazyConnect: true, retryStrategy: () => null })
  redis.on('error', () => undefined)
  try {
    await redis.connect()
    await redis.ping()
  } finally {
    redis.disconnect()
  }
}
