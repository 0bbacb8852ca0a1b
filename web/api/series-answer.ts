/** What `POST /experiments/series` answers. Without the call itself, so that calculations on it run outside of a browser. */

/** What stands on the x axis; `relative` is seconds since the start of the run. */
export type Axis = 'step' | 'time' | 'relative' | 'epoch' | { metricName: string; context?: string }

type NumbersOrNull = (number | null)[]

/**
 * One metric of one run over a range of x. With `bucketed` each entry is a bucket of many points: none is left out. Without,
 * each entry is a point, and only `x` and `last` are there. A value that is null is not finite.
 */
export type Series = {
  experimentKey: string
  metricName: string
  context: string | null
  bucketed: boolean
  /** Points within the range. */
  total: number
  /** Points of the series that have no such x. */
  withoutX: number
  x: number[]
  xTo?: number[]
  min?: NumbersOrNull
  max?: NumbersOrNull
  last: NumbersOrNull
  mean?: NumbersOrNull
  count?: number[]
  nonFinite?: number[]
}

export type SeriesRead = { from: number | null; to: number | null; series: Series[] }
