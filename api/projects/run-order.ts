import { HttpError } from '../../http/errors.ts'
import { toNumber } from '../../store/search/numbers.ts'

/** The value of a cell of the runs table. */
export type Cell = string | number | boolean | string[] | null

/** A cell as it sorts: numbers, then NaN, then text, then no value; the direction does not move what has no value. */
export type SortKey = [rank: 0 | 1 | 2 | 3, value: number | string]

export type Direction = 'asc' | 'desc'

export function toSortKey(cell: Cell): SortKey {
  if (cell === null || (Array.isArray(cell) && cell.length === 0)) return [3, 0]
  if (Array.isArray(cell)) return [2, cell.join(', ').toLowerCase()]
  const number = typeof cell === 'string' ? toNumber(cell) : Number(cell)
  if (number === undefined) return [2, String(cell).toLowerCase()]
  return Number.isNaN(number) ? [1, 0] : [0, number]
}

/** A row with its keys, and an id that decides between equal ones. */
export type Sorted = { keys: SortKey[]; id: bigint }

export function createOrder(directions: Direction[]) {
  return (a: Sorted, b: Sorted): number => {
    for (const [at, direction] of directions.entries()) {
      const order = compareKeys(a.keys[at] as SortKey, b.keys[at] as SortKey, direction)
      if (order !== 0) return order
    }
    return a.id < b.id ? 1 : a.id > b.id ? -1 : 0
  }
}

function compareKeys([rank, value]: SortKey, [otherRank, other]: SortKey, direction: Direction): number {
  const sign = direction === 'asc' ? 1 : -1
  if (rank !== otherRank) return rank === 3 || otherRank === 3 ? rank - otherRank : sign * (rank - otherRank)
  return value < other ? -sign : value > other ? sign : 0
}

/** Names the last row of a page, and what it was asked with: the next page begins behind it, whatever came meanwhile. */
export function toCursor({ keys, id }: Sorted, asked: string): string {
  const written = keys.map(([rank, value]) => [rank, String(value)])
  return Buffer.from(JSON.stringify([asked, written, String(id)])).toString('base64url')
}

/** @throws HttpError `badRequest` when it is not a cursor of this question */
export function parseCursor(cursor: string, asked: string): Sorted {
  try {
    const [question, written, id] = JSON.parse(Buffer.from(cursor, 'base64url').toString()) as [
      string,
      [SortKey[0], string][],
      string,
    ]
    if (question === asked) {
      const keys = written.map(([rank, value]): SortKey => [rank, rank === 0 || rank === 3 ? Number(value) : value])
      return { keys, id: BigInt(id) }
    }
  } catch {
    // Not one of ours.
  }
  throw new HttpError('badRequest', 'cursor: expected the nextCursor of an answer to the same question')
}
