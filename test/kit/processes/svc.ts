import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Role } from '../../../cli/service.ts'
import type { StoreUrls } from '../../../cli/settings.ts'
import { findFreePort } from '../../../store/embedded/free-port.ts'
import { createClient } from '../http/client.ts'
import { type RunningProcess, startProcess, waitUntilReady } from './process.ts'
import { type Server, startServer } from './server.ts'

export const svcScript = new URL('../../../cli/svc.ts', import.meta.url)

type Environment = Record<string, string>

/** Closers of what a test opened; the test file runs them after each test. */
export type OnClose = (close: () => unknown) => void

type Options = { cwd?: string; detached?: boolean }

/** Starts a program with only the given environment, besides what a program needs. It is killed when the test ends. */
export function runCommand(
  file: string,
  args: string[],
  env: Environment,
  onClose: OnClose,
  { cwd, detached = false }: Options = {},
): RunningProcess {
  const environment = { LC_ALL: 'C.UTF-8', ...env }
  const running = startProcess({ file, args, environment, folder: cwd }, { isDetached: detached })
  onClose(() => running.stop('SIGKILL'))
  return running
}

/** Starts `svc`. It reads a `.env` in its working folder, which is that of temporary files unless given. */
export function runSvc(args: string[], env: Environment, onClose: OnClose, options: Options = {}): RunningProcess {
  return runCommand(process.execPath, [fileURLToPath(svcScript), ...args], env, onClose, { cwd: tmpdir(), ...options })
}

/** Runs `svc` to its end and answers everything it printed. */
export async function svc(args: string[], env: Environment, onClose: OnClose, options: Options = {}) {
  const running = runSvc(args, env, onClose, options)
  const { code } = await running.ended
  return { code, stdout: running.stdout(), stderr: running.stderr() }
}

/** Where the stores are, as in the environment of a role. */
export function toStoreSettings(stores: StoreUrls): Environment {
  return {
    CLICKHOUSE_URL: stores.clickhouseUrl,
    ...(stores.clickhouseCluster !== undefined && { CLICKHOUSE_CLUSTER: stores.clickhouseCluster }),
    POSTGRES_URL: stores.postgresUrl,
    REDIS_URL: stores.redisUrl ?? '',
    OBJECTS_URL: stores.objectsUrl ?? '',
  }
}

/** Starts a role as a process of its own and waits until it is ready. The caller ends it. */
export async function startRole(
  role: Role,
  stores: StoreUrls,
  settings: Environment = {},
  options: string[] = [],
): Promise<Server> {
  const environment = { ...toStoreSettings(stores), ...settings }
  return await startServer({ name: role, script: svcScript, args: [role, ...options], environment })
}

export async function aFolder(onClose: OnClose): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), 'svc-cli-'))
  onClose(() => rm(folder, { recursive: true, force: true, maxRetries: 10 }))
  return folder
}

export type Up = Server & { folder: string; key: string | undefined }

/** Starts `svc up` on a data folder and waits until it has printed its whole banner. */
export async function startUp(folder: string, env: Environment, onClose: OnClose, options: Options = {}): Promise<Up> {
  const port = await findFreePort()
  const running = runSvc(['up'], { SVC_PORT: String(port), SVC_DATA_DIR: folder, ...env }, onClose, options)
  await waitUntilReady('svc up', running, () => {
    if (!running.stdout().includes('npm run demo')) throw new Error('the banner is not complete')
  })
  return {
    ...running,
    url: `http://127.0.0.1:${port}`,
    folder,
    key: /^ {2}API key +(svc_\w+)/m.exec(running.stdout())?.[1],
  }
}

/** A client with the key of the first admin. */
export function clientOf({ url }: { url: string }, apiKey: string | undefined) {
  return createClient(url, { apiKey: apiKey as string, workspaceName: 'default' })
}

/** The pids of the engines on a data folder, by the files in which they note them themselves. */
export function enginesOn(folder: string) {
  const clickhouse = /^PID: (\d+)/m.exec(readFileSync(path.join(folder, 'clickhouse/data/status'), 'utf8'))?.[1]
  const postgres = readFileSync(path.join(folder, 'postgres/data/postmaster.pid'), 'utf8').split('\n')[0]
  return { clickhouse: Number(clickhouse), postgres: Number(postgres) }
}
