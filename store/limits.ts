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

/**
 * The limits of a tenant: of a workspace, or of an organization with all of its workspaces. Points are those of all its
 * experiments and models together: metric points, resource usage, lines of output and events. What is limited at once is so in
 * each process of the api.
 */
export const tenantLimitNames = [
  'pointsPerMinute',
  'fileBytesMax',
  'experimentsMax',
  'streamsMax',
  'exportsMax',
  'queriesMax',
] as const

export type TenantLimitName = (typeof tenantLimitNames)[number]

type LimitName = (typeof limitNames)[number] | TenantLimitName

/** Limits that somebody set; what is absent is inherited. */
export type GivenLimits = Partial<Record<LimitName, number>>

/** The limits of tenants that the settings give. */
export type TenantLimits = {
  workspace: Partial<Record<TenantLimitName, number>>
  organization: Partial<Record<TenantLimitName, number>>
}

/** What a tenant's points are: these data types are charged to it together. */
export const isPoints = (type: DataType) => type !== 'parameters' && type !== 'other'

/** The limit by rate of a data type. */
export const rateLimitNames = {
  metrics: 'metricsPerMinute',
  systemMetrics: 'systemMetricsPerMinute',
  output: 'outputPerMinute',
  parameters: 'parametersPerMinute',
  other: 'otherPerMinute',
  events: 'eventsPerMinute',
} as const satisfies Record<DataType, LimitName>
