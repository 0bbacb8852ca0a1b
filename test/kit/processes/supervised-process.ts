import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Role } from '../../../cli/service.ts'
import { signalProcess } from '../../../store/embedded/live-process.ts'
import type { Command } from './running-command.ts'

export type Kind = Role | 'clickhouse' | 'postgres' | 'redis'

/**
 * A process that is started again whenever it ends, as systemd would with `Restart=always`: on the same port, after a
 * short pause, as often as it takes. `hold` is what an operator would do to keep it down.
 */
export type KeptProcess = {
  kind: Kind
  name: string
  /** Undefined while none is running. */
  pid(): number | undefined
  /** Answers whether there was a process to send it to. */
  signal(signal: NodeJS.Signals): boolean
  /** Ends it and leaves it down; one that is asked to end by SIGTERM is waited for. */
  hold(signal?: 'SIGKILL' | 'SIGTERM'): Promise<void>
  /** Starts it again after `hold`, and waits until it serves. */
  release(): Promise<void>
  /** Resolves when it serves. */
  ready(): Promise<void>
  /** The longest that it took from a kill until it served again. */
  slowestRestartMs(): number
  /** What it said when it ended although nobody had killed it. */
  ownEndings(): string[]
  close(): Promise<void>
}

type Settings = {
  kind: Kind
  name: string
  command: Command
  /** Embedded engines say on their first line which process is the server. */
  tellsPid?: boolean
  /** Throws while it does not serve yet. */
  checkReady(): Promise<unknown>
}

const restartPauseMs = 100
const pollMs = 25
const linesKept = 20
const readyMsMax = 120_000

type Run = { child: ChildProcess; pid: number | undefined; isReady: boolean; wasSignalled: boolean; lines: string[] }

/** Starts the process and keeps it running until `close`; `ready` tells when it serves. */
export function keepProcess({ kind, name, command, tellsPid = false, checkReady }: Settings): KeptProcess {
  let run: Run | undefined
  let isClosing = false
  let released: PromiseWithResolvers<void> | undefined
  let downSince: number | undefined
  let slowestMs = 0
  const ownEndings: string[] = []

  function start(): Run {
    const child = spawn(command.file, command.args, {
      cwd: command.folder,
      env: command.environment,
      // In a session of its own: a Ctrl-C of the terminal is for us alone. An engine ends when its stdin does.
      detached: true,
      stdio: ['pipe', 'pipe', 'pipe'],
    })
    const started: Run = {
      child,
      pid: tellsPid ? undefined : child.pid,
      isReady: false,
      wasSignalled: false,
      lines: [],
    }
    const keepLine = (line: string) => {
      started.lines.push(line)
      if (started.lines.length > linesKept) started.lines.shift()
    }
    const output = createInterface(child.stdout).on('line', keepLine)
    if (tellsPid) {
      output.once('line', (line) => {
        started.pid = Number(line)
      })
    }
    createInterface(child.stderr).on('line', keepLine)
    child.stdin.on('error', () => undefined)
    return started
  }

  async function watchUntilReady(it: Run) {
    while (run === it) {
      const isReady = await checkReady().then(
        () => true,
        () => false,
      )
      // A check that took long may have been answered by the process before this one.
      if (isReady && run === it && it.pid !== undefined) {
        it.isReady = true
        if (downSince !== undefined) slowestMs = Math.max(slowestMs, performance.now() - downSince)
        downSince = undefined
        return
      }
      await sleep(pollMs)
    }
  }

  async function keep() {
    while (!isClosing) {
      await released?.promise
      if (isClosing) return
      const it = start()
      run = it
      void watchUntilReady(it)
      const how = await endOf(it.child)
      run = undefined
      downSince ??= performance.now()
      if (it.isReady && !it.wasSignalled) ownEndings.push(`${name} ${how}:\n${it.lines.join('\n')}`)
      await sleep(restartPauseMs)
    }
  }

  function signal(signal: NodeJS.Signals): boolean {
    if (run?.pid === undefined) return false
    if (signal === 'SIGKILL' || signal === 'SIGTERM') {
      run.wasSignalled = true
      downSince ??= performance.now()
    }
    signalProcess(run.pid, signal)
    return true
  }

  async function untilDown(how: 'SIGKILL' | 'SIGTERM') {
    if (how === 'SIGTERM') signal(how)
    while (run) {
      if (how === 'SIGKILL') signal(how)
      await sleep(pollMs)
    }
  }

  async function ready() {
    const deadline = performance.now() + readyMsMax
    while (!run?.isReady) {
      if (performance.now() > deadline) throw new Error(`${name} does not serve:\n${run?.lines.join('\n') ?? ''}`)
      await sleep(pollMs)
    }
  }

  const keeping = keep()
  return {
    kind,
    name,
    pid: () => run?.pid,
    signal,
    async hold(signal = 'SIGKILL') {
      released ??= Promise.withResolvers()
      await untilDown(signal)
    },
    async release() {
      downSince = performance.now()
      released?.resolve()
      released = undefined
      await ready()
    },
    ready,
    slowestRestartMs: () => slowestMs,
    ownEndings: () => ownEndings,
    async close() {
      isClosing = true
      released?.resolve()
      await untilDown('SIGKILL')
      await keeping
    },
  }
}

function endOf(child: ChildProcess): Promise<string> {
  return new Promise((resolve) => {
    child.once('error', (error) => resolve(error.message))
    child.once('exit', (code, signal) => resolve(signal ? `was ended by ${signal}` : `ended with exit code ${code}`))
  })
}
