/**
 * What can be kept for a time only, each type apart. Labels that came with their event go with it; reference data sets are
 * kept for ever.
 */
export const retentionTypes = ['metrics', 'systemMetrics', 'output', 'events', 'labels'] as const

export type RetentionType = (typeof retentionTypes)[number]

/** How many days a workspace keeps what; what is absent is kept for ever. */
export type RetentionDays = Partial<Record<RetentionType, number>>
