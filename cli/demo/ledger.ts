/** One point of a metric as it was logged. */
export interface Point {
  metricName: string
  metricValue: number
  /** Null for the machine's own metrics. */
  context: string | null
  step: number | null
  epoch: number | null
  /** Milliseconds since the Unix epoch. */
  timestamp: number
}

/** Everything logged to one experiment, to compare with the later reads. */
export interface Ledger {
  experimentKey: string
  experimentName: string
  workspaceName: string
  projectName: string
  link: string
  startTimeMillis: number
  endTimeMillis: number
  /** The training's metrics, in the order they were logged. */
  points: Point[]
  /** The machine's metrics, under the names they are read by (sys....). */
  systemPoints: Point[]
  parameters: Map<string, string | number>
  others: Map<string, string | number>
  tags: string[]
  outputLines: string[]
}

/** The name of a point's series in the summary: <context>_<name>. */
export function toSummaryName(point: Pick<Point, 'metricName' | 'context'>): string {
  return point.context ? `${point.context}_${point.metricName}` : point.metricName
}

/** A number as JSON can carry it: numbers that JSON lacks (NaN, the infinities, minus zero) become strings. */
export function toWireNumber(value: number): number | string {
  if (Object.is(value, -0)) return '-0'
  return Number.isFinite(value) ? value : String(value)
}
