import type { TrainingRule } from '../../api/training-alerts.ts'
import { toNumber } from '../../kit/text.ts'

const minuteMs = 60_000

/** How often a rule may look, in ms. */
export const lengths = [minuteMs, 5 * minuteMs, 15 * minuteMs, 60 * minuteMs, 24 * 60 * minuteMs]

/** `each minute`, `each 5 minutes`, `each hour`. */
export function toLength(windowMs: number): string {
  const minutes = windowMs / minuteMs
  if (minutes === 1) return 'each minute'
  if (minutes < 60) return `each ${minutes} minutes`
  if (minutes === 60) return 'each hour'
  return minutes === 24 * 60 ? 'each day' : `each ${toNumber(minutes / 60)} hours`
}

/** What has to be so for a rule to fire, as a sentence without its subject. */
export function toCondition({ measure, metricName, comparison, threshold, windowMs }: TrainingRule): string {
  if (measure === 'runCrashed') return 'a run crashes or falls silent'
  if (measure === 'metricNaN') return `${metricName} is NaN`
  if (measure === 'metric') return `${metricName} is ${comparison} ${toNumber(threshold)}`
  const points = threshold === 1 ? 'no point' : `fewer than ${toNumber(threshold)} points`
  return `${metricName} has ${points} ${toLength(windowMs).replace('each', 'for')}`.replace(
    'for minute',
    'for a minute',
  )
}
