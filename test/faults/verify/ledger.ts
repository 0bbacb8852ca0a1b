import type { Write } from '../load/writes.ts'

/** The acknowledged rows of one experiment, as text. */
export type Expected = {
  points: string[]
  lines: string[]
  /** Rows of requests without an answer: each may be stored once or not at all. */
  unclear: { points: string[]; lines: string[] }
}

/** Records acknowledged rows by experiment. */
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
