import type { ClickHouse } from './connection.ts'
import { countEvents, type EventScope, type FeatureName, findGround, quote, toCountedValues } from './event-scope.ts'
import { type EventKind, eventFeaturesTable, eventKinds, type ValuePart, valueParts } from './monitoring-tables.ts'
import { readOnce } from './read-once.ts'

/** Where the values of a part stand: labels are events of their own, whether they came with a prediction or later. */
export const kindOfPart = (part: ValuePart, kind: EventKind): EventKind => (part === 'label' ? 'LATE_LABELS' : kind)

/** What the values of a feature are treated as: numbers as such, all else as categories. */
export type FeatureType = 'numeric' | 'categorical'

export type FeatureCounts = FeatureName & {
  type: FeatureType
  /** Values by their own type; NaN is missing. */
  integers: number
  floats: number
  booleans: number
  strings: number
  /** Events without a value: those that say so, and those that do not have the feature at all. */
  missing: number
  events: number
}

/** The names of the features, predictions and labels of a scope; one that it lacks may be among them, when it was there before and after. */
export async function listFeatureNames(
  clickhouse: ClickHouse,
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

/** How many values of which type features have. */
export async function countFeatures(
  clickhouse: ClickHouse,
  scope: EventScope,
  names: FeatureName[],
): Promise<FeatureCounts[]> {
  const counted: FeatureCounts[] = []
  for (const part of new Set(names.map((it) => it.part))) {
    const ofPart = { ...scope, kind: kindOfPart(part, scope.kind) }
    const ground = await findGround(clickhouse, ofPart)
    const { events } = await countEvents(clickhouse, ofPart, ground)
    const features = names.filter((it) => it.part === part)
    for (let at = 0; at < features.length; at += featuresAtOnce) {
      const some = features.slice(at, at + featuresAtOnce)
      const rows = await readOnce<Record<'f' | 'integers' | 'floats' | 'booleans' | 'strings', string>>(
        clickhouse,
        some.map((it) => toCountedValues(clickhouse, ofPart, it, ground)),
        (tables) =>
          tables
            .map(
              (table, f) => `SELECT ${f} AS f, sumIf(weight, type = 1 AND NOT isNaN(number)) AS integers,
                sumIf(weight, type = 2 AND NOT isNaN(number)) AS floats, sumIf(weight, type = 3) AS booleans,
                sumIf(weight, type = 4) AS strings FROM ${table}`,
            )
            .join(' UNION ALL '),
      )
      for (const { f, ...row } of rows.toSorted((a, b) => Number(a.f) - Number(b.f))) {
        const [integers, floats] = [Number(row.integers), Number(row.floats)]
        const [booleans, strings] = [Number(row.booleans), Number(row.strings)]
        const values = integers + floats + booleans + strings
        counted.push({
          ...(some[Number(f)] as FeatureName),
          type: toFeatureType({ numbers: integers + floats, categories: booleans + strings }),
          ...{ integers, floats, booleans, strings },
          missing: Math.max(0, events - values),
          events: Math.max(events, values),
        })
      }
    }
  }
  return counted
}

const featuresAtOnce = 25

/** By what most values are; a feature without one is taken for numeric. */
export function toFeatureType({ numbers, categories }: { numbers: number; categories: number }): FeatureType {
  return categories > numbers ? 'categorical' : 'numeric'
}

/** Conditions and values of one row of `event_values`. */
export const isMissing = '(type = 0 OR isNaN(number))'
export const isNumber = '(type IN (1, 2) AND NOT isNaN(number))'

/** A value as the text of a category. A boolean and the string that spells it are the same one. */
const categoryOf = `multiIf(type = 3, if(number = 0, 'false', 'true'), text != '' OR type = 4, toString(text),
  toString(number))`

/** With more categories than this, they are gathered into some by a hash of their names. */
export const categoriesMax = 10_000
export const hashOfCategory = 'toString(sipHash64(category) % 1024)'

/**
 * How often each category is there, by another expression: rows of `by`, `category` and `c`, more than one for a category
 * perhaps. Rows are gathered by what is stored, which for text is a number, and only then are categories made of them.
 */
export const gatherCategories = (table: string, by: string) =>
  `(SELECT by, ${categoryOf} AS category, is_hashed, c FROM (
      SELECT ${by} AS by, type, text, number, is_hashed, sum(weight) AS c FROM ${table} WHERE NOT ${isMissing}
      GROUP BY by, type, text, number, is_hashed))`

/**
 * Rounds a value to 11 significant bits of its distance from a centre: where there are too many different values to sort
 * them all, this is the grid that takes their place, of some 20,000 numbers for millions of values. Integers within 2,047 of
 * the centre stay what they are. A value moves by a part in 4,096 of its distance from the centre at most.
 */
export const rounded = (center: number) =>
  `${literal(center)} + reinterpretAsFloat64(bitAnd(reinterpretAsUInt64(number - ${literal(center)})
    + ${1n << (droppedBits - 1n)}, ${(1n << 64n) - (1n << droppedBits)}))`

/** Of the 53 significant bits of a float. */
const droppedBits = 42n

/** A float as it stands in a statement: the shortest decimal that parses to the same bits. */
export const literal = (value: number) => `toFloat64('${value}')`
