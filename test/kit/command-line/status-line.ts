import type { Output, Terminal } from '../../../cli/terminal/terminal.ts'

/** Reports the progress of a long-running command. */
export type StatusLine = {
  /** Replaces the current status. */
  show(text: string): void
  /** Prints a line that stays. */
  say(text: string): void
}

const plainEveryMs = 15_000

/** Overwrites one line on a terminal; elsewhere prints a line every 15 s. */
export function createStatusLine(out: Output, terminal: Terminal): StatusLine {
  let shownAt = Number.NEGATIVE_INFINITY
  const clear = terminal.isTty ? '\r\u001b[K' : ''
  return {
    show(text) {
      if (terminal.isTty) return void out.write(`${clear}${terminal.paint('dim', text.slice(0, terminal.columns - 1))}`)
      if (performance.now() - shownAt < plainEveryMs) return
      shownAt = performance.now()
      out.write(`${text}\n`)
    },
    say(text) {
      out.write(`${clear}${text}\n`)
    },
  }
}

/** Formats a number with thousands separators. */
export function toText(value: number, digits = 0): string {
  return value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits })
}
