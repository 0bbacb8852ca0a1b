import { LRUCache } from 'lru-cache'
import { waitAtMost } from '../../runtime/timeout.ts'
import type { SeriesTotals } from '../../store/clickhouse/points/series-counts.ts'
import type { WritableExperiment } from '../../store/postgres/experiments/experiments.ts'
import type { Point } from './point.ts'

/**
 * Limits by count: how many metric names an experiment may have, and how many points one metric. What is over them is
 * dropped, counted and shown; the call answers 200 all the same. A metric in a context has a name of its own, the one it
 * has in summaries.
 *
 * Counting happens here, in memory, for each experiment that is written to. What was there before is asked of ClickHouse:
 * once as two totals, and only when these might reach a limit, name by name. Other processes are learnt of by asking
 * again when an eighth of what was left has been used up; so with n processes the limits are kept to within (n - 1)/8 of
 * that, and what stands in the queue. While ClickHouse is away, only what this process has seen counts: limits by count
 * never hold up a write.
 */
type Settings = {
  /** The size of an experiment as an upper bound; undefined when it has no points. */
  askTotals(experimentId: bigint): Promise<SeriesTotals | undefined>
  askPointsBySeries(experimentId: bigint): Promise<Map<string, number>>
  onError(error: unknown): void
  defaults: SeriesLimits
  now: () => number
}

export type SeriesLimits = { metricNamesMax: number; pointsPerMetricMax: number }

/** The points of a request, and where each stands in it. */
type Taken = { points: Point[]; rowIndexes: number[] }

/** Points that were dropped, by the limit they were over. */
export type Dropped = { overNames: number; overPoints: number }

type Series = { points: number }

/** A series of a request; none when it is one too many. */
type Found = { metric: string; context: string; series: Series | undefined }

/** What is known of one experiment. */
type Counted = {
  /** The points of each series, as far as they were seen here or asked for. */
  series: Map<string, Series>
  /** Those of the longest. */
  pointsMost: number
  /** What was there before and is not in `series`; nothing once it was asked name by name. */
  before: SeriesTotals
  isWhole: boolean
  question: Promise<void> | undefined
  /** False until the first question was answered, or failed. */
  isAnswered: boolean
  askedAtMs: number
  /** What came since the last question, and how much of it makes the next one due. */
  sinceThen: { series: number; points: number }
  askAfter: { series: number; points: number }
}

const experimentsMax = 50_000
const seriesMax = 1_000_000
const answerWaitMs = 250
const askAgainAfterMs = 5_000
const nothing: SeriesTotals = { series: 0, pointsMost: 0 }

export function createSeriesLimits({ askTotals, askPointsBySeries, onError, defaults, now }: Settings) {
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
    const made = toUnknown()
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

  /** Asks for the totals, or for every name. A question that fails is asked again later. */
  function ask(id: bigint, counted: Counted, limits: SeriesLimits, byName: boolean): Promise<void> {
    counted.askedAtMs = now()
    counted.sinceThen = { series: 0, points: 0 }
    counted.question = (byName ? learnNames(id, counted) : learnTotals(id, counted)).catch(onError).then(() => {
      const seriesLeft = limits.metricNamesMax - counted.series.size - counted.before.series
      const pointsLeft = limits.pointsPerMetricMax - counted.pointsMost - counted.before.pointsMost
      counted.askAfter = { series: Math.max(1, seriesLeft / 8), points: Math.max(1, pointsLeft / 8) }
      counted.isAnswered = true
      counted.question = undefined
    })
    return counted.question
  }

  async function learnTotals(id: bigint, counted: Counted) {
    counted.before = (await askTotals(id)) ?? nothing
  }

  async function learnNames(id: bigint, counted: Counted) {
    for (const [name, points] of await askPointsBySeries(id)) {
      const known = counted.series.get(name) ?? addSeries(counted, name, points)
      known.points = Math.max(known.points, points)
      counted.pointsMost = Math.max(counted.pointsMost, points)
    }
    counted.before = nothing
    counted.isWhole = true
  }

  /** Counts what may be stored, and takes the rest out of the lists. */
  function count(counted: Counted, limits: SeriesLimits, { points, rowIndexes }: Taken): Dropped {
    const dropped = { overNames: 0, overPoints: 0 }
    let kept = 0
    /** A batch has the same few metrics again and again; the full name of a series is put together once for each. */
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
    counted.sinceThen.points += kept
    return dropped
  }

  function findSeries(counted: Counted, limits: SeriesLimits, { metric, context }: Point) {
    const name = context === '' ? metric : `${context}_${metric}`
    const known = counted.series.get(name)
    if (known || counted.series.size >= limits.metricNamesMax) return known
    counted.sinceThen.series++
    return addSeries(counted, name, 0)
  }

  async function countKnowingMore(id: bigint, counted: Counted, limits: SeriesLimits, taken: Taken): Promise<Dropped> {
    if (!counted.isAnswered) await waitAtMost(counted.question ?? ask(id, counted, limits, false), answerWaitMs)
    if (needsNames(counted, limits, taken))
      await waitAtMost(counted.question ?? ask(id, counted, limits, true), answerWaitMs)
    return count(counted, limits, taken)
  }

  /**
   * Takes the points that are over a limit out of a request's, in place. Answers at once unless ClickHouse has to be
   * asked, and then within half a second.
   */
  return function limitSeries({ id, limits: given }: WritableExperiment, taken: Taken): Dropped | Promise<Dropped> {
    const limits = {
      metricNamesMax: given.metricNamesMax ?? defaults.metricNamesMax,
      pointsPerMetricMax: given.pointsPerMetricMax ?? defaults.pointsPerMetricMax,
    }
    const counted = find(id)
    if (!counted.isAnswered || needsNames(counted, limits, taken)) return countKnowingMore(id, counted, limits, taken)
    if (isDue(counted, now())) void ask(id, counted, limits, counted.isWhole)
    return count(counted, limits, taken)
  }
}

function toUnknown(): Counted {
  return {
    series: new Map(),
    pointsMost: 0,
    before: nothing,
    isWhole: false,
    question: undefined,
    isAnswered: false,
    askedAtMs: Number.NEGATIVE_INFINITY,
    sinceThen: { series: 0, points: 0 },
    askAfter: { series: 0, points: 0 },
  }
}

/** True when what was there before, of which only totals are known, might put the request over a limit. */
function needsNames({ isWhole, before, series, pointsMost }: Counted, limits: SeriesLimits, { points }: Taken) {
  if (isWhole || before.series === 0) return false
  return (
    before.series + series.size + points.length > limits.metricNamesMax ||
    before.pointsMost + pointsMost + points.length > limits.pointsPerMetricMax
  )
}

function isDue({ question, askedAtMs, sinceThen, askAfter }: Counted, nowMs: number): boolean {
  if (question || nowMs - askedAtMs < askAgainAfterMs) return false
  return sinceThen.series >= askAfter.series || sinceThen.points >= askAfter.points
}
