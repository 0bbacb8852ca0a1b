import path from 'node:path'
import type { Role } from '../../cli/service.ts'
import type { Closers } from '../../runtime/closers.ts'
import { type Server, startServer } from './processes.ts'
import type { QueueKind, Target } from './scenarios.ts'
import type { BenchStores } from './stores.ts'
import { readCpuSeconds, readPeakMiB } from './usage.ts'

/** What is measured: its processes, the stores included. */
export type System = {
  writeUrl: string
  readUrl: string
  /** Seconds of CPU used so far, by process; undefined where that cannot be told. */
  readCpu(): Promise<Record<string, number> | undefined>
  /** The most memory that each process of ours has had, in MiB; undefined where that cannot be told. */
  readPeakMiB(): Promise<Record<string, number> | undefined>
  /** Kills the process of a role and starts another one. What it has used until then is no more told. */
  replace(name: Role): Promise<void>
}

type Settings = {
  target: Target
  queue: QueueKind | 'none'
  stores: BenchStores
  closers: Closers
  profileFolder: string | undefined
  /** Further settings of the service. */
  settings?: Record<string, string>
}

/** Starts the processes of a scenario: each role on its own, as in production. */
export async function startSystem(options: Settings): Promise<System> {
  const { target, queue, stores, closers, profileFolder, settings = {} } = options
  const { urls, queuePrefix } = stores
  const environment = {
    CLICKHOUSE_URL: urls.clickhouseUrl,
    POSTGRES_URL: urls.postgresUrl,
    REDIS_URL: queue === 'redis' ? (urls.redisUrl ?? '') : '',
    OBJECTS_URL: urls.objectsUrl ?? '',
    SVC_QUEUE_PREFIX: queuePrefix,
    SVC_MASTER_KEY: stores.masterKey,
    SVC_DATA_DIR: path.join(stores.folder, 'up'),
    ...settings,
  }
  const starts: Parameters<typeof startServer>[0][] = [role(target === 'up' ? 'up' : 'api')]
  if (target === 'service') starts.push(role('ingest'), role('worker'))
  if (target === 'bareRoute')
    starts.push({ name: 'ingest', script: new URL('../baselines/bare-route.ts', import.meta.url), environment })
  if (target === 'jobPerPoint') starts.push(baselineRole('ingest'), baselineRole('worker'))

  const servers: Server[] = []
  for (const options of starts) {
    const place = servers.push(await startServer({ ...options, ...(options.name !== 'api' && { profileFolder }) })) - 1
    closers.push(async () => await servers[place]?.close())
  }
  const urlOf = (name: string) => servers.find((it) => it.name === name || it.name === 'up')?.url ?? ''
  return {
    writeUrl: urlOf('ingest'),
    readUrl: urlOf('api'),
    async readPeakMiB() {
      const peaks = await readPeakMiB(servers.map((it) => it.pid))
      return peaks && Object.fromEntries(servers.map((it, index) => [it.name, peaks[index] ?? 0]))
    },
    async replace(name) {
      const place = servers.findIndex((it) => it.name === name)
      await servers[place]?.kill()
      servers[place] = await startServer(role(name))
    },
    async readCpu() {
      const ours = await readCpuSeconds(servers.map((it) => it.pid))
      const theirs = await stores.readCpu()
      if (!ours || !theirs) return undefined
      return { ...Object.fromEntries(servers.map((it, index) => [it.name, ours[index] ?? 0])), ...theirs }
    },
  }

  function role(name: Role | 'up') {
    return { name, script: new URL('../../cli/svc.ts', import.meta.url), args: [name], environment }
  }

  function baselineRole(name: Role) {
    return { name, script: new URL('../baselines/job-per-point.ts', import.meta.url), args: [name], environment }
  }
}
