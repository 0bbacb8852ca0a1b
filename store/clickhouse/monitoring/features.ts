import { countEvents, countEventsOfWindows } from './event-counts.ts'
import { type FeatureType, featureIndex, isMissing, quote, toFeatureType, windowIndex } from './expressions.ts'
import type { EventReader } from './reader.ts'
import type { Catalog } from './rollups/catalog.ts'
import { type EventScope, type FeatureName, type FeatureNames, inWindows, kindOfPart, type Windows } from './scope.ts'
import { countedValues } from './source.ts'
import { eventFeaturesTable, eventKinds, type ValuePart, valueParts } from './tables.ts'

/**
 * The names of the features, predictions and labels of a scope. A feature that was reported before and after the scope, but
 * not in it, may be among them.
 */
export async function listFeatureNames(
  { clickhouse }: EventReader,
  scope: EventScope,
  parts: readonly ValuePart[],
): Promise<FeatureName[]> {
  const named = Object.fromEntries(Object.entries(valueParts).map(([name, code]) => [code, name]))
  const kinds = [...new Set(parts.map((it) => eventKinds[kindOfPart(it, scope.kind)]))]
  const times = [
    ...(scope.from === undefined ? [] : [`AND last >= ${BigInt(scope.from)}`]),
    ...(scope.to === undefined ? [] : [`AND first < ${BigInt(scope.to)}`]),
    ...(scope.version === undefined ? [] : [`AND version = ${quote(scope.version)}`]),
  ]
  const rows = await clickhouse.rows<{ part: number; name: string }>(
    `SELECT DISTINCT part, name FROM (
       SELECT part, name, version, min(first) AS first, max(last) AS last
       FROM ${clickhouse.database}.${eventFeaturesTable}
       WHERE model_id = ${scope.modelId} AND kind IN (${kinds}) AND part IN (${parts.map((it) => valueParts[it])})
       GROUP BY part, name, version)
     WHERE true ${times.join(' ')} ORDER BY part, name`,
  )
  return rows.map((it) => ({ part: named[it.part] as ValuePart, name: it.name }))
}

export type FeatureCounts = FeatureName & {
  type: FeatureType
  /** Values by their own type; NaN is missing. */
  integers: number
  floats: number
  booleans: number
  strings: number
  /** Events without a value: an explicit null or NaN, or no such feature at all. */
  missing: number
  events: number
}

const featuresAtOnce = 25

/** Counts the values of features by type. */
export async function countFeatures(
  reader: EventReader,
  scope: EventScope,
  features: FeatureName[],
): Promise<FeatureCounts[]> {
  const parts = [...Map.groupBy(features, (it) => it.part)]
  return (await Promise.all(parts.map(([part, its]) => countFeaturesOfPart(reader, scope, part, its)))).flat()
}

async function countFeaturesOfPart(
  reader: EventReader,
  scope: EventScope,
  part: ValuePart,
  features: FeatureName[],
): Promise<FeatureCounts[]> {
  const ofPart = { ...scope, kind: kindOfPart(part, scope.kind) }
  const catalog = await reader.findCatalog(ofPart)
  const names = features.map((it) => it.name)
  const [{ events }, values] = await Promise.all([
    countEvents(reader, ofPart, catalog),
    countValues(reader, ofPart, { part, names }, catalog),
  ])
  return features.map((feature, at) => {
    const { integers, floats, booleans, strings } = values[at] as ValueCounts
    const all = integers + floats + booleans + strings
    return {
      ...feature,
      type: toFeatureType({ numbers: integers + floats, categories: booleans + strings }),
      ...{ integers, floats, booleans, strings },
      missing: Math.max(0, events - all),
      events: Math.max(events, all),
    }
  })
}

type ValueCounts = Pick<FeatureCounts, 'integers' | 'floats' | 'booleans' | 'strings'>

/** The values of each feature by type. */
async function countValues(
  reader: EventReader,
  scope: EventScope,
  { part, names }: FeatureNames,
  catalog: Catalog,
): Promise<ValueCounts[]> {
  const counted: ValueCounts[] = []
  for (let at = 0; at < names.length; at += featuresAtOnce) {
    const some = names.slice(at, at + featuresAtOnce)
    const rows = await reader.read<Record<'f' | keyof ValueCounts, string>>(
      [countedValues(scope, { part, names: some }, catalog)],
      ([values]) => `SELECT ${featureIndex(some)} AS f, sumIf(weight, type = 1 AND NOT isNaN(number)) AS integers,
        sumIf(weight, type = 2 AND NOT isNaN(number)) AS floats, sumIf(weight, type = 3) AS booleans,
        sumIf(weight, type = 4) AS strings FROM ${values} GROUP BY f`,
    )
    const found = new Map(rows.map((it) => [Number(it.f), it]))
    for (const f of some.keys()) {
      const row = found.get(f)
      counted.push({
        integers: Number(row?.integers ?? 0),
        floats: Number(row?.floats ?? 0),
        booleans: Number(row?.booleans ?? 0),
        strings: Number(row?.strings ?? 0),
      })
    }
  }
  return counted
}

/** The events of each window, and how many of them have no value of each feature. `scope` is of the kind of the part. */
export async function countMissingOfWindows(
  reader: EventReader,
  scope: EventScope,
  windows: Windows,
  { part, names }: FeatureNames,
): Promise<{ events: number; missing: number[] }[]> {
  const catalog = await reader.findCatalog(scope)
  const counted = (await countEventsOfWindows(reader, scope, windows)).map((events) => ({
    events,
    missing: names.map(() => events),
  }))
  for (let at = 0; at < names.length; at += featuresAtOnce) {
    const some = names.slice(at, at + featuresAtOnce)
    const rows = await reader.read<{ w: number; f: string; n: string }>(
      [countedValues(inWindows(scope, windows), { part, names: some }, catalog, { windows })],
      ([
        values,
      ]) => `SELECT ${windowIndex(windows)} AS w, ${featureIndex(some)} AS f, sumIf(weight, NOT ${isMissing}) AS n
        FROM ${values} GROUP BY w, f`,
    )
    for (const { w, f, n } of rows) {
      const it = counted[Number(w)]
      if (it) it.missing[at + Number(f)] = Math.max(0, it.events - Number(n))
    }
  }
  return counted
}
