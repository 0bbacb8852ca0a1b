import type { EventKind, ValuePart } from './tables.ts'

/** All events of one kind of a model. Rollups are made of these. */
export type ModelEvents = { modelId: bigint; kind: EventKind }

/** The events of a question: of one version or of all, within [from, to). */
export type EventScope = ModelEvents & {
  version?: string | undefined
  /** ms since the Unix epoch. */
  from?: number | undefined
  to?: number | undefined
}

/** A column of the reported values. The name alone is not enough: a label may have the name of a prediction. */
export type FeatureName = { part: ValuePart; name: string }

/** Several features of one part, read together. */
export type FeatureNames = { part: ValuePart; names: readonly string[] }

/** Labels are events of their own, whether they came with a prediction or later. Those of a reference are part of its events. */
export const kindOfPart = (part: ValuePart, kind: EventKind): EventKind =>
  part === 'label' && kind !== 'TRAINING_EVENTS' ? 'LATE_LABELS' : kind

/** Windows of one length, the last one possibly shorter; and how many events they have together, if known. */
export type Windows = { from: number; to: number; intervalMs: number; events?: number | undefined }

export const countWindows = ({ from, to, intervalMs }: Windows) => Math.max(1, Math.ceil((to - from) / intervalMs))

/** The events of a scope that are in some window. A scope may begin within the first window, and end within the last. */
export const inWindows = (scope: EventScope, { from, to }: Windows): EventScope => ({
  ...scope,
  from: Math.max(scope.from ?? from, from),
  to: Math.min(scope.to ?? to, to),
})
