import { spawnSync } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { describeTerminal } from '../../cli/terminal/terminal.ts'
import { type Closers, createClosers } from '../../runtime/closers.ts'
import type { QueueKind } from '../kit/service.ts'
import { createStatusLine, type StatusLine } from './status-line.ts'

/** What both commands share: options, a Ctrl-C that leaves nothing behind, and the exit code. */
type Tool = { closers: Closers; status: StatusLine; signal: AbortSignal }

const interrupted = 130

/**
 * Runs the work of a command and ends the process: with the code that the work answers, with 1 and the message of an
 * error, with 130 after a signal. What was opened is closed before.
 */
export async function runTool(name: string, work: (tool: Tool) => Promise<number>): Promise<never> {
  const closers = createClosers()
  const stop = new AbortController()
  const status = createStatusLine(process.stderr, describeTerminal(process.stderr, process.env))
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => {
      stop.abort()
      void closeAndExit()
    })
  }
  async function closeAndExit() {
    // Twice: what was about to be opened when the signal came is there only now.
    for (let round = 0; round < 2; round++) await closers.closeAll().catch(() => undefined)
    process.exit(interrupted)
  }

  let code = 1
  try {
    code = await work({ closers, status, signal: stop.signal })
  } catch (error) {
    // What fails after a signal does so because its stores are being stopped.
    if (!stop.signal.aborted) status.say(`${name}: ${error instanceof Error ? error.message : String(error)}`)
  }
  // The handler of the signal ends the process when all is closed.
  if (stop.signal.aborted) await new Promise(() => undefined)
  await closers.closeAll().catch((error: AggregateError) => status.say(`${name}: ${error.errors.map(String)}`))
  process.exit(code)
}

/** The queue that was asked for, or the best there is. */
export function chooseQueue(asked: string | undefined): QueueKind {
  if (asked === 'postgres') return asked
  if (asked !== undefined && asked !== 'redis') throw new Error('--queue must be redis or postgres.')
  if (asked === 'redis' && !hasRedisServer()) throw new Error('There is no redis-server on the PATH.')
  return hasRedisServer() ? 'redis' : 'postgres'
}

export function hasRedisServer(): boolean {
  return spawnSync('redis-server', ['--version'], { stdio: 'ignore' }).status === 0
}

/** @throws Error that names the option */
export function readNumber(name: string, text: string, least: number): number {
  const value = Number(text)
  if (text !== '' && value >= least) return value
  throw new Error(`--${name} must be a number from ${least}.`)
}

export async function writeJson(file: string | undefined, result: unknown): Promise<void> {
  if (file !== undefined) await writeFile(file, `${JSON.stringify(result, null, 2)}\n`)
}
