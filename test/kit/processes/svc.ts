import { type SpawnOptions, spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect } from 'vitest'
import { findFreePort } from '../../../store/embedded/free-port.ts'
import { startOfProcess } from '../../../store/embedded/live-process.ts'
import { eventually } from '../eventually.ts'
import { createClient } from '../http/client.ts'

const command = fileURLToPath(new URL('../../../cli/svc.ts', import.meta.url))

type Environment = Record<string, string>

/** Closers of what a test opened; the test file runs them after each test. */
export type OnClose = (close: () => unknown) => void

/** A command that runs, what it printed until now, and how it ends. */
export type Running = ReturnType<typeof runCommand>

/** Starts a program with only the given environment, besides what a program needs. It is killed when the test ends. */
export function runCommand(
  file: string,
  args: string[],
  env: Environment,
  onClose: OnClose,
  options: SpawnOptions = {},
) {
  const { PATH, HOME, TMPDIR } = process.env
  const child = spawn(file, args, {
    ...options,
    env: { PATH, HOME, TMPDIR, LC_ALL: 'C.UTF-8', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const printed = { stdout: '', stderr: '' }
  child.stdout?.on('data', (chunk) => (printed.stdout += chunk))
  child.stderr?.on('data', (chunk) => (printed.stderr += chunk))
  let hasEnded = false
  const ended = new Promise<{ code: number | null; signal: NodeJS.Signals | null }>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code, signal) => {
      hasEnded = true
      resolve({ code, signal })
    })
  })
  onClose(async () => {
    child.kill('SIGKILL')
    await ended
  })
  return {
    pid: child.pid as number,
    ended,
    hasEnded: () => hasEnded,
    kill: (signal: NodeJS.Signals) => child.kill(signal),
    stdout: () => printed.stdout,
    stderr: () => printed.stderr,
  }
}

/** Starts `svc`; its folder is where a `.env` would be read. */
export function runSvc(args: string[], env: Environment, onClose: OnClose, options: SpawnOptions = {}): Running {
  return runCommand(process.execPath, [command, ...args], env, onClose, { cwd: tmpdir(), ...options })
}

/** Runs `svc` to its end and answers everything it printed. */
export async function svc(args: string[], env: Environment, onClose: OnClose, options: SpawnOptions = {}) {
  const running = runSvc(args, env, onClose, options)
  const { code } = await running.ended
  return { code, stdout: running.stdout(), stderr: running.stderr() }
}

/** A failure as a person should see it: a sentence that says what to do, and nothing of the program's insides. */
export function expectPlainFailure(outcome: { code: number | null; stdout: string; stderr: string }, said: RegExp) {
  expect(outcome.stderr).toMatch(said)
  expect(outcome.stderr).toMatch(/^svc: /)
  expect(outcome.stdout + outcome.stderr).not.toMatch(/^\s+at .*[:)]|node:internal|\bError:/m)
  expect(outcome.code).toBe(1)
}

export async function aFolder(onClose: OnClose): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), 'svc-cli-'))
  onClose(() => rm(folder, { recursive: true, force: true, maxRetries: 10 }))
  return folder
}

export type Up = Running & { url: string; folder: string; key: string | undefined }

/** Starts `svc up` on a data folder and waits until it has told everything. */
export async function startUp(
  folder: string,
  env: Environment,
  onClose: OnClose,
  options: SpawnOptions = {},
): Promise<Up> {
  const port = await findFreePort()
  const running = runSvc(['up'], { SVC_PORT: String(port), SVC_DATA_DIR: folder, ...env }, onClose, options)
  await eventually(() => {
    if (running.hasEnded() || running.stdout().includes('npm run demo')) return
    throw new Error(`svc up is not ready:\n${running.stdout()}${running.stderr()}`)
  }, 60_000)
  if (running.hasEnded()) throw new Error(`svc up ended:\n${running.stdout()}${running.stderr()}`)
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

/** Fails while one of the processes is alive. */
export function expectEnded(engines: Record<string, number>) {
  for (const [name, pid] of Object.entries(engines)) expect(startOfProcess(pid), `${name} runs`).toBeUndefined()
}

/** What stands between two headings of the banner, as one would copy it. */
export function snippet(banner: string, heading: string): string {
  const start = banner.indexOf(heading)
  expect(start, heading).toBeGreaterThan(0)
  const text = banner.slice(banner.indexOf('\n\n', start) + 2)
  const end = text.indexOf('\nOr ')
  return end < 0 ? text : text.slice(0, end)
}
