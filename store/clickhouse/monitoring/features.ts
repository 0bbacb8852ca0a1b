import type { ClickHouse } from '../connection.ts'
import { readOnce } from './read-once.ts'
import { countEvents, type EventScope, type FeatureName, findGround, placeOf, quote, toCountedValues } from './scope.ts'
import { type EventKind, eventFeaturesTable, eventKinds, type ValuePart, valueParts } from './tables.ts'

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
      const names = some.map((it) => it.name)
      const rows = await readOnce<Record<'f' | 'integers' | 'floats' | 'booleans' | 'strings', string>>(
        clickhouse,
        [toCountedValues(clickhouse, ofPart, { part, names }, ground)],
        ([values]) => `SELECT ${placeOf(names)} AS f, sumIf(weight, type = 1 AND NOT isNaN(number)) AS integers,
          sumIf(weight, type = 2 AND NOT isNaN(number)) AS floats, sumIf(weight, type = 3) AS booleans,
          sumIf(weight, type = 4) AS strings FROM ${values} GROUP BY f`,
      )
      const found = new Map(rows.map((it) => [Number(it.f), it]))
      for (const [f, feature] of some.entries()) {
        const row = found.get(f)
        const [integers, floats] = [Number(row?.integers ?? 0), Number(row?.floats ?? 0)]
        const [booleans, strings] = [Number(row?.booleans ?? 0), Number(row?.strings ?? 0)]
        const values = integers + floats + booleans + strings
        counted.push({
          ...feature,
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
 * How often each category is there, for each of some other columns: rows of these, `category` and `c`, more than one for a
 * category perhaps. Rows are gathered by what is stored, which for text is a number, and only then are categories made of them.
 */
export function gatherCategories(rows: string, by: readonly string[]): string {
  const ofRow = [...by, 'type', 'text', 'number', 'is_hashed'].join(', ')
  return `(SELECT ${[...by, `${categoryOf} AS category`, 'is_hashed', 'c'].join(', ')} FROM (
      SELECT ${ofRow}, sum(weight) AS c FROM ${rows} WHERE NOT ${isMissing} GROUP BY ${ofRow}))`
}

/**
 * Rounds a value to 10 significant bits of its distance from a centre, which is an expression: where there are too many
 * different values to sort them all, this is the grid that takes their place, of some 10,000 numbers for millions of values.
 * Integers within 1,023 of a whole centre stay what they are. A value moves by a part in 2,048 of its distance from the centre
 * at most.
 */
export const rounded = (center: string) =>
  `${center} + reinterpretAsFloat64(bitAnd(reinterpretAsUInt64(number - ${center}) + ${halfStep}, ${keptBits}))`

/** Of the 53 significant bits of a float. */
const droppedBits = 43n
const halfStep = 1n << (droppedBits - 1n)
const keptBits = (1n << 64n) - (1n << droppedBits)

/** What `rounded` makes of a number. */
export function round(value: number, center: number): number {
  const [bits] = new BigUint64Array(Float64Array.of(value - center).buffer)
  const [distance] = new Float64Array(BigUint64Array.of(((bits as bigint) + halfStep) & keptBits).buffer)
  return center + (distance as number)
}

/** A float as it stands in a statement: the shortest decimal that parses to the same bits. */
export const literal = (value: number) => `toFloat64('${value}')`
