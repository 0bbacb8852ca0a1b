import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { isLive } from '../api/live.ts'
import { readSeries } from '../api/series.ts'
import { drawsGroups } from '../kit/charts-slot.ts'
import type { ShownRun } from '../kit/run-colour.ts'
import { useLive } from '../kit/use-live.ts'
import { type ChartState, toAxis } from './chart-state.ts'
import { toGroupLines } from './groups.ts'
import { type Line, toLines } from './line.ts'

export type Metric = { name: string; context: string }

const points = 500
/**
 * How often a chart in sight is read again where nobody tells of new points: often while they come, seldom when none has for a
 * while.
 */
const growingMs = 1_000
const restingMs = 10_000
const growingForMs = 60_000

/** What a chart draws. Reads it again while points come, and at full detail when the range is zoomed. */
export function useLines(metric: Metric, runs: ShownRun[], state: ChartState) {
  const x = toAxis(state.x)
  const [from, to] = state.zoom ?? []
  const keys = runs.map((it) => it.experimentKey)
  const query = useQuery({
    queryKey: ['series', metric, keys, x, from, to],
    queryFn: ({ signal }) => {
      const series = keys.map((experimentKey) => ({ experimentKey, metricName: metric.name, context: metric.context }))
      return readSeries({ series, x, from, to, points }, signal)
    },
    enabled: keys.length > 0,
    placeholderData: keepPreviousData,
    // Compared by content: what has not changed is not drawn again.
    structuralSharing: true,
    refetchInterval: ({ state: { data, dataUpdatedAt, error } }) => {
      if (error || !data) return false
      if (isLive()) return restingMs
      const total = data.series.reduce((sum, it) => sum + it.total, 0)
      return isGrowing(JSON.stringify([metric, keys, x, from, to]), total, dataUpdatedAt) ? growingMs : restingMs
    },
  })
  useLive(keys, () => query.refetch({ cancelRefetch: false }))
  const { smooth: smoothing = 0, groups } = state
  const lines: Line[] = useMemo(() => {
    if (!query.data) return []
    if (!drawsGroups({ groups }) || !runs.some((it) => it.group)) return toLines(query.data.series, runs, smoothing)
    const band = groups === 'extremes' ? 'extremes' : 'deviation'
    return toGroupLines(query.data, runs, { axis: toAxis(state.x), points, band, smoothing })
  }, [query.data, runs, smoothing, groups, state.x])
  return { lines, error: query.error, isLoading: query.isPending, refetch: query.refetch }
}

const grownAt = new Map<string, { total: number; at: number }>()

/** Whether the number of points has changed within the last minute. */
function isGrowing(chart: string, total: number, now: number): boolean {
  const before = grownAt.get(chart)
  if (before?.total !== total) grownAt.set(chart, { total, at: before === undefined ? 0 : now })
  return now - (grownAt.get(chart)?.at ?? 0) < growingForMs
}
