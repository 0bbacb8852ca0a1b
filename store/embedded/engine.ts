/**
 * An engine is a child process that serves as long as its stdin stays open. We hold the other end of that pipe and the
 * system closes it when we die, however we die, so no engine outlives us. It has a session of its own, or else the
 * terminal's Ctrl-C would end it before we have drained.
 *
 * The child's first line on stdout is the engine's pid; what it writes to stderr is kept for error messages.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { signalProcess } from './live-process.ts'
import type { Log } from './log.ts'

export type EngineRun = {
  /** The engine's own pid, which need not be the child's. */
  pid: number
  /** Resolves when it has ended, with how. */
  ended: Promise<string>
  stop(): Promise<void>
}

export type EngineStart = {
  name: string
  script: URL
  args: string[]
  folder: string
  /** Throws while the engine is not ready yet. */
  checkReady(): Promise<void>
  startMsMax: number
  stopMsMax: number
  signal: AbortSignal
  log: Log
}

const linesKept = 30
const environmentKept = ['PATH', 'HOME', 'TMPDIR', 'LD_LIBRARY_PATH', 'DYLD_LIBRARY_PATH']

/** Starts an engine and waits until it is ready. Fails with the last lines it wrote, and then leaves nothing running. */
export async function startEngine(start: EngineStart): Promise<EngineRun> {
  const { name, log, signal } = start
  const child = spawn(process.execPath, [fileURLToPath(start.script), ...start.args], {
    cwd: start.folder,
    detached: true,
    stdio: ['pipe', 'pipe', 'pipe'],
    // Not ours: it holds secrets, and PGPORT, NODE_OPTIONS and their like would reach the engine.
    env: { ...pick(process.env, environmentKept), TZ: 'UTC', LC_ALL: 'C' },
  })
  const lines: string[] = []
  createInterface(child.stderr).on('line', (line) => {
    lines.push(line)
    if (lines.length > linesKept) lines.shift()
  })
  // A dead child's stdin reports EPIPE; its exit tells us the same.
  child.stdin.on('error', () => {})
  let pid: number | undefined
  createInterface(child.stdout).once('line', (line) => {
    pid = Number(line)
  })
  let hasEnded = false
  const ended = endOf(child).then((how) => {
    hasEnded = true
    return how
  })

  const stop = async () => {
    child.stdin.end()
    const isSlow = await Promise.race([ended.then(() => false), sleep(start.stopMsMax, true, { ref: false })])
    if (!isSlow) return
    log.warn({ store: name, pid }, `embedded ${name} did not stop in ${start.stopMsMax / 1000} s and is killed`)
    if (pid !== undefined) signalProcess(pid, 'SIGKILL')
    child.kill('SIGKILL')
    await ended
  }

  const giveUpAt = Date.now() + start.startMsMax
  for (;;) {
    let reason: unknown
    try {
      await start.checkReady()
      if (pid !== undefined && !hasEnded) return { pid, ended, stop }
    } catch (error) {
      reason = error
    }
    if (hasEnded) throw new Error(`Embedded ${name} did not start: ${await ended}${said(lines)}`)
    if (signal.aborted || Date.now() > giveUpAt) {
      await stop()
      if (signal.aborted) throw new Error(`Embedded ${name} was stopped while it was starting`)
      throw new Error(`Embedded ${name} was not ready after ${start.startMsMax / 1000} s${said(lines)}`, {
        cause: reason,
      })
    }
    await Promise.race([ended, sleep(20)])
  }
}

function endOf(child: ChildProcess): Promise<string> {
  return new Promise((resolve) => {
    child.once('error', (error) => resolve(error.message))
    child.once('exit', (code, signal) => {
      const how = signal ? `ended by ${signal}` : `ended with exit code ${code}`
      // What it wrote last is read by "close", but a process of the engine's own may still hold the pipe open.
      child.once('close', () => resolve(how))
      setTimeout(() => resolve(how), 500).unref()
    })
  })
}

function said(lines: string[]): string {
  return lines.length === 0 ? '' : `. It said:\n${lines.join('\n')}`
}

function pick(values: NodeJS.ProcessEnv, names: string[]): NodeJS.ProcessEnv {
  return Object.fromEntries(names.flatMap((name) => (values[name] === undefined ? [] : [[name, values[name]]])))
}
