import type { Filter } from '../api/monitoring.ts'
import { toNumber } from '../kit/text.ts'

/** The service's words for measures, as people read them. */

const names: Record<string, string> = {
  psi: 'PSI',
  jensenShannon: 'Jensen-Shannon',
  kolmogorovSmirnov: 'Kolmogorov-Smirnov',
  wasserstein: 'Wasserstein',
  missingShare: 'missing share',
  accuracy: 'accuracy',
  precision: 'precision',
  recall: 'recall',
  f1: 'F1',
  meanAbsoluteError: 'mean absolute error',
  rootMeanSquaredError: 'root mean squared error',
  bias: 'bias',
  unlabelledShare: 'unlabelled share',
  events: 'number of events',
}

export const toMeasure = (measure: string) => names[measure] ?? measure

const shares = new Set(['missingShare', 'accuracy', 'precision', 'recall', 'f1', 'unlabelledShare'])

/** `0.234`, or `23.4 %` for shares. */
export const toValue = (measure: string, value: number) => (shares.has(measure) ? toShare(value) : toShort(value))

export const toShare = (share: number | null) => (share === null ? '–' : `${Number((share * 100).toPrecision(3))} %`)

/** Three significant digits: enough beside a chart. */
export const toShort = (value: number | null) => (value === null ? '–' : toNumber(Number(value.toPrecision(3))))

const days = new Intl.DateTimeFormat('en', { month: 'short', day: 'numeric', timeZone: 'UTC' })
const minutes = new Intl.DateTimeFormat('en', {
  month: 'short',
  day: 'numeric',
  hour: '2-digit',
  minute: '2-digit',
  hourCycle: 'h23',
  timeZone: 'UTC',
})
export const dayMs = 86_400_000

/** So many whole windows until the one of the last event. */
export function toWindows(lastEventAt: number | null | undefined, windows: number, interval: number) {
  const to = Math.floor((lastEventAt ?? 0) / interval) * interval + interval
  return { from: to - windows * interval, to, interval }
}

/** A window by its beginning, in UTC as windows are: `Nov 3`, `Nov 3, 14:00`. */
export const toWindow = (from: number, intervalMs: number) => (intervalMs % dayMs === 0 ? days : minutes).format(from)

/** `a day`, `6 hours`. */
export function toLength(intervalMs: number): string {
  if (intervalMs === dayMs) return 'a day'
  if (intervalMs % dayMs === 0) return `${intervalMs / dayMs} days`
  return intervalMs === 3_600_000 ? 'an hour' : `${intervalMs / 3_600_000} hours`
}

const signs: Record<string, string> = {
  equals: '=',
  'not equals': '≠',
  in: 'in',
  below: '<',
  'at most': '≤',
  above: '>',
  'at least': '≥',
}

/** `country = NL`. */
export function toFilter({ part, feature, operator, values = [] }: Filter): string {
  const name = part === 'prediction' ? `prediction ${feature}` : feature
  if (operator === 'missing' || operator === 'present') return `${name} is ${operator}`
  return `${name} ${signs[operator] ?? operator} ${values.join(', ')}`
}
