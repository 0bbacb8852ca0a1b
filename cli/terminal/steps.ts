import type { Output, Terminal } from './terminal.ts'

/** Shows a step while it runs. `say` tells how far it is. */
export type Step = <T>(what: string, work: (say: (text: string) => void) => Promise<T>) => Promise<T>

const redrawEveryMs = 200

/** Prints one line for each step, its duration or that it failed, with its progress on a terminal; nothing with `json`. */
export function createSteps(out: Output, terminal: Terminal, { json }: { json: boolean } = { json: false }): Step {
  if (json) return (_what, work) => work(() => undefined)
  const [done, failed] = terminal.isUnicode ? ['✓', '✗'] : ['ok', 'failed']
  const clear = terminal.isTty ? '\r\u001b[K' : ''
  const draw = (line: string) => out.write(`${clear}  ${terminal.paint('dim', line.slice(0, terminal.columns - 4))}`)
  return async (what, work) => {
    let drawnAt = Number.NEGATIVE_INFINITY
    const say = (text: string) => {
      const now = performance.now()
      if (!terminal.isTty || now - drawnAt < redrawEveryMs) return
      drawnAt = now
      draw(`${what.padEnd(12)} ${text}`)
    }
    if (terminal.isTty) draw(`${what} ...`)
    const startedAt = performance.now()
    try {
      const result = await work(say)
      const seconds = ((performance.now() - startedAt) / 1000).toFixed(1)
      out.write(`${clear}  ${terminal.paint('green', done)} ${what.padEnd(12)} ${seconds} s\n`)
      return result
    } catch (error) {
      out.write(`${clear}  ${terminal.paint('red', failed)} ${what}\n`)
      throw error
    }
  }
}
