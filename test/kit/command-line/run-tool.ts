import { setTimeout as sleep } from 'node:timers/promises'
import { describeTerminal } from '../../../cli/terminal/terminal.ts'
import { type Closers, createClosers } from '../../../runtime/closers.ts'
import { createStatusLine, type StatusLine } from './status-line.ts'

/** What a long-running command gets: where to push its closers, where to report, and whether to stop. */
export type Tool = { closers: Closers; status: StatusLine; signal: AbortSignal }

const interrupted = 130
const settleMsMax = 10_000

/**
 * Runs a command and ends the process: with the exit code that `work` returns, with 1 and the message of an error, or
 * with 130 after SIGINT or SIGTERM. Closes everything first, in each case.
 */
export async function runTool(name: string, work: (tool: Tool) => Promise<number>): Promise<never> {
  const closers = createClosers()
  const stop = new AbortController()
  const status = createStatusLine(process.stderr, describeTerminal(process.stderr, process.env))
  const settled = Promise.withResolvers<void>()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => {
      if (stop.signal.aborted) return
      stop.abort()
      void closeAndExit()
    })
  }
  async function closeAndExit() {
    await closers.closeAll().catch(() => undefined)
    // The work may have opened something in the meantime.
    await Promise.race([settled.promise, sleep(settleMsMax)])
    await closers.closeAll().catch(() => undefined)
    process.exit(interrupted)
  }

  let code = 1
  try {
    code = await work({ closers, status, signal: stop.signal })
  } catch (error) {
    // After a signal, work fails only because its stores are being closed.
    if (!stop.signal.aborted) status.say(`${name}: ${error instanceof Error ? error.message : String(error)}`)
  }
  settled.resolve()
  // The signal's handler ends the process.
  if (stop.signal.aborted) await new Promise(() => undefined)
  await closers.closeAll().catch((error: AggregateError) => status.say(`${name}: ${error.errors.map(String)}`))
  process.exit(code)
}
