import { maxBigInt, minBigInt } from '../../runtime/bigint.ts'
import type { Line, Point, Request } from './requests.ts'
import { toText } from './requests.ts'

/**
 * What must be stored, said as plainly as can be: a set. A thing that is sent is there once for each request that it came
 * with, at its place in it. A request is known by its Idempotency-Key, or else is a request of its own every time; under
 * one key, things that differ in anything are different things.
 *
 * The time of what came without a timestamp is when it was received: known only to lie between the first sending of its
 * request and the last answer to it.
 */
export type Stored<T> = { thing: T; firstSentMs: bigint; lastAnsweredMs: bigint; isRepeated: boolean }

export type Model = {
  points(): Stored<Point>[]
  lines(): Stored<Line>[]
  /** One sending of a request and its answer. */
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

/** A point whose time is known as far as it can be: `earliest` and `latest` are the same but for repeated requests. */
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

/** Those that may be told as the smallest (or, turned around, the largest) value: NaN only when there is nothing else. */
function extremes(points: Seen[], isBefore: (a: number, b: number) => boolean): Seen[] {
  const numbers = points.filter((it) => !Number.isNaN(it.value))
  const among = numbers.length > 0 ? numbers : points
  const best = among.filter((it) => !among.some((other) => isBefore(other.value, it.value)))
  // Of the same value, the first by time, then by step.
  return best.filter((it) => !best.some((o) => o.latest < it.earliest || (isSameTime(o, it) && stepOf(o) < stepOf(it))))
}

export const minima = (points: Seen[]) => extremes(points, isBelow)
export const maxima = (points: Seen[]) => extremes(points, (a, b) => isBelow(b, a))

/** Those that may be told as the current value: the newest by time, then by step. */
export function newest(points: Seen[]): Seen[] {
  return points.filter(
    (it) => !points.some((o) => o.earliest > it.latest || (isSameTime(o, it) && stepOf(o) > stepOf(it))),
  )
}

/** Buckets of one width over the steps, or over the times where all steps are the same; each keeps its extremes. */
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
