import { setTimeout as sleep } from 'node:timers/promises'
import type { Cluster } from './cluster.ts'

const nearlyFullBytes = 32 * 2 ** 20
const nearlyFullMs = 3_000

/** How a store fails and recovers. */
type Outage = {
  about: string
  begin(cluster: Cluster): Promise<void>
  /** Repeated every second during the outage. */
  keepAway?(cluster: Cluster): Promise<void>
  /** Resolves when the store is ready again. */
  end(cluster: Cluster): Promise<void>
  /** The backlog must drain at this multiple of the arrival rate, while the load continues. */
  drainRatioMin?: number
  needsRedis?: boolean
}

export type OutageName = 'clickhouse' | 'postgres' | 'redis' | 'redis-restart' | 'disk'

export const outages: Record<OutageName, Outage> = {
  clickhouse: {
    about: 'ClickHouse is killed and stays down',
    begin: ({ stores }) => stores.clickhouse.hold(),
    end: ({ stores }) => stores.clickhouse.release(),
    drainRatioMin: 3,
  },
  postgres: {
    about: 'Postgres is killed and stays down (the queue is in Redis)',
    begin: ({ stores }) => stores.postgres.hold(),
    end: ({ stores }) => stores.postgres.release(),
    needsRedis: true,
  },
  redis: {
    about: 'Redis is killed and stays down: writes are rejected, and clients buffer them',
    begin: async ({ stores }) => await stores.redis?.hold(),
    end: async ({ stores }) => await stores.redis?.release(),
    needsRedis: true,
  },
  'redis-restart': {
    about: 'workers stop; then Redis is killed with a deep queue and restarts from its append-only file',
    begin: async (cluster) => void (await Promise.all(workersOf(cluster).map((it) => it.hold('SIGTERM')))),
    async end(cluster) {
      await cluster.stores.redis?.hold()
      await cluster.stores.redis?.release()
      await Promise.all(workersOf(cluster).map((it) => it.release()))
    },
    needsRedis: true,
  },
  disk: {
    about: 'the disk under ClickHouse is full',
    // Real disks are nearly full before they are full.
    async begin(cluster) {
      await fillDisk(cluster, nearlyFullBytes)
      await sleep(nearlyFullMs)
      await fillDisk(cluster)
    },
    keepAway: (cluster) => fillDisk(cluster),
    end: async ({ stores }) => await stores.disk?.free(stores.clickhouse.pid() as number),
    drainRatioMin: 3,
  },
}

function workersOf({ processes }: Cluster) {
  return processes.filter((it) => it.kind === 'worker')
}

async function fillDisk({ stores }: Cluster, bytesLeft = 0) {
  await stores.disk?.fill(stores.clickhouse.pid() as number, bytesLeft)
}
