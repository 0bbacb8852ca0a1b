/** What experiments are charged and counted for. */
export const experimentTypes = ['metrics', 'systemMetrics', 'output', 'parameters', 'other'] as const

/** What is counted apart: one type never uses up another's share. Events are those of monitored models. */
export const dataTypes = [...experimentTypes, 'events'] as const

export type ExperimentType = (typeof experimentTypes)[number]

export type DataType = (typeof dataTypes)[number]

/**
 * The limits that can be set for a workspace, a project or a key. Rates are points (lines, values, calls, events) a minute;
 * the two counts hold for one experiment.
 */
export const limitNames = [
  'metricsPerMinute',
  'systemMetricsPerMinute',
  'outputPerMinute',
  'parametersPerMinute',
  'otherPerMinute',
  'eventsPerMinute',
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
  events: 'eventsPerMinute',
} as const satisfies Record<DataType, LimitName>
