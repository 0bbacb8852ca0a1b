import { hash } from 'node:crypto'
import type { Drift } from '../clickhouse/monitoring/drift/drift.ts'
import type { Profile } from '../clickhouse/monitoring/drift/profiles.ts'
import { countEventsOfWindows } from '../clickhouse/monitoring/event-counts.ts'
import type { EventReader } from '../clickhouse/monitoring/reader.ts'
import { findSettled } from '../clickhouse/monitoring/rollups/settled.ts'
import type { EventScope, Windows } from '../clickhouse/monitoring/scope.ts'
import type { Queries } from '../postgres/database.ts'
import {
  listDriftWindows,
  type OfWindows,
  type StoredWindow,
  upsertDriftWindows,
} from '../postgres/monitoring/drift-windows.ts'
import { type DriftOfWindow, readDrift } from './drift-report.ts'
import type { FoundReference } from './reference.ts'

/** What a verdict is made of. */
export type MapDrift = Omit<Drift, 'window' | 'bins'>
export type MapProfile = Pick<Profile, 'part' | 'name' | 'type' | 'values'>
export type MapWindow = { events: number; features: { profile: MapProfile; drift: MapDrift }[] }

type Deps = { queries: Queries; reader: EventReader }
type Query = { reference: FoundReference; current: EventScope; windows: Windows }

/** So many events are compared at once, so that a long time of many events is stored little by little. */
const eventsAtOnce = 1_000_000

/**
 * Compares every feature in every window with the reference, as `readDrift` does, for windows of full length. Windows whose
 * events are all in rollups are computed once and stored.
 */
export async function readDriftMap(deps: Deps, query: Query): Promise<MapWindow[]> {
  return (await readOrCompute(deps, query, { onlyStorable: false })).map((it) => it ?? { events: 0, features: [] })
}

/** Computes and stores the windows that can be stored and are not. Resolves with their number. */
export async function storeDriftMap(deps: Deps, query: Query, stop?: AbortSignal): Promise<number> {
  const stored = await readOrCompute(deps, query, { onlyStorable: true, stop })
  return stored.filter((it) => it?.isNew).length
}

type Read = MapWindow & { isNew: boolean }

async function readOrCompute(
  { queries, reader }: Deps,
  { reference, current, windows }: Query,
  { onlyStorable, stop }: { onlyStorable: boolean; stop?: AbortSignal | undefined },
): Promise<(Read | undefined)[]> {
  const of: OfWindows = { modelId: current.modelId, dataSetId: reference.scope.modelId, version: current.version }
  const [settled, stored] = await Promise.all([
    findSettled(reader, current, windows),
    listDriftWindows(queries, of, windows),
  ])
  const { events, lastReceivedAt } = reference
  const madeOf = settled.map((ids) => ids && hash('sha256', JSON.stringify([form, events, lastReceivedAt, ids])))
  const storedFrom = new Map(stored.map((it) => [it.fromMs, it]))
  const fromOf = (at: number) => windows.from + at * windows.intervalMs
  const found = madeOf.map((made, at): Read | undefined => {
    const it = storedFrom.get(fromOf(at))
    return it && it.madeOf === made ? { events: it.events, features: parse(it.features), isNew: false } : undefined
  })
  const missing = found.map((it, at) => it === undefined && !(onlyStorable && madeOf[at] === undefined))
  if (!missing.includes(true)) return found
  const first = missing.indexOf(true)
  const last = missing.lastIndexOf(true)
  const around = { from: fromOf(first), to: fromOf(last + 1), intervalMs: windows.intervalMs }
  const counts = await countEventsOfWindows(reader, current, around)
  for (const [from, to] of toRuns(missing, (at) => counts[at - first] ?? 0)) {
    if (stop?.aborted) break
    const some = { from: fromOf(from), to: fromOf(to), intervalMs: windows.intervalMs }
    const report = await readDrift(reader, { reference, current, windows: some, feature: undefined })
    for (const [at, it] of report.entries()) found[from + at] = { ...it, isNew: true }
    await upsertDriftWindows(
      queries,
      of,
      report.flatMap((it, at) => toStored(it, fromOf(from + at), madeOf[from + at])),
    )
  }
  return found

  function toStored(it: DriftOfWindow, fromMs: number, made: string | undefined): StoredWindow[] {
    if (made === undefined) return []
    return [{ fromMs, toMs: fromMs + windows.intervalMs, madeOf: made, events: it.events, features: write(it) }]
  }
}

/** Neighbours that are missing, as ranges of their indexes, each of so many events at most. */
function toRuns(missing: boolean[], countOf: (at: number) => number): [from: number, to: number][] {
  const runs: [number, number][] = []
  let events = 0
  for (const [at, isMissing] of missing.entries()) {
    if (!isMissing) continue
    const run = runs.at(-1)
    events += countOf(at)
    if (run && run[1] === at && events <= eventsAtOnce) run[1] = at + 1
    else {
      runs.push([at, at + 1])
      events = countOf(at)
    }
  }
  return runs
}

/** Changes when the stored form, or the way of computing it, does. */
const form = 1

const parts = ['feature', 'prediction', 'label'] as const

type Row = [
  part: number,
  name: string,
  isNumeric: boolean,
  profiled: number,
  isExact: boolean,
  counts: number[],
  measures: (number | null)[],
]

function write({ features }: DriftOfWindow): string {
  return JSON.stringify(
    features.map(
      ({ profile, drift }): Row => [
        parts.indexOf(profile.part),
        profile.name,
        profile.type === 'numeric',
        profile.values,
        drift.isExact,
        [drift.referenceValues, drift.values, drift.referenceMissing, drift.missing, drift.otherTypes, drift.infinite],
        [
          ...[drift.psi, drift.jensenShannon, drift.kullbackLeibler, drift.totalVariation],
          ...[drift.kolmogorovSmirnov, drift.wasserstein],
        ],
      ],
    ),
  )
}

function parse(text: string): MapWindow['features'] {
  return (JSON.parse(text) as Row[]).map(([part, name, isNumeric, values, isExact, counts, measures]) => ({
    profile: { part: parts[part] ?? 'feature', name, type: isNumeric ? 'numeric' : 'categorical', values },
    drift: {
      referenceValues: counts[0] ?? 0,
      values: counts[1] ?? 0,
      referenceMissing: counts[2] ?? 0,
      missing: counts[3] ?? 0,
      otherTypes: counts[4] ?? 0,
      infinite: counts[5] ?? 0,
      psi: measures[0] ?? null,
      jensenShannon: measures[1] ?? null,
      kullbackLeibler: measures[2] ?? null,
      totalVariation: measures[3] ?? null,
      kolmogorovSmirnov: measures[4] ?? null,
      wasserstein: measures[5] ?? null,
      isExact,
    },
  }))
}
