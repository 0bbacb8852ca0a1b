import { spawn } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { eventually } from '../eventually.ts'

/** A program with its arguments, environment and working folder. */
export type Command = { file: string; args: string[]; environment: NodeJS.ProcessEnv; folder?: string | undefined }

/** How a process ended. */
export type Ending = { code: number | null; signal: NodeJS.Signals | null }

export type RunningProcess = ReturnType<typeof startProcess>

/** The program is not installed, or not on the PATH. */
export class ProgramMissing extends Error {}

type Options = {
  /** In a session of its own, out of reach of the terminal's Ctrl-C. */
  isDetached?: boolean
  /** Holds the process's stdin open. An embedded engine ends when its stdin closes: at the latest when we end. */
  holdsStdin?: boolean
}

/** More than any test prints; a process that runs for hours must not fill our memory. */
const outputCharactersMax = 4_000_000

/**
 * Starts a program and captures its output. It gets the given environment, and of ours only PATH, HOME, TMPDIR and
 * NODE_COMPILE_CACHE.
 *
 * @throws ProgramMissing
 */
export function startProcess({ file, args, environment, folder }: Command, options: Options = {}) {
  const { PATH, HOME, TMPDIR, NODE_COMPILE_CACHE } = process.env
  const child = spawn(file, args, {
    cwd: folder,
    env: { PATH, HOME, TMPDIR, NODE_COMPILE_CACHE, ...environment },
    detached: options.isDetached ?? false,
    stdio: [options.holdsStdin ? 'pipe' : 'ignore', 'pipe', 'pipe'],
  })
  // Without a listener the error of a missing program, or EPIPE on a dead one's stdin, would end us.
  child.on('error', () => undefined)
  child.stdin?.on('error', () => undefined)
  if (child.pid === undefined) throw new ProgramMissing(`${file} cannot be started: is it installed?`)

  const printed = { stdout: '', stderr: '', both: '' }
  let lastWords: RegExp | undefined
  for (const name of ['stdout', 'stderr'] as const) {
    child[name]?.setEncoding('utf8').on('data', (text: string) => {
      printed[name] = (printed[name] + text).slice(-outputCharactersMax)
      printed.both = (printed.both + text).slice(-outputCharactersMax)
      if (lastWords?.test(printed.stdout)) child.kill('SIGKILL')
    })
  }
  let hasEnded = false
  const ended = new Promise<Ending>((resolve) => {
    child.once('close', (code, signal) => {
      hasEnded = true
      resolve({ code, signal })
    })
  })
  return {
    pid: child.pid,
    /** Resolves when the process has ended and its output is complete. */
    ended,
    hasEnded: () => hasEnded,
    stdout: () => printed.stdout,
    stderr: () => printed.stderr,
    /** Stdout and stderr in the order in which they arrived. */
    output: () => printed.both,
    kill: (signal: NodeJS.Signals) => void child.kill(signal),
    /** Kills the process at the moment at which its stdout has this. */
    killAt(words: RegExp) {
      lastWords = words
    },
    /** Sends a signal and waits for the end; sends SIGKILL when that takes longer than `withinMs`. */
    async stop(signal: NodeJS.Signals, withinMs?: number): Promise<Ending> {
      child.kill(signal)
      if (withinMs !== undefined) {
        const isOver = await Promise.race([ended.then(() => true), sleep(withinMs, false, { ref: false })])
        if (!isOver) child.kill('SIGKILL')
      }
      return await ended
    },
  }
}

/**
 * Waits until `check` no longer throws.
 *
 * @throws Error with the output when the process ends or takes longer than `withinMs`; the process is then killed
 */
export async function waitUntilReady(
  name: string,
  running: RunningProcess,
  check: () => unknown,
  withinMs = 60_000,
): Promise<void> {
  try {
    await eventually(async () => {
      if (!running.hasEnded()) await check()
    }, withinMs)
    if (running.hasEnded()) throw new Error('it has ended')
  } catch (reason) {
    await running.stop('SIGKILL')
    throw new Error(`${name} did not start: ${reason}\n${running.output()}`)
  }
}

/** Throws unless a URL is answered with a status below 400. */
export async function checkAnswers(url: string): Promise<void> {
  const answer = await fetch(url, { signal: AbortSignal.timeout(5_000) })
  const text = await answer.text()
  if (answer.status >= 400) throw new Error(`HTTP ${answer.status}: ${text.slice(0, 500)}`)
}
