import { HttpError } from '../../http/errors.ts'
import type { Position } from '../../store/clickhouse/live/acceptance.ts'

/** How far a reader of a stream has read points and lines. */
export type LivePosition = { points: Position; lines: Position }

/** The position of a new reader: everything accepted from now on is new. */
export function toStart(nowMs: number): LivePosition {
  const start = { receivedMs: BigInt(nowMs), high: 0n, low: 0n, place: 0n }
  return { points: start, lines: start }
}

/** The position behind everything that was accepted until these times. */
export function toEnd(pointsMs: number, linesMs: number): LivePosition {
  return { points: toStart(pointsMs + 1).points, lines: toStart(linesMs + 1).lines }
}

const radix = 36
const sizes = [2n ** 63n, 2n ** 64n, 2n ** 64n, 2n ** 32n]

/** The `id` of an event. A reader that sends it back resumes after that event, in any process. */
export function toEventId({ points, lines }: LivePosition): string {
  const numbers = [points, lines].flatMap((it) => [it.receivedMs, it.high, it.low, it.place])
  return numbers.map((it) => it.toString(radix)).join('-')
}

/** @throws HttpError `badRequest` when it is not the id of an event */
export function parseEventId(id: string, field = 'Last-Event-ID'): LivePosition {
  const numbers = id.split('-').map(toNumber)
  const isWhole = numbers.length === 8 && numbers.every((it, at) => it !== undefined && it < (sizes[at % 4] as bigint))
  if (!isWhole) throw new HttpError('badRequest', `${field}: expected the id of an event of this stream`)
  const [points, lines] = [numbers.slice(0, 4), numbers.slice(4)].map(([receivedMs, high, low, place]) => ({
    receivedMs,
    high,
    low,
    place,
  }))
  return { points, lines } as LivePosition
}

function toNumber(text: string): bigint | undefined {
  if (!/^[0-9a-z]{1,13}$/.test(text)) return undefined
  return [...text].reduce((sum, digit) => sum * BigInt(radix) + BigInt(Number.parseInt(digit, radix)), 0n)
}
