import type { Output, Terminal } from './terminal.ts'

/** Shows a step while it runs. */
export type Progress = <T>(what: string, work: () => Promise<T>) => Promise<T>

/** Prints one line per step: its name while it runs, then its duration or that it failed. */
export function createProgress(out: Output, terminal: Terminal): Progress {
  const [done, failed] = terminal.isUnicode ? ['✓', '✗'] : ['ok', 'failed']
  const clear = terminal.isTty ? '\r\u001b[K' : ''
  return async (what, work) => {
    if (terminal.isTty) out.write(`  ${terminal.paint('dim', `${what} ...`)}`)
    const startedAt = performance.now()
    try {
      const result = await work()
      const seconds = ((performance.now() - startedAt) / 1000).toFixed(1)
      out.write(`${clear}  ${terminal.paint('green', done)} ${what.padEnd(12)} ${seconds} s\n`)
      return result
    } catch (error) {
      out.write(`${clear}  ${terminal.paint('red', failed)} ${what}\n`)
      throw error
    }
  }
}
