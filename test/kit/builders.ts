type RawPoint = {
  metricName: string
  metricValue: number | string
  context?: string
  step?: number | string
  epoch?: number
  timestamp?: number
}

/** A point as a client sends it. */
export function aPoint(changes: Partial<RawPoint> = {}): RawPoint {
  return { metricName: 'loss', metricValue: 0.5, step: 1, timestamp: 1_700_000_000_000, ...changes }
}
