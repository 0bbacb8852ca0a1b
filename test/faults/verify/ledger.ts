import type { Write } from '../load/writes.ts'

/** What one experiment must hold: rows as text, as often as they were acknowledged. */
export type Expected = {
  points: string[]
  lines: string[]
  /** Rows of requests that nobody was answered about: each may be there once, or not at all. */
  unclear: { points: string[]; lines: string[] }
}

/** Everything that was acknowledged, by the number of the experiment. */
export function createLedger(experiments: number) {
  const pages = Array.from({ length: experiments }, (): Expected => ({ ...emptyPage(), unclear: emptyPage() }))
  let points = 0
  let lines = 0
  let requests = 0

  return {
    acknowledge(experiment: number, write: Write) {
      const page = pages[experiment] as Expected
      page.points.push(...write.points)
      page.lines.push(...write.lines)
      points += write.points.length
      lines += write.lines.length
      requests++
    },
    leaveUnclear(experiment: number, write: Write) {
      const page = pages[experiment] as Expected
      page.unclear.points.push(...write.points)
      page.unclear.lines.push(...write.lines)
    },
    page: (experiment: number) => pages[experiment] as Expected,
    counts: () => ({ points, lines, requests }),
  }
}

export type Ledger = ReturnType<typeof createLedger>

function emptyPage() {
  return { points: [] as string[], lines: [] as string[] }
}
