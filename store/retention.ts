/**
 * What can be kept for a time only, each type apart. Labels that came with their event go with it; reference data sets are
 * kept for ever.
 */
export const retentionTypes = ['metrics', 'systemMetrics', 'output', 'events', 'labels'] as const

export type RetentionType = (typeof retentionTypes)[number]

/** The retention of a workspace in days. An absent type is kept for ever. */
export type RetentionDays = Partial<Record<RetentionType, number>>
