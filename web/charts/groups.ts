import type { Axis, SeriesRead } from '../api/series-answer.ts'
import { type ShownGroup, type ShownRun, toDashes } from '../kit/run-colour.ts'
import type { Line } from './line.ts'
import { smooth } from './smooth.ts'

/** What the band of a group shows: one standard deviation around the mean, or the least and the greatest value of its runs. */
export type Band = 'deviation' | 'extremes'

type Options = { axis: Axis; points: number; band: Band; smoothing: number }

/** What the runs of a group have at one place of x. */
type Place = {
  x: number
  xTo: number
  /** Runs with a finite value here. A run that has ended is not among them. */
  runs: number
  mean: number
  /** The sum of squared distances from the mean, by Welford's way, which loses no digits of values far from 0. */
  squares: number
  min: number
  max: number
  count: number
  nonFinite: number
}

/**
 * One line for each group of runs: their mean, where every run weighs the same however many points it has. What a run has in a
 * bucket is its mean there; its extremes count for those of the group.
 *
 * The service divides the x of all series of one answer into the same buckets, but sends a series with few points point by
 * point. Those are put into the buckets here. A group of such series alone is compared step by step, or epoch by epoch; on an
 * axis where no two runs have the same x, such as time, in as many buckets as its longest run has points.
 */
export function toGroupLines({ from, to, series }: SeriesRead, runs: ShownRun[], options: Options): Line[] {
  const groups = new Map<string, { group: ShownGroup; series: SeriesRead['series'] }>()
  const groupOf = new Map<string, ShownGroup>()
  for (const { experimentKey, group } of runs) {
    if (!group) continue
    groupOf.set(experimentKey, group)
    groups.set(group.key, { group, series: [] })
  }
  for (const it of series) groups.get(groupOf.get(it.experimentKey)?.key ?? '')?.series.push(it)
  const dashOf = toDashes(groups.keys())
  return [...groups.values()]
    .filter((it) => it.series.length > 0)
    .map(({ group, series: members }) => ({
      dash: dashOf.get(group.key) ?? 0,
      ...toGroupLine(group, members, [from ?? 0, to ?? 0], options),
    }))
}

function toGroupLine(
  { key, name }: ShownGroup,
  series: SeriesRead['series'],
  extent: [number, number],
  { axis, points, band, smoothing }: Options,
): Omit<Line, 'dash'> {
  const isBucketed = series.some((it) => it.bucketed)
  const isExact = !isBucketed && (axis === 'step' || axis === 'epoch')
  const buckets = isBucketed ? points : Math.min(points, Math.max(...series.map((it) => it.x.length)))
  const toPlace = isExact ? (x: number) => x : toBucket(axis, extent, buckets)
  const places = new Map<number, Place>()
  for (const it of series) addRun(places, it, toPlace)
  const inOrder = [...places].sort(([a], [b]) => a - b).map(([, it]) => it)
  const x = inOrder.map((it) => it.x)
  const y = inOrder.map((it) => (it.runs > 0 ? it.mean : null))
  const edge = (side: -1 | 1) =>
    inOrder.map((it) => {
      if (it.runs === 0) return null
      return band === 'extremes' ? (side < 0 ? it.min : it.max) : it.mean + side * toDeviation(it)
    })
  return {
    key,
    name,
    x,
    xTo: inOrder.map((it) => it.xTo),
    y,
    min: edge(-1),
    max: edge(1),
    drawn: smoothing > 0 ? smooth(x, y, smoothing) : y,
    count: inOrder.map((it) => it.count),
    nonFinite: inOrder.map((it) => it.nonFinite),
    runs: inOrder.map((it) => it.runs),
    total: series.reduce((sum, it) => sum + it.total, 0),
    isBucketed: true,
  }
}

/** Of a sample, as papers give it over seeds: divided by one less than the number of runs. Of one run it is 0. */
const toDeviation = ({ runs, squares }: Place) => (runs > 1 ? Math.sqrt(squares / (runs - 1)) : 0)

/** The number of the bucket that the service puts x into. */
function toBucket(axis: Axis, [from, to]: [number, number], buckets: number): (x: number) => number {
  // Relative times are counted in milliseconds there, and answered in seconds.
  const unit = axis === 'relative' ? 1_000 : 1
  const isWhole = typeof axis === 'string'
  const low = isWhole ? Math.round(from * unit) : from
  const distance = (isWhole ? Math.round(to * unit) : to) - low
  const width = isWhole ? Math.floor(distance / buckets) + 1 : Math.max(distance / buckets, Number.MIN_VALUE)
  return (x) =>
    Math.min(Math.max(Math.floor(((isWhole ? Math.round(x * unit) : x) - low) / width), 0), Math.max(buckets - 1, 0))
}

/** Adds one run. Several entries of it in one place, such as repeated steps, are one mean first. */
function addRun(places: Map<number, Place>, it: SeriesRead['series'][number], toPlace: (x: number) => number) {
  let own: { at: number; sum: number; finite: number; min: number; max: number } | undefined
  for (let at = 0; at < it.x.length; at++) {
    const x = it.x[at] as number
    const xTo = it.xTo?.[at] ?? x
    const value = (it.bucketed ? it.mean?.[at] : it.last[at]) ?? null
    const count = it.count?.[at] ?? 1
    const nonFinite = it.nonFinite?.[at] ?? (value === null ? 1 : 0)
    const here = toPlace(x)
    if (own?.at !== here) {
      close()
      own = { at: here, sum: 0, finite: 0, min: Number.POSITIVE_INFINITY, max: Number.NEGATIVE_INFINITY }
    }
    let place = places.get(here)
    if (!place) {
      place = { x, xTo, runs: 0, mean: 0, squares: 0, min: own.min, max: own.max, count: 0, nonFinite: 0 }
      places.set(here, place)
    }
    place.x = Math.min(place.x, x)
    place.xTo = Math.max(place.xTo, xTo)
    place.count += count
    place.nonFinite += nonFinite
    if (value === null) continue
    own.sum += value * (count - nonFinite)
    own.finite += count - nonFinite
    own.min = Math.min(own.min, it.min?.[at] ?? value)
    own.max = Math.max(own.max, it.max?.[at] ?? value)
  }
  close()

  function close() {
    const place = own && places.get(own.at)
    if (!own || !place || own.finite === 0) return
    const value = own.sum / own.finite
    place.runs++
    const before = value - place.mean
    place.mean += before / place.runs
    place.squares += before * (value - place.mean)
    place.min = Math.min(place.min, own.min)
    place.max = Math.max(place.max, own.max)
  }
}
