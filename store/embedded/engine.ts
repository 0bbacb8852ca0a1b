/**
 * An engine is a child process that serves as long as its stdin is open. We hold the other end of that pipe. When this process
 * dies in any way, the system closes the pipe, so no engine outlives us. The engine has its own session, or Ctrl-C in the
 * terminal would end it before we have drained.
 *
 * The child's first line on stdout is the engine's pid. The last lines of its stderr are kept for error messages.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { setSessionNiceness, signalProcess } from './live-process.ts'
import type { Log } from './log.ts'

export type EngineRun = {
  /** The engine's pid, which may differ from the child's. */
  pid: number
  /** Resolves when the engine has ended, with the reason. */
  ended: Promise<string>
  stop(): Promise<void>
}

export type EngineStart = {
  name: string
  script: URL
  args: string[]
  folder: string
  /** Throws until the engine is ready. */
  checkReady(): Promise<void>
  startMsMax: number
  stopMsMax: number
  /** See `setSessionNiceness`. */
  niceness?: number
  signal: AbortSignal
  log: Log
}

const linesKept = 30
const environmentKept = ['PATH', 'HOME', 'TMPDIR', 'LD_LIBRARY_PATH', 'DYLD_LIBRARY_PATH', 'NODE_COMPILE_CACHE']

/** Starts an engine and waits until it is ready. On failure throws the last lines of its stderr, and leaves nothing running. */
export async function startEngine(start: EngineStart): Promise<EngineRun> {
  const { name, log, signal } = start
  const child = spawn(process.execPath, [fileURLToPath(start.script), ...start.args], {
    cwd: start.folder,
    detached: true,
    stdio: ['pipe', 'pipe', 'pipe'],
    // Not our environment: it holds secrets, and PGPORT, NODE_OPTIONS and the like would affect the engine.
    env: { ...pick(process.env, environmentKept), TZ: 'UTC', LC_ALL: 'C' },
  })
  const lines: string[] = []
  createInterface(child.stderr).on('line', (line) => {
    lines.push(line)
    if (lines.length > linesKept) lines.shift()
  })
  // The stdin of a dead child reports EPIPE; its exit event is enough.
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
    log.warn(
      { store: name, pid },
      `embedded ${name} did not stop within ${start.stopMsMax / 1000} s and will be killed`,
    )
    if (pid !== undefined) signalProcess(pid, 'SIGKILL')
    child.kill('SIGKILL')
    await ended
  }

  const giveUpAt = Date.now() + start.startMsMax
  for (;;) {
    let reason: unknown
    try {
      await start.checkReady()
      if (pid !== undefined && !hasEnded) {
        if (start.niceness !== undefined) await setSessionNiceness(pid, start.niceness)
        return { pid, ended, stop }
      }
    } catch (error) {
      reason = error
    }
    if (hasEnded) throw new Error(`Embedded ${name} did not start: ${await ended}${describeOutput(lines)}`)
    if (signal.aborted || Date.now() > giveUpAt) {
      await stop()
      if (signal.aborted) throw new Error(`Embedded ${name} was stopped while it was starting`)
      throw new Error(`Embedded ${name} was not ready after ${start.startMsMax / 1000} s${describeOutput(lines)}`, {
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
      // "close" would wait for the last output, but a child of the engine may hold the pipe open.
      child.once('close', () => resolve(how))
      setTimeout(() => resolve(how), 500).unref()
    })
  })
}

function describeOutput(lines: string[]): string {
  return lines.length === 0 ? '' : `. Its output:\n${lines.join('\n')}`
}

function pick(values: NodeJS.ProcessEnv, names: string[]): NodeJS.ProcessEnv {
  return Object.fromEntries(names.flatMap((name) => (values[name] === undefined ? [] : [[name, values[name]]])))
}
