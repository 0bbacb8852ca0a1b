/** An insert that runs for minutes sends progress headers, or else the client times out. */
export const longInsert = { send_progress_in_http_headers: 1 as const, http_headers_progress_interval_ms: '20000' }

const rowsAtOnce = 20_000_000

type Range = { first: string; last: string; rows: number }

/** Groups neighbouring experiments into inserts of about so many rows. */
export function toRanges(experiments: { id: string; count: string }[], rowsMax = rowsAtOnce): Range[] {
  const ranges: Range[] = []
  for (const { id, count } of experiments) {
    const open = ranges.at(-1)
    if (open && open.rows + Number(count) <= rowsMax) {
      open.last = id
      open.rows += Number(count)
    } else {
      ranges.push({ first: id, last: id, rows: Number(count) })
    }
  }
  return ranges
}
