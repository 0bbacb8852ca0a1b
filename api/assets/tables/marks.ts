/** Where rows of a table begin in its file, so that any range of rows is read without the rows before it. */
export type Marks = {
  /** Numbers of rows, rising from 0, and the offsets of their first bytes. */
  rows: number[]
  offsets: number[]
  /** All rows. */
  total: number
  /** The offset after the last row. */
  end: number
}

/** At most so many rows, or so many bytes and a row, are between two marks. */
const rowsPerMark = 256
const bytesPerMark = 256 * 1024

export function createMarks() {
  const rows: number[] = []
  const offsets: number[] = []
  let total = 0
  return {
    /** Notes that the next row begins at this offset. */
    begin(offset: number) {
      const last = rows.length - 1
      const isDue =
        last < 0 || total - (rows[last] as number) >= rowsPerMark || offset - (offsets[last] as number) >= bytesPerMark
      if (isDue) {
        rows.push(total)
        offsets.push(offset)
      }
      total += 1
    },

    end: (end: number): Marks => ({ rows, offsets, total, end }),
  }
}

/**
 * The bytes from the last mark before a row to the first one after the range, and the number of the row that they begin with.
 *
 * @param to the row after the last one
 */
export function toSpan({ rows, offsets, end }: Marks, from: number, to: number) {
  const first = lastAtMost(rows, from)
  let after = lastAtMost(rows, to)
  if ((rows[after] as number) < to) after += 1
  return { row: rows[first] as number, start: offsets[first] as number, end: offsets[after] ?? end }
}

/** The place of the last number that is at most this one. */
function lastAtMost(numbers: number[], most: number): number {
  let low = 0
  let high = numbers.length
  while (low < high) {
    const middle = (low + high) >> 1
    if ((numbers[middle] as number) <= most) low = middle + 1
    else high = middle
  }
  return low - 1
}
