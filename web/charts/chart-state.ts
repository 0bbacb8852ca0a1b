import type { Axis } from '../api/series-answer.ts'

/** How the charts of a page look. All of it is in the URL and in named views; what is absent is as it is by default. */
export type ChartState = {
  /** When absent that which the run defines, else `step`; a metric as `metric:<name>`. */
  x?: string
  /** 0 to 0.99: how much of the past a smoothed value keeps. */
  smooth?: number
  logX?: boolean
  logY?: boolean
  /** True leaves extreme values out of the range of y. */
  cut?: boolean
  /** A regular expression that names of metrics match. */
  search?: string
  size?: Size
  /** When the runs are grouped: what the band of a group shows, `deviation` when absent; `runs` draws each run by itself. */
  groups?: 'extremes' | 'runs'
  /** From and to in units of x; the same for all charts. */
  zoom?: [number, number]
  /** Sections that are closed, or opened although they are closed by default. */
  closed?: string[]
  opened?: string[]
  /** Metrics that stand first, in this order. */
  first?: string[]
  /** The chart that fills the window. */
  full?: string
}

export type Size = 'small' | 'medium' | 'large'

const metricPrefix = 'metric:'
const axes = ['step', 'time', 'relative', 'epoch'] as const

/** Takes what a link holds; a field that is no value of its kind counts as absent. */
export function parseChartState(given: Record<string, unknown>): ChartState {
  const text = (it: unknown) => (typeof it === 'string' && it !== '' ? it : undefined)
  const texts = (it: unknown) =>
    Array.isArray(it) && it.length > 0 && it.every((one) => typeof one === 'string') ? (it as string[]) : undefined
  const { smooth, zoom, size, groups } = given
  return {
    x: text(given.x),
    smooth: typeof smooth === 'number' && smooth > 0 && smooth < 1 ? smooth : undefined,
    logX: given.logX === true || undefined,
    logY: given.logY === true || undefined,
    cut: given.cut === true || undefined,
    search: text(given.search),
    size: size === 'small' || size === 'large' ? size : undefined,
    groups: groups === 'extremes' || groups === 'runs' ? groups : undefined,
    zoom: isRange(zoom) ? zoom : undefined,
    closed: texts(given.closed),
    opened: texts(given.opened),
    first: texts(given.first),
    full: text(given.full),
  }
}

function isRange(it: unknown): it is [number, number] {
  return Array.isArray(it) && it.length === 2 && it.every(Number.isFinite) && it[0] <= it[1]
}

export function toAxis(x: string | undefined): Axis {
  if (x?.startsWith(metricPrefix)) return { metricName: x.slice(metricPrefix.length) }
  return axes.find((it) => it === x) ?? 'step'
}

export const toMetricAxis = (metricName: string) => `${metricPrefix}${metricName}`
