import type { Output, Terminal } from '../../cli/terminal/terminal.ts'

/** Tells how it goes, again and again. */
export type StatusLine = {
  /** What is going on now; shown at once on a terminal, and from time to time elsewhere. */
  show(text: string): void
  /** Something that stays. */
  say(text: string): void
}

const plainEveryMs = 15_000

/** On a terminal one line that is overwritten, elsewhere a line every 15 s. */
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

/** A whole number, with commas. */
export function toText(value: number, digits = 0): string {
  return value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits })
}
