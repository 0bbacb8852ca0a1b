import { setTimeout as sleep } from 'node:timers/promises'
import { signalProcess } from '../../../store/embedded/live-process.ts'
import { type Command, type Ending, type RunningProcess, startProcess } from './process.ts'

/**
 * A process that is started again on the same port whenever it ends, as systemd does with `Restart=always`. `hold` keeps
 * it down, as an operator would.
 */
export type SupervisedProcess<Kind extends string = string> = {
  kind: Kind
  name: string
  /** Undefined while it is down. */
  pid(): number | undefined
  /** Returns false when there is no process to send it to. */
  signal(signal: NodeJS.Signals): boolean
  /** Ends it, and resolves with how it ended once its successor is ready. */
  restart(signal: NodeJS.Signals): Promise<Ending>
  /** Ends it and leaves it down. After SIGTERM it waits until the process has drained. */
  hold(signal?: 'SIGKILL' | 'SIGTERM'): Promise<void>
  /** Starts it again after `hold`, and waits until it is ready. */
  release(): Promise<void>
  ready(): Promise<void>
  /** The longest time from a kill until it was ready again. */
  slowestRestartMs(): number
  /** How it ended without being killed, each time, with its last output. */
  unexpectedEnds(): string[]
  /** The last lines of its log that are warnings or worse, of all its runs: why it answered that a store is away. */
  warnings(): string[]
  close(): Promise<void>
}

type Settings<Kind extends string> = {
  kind: Kind
  name: string
  command: Command
  /** The first line of stdout is the pid of the server, as with embedded engines. */
  printsPid?: boolean
  /** Throws while it is not ready. */
  checkReady(): Promise<unknown>
}

const restartPauseMs = 100
const pollMs = 25
const readyMsMax = 120_000
const charactersShown = 4_000
const warningsShown = 10

type Run = { process: RunningProcess; isReady: boolean; wasSignalled: boolean }

/** Starts the process and keeps it running until `close`. Does not wait until it is ready. */
export function supervise<Kind extends string>(settings: Settings<Kind>): SupervisedProcess<Kind> {
  const { kind, name, command, printsPid = false, checkReady } = settings
  let run: Run | undefined
  let isClosing = false
  let released: PromiseWithResolvers<void> | undefined
  let lastEnding: Ending = { code: null, signal: null }
  let downSince: number | undefined
  let slowestMs = 0
  const unexpectedEnds: string[] = []
  const warnings: string[] = []

  function pidOf({ process }: Run): number | undefined {
    if (!printsPid) return process.pid
    return Number(/^(\d+)\n/.exec(process.stdout())?.[1]) || undefined
  }

  async function watchUntilReady(it: Run) {
    while (run === it) {
      const isReady = await checkReady().then(
        () => true,
        () => false,
      )
      // The predecessor may have answered a slow check.
      if (isReady && run === it && pidOf(it) !== undefined) {
        it.isReady = true
        if (downSince !== undefined) slowestMs = Math.max(slowestMs, performance.now() - downSince)
        downSince = undefined
        return
      }
      await sleep(pollMs)
    }
  }

  async function keepRunning() {
    while (!isClosing) {
      await released?.promise
      if (isClosing) return
      // In a session of its own: the terminal's Ctrl-C must reach us alone.
      const process = startProcess(command, { isDetached: true, holdsStdin: true })
      const it: Run = { process, isReady: false, wasSignalled: false }
      run = it
      void watchUntilReady(it)
      lastEnding = await process.ended
      warnings.push(...warningsOf(process))
      run = undefined
      downSince ??= performance.now()
      if (it.isReady && !it.wasSignalled) {
        unexpectedEnds.push(`${name} ended (${JSON.stringify(lastEnding)}):\n${outputOf(process)}`)
      }
      await sleep(restartPauseMs)
    }
  }

  function signal(signal: NodeJS.Signals): boolean {
    const pid = run && pidOf(run)
    if (run === undefined || pid === undefined) return false
    if (signal === 'SIGKILL' || signal === 'SIGTERM') {
      run.wasSignalled = true
      downSince ??= performance.now()
    }
    signalProcess(pid, signal)
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
      if (isClosing) throw new Error(`${name} was closed`)
      if (performance.now() > deadline) throw new Error(`${name} is not ready:\n${run ? outputOf(run.process) : ''}`)
      await sleep(pollMs)
    }
  }

  const running = keepRunning()
  return {
    kind,
    name,
    pid: () => run && pidOf(run),
    signal,
    async restart(how) {
      // A process that is still starting does not drain: SIGTERM would end it at once.
      if (how === 'SIGTERM') await ready()
      const ended = run?.process.ended
      signal(how)
      const ending = (await ended) ?? lastEnding
      await ready()
      return ending
    },
    async hold(how = 'SIGKILL') {
      released ??= Promise.withResolvers()
      await untilDown(how)
    },
    async release() {
      downSince = performance.now()
      released?.resolve()
      released = undefined
      await ready()
    },
    ready,
    slowestRestartMs: () => slowestMs,
    unexpectedEnds: () => unexpectedEnds,
    warnings: () => [...warnings, ...(run ? warningsOf(run.process) : [])].slice(-warningsShown),
    async close() {
      isClosing = true
      released?.resolve()
      await untilDown('SIGKILL')
      await running
    },
  }
}

/** Pino's levels: 40 is a warning. */
const warningsOf = (process: RunningProcess) =>
  process
    .stdout()
    .split('\n')
    .filter((it) => /^\{"level":[456]0,/.test(it))
    .slice(-warningsShown)
    .map((it) => it.slice(0, charactersShown))

function outputOf(process: RunningProcess): string {
  return process.output().slice(-charactersShown)
}
