import { LRUCache } from 'lru-cache'
import { waitAtMost } from '../../runtime/timeout.ts'
import type { SeriesTotals } from '../../store/clickhouse/points/series-counts.ts'
import type { WritableExperiment } from '../../store/postgres/experiments/experiments.ts'
import type { Point } from './point.ts'
import type { PointRows } from './rows.ts'
import { countKept, type SeriesPoints } from './series-points.ts'

/**
 * Limits by count: the metric names of an experiment, and the points of one metric. Excess points are dropped, counted and
 * shown; the write still answers 200. A metric in a context counts under its summary name `<context>_<name>`.
 *
 * Each process counts in memory. It reads what is stored from ClickHouse: first two totals, and the points of every name only
 * when the totals are close to a limit. It reads again after an eighth of what was left is used up, to learn of the writes of
 * other processes. So with n processes a limit may be exceeded by (n - 1)/8 of what was left, and by what is in the queue.
 * While ClickHouse is down a process counts its own writes only: these limits never block a write.
 */
type Settings = {
  /** Upper bounds for an experiment; undefined when it has no points. */
  findTotals(experimentId: bigint): Promise<SeriesTotals | undefined>
  findPointsBySeries(experimentId: bigint): Promise<Map<string, number>>
  onError(error: unknown): void
  defaults: SeriesLimits
  now: () => number
}

export type SeriesLimits = { metricNamesMax: number; pointsPerMetricMax: number }

/** What a request has: points one by one, or by series. */
export type Limited = PointRows | { series: SeriesPoints[] }

const isBySeries = (rows: Limited): rows is { series: SeriesPoints[] } => 'series' in rows
const sizeOf = (rows: Limited) => (isBySeries(rows) ? countKept(rows.series) : rows.points.length)

type LimitedExperiment = Pick<WritableExperiment, 'id' | 'limits'>

/** How many points were dropped, by limit. */
export type Dropped = { overNames: number; overPoints: number }

type Series = { points: number }

/** A series of a request; `series` is undefined when its name is over the limit. */
type Found = { metric: string; context: string; series: Series | undefined }

/** The counts of an experiment. */
type Counted = {
  /** The series that this process has written or read. */
  series: Map<string, Series>
  /** The points of the longest of `series`. */
  pointsMost: number
  /** Totals of the stored points; zero once every name is in `series`. */
  stored: SeriesTotals
  hasAllNames: boolean
  /** The query in progress. */
  query: Promise<void> | undefined
  /** True after the first query, even if it failed. */
  isLoaded: boolean
  queriedAtMs: number
  /** What was added since the last query. */
  added: { series: number; points: number }
  /** The next query is due when `added` reaches one of these. */
  queryAfter: { series: number; points: number }
}

const experimentsMax = 50_000
const seriesMax = 1_000_000
const queryWaitMs = 250
const queryAgainAfterMs = 5_000
const nothing: SeriesTotals = { series: 0, pointsMost: 0 }

