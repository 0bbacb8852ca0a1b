import { post } from './http.ts'
import type { Axis, SeriesRead } from './series-answer.ts'

export type SeriesAsked = {
  series: { experimentKey: string; metricName: string; context: string }[]
  x: Axis
  from?: number
  to?: number
  points: number
}

export const readSeries = (asked: SeriesAsked, signal?: AbortSignal) =>
  post<SeriesRead>('/experiments/series', asked, { signal })
