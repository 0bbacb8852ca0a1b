/** How the stored rows differ from the acknowledged ones. */
export type Difference = { rows: number; lost: number; repeated: number; altered: number; first: string[] }

const shownMax = 10

/**
 * Compares rows as multisets: each must be stored exactly as often as it was acknowledged. A row that nobody sent counts as
 * altered (its original counts as lost); a row stored more often than sent counts as repeated.
 *
 * @param unclear rows that may be stored as well, each at most as often as it is listed
 */
export function compareRows(where: string, expected: Iterable<string>, unclear: string[], found: string[]): Difference {
  const missing = count(expected)
  const rows = missing.inAll
  const known = missing.times
  const spare = count(unclear).times
  const surplus = new Map<string, number>()
  let [lost, repeated, altered] = [0, 0, 0]
  for (const row of found) {
    const times = known.get(row)
    if (times) known.set(row, times - 1)
    else if (spare.get(row)) spare.set(row, (spare.get(row) as number) - 1)
    else surplus.set(row, (surplus.get(row) ?? 0) + 1)
  }
  const first: string[] = []
  const tell = (what: string, times: number, row: string) => {
    if (first.length < shownMax) first.push(`${where}: ${what} ${times} x ${JSON.stringify(row)}`)
  }
  for (const [row, times] of known) {
    lost += times
    if (times > 0) tell('lost', times, row)
  }
  for (const [row, times] of surplus) {
    const wasSent = known.has(row) || spare.has(row)
    if (wasSent) repeated += times
    else altered += times
    tell(wasSent ? 'repeated' : 'nobody sent', times, row)
  }
  return { rows, lost, repeated, altered, first }
}

export function addDifferences(differences: Difference[]): Difference {
  const sum = (of: (it: Difference) => number) => differences.reduce((total, it) => total + of(it), 0)
  return {
    rows: sum((it) => it.rows),
    lost: sum((it) => it.lost),
    repeated: sum((it) => it.repeated),
    altered: sum((it) => it.altered),
    first: differences.flatMap((it) => it.first).slice(0, shownMax),
  }
}

export function isSame({ lost, repeated, altered }: Difference): boolean {
  return lost + repeated + altered === 0
}

function count(rows: Iterable<string>) {
  const times = new Map<string, number>()
  let inAll = 0
  for (const row of rows) {
    times.set(row, (times.get(row) ?? 0) + 1)
    inAll++
  }
  return { times, inAll }
}
