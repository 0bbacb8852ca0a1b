import { type Drift, measureDrift } from '../clickhouse/monitoring/drift/drift.ts'
import { findProfiles, type Profile, type Reference } from '../clickhouse/monitoring/drift/profiles.ts'
import { countEventsOfWindows } from '../clickhouse/monitoring/event-counts.ts'
import { listFeatureNames } from '../clickhouse/monitoring/features.ts'
import type { EventReader } from '../clickhouse/monitoring/reader.ts'
import {
  type EventScope,
  type FeatureName,
  inWindows,
  kindOfPart,
  type Windows,
} from '../clickhouse/monitoring/scope.ts'
import type { ValuePart } from '../clickhouse/monitoring/tables.ts'

export type DriftOfWindow = { at: number; events: number; features: { profile: Profile; drift: Drift }[] }

export type DriftQuery = {
  reference: Reference
  current: EventScope
  windows: Windows
  /** All features and predictions of the reference and of the windows when absent. */
  feature: FeatureName | undefined
}

const partsByDefault: readonly ValuePart[] = ['feature', 'prediction']

/** Compares every feature in every window with the reference. A feature that the reference lacks has an empty profile. */
export async function readDrift(reader: EventReader, query: DriftQuery): Promise<DriftOfWindow[]> {
  const { reference, windows, feature } = query
  const current = inWindows(query.current, windows)
  const [events, names] = await Promise.all([
    countEventsOfWindows(reader, current, windows),
    feature ? [feature] : listNames(reader, [reference.scope, current]),
  ])
  const report = events.map((count, at): DriftOfWindow => ({ at, events: count, features: [] }))
  const parts = [...Map.groupBy(names, (it) => it.part)]
  const measured = await Promise.all(
    parts.map(async ([part, its]) => {
      // Labels are events of their own, with times of their own.
      const ofPart = { ...current, kind: kindOfPart(part, current.kind) }
      const ofLabels = { ...windows, events: undefined }
      const partEvents = part === 'label' ? await countEventsOfWindows(reader, ofPart, ofLabels) : events
      const profiles = await findProfiles(reader, reference, { part, names: its.map((it) => it.name) })
      const comparison = { reference, current: ofPart, windows, events: partEvents }
      return [...(await measureDrift(reader, comparison, profiles))]
    }),
  )
  for (const [profile, drifts] of measured.flat()) {
    for (const drift of drifts) report[drift.window]?.features.push({ profile, drift })
  }
  return report
}

async function listNames(reader: EventReader, scopes: EventScope[]): Promise<FeatureName[]> {
  const names = await Promise.all(scopes.map((it) => listFeatureNames(reader, it, partsByDefault)))
  return distinct(names.flat())
}

function distinct(names: FeatureName[]): FeatureName[] {
  return [...new Map(names.map((it) => [JSON.stringify([it.part, it.name]), it])).values()]
}
