import path from 'node:path'
import type { Role } from '../../cli/service.ts'
import type { Closers } from '../../runtime/closers.ts'
import { type Server, startServer } from '../../test/kit/processes/server.ts'
import { svcScript, toStoreSettings } from '../../test/kit/processes/svc.ts'
import { forgetPeakMemory, readCpuSeconds, readPeakMemory } from '../../test/kit/processes/usage.ts'
import type { QueueKind, Target } from './scenarios.ts'
import type { BenchStores } from './stores.ts'

type Start = { name: string; script: URL; args: string[] }

const role = (name: Role | 'up'): Start => ({ name, script: svcScript, args: [name] })
const jobPerPoint = new URL('../baselines/job-per-point.ts', import.meta.url)
const bareRoute = new URL('../baselines/bare-route.ts', import.meta.url)

const processesOf: Record<Target, Start[]> = {
  service: [role('api'), role('ingest'), role('worker')],
  up: [role('up')],
  jobPerPoint: [role('api'), ...['ingest', 'worker'].map((name) => ({ name, script: jobPerPoint, args: [name] }))],
  rawInserts: [role('api')],
  bareRoute: [role('api'), { name: 'ingest', script: bareRoute, args: [] }],
}

const drainMsMax = 40_000

/** The running processes of a scenario, and those of the stores. */
export type System = {
  writeUrl: string
  readUrl: string
  /** Seconds of CPU so far, by process; undefined without /proc. */
  readCpu(): Promise<Record<string, number> | undefined>
  /** Peak memory of each of our processes in MiB; undefined without /proc. */
  readPeakMiB(): Promise<Record<string, number> | undefined>
  /** Peaks count from now on. */
  forgetPeaks(): Promise<void>
  /** Kills the process of a role and starts a new one, whose CPU counts from 0. */
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
    ...toStoreSettings({ ...urls, redisUrl: queue === 'redis' ? urls.redisUrl : undefined }),
    SVC_LOG_LEVEL: 'warn',
    SVC_QUEUE_PREFIX: queuePrefix,
    SVC_MASTER_KEY: stores.masterKey,
    SVC_DATA_DIR: path.join(stores.folder, 'up'),
    ...settings,
  }
  const servers: { name: string; server: Server }[] = []
  for (const { name, script, args } of processesOf[target]) {
    const place = servers.push({ name, server: await start(name, script, args) }) - 1
    closers.push(async () => stop(servers[place] as (typeof servers)[number]))
  }
  const urlOf = (name: string) => servers.find((it) => it.name === name || it.name === 'up')?.server.url ?? ''
  const pids = () => servers.map(({ server }) => server.pid)
  const byName = (values: number[]) => Object.fromEntries(servers.map(({ name }, index) => [name, values[index] ?? 0]))
  return {
    writeUrl: urlOf('ingest'),
    readUrl: urlOf('api'),
    async readPeakMiB() {
      const peaks = await readPeakMemory(pids())
      return peaks && byName(peaks.map((it) => it / 2 ** 20))
    },
    forgetPeaks: () => forgetPeakMemory(pids()),
    async replace(name) {
      const found = servers.find((it) => it.name === name)
      if (!found) throw new Error(`There is no ${name}.`)
      await found.server.stop('SIGKILL')
      found.server = await start(name, svcScript, [name])
    },
    async readCpu() {
      const ours = await readCpuSeconds(pids())
      const theirs = await stores.readCpu()
      return ours && theirs && { ...byName(ours), ...theirs }
    },
  }

  async function start(name: string, script: URL, args: string[]): Promise<Server> {
    const folder = name === 'api' ? undefined : profileFolder
    const nodeOptions = folder ? ['--cpu-prof', `--cpu-prof-dir=${folder}`, `--cpu-prof-name=${name}.cpuprofile`] : []
    return await startServer({ name, script, args, environment, nodeOptions })
  }

  /** Drains the process and prints what it logged: only warnings and errors, without the banner of `up`. */
  async function stop({ name, server }: (typeof servers)[number]) {
    await server.stop('SIGTERM', drainMsMax)
    if (server.output() !== '' && name !== 'up') process.stderr.write(`${name} logged:\n${server.output()}\n`)
  }
}
