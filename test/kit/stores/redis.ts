import { spawnSync } from 'node:child_process'
import { mkdir } from 'node:fs/promises'
import { Redis } from 'ioredis'
import { findFreePort } from '../../../store/embedded/free-port.ts'
import { ProgramMissing, type RunningProcess, startProcess, waitUntilReady } from '../processes/process.ts'

/** When Redis writes a command to disk: before it answers, or within a second. */
export type AppendFsync = 'always' | 'everysec'

export type RedisServer = RunningProcess & { url: string; port: number; close(): Promise<void> }

type Settings = {
  /** Its files; created if it is missing. */
  folder: string
  port?: number
  appendFsync?: AppendFsync
  /** Further arguments. */
  more?: string[]
}

export function hasRedisServer(): boolean {
  return spawnSync('redis-server', ['--version'], { stdio: 'ignore' }).status === 0
}

/**
 * Redis as production must run it: an append-only file, no eviction. With `appendfsync everysec`, the default of Redis, it
 * answers before it has written while an fsync is slow, and a kill then loses acknowledged writes.
 */
export function durableRedisOptions(appendFsync: AppendFsync = 'always'): string[] {
  return ['--appendonly', 'yes', '--appendfsync', appendFsync, '--maxmemory-policy', 'noeviction']
}

/** The command of a durable redis-server on this machine. */
export function redisCommand({ folder, port, appendFsync, more = [] }: Settings & { port: number }) {
  const place = ['--port', String(port), '--bind', '127.0.0.1', '--dir', folder, '--save', '']
  const args = [...place, ...durableRedisOptions(appendFsync), ...more]
  return { file: 'redis-server', args, environment: {} }
}

/** Starts a redis-server; undefined when it is not installed. */
export async function startRedisServer(settings: Settings): Promise<RedisServer | undefined> {
  const port = settings.port ?? (await findFreePort())
  const url = `redis://127.0.0.1:${port}`
  await mkdir(settings.folder, { recursive: true })
  try {
    const running = startProcess(redisCommand({ ...settings, port }))
    await waitUntilReady('redis-server', running, () => pingRedis(url))
    return { ...running, url, port, close: async () => void (await running.stop('SIGKILL')) }
  } catch (error) {
    if (error instanceof ProgramMissing) return undefined
    throw error
  }
}

/** Rejects while Redis cannot be reached, and while it reads its append-only file. */
export async function pingRedis(url: string): Promise<void> {
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
