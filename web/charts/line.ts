import type { Series } from '../api/series-answer.ts'
import { type ShownRun, toDashes } from '../kit/run-colour.ts'
import { smooth } from './smooth.ts'

/** What is drawn of one run on one chart. Its columns have the same length; null breaks the line. */
export type Line = {
  key: string
  name: string
  /** The place in `dashes` that tells it from lines of like colours. */
  dash: number
  x: number[]
  /** Where each bucket ends; the same as `x` for single points. */
  xTo: number[]
  /** The means of buckets, or the points themselves. */
  y: (number | null)[]
  min: (number | null)[]
  max: (number | null)[]
  /** What the line follows: `y`, or smoothed. */
  drawn: (number | null)[]
  count: number[]
  /** How many values of each entry are NaN or infinite. */
  nonFinite: number[]
  /** Of the line of a group: how many of its runs have a value in each entry. */
  runs?: number[]
  total: number
  isBucketed: boolean
}

/** Series in the order of the runs. Smoothing works on means; extremes stay what they are. */
export function toLines(series: Series[], runs: ShownRun[], smoothing: number): Line[] {
  const places = new Map(runs.map((it, at) => [it.experimentKey, at]))
  const dashOf = toDashes(runs.map((it) => it.experimentKey))
  const lines = series.flatMap((it) => {
    const run = runs[places.get(it.experimentKey) ?? -1]
    return run ? [toLine(it, run, dashOf.get(run.experimentKey) ?? 0, smoothing)] : []
  })
  return lines.sort((a, b) => (places.get(a.key) ?? 0) - (places.get(b.key) ?? 0))
}

function toLine(it: Series, { experimentKey, name }: ShownRun, dash: number, smoothing: number): Line {
  const y = (it.bucketed && it.mean) || it.last
  return {
    key: experimentKey,
    name,
    dash,
    x: it.x,
    xTo: it.xTo ?? it.x,
    y,
    min: it.min ?? y,
    max: it.max ?? y,
    drawn: smoothing > 0 ? smooth(it.x, y, smoothing) : y,
    count: it.count ?? it.x.map(() => 1),
    nonFinite: it.nonFinite ?? y.map((value) => (value === null ? 1 : 0)),
    total: it.total,
    isBucketed: it.bucketed,
  }
}

/** What a line has at a place: one point, or all points of the buckets there. `y` and `drawn` are means. */
export type Reading = {
  from: number
  to: number
  y: number | null
  drawn: number | null
  min: number | null
  max: number | null
  count: number
  nonFinite: number
  /** Of a group: the least and the greatest number of runs in one of the buckets. */
  runs?: [number, number]
}

/**
 * What a line has within `reach` of x, which is as much as a pixel can tell apart; else its nearest entry. Undefined for a line
 * without entries.
 */
export function readAt(line: Line, x: number, reach: number): Reading | undefined {
  const nearest = findNearest(line, x)
  if (nearest === undefined) return undefined
  let [first, last] = [nearest, nearest]
  while (first > 0 && (line.xTo[first - 1] as number) >= x - reach) first--
  while (last + 1 < line.x.length && (line.x[last + 1] as number) <= x + reach) last++
  const read: Reading = {
    from: line.x[first] as number,
    to: line.xTo[last] as number,
    y: null,
    drawn: null,
    min: null,
    max: null,
    count: 0,
    nonFinite: 0,
  }
  let finite = 0
  for (let at = first; at <= last; at++) {
    const [count, bad] = [line.count[at] ?? 1, line.nonFinite[at] ?? 0]
    const [y, drawn, min, max] = [line.y[at], line.drawn[at], line.min[at], line.max[at]]
    read.count += count
    const runs = line.runs?.[at]
    if (runs !== undefined) read.runs = [Math.min(read.runs?.[0] ?? runs, runs), Math.max(read.runs?.[1] ?? runs, runs)]
    read.nonFinite += bad
    if (y == null || drawn == null || min == null || max == null) continue
    const weight = (count - bad) / (finite + count - bad)
    read.y = (read.y ?? y) * (1 - weight) + y * weight
    read.drawn = (read.drawn ?? drawn) * (1 - weight) + drawn * weight
    read.min = Math.min(read.min ?? min, min)
    read.max = Math.max(read.max ?? max, max)
    finite += count - bad
  }
  return read
}

/** The place of the entry nearest to x. */
function findNearest({ x: places, xTo }: Line, x: number): number | undefined {
  const { length } = places
  if (length === 0) return undefined
  let low = 0
  let high = length - 1
  while (low < high) {
    const middle = (low + high + 1) >> 1
    if ((places[middle] as number) <= x) low = middle
    else high = middle - 1
  }
  const next = Math.min(low + 1, length - 1)
  if (x <= (xTo[low] as number)) return low
  return Math.abs((places[next] as number) - x) < Math.abs(x - (xTo[low] as number)) ? next : low
}
