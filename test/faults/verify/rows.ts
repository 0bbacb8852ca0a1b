/**
 * Rows as text, in one form for sent and stored ones, so that they compare as a whole: rows that differ in any field
 * differ as text.
 */
export type PointRow = {
  metric: string
  context: string
  step: number | bigint | null
  epoch: number | bigint | null
  timestamp: number
  value: number
}

export type LineRow = { context: string; offset: number; timestamp: number; stderr: boolean; line: string }

export function pointText({ metric, context, step, epoch, timestamp, value }: PointRow): string {
  return [metric, context, step ?? '-', epoch ?? '-', timestamp, valueText(value)].join('\t')
}

export function lineText({ context, offset, timestamp, stderr, line }: LineRow): string {
  return [context, offset, timestamp, stderr ? 'stderr' : 'stdout', line].join('\t')
}

/** What HTTP tells of a line: the last of the five parts, which may hold tabs itself. */
export function lineAlone(text: string): string {
  return text.split('\t').slice(4).join('\t')
}

/** Like `String`, but tells -0 from 0. */
export function valueText(value: number): string {
  return Object.is(value, -0) ? '-0' : String(value)
}

export function metricOf(text: string): string {
  return text.slice(0, text.indexOf('\t'))
}

/** The name of a point's metric in summaries, which have no resource usage. */
export function summaryNameOf(text: string): string | undefined {
  const [metric = '', context] = text.split('\t', 2)
  if (metric.startsWith('sys.')) return undefined
  return context ? `${context}_${metric}` : metric
}
