import { spawnSync } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import { Redis } from 'ioredis'
import { type Closers, createClosers } from '../../../runtime/closers.ts'
import { findFreePort } from '../../../store/embedded/free-port.ts'
import { eventually } from '../eventually.ts'
import { startProcess } from '../processes/process.ts'
import { startRedisServer } from './redis.ts'

/** Real Redis processes on this machine. */
export const canRunRedis = ['redis-server', 'redis-cli'].every((it) => spawnSync(it, ['--version']).status === 0)

export type RedisNode = { port: number; ask: Redis; kill(): Promise<void> }

async function startNode(folder: string, closers: Closers, more: string[]): Promise<RedisNode> {
  const port = await findFreePort()
  const server = await startRedisServer({ folder: path.join(folder, String(port)), port, more })
  if (!server) throw new Error('redis-server is not installed')
  const ask = new Redis({ port, retryStrategy: () => 100 })
  ask.on('error', () => undefined)
  closers.push(async () => {
    ask.disconnect()
    await server.close()
  })
  return { port, ask, kill: server.close }
}

/** A cluster of masters without replicas; one that is away takes only its own slots with it. */
export async function openRedisCluster(folder: string, masters: number) {
  const closers = createClosers()
  try {
    const nodes: RedisNode[] = []
    for (let nth = 0; nth < masters; nth++) {
      const cluster = ['--cluster-enabled', 'yes', '--cluster-port', String(await findFreePort())]
      const settings = ['--cluster-node-timeout', '2000', '--cluster-require-full-coverage', 'no']
      nodes.push(await startNode(folder, closers, [...cluster, ...settings]))
    }
    const addresses = nodes.map((it) => `127.0.0.1:${it.port}`)
    const made = spawnSync('redis-cli', ['--cluster', 'create', ...addresses, '--cluster-yes'], { encoding: 'utf8' })
    if (made.status !== 0) throw new Error(`redis-cli made no cluster: ${made.stdout}${made.stderr}`)
    await eventually(async () => {
      for (const { ask } of nodes) {
        const info = await ask.cluster('INFO')
        if (!info.includes('cluster_state:ok')) throw new Error(info)
      }
    })
    return { url: `redis+cluster://${addresses.join(',')}`, nodes, close: closers.closeAll }
  } catch (error) {
    await closers.closeAll()
    throw error
  }
}

/** A master, two replicas of it, and a Sentinel that puts one of them in its place. */
export async function openRedisSentinel(folder: string) {
  const closers = createClosers()
  try {
    const master = await startNode(folder, closers, [])
    for (const _ of [1, 2]) await startNode(folder, closers, ['--replicaof', '127.0.0.1', String(master.port)])
    await eventually(async () => {
      const info = await master.ask.info('replication')
      if (!/slave0:.*state=online/.test(info) || !/slave1:.*state=online/.test(info)) throw new Error(info)
    })
    const port = await findFreePort()
    const config = path.join(folder, `sentinel-${port}.conf`)
    await writeFile(
      config,
      `port ${port}
bind 127.0.0.1
dir ${folder}
sentinel monitor queue 127.0.0.1 ${master.port} 1
sentinel down-after-milliseconds queue 1000
sentinel failover-timeout queue 5000
`,
    )
    const sentinel = startProcess({ file: 'redis-server', args: [config, '--sentinel'], environment: {} })
    closers.push(() => sentinel.stop('SIGKILL'))
    const ask = new Redis({ port, retryStrategy: () => 100 })
    ask.on('error', () => undefined)
    closers.push(async () => ask.disconnect())
    await eventually(async () => {
      const known = (await ask.call('SENTINEL', 'replicas', 'queue')) as unknown[]
      if (known.length < 2) throw new Error('the Sentinel does not know both replicas yet')
    })
    return { url: `redis+sentinel://127.0.0.1:${port}?master=queue`, master, close: closers.closeAll }
  } catch (error) {
    await closers.closeAll()
    throw error
  }
}
