import type { ClickHouse } from '../clickhouse/connection.ts'
import { type Drift, findProfiles, measureDrift, type Reference } from '../clickhouse/monitoring/drift.ts'
import { kindOfPart, listFeatureNames } from '../clickhouse/monitoring/features.ts'
import type { Profile } from '../clickhouse/monitoring/profile.ts'
import {
  countEvents,
  countEventsOfWindows,
  type EventScope,
  type FeatureName,
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

/** Every feature of every window beside the reference. A feature that the reference does not have has an empty profile. */
export async function readDrift(clickhouse: ClickHouse, query: DriftQuery): Promise<DriftOfWindow[]> {
  const { reference, windows, feature } = query
  const current = { ...query.current, from: windows.from, to: windows.to }
  const [events, names] = await Promise.all([
    countEventsOfWindows(clickhouse, current, windows),
    feature ? [feature] : listNames(clickhouse, [reference.scope, current]),
  ])
  const report = events.map((count, at): DriftOfWindow => ({ at, events: count, features: [] }))
  const parts = [...Map.groupBy(names, (it) => it.part)]
  const measured = await Promise.all(
    parts.map(async ([part, its]) => {
      // Labels are events of their own, with times of their own.
      const ofPart = { ...current, kind: kindOfPart(part, current.kind) }
      const [partEvents, partReference] =
        part === 'label'
          ? await Promise.all([countEventsOfWindows(clickhouse, ofPart, windows), toLabels(clickhouse, reference)])
          : [events, reference]
      const profiles = await findProfiles(clickhouse, partReference, { part, names: its.map((it) => it.name) })
      const comparison = { reference: partReference, current: ofPart, windows, events: partEvents }
      return [...(await measureDrift(clickhouse, comparison, profiles))]
    }),
  )
  for (const [profile, drifts] of measured.flat()) {
    for (const drift of drifts) report[drift.window]?.features.push({ profile, drift })
  }
  return report
}

async function toLabels(clickhouse: ClickHouse, { scope }: Reference): Promise<Reference> {
  const ofLabels = { ...scope, kind: 'LATE_LABELS' } as const
  return { scope: ofLabels, events: (await countEvents(clickhouse, ofLabels)).events }
}

async function listNames(clickhouse: ClickHouse, scopes: EventScope[]): Promise<FeatureName[]> {
  const names = await Promise.all(scopes.map((it) => listFeatureNames(clickhouse, it, partsByDefault)))
  return distinct(names.flat())
}

function distinct(names: FeatureName[]): FeatureName[] {
  return [...new Map(names.map((it) => [JSON.stringify([it.part, it.name]), it])).values()]
}
