import type { Output, Terminal } from '../terminal/terminal.ts'
import type { RunProgress } from './run.ts'

// On a terminal a bar that is redrawn in place, elsewhere a plain line now and then.

const BAR_INTERVAL_MS = 100
const LINE_INTERVAL_MS = 2000
const BAR_CELLS = 24

export interface Progress {
  update(progress: RunProgress): void
  /** Prints a line above the bar. */
  say(line: string): void
  /** Removes the bar. */
  clear(): void
}

/** Shows the progress of a run on `out`. */
export function createProgress(out: Output, terminal: Terminal): Progress {
  let shownAt = -Infinity
  let isBarShown = false
  const clear = () => {
    if (isBarShown) out.write('\r\x1b[2K')
    isBarShown = false
  }
  return {
    update: (progress) => {
      const now = performance.now()
      if (now - shownAt < (terminal.isTty ? BAR_INTERVAL_MS : LINE_INTERVAL_MS)) return
      shownAt = now
      const words = toWords(progress)
      if (!terminal.isTty) {
        out.write(`${progress.name}: ${words}\n`)
        return
      }
      const text = `${words}`.slice(0, Math.max(0, terminal.columns - BAR_CELLS - 2))
      clear()
      out.write(`${terminal.paint('cyan', toBar(progress.step / progress.steps, terminal.isUnicode))} ${text}`)
      isBarShown = true
    },
    say: (line) => {
      clear()
      out.write(`${line}\n`)
    },
    clear,
  }
}

/** Shows nothing, for output that a program reads. */
export const silentProgress: Progress = { update: () => {}, say: () => {}, clear: () => {} }

function toWords({ epoch, epochs, step, steps, loss, accuracy, acknowledged, elapsedMs }: RunProgress): string {
  const perSecond = elapsedMs > 0 ? Math.round((1000 * acknowledged) / elapsedMs) : 0
  const score = `loss ${loss.toPrecision(3)}  accuracy ${accuracy.toFixed(2)}`
  return `epoch ${epoch}/${epochs}  step ${step}/${steps}  ${score}  ${perSecond} points/s`
}

function toBar(share: number, isUnicode: boolean): string {
  const full = Math.round(BAR_CELLS * share)
  const [done, open] = isUnicode ? ['█', '░'] : ['#', '.']
  return (done as string).repeat(full) + (open as string).repeat(BAR_CELLS - full)
}