export function createSeriesLimits({ findTotals, findPointsBySeries, onError, defaults, now }: Settings) {
  let seriesHeld = 0
  const experiments = new LRUCache<bigint, Counted>({
    max: experimentsMax,
    dispose(counted) {
      seriesHeld -= counted.series.size
    },
  })

  function find(id: bigint): Counted {
    const known = experiments.get(id)
    if (known) return known
    const made = toUncounted()
    experiments.set(id, made)
    while (seriesHeld > seriesMax && experiments.size > 1) experiments.pop()
    return made
  }

  function addSeries(counted: Counted, name: string, points: number) {
    const made = { points }
    counted.series.set(name, made)
    seriesHeld++
    return made
  }

  /** Reads the totals or every name from ClickHouse. A failed query is repeated later. */
  function load(id: bigint, counted: Counted, limits: SeriesLimits, byName: boolean): Promise<void> {
    counted.queriedAtMs = now()
    counted.added = { series: 0, points: 0 }
    counted.query = (byName ? loadNames(id, counted) : loadTotals(id, counted)).catch(onError).then(() => {
      const seriesLeft = limits.metricNamesMax - counted.series.size - counted.stored.series
      const pointsLeft = limits.pointsPerMetricMax - counted.pointsMost - counted.stored.pointsMost
      counted.queryAfter = { series: Math.max(1, seriesLeft / 8), points: Math.max(1, pointsLeft / 8) }
      counted.isLoaded = true
      counted.query = undefined
    })
    return counted.query
  }

  async function loadTotals(id: bigint, counted: Counted) {
    counted.stored = (await findTotals(id)) ?? nothing
  }

  async function loadNames(id: bigint, counted: Counted) {
    for (const [name, points] of await findPointsBySeries(id)) {
      const known = counted.series.get(name) ?? addSeries(counted, name, points)
      known.points = Math.max(known.points, points)
      counted.pointsMost = Math.max(counted.pointsMost, points)
    }
    counted.stored = nothing
    counted.hasAllNames = true
  }

  /** Counts the points within the limits, and removes the others from the lists. */
  function count(counted: Counted, limits: SeriesLimits, { points, rowIndexes }: PointRows): Dropped {
    const dropped = { overNames: 0, overPoints: 0 }
    let kept = 0
    /** Cached, because a batch repeats the same few metrics. */
    const found = points.length > 1 ? new Map<string, Found>() : undefined
    let last: Found | undefined
    for (let at = 0; at < points.length; at++) {
      const point = points[at] as Point
      if (point.metric !== last?.metric || point.context !== last.context) {
        last = found?.get(point.metric)
        if (point.context !== last?.context) {
          last = { metric: point.metric, context: point.context, series: findSeries(counted, limits, point) }
          found?.set(point.metric, last)
        }
      }
      const { series } = last as Found
      if (!series) dropped.overNames++
      else if (series.points >= limits.pointsPerMetricMax) dropped.overPoints++
      else {
        series.points++
        if (series.points > counted.pointsMost) counted.pointsMost = series.points
        points[kept] = point
        rowIndexes[kept] = rowIndexes[at] as number
        kept++
      }
    }
    points.length = kept
    rowIndexes.length = kept
    counted.added.points += kept
    return dropped
  }

  /** The same for points by series: of each, the last ones are dropped. */
  function countBySeries(counted: Counted, limits: SeriesLimits, all: SeriesPoints[]): Dropped {
    const dropped = { overNames: 0, overPoints: 0 }
    for (const it of all) {
      const series = findSeries(counted, limits, it)
      if (!series) {
        dropped.overNames += it.kept
        it.kept = 0
        continue
      }
      const kept = Math.min(it.kept, Math.max(0, limits.pointsPerMetricMax - series.points))
      dropped.overPoints += it.kept - kept
      it.kept = kept
      series.points += kept
      counted.pointsMost = Math.max(counted.pointsMost, series.points)
      counted.added.points += kept
    }
    return dropped
  }

  function countAny(counted: Counted, limits: SeriesLimits, rows: Limited): Dropped {
    return isBySeries(rows) ? countBySeries(counted, limits, rows.series) : count(counted, limits, rows)
  }

  function findSeries(counted: Counted, limits: SeriesLimits, { metric, context }: Pick<Point, 'metric' | 'context'>) {
    const name = context === '' ? metric : `${context}_${metric}`
    const known = counted.series.get(name)
    if (known || counted.series.size >= limits.metricNamesMax) return known
    counted.added.series++
    return addSeries(counted, name, 0)
  }

  async function countAfterQuery(id: bigint, counted: Counted, limits: SeriesLimits, rows: Limited): Promise<Dropped> {
    if (!counted.isLoaded) await waitAtMost(counted.query ?? load(id, counted, limits, false), queryWaitMs)
    if (needsNames(counted, limits, rows))
      await waitAtMost(counted.query ?? load(id, counted, limits, true), queryWaitMs)
    return countAny(counted, limits, rows)
  }

  /**
   * Removes the points over a limit from the lists of a request. Synchronous unless a query is needed; then it takes at most
   * half a second.
   */
  return function limitSeries(experiment: LimitedExperiment, rows: Limited): Dropped | Promise<Dropped> {
    const { id, limits: given } = experiment
    const limits = {
      metricNamesMax: given.metricNamesMax ?? defaults.metricNamesMax,
      pointsPerMetricMax: given.pointsPerMetricMax ?? defaults.pointsPerMetricMax,
    }
    const counted = find(id)
    if (!counted.isLoaded || needsNames(counted, limits, rows)) return countAfterQuery(id, counted, limits, rows)
    if (isDue(counted, now())) void load(id, counted, limits, counted.hasAllNames)
    return countAny(counted, limits, rows)
  }
}

function toUncounted(): Counted {
  return {
    series: new Map(),
    pointsMost: 0,
    stored: nothing,
    hasAllNames: false,
    query: undefined,
    isLoaded: false,
    queriedAtMs: Number.NEGATIVE_INFINITY,
    added: { series: 0, points: 0 },
    queryAfter: { series: 0, points: 0 },
  }
}

/** True when the totals alone cannot tell whether the request stays within the limits. */
function needsNames({ hasAllNames, stored, series, pointsMost }: Counted, limits: SeriesLimits, rows: Limited) {
  if (hasAllNames || stored.series === 0) return false
  const points = sizeOf(rows)
  return (
    stored.series + series.size + points > limits.metricNamesMax ||
    stored.pointsMost + pointsMost + points > limits.pointsPerMetricMax
  )
}

function isDue({ query, queriedAtMs, added, queryAfter }: Counted, nowMs: number): boolean {
  if (query || nowMs - queriedAtMs < queryAgainAfterMs) return false
  return added.series >= queryAfter.series || added.points >= queryAfter.points
}
