/** What is counted apart: one type never uses up another's share. */
export const dataTypes = ['metrics', 'systemMetrics', 'output', 'parameters', 'other'] as const

export type DataType = (typeof dataTypes)[number]

/**
 * The limits that can be set for a workspace, a project or a key. Rates are points (lines, values, calls) a minute; the
 * two counts hold for one experiment.
 */
export const limitNames = [
  'metricsPerMinute',
  'systemMetricsPerMinute',
  'outputPerMinute',
  'parametersPerMinute',
  'otherPerMinute',
  'metricNamesMax',
  'pointsPerMetricMax',
] as const

type LimitName = (typeof limitNames)[number]

/** Limits that somebody set; what is absent is inherited. */
export type GivenLimits = Partial<Record<LimitName, number>>

/** The limit by rate of a data type. */
export const rateLimitNames = {
  metrics: 'metricsPerMinute',
  systemMetrics: 'systemMetricsPerMinute',
  output: 'outputPerMinute',
  parameters: 'parametersPerMinute',
  other: 'otherPerMinute',
} as const satisfies Record<DataType, LimitName>
