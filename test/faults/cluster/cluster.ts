import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import pg from 'pg'
import type { Role } from '../../../cli/service.ts'
import { migrateStores } from '../../../cli/stores.ts'
import type { Closers } from '../../../runtime/closers.ts'
import { openClickHouse } from '../../../store/clickhouse/connection.ts'
import { createApiKey } from '../../../store/postgres/accounts/api-key.ts'
import { openQueueBackend } from '../../../store/queue/open-queue.ts'
import { queueNames } from '../../../store/queue/queues.ts'
import { createClient } from '../../kit/http/client.ts'
import { type SupervisedRole, superviseRole } from '../../kit/processes/supervised-role.ts'
import type { QueueKind } from '../../kit/service.ts'
import { openSupervisedStores } from '../../kit/stores/supervised-stores.ts'
import { migrateWith, type Version, workingTree } from '../rolling/revision.ts'

/** An experiment: its key over HTTP, its id in ClickHouse. */
export type Experiment = { key: string; id: string }

export type Cluster = Awaited<ReturnType<typeof startCluster>>

type Settings = {
  queue: QueueKind
  closers: Closers
  diskBytes?: number | undefined
  /** Environment of the roles. */
  settings?: Record<string, string>
  /** Which roles to start, each as often as it is listed. */
  roles?: Role[]
  /** The version that makes the tables and runs at first; the working tree by default. */
  version?: Version
}

const queuePrefix = 'faults'

const usualRoles: Role[] = ['ingest', 'ingest', 'worker', 'worker', 'api']

/**
 * The service as in production: every role and every store is a process of its own and is started again when it ends. Two
 * ingest, two workers and one api unless `roles` says otherwise; everything lives in a temporary folder.
 */
export async function startCluster({
  queue,
  closers,
  diskBytes,
  settings = {},
  roles: wanted = usualRoles,
  version = workingTree,
}: Settings) {
  if (process.platform !== 'linux') throw new Error('Killing and watching processes needs Linux (/proc).')
  const folder = await mkdtemp(path.join(tmpdir(), 'svc-faults-'))
  closers.push(() => rm(folder, { recursive: true, force: true, maxRetries: 10 }))
  const stores = await openSupervisedStores({ folder, queue, closers, diskBytes })
  const apiKey = createApiKey()
  if (version === workingTree) await migrateStores(stores.urls, apiKey)
  else await migrateWith(version, stores.urls, { ...settings, SVC_BOOTSTRAP_API_KEY: apiKey })

  const numberOf = (index: number) => wanted.slice(0, index + 1).filter((it) => it === wanted[index]).length
  const roles = await Promise.all(wanted.map((role, index) => startOne(role, `${role} ${numberOf(index)}`)))
  const urlsOf = (role: Role) => roles.filter((it) => it.kind === role).map((it) => it.url)
  const apiUrl = urlsOf('api')[0] as string

  const clickhouse = openClickHouse({ url: stores.urls.clickhouseUrl })
  closers.push(() => clickhouse.close())

  return {
    apiKey,
    apiUrl,
    ingestUrls: urlsOf('ingest'),
    clickhouse,
    stores,
    processes: [...roles, stores.clickhouse, stores.postgres, stores.redis].filter((it) => it !== undefined),
    openQueueDepth,
    roles,
    startRole: startOne,

    /** Creates experiments over HTTP, as trainers do. */
    async createExperiments(count: number): Promise<Experiment[]> {
      const client = createClient(apiUrl, { apiKey, workspaceName: 'default' })
      const keys: string[] = []
      for (let made = 0; made < count; made++) keys.push(await client.createExperiment())
      const database = new pg.Client({ connectionString: stores.urls.postgresUrl })
      await database.connect()
      const { rows } = await database.query<Experiment>('SELECT key, id::text AS id FROM experiments')
      await database.end()
      return rows.filter((it) => keys.includes(it.key))
    },
  }

  async function startOne(role: Role, name: string, { script } = version): Promise<SupervisedRole> {
    const own = { SVC_LOG_LEVEL: 'warn', SVC_QUEUE_PREFIX: queuePrefix, ...settings }
    return await superviseRole({ role, name, stores: stores.urls, settings: own, closers, script })
  }

  /** Counts the blocks in all queues, waiting or in work; undefined while the queue does not answer. */
  async function openQueueDepth(): Promise<() => Promise<number | undefined>> {
    const backend = openQueueBackend({
      redisUrl: stores.urls.redisUrl,
      postgresUrl: stores.urls.postgresUrl,
      prefix: queuePrefix,
      onError: () => undefined,
    })
    closers.push(() => backend.close())
    const producers = await Promise.all(queueNames.map((name) => backend.openProducer(name)))
    return async () => {
      const depths = await Promise.all(producers.map((it) => it.load())).catch(() => undefined)
      return depths?.reduce((sum, it) => sum + it.blocks, 0)
    }
  }
}
