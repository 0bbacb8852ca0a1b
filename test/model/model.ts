import { maxBigInt, minBigInt } from '../../runtime/bigint.ts'
import type { Line, Point, Request } from './requests.ts'
import { toText } from './requests.ts'

/**
 * The model of what must be stored: a set. Each point or line is stored once per request, at its index in the request. The
 * Idempotency-Key identifies a request; without one, every request is a new one. Under one key, items that differ in any
 * field are different items.
 *
 * An item without a timestamp gets the time of arrival, which lies between the first send of its request and the last
 * answer.
 */
export type Stored<T> = { thing: T; firstSentMs: bigint; lastAnsweredMs: bigint; isRepeated: boolean }

export type Model = {
  points(): Stored<Point>[]
  lines(): Stored<Line>[]
  /** Adds one send of a request and its answer. */
  add(request: Request, sentMs: number, answeredMs: number): void
}

export function createModel(): Model {
  const points = new Map<string, Stored<Point>>()
  const lines = new Map<string, Stored<Line>>()
  let sendings = 0

  function put<T>(all: Map<string, Stored<T>>, id: string, thing: T, firstSentMs: bigint, lastAnsweredMs: bigint) {
    const known = all.get(id)
    if (!known) return void all.set(id, { thing, firstSentMs, lastAnsweredMs, isRepeated: false })
    known.isRepeated = true
    if (firstSentMs < known.firstSentMs) known.firstSentMs = firstSentMs
    if (lastAnsweredMs > known.lastAnsweredMs) known.lastAnsweredMs = lastAnsweredMs
  }

  return {
    points: () => [...points.values()],
    lines: () => [...lines.values()],
    add({ call, key, points: sent, lines: sentLines }, sentMs, answeredMs) {
      const request = key === undefined ? `sending ${sendings++}` : `key ${key}`
      const window = [BigInt(sentMs), BigInt(answeredMs)] as const
      sent.forEach((it, place) => {
        const content = [it.metric, it.context, toText(it.value), it.step, it.epoch, it.timestamp].map(String)
        put(points, JSON.stringify([call, request, place, ...content]), it, ...window)
      })
      sentLines.forEach((it, place) => {
        const content = [it.text, it.offset, it.timestamp].map(String)
        put(lines, JSON.stringify([call, request, place, ...content]), it, ...window)
      })
    },
  }
}

/** A point with the bounds of its time; `earliest` and `latest` differ only for repeated requests. */
export type Seen = Pick<Point, 'metric' | 'context' | 'value'> & {
  /** As it is answered. */
  step: bigint | undefined
  earliest: bigint
  latest: bigint
}

const stepOf = ({ step }: Seen) => step ?? 0n
const isSameTime = (a: Seen, b: Seen) => a.earliest === a.latest && b.earliest === b.latest && a.earliest === b.earliest

/** -0 comes before 0. */
function isBelow(a: number, b: number): boolean {
  return a < b || (Object.is(a, -0) && Object.is(b, 0))
}

/** Candidates for the smallest (or largest) value; NaN only when all are NaN. */
function extremes(points: Seen[], isBefore: (a: number, b: number) => boolean): Seen[] {
  const numbers = points.filter((it) => !Number.isNaN(it.value))
  const among = numbers.length > 0 ? numbers : points
  const best = among.filter((it) => !among.some((other) => isBefore(other.value, it.value)))
  // Of the same value, the first by time, then by step.
  return best.filter((it) => !best.some((o) => o.latest < it.earliest || (isSameTime(o, it) && stepOf(o) < stepOf(it))))
}

export const minima = (points: Seen[]) => extremes(points, isBelow)
export const maxima = (points: Seen[]) => extremes(points, (a, b) => isBelow(b, a))

/** Candidates for the current value: the newest by time, then by step. */
export function newest(points: Seen[]): Seen[] {
  return points.filter(
    (it) => !points.some((o) => o.earliest > it.latest || (isSameTime(o, it) && stepOf(o) > stepOf(it))),
  )
}

/** Equal buckets over the steps, or over the times when all steps are equal; each keeps its extremes. */
export function toBuckets(points: Seen[], pointsMax: number): Seen[][] {
  const axis = new Set(points.map(stepOf)).size > 1 ? stepOf : (it: Seen) => it.earliest
  const places = points.map(axis)
  const low = places.reduce(minBigInt)
  const high = places.reduce(maxBigInt)
  const keptPerBucket = points.some((it) => Number.isNaN(it.value)) ? 3 : 2
  const series = new Set(points.map((it) => `${it.context} ${it.metric}`)).size
  const count = BigInt(Math.max(1, Math.floor(pointsMax / (keptPerBucket * series))))
  const width = (high - low) / count + 1n
  const bucketOf = (it: Seen) => `${it.context} ${it.metric} ${(axis(it) - low) / width}`
  return [...Map.groupBy(points, bucketOf).values()]
}
