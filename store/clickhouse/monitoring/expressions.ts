import { countWindows, type EventScope, type FeatureNames, type ModelEvents, type Windows } from './scope.ts'
import { eventKinds, valueParts } from './tables.ts'

/**
 * SQL expressions over rows of events, of values and of rollups, and the literals in them. Statements travel as bodies, so
 * thousands of names fit.
 */

export const quote = (text: string) => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`

/** A float in a statement: the shortest decimal that parses to the same bits. */
export const literal = (value: number) => `toFloat64('${value}')`

export const ofModel = ({ modelId, kind }: ModelEvents) => `model_id = ${modelId} AND kind = ${eventKinds[kind]}`

/** At least one. */
export const ofModels = (models: ModelEvents[]) =>
  models.length === 1
    ? ofModel(models[0] as ModelEvents)
    : `(model_id, kind) IN (${models.map((it) => `(${it.modelId}, ${eventKinds[it.kind]})`).join(', ')})`

export const ofFeatures = ({ part, names }: FeatureNames) =>
  `part = ${valueParts[part]} AND name IN (${names.map(quote).join(', ')})`

export const ofVersion = ({ version }: EventScope) =>
  version === undefined ? undefined : `version = ${quote(version)}`

/** All of the conditions that there are; undefined without any. */
export const and = (...conditions: (string | false | undefined)[]): string | undefined =>
  conditions.filter((it) => it !== undefined && it !== false).join(' AND ') || undefined

/** Of events, and of values. */
export const ofTimes = ({ from, to }: EventScope) =>
  and(
    from === undefined ? undefined : `timestamp >= ${BigInt(from)}`,
    to === undefined ? undefined : `timestamp < ${BigInt(to)}`,
  )

/** Of chunks: some of the values may be within the times. */
export const touchesTimes = ({ from, to }: EventScope) =>
  and(
    from === undefined ? undefined : `time_high >= ${BigInt(from)}`,
    to === undefined ? undefined : `time_low < ${BigInt(to)}`,
  )

export const ofScope = (scope: EventScope) => and(ofModel(scope), ofVersion(scope), ofTimes(scope)) as string

/** The index of a row's feature among `names`. */
export const featureIndex = (names: readonly string[]) =>
  names.length === 1
    ? 'toUInt16(0)'
    : `toUInt16(transform(toString(name), [${names.map(quote).join(', ')}], range(${names.length}), 0))`

/** The number of a row's window, from 0. */
export const windowIndex = (windows: Windows) =>
  countWindows(windows) === 1
    ? 'toInt32(0)'
    : `toInt32(intDiv(timestamp - ${BigInt(windows.from)}, ${BigInt(windows.intervalMs)}))`

export const isMissing = '(type = 0 OR isNaN(number))'
export const isNumber = '(type IN (1, 2) AND NOT isNaN(number))'

/** Numeric features are compared as numbers, all others as categories. */
export type FeatureType = 'numeric' | 'categorical'

/** The type of most values; a feature without any is numeric. */
export function toFeatureType({ numbers, categories }: { numbers: number; categories: number }): FeatureType {
  return categories > numbers ? 'categorical' : 'numeric'
}

/** A value as the text of a category. A boolean and the string that spells it are the same one. */
export const categoryOf = `multiIf(type = 3, if(number = 0, 'false', 'true'), text != '' OR type = 4, toString(text),
  toString(number))`

/** With more categories than this, categories are counted by a hash of their names. */
export const categoriesMax = 10_000
export const hashOf = (category: string) => `toString(sipHash64(${category}) % 1024)`

/**
 * Counts categories by some other columns, as a table with these, `category`, `is_hashed` and `c`; a category may have
 * several rows. Rows are grouped by the stored columns first, where text is a number, and only then made into categories.
 */
export function countCategories(rows: string, by: readonly string[]): string {
  const ofRow = [...by, 'type', 'text', 'number', 'is_hashed'].join(', ')
  return `(SELECT ${[...by, `${categoryOf} AS category`, 'is_hashed', 'c'].join(', ')} FROM (
      SELECT ${ofRow}, sum(weight) AS c FROM ${rows} WHERE NOT ${isMissing} GROUP BY ${ofRow}))`
}

/** With more values than this on both sides, numbers are rounded before they are sorted. */
export const exactValuesMax = 250_000

/**
 * Rounds `number` to 10 significant bits of its distance from a center, which is an expression. Millions of different
 * numbers become some 10,000, few enough to sort. Integers within 1,023 of a whole center stay as they are. A number moves
 * by at most 1/2048 of its distance from the center.
 */
export const rounded = (center: string) =>
  `${center} + reinterpretAsFloat64(bitAnd(${roundedBits(`number - ${center}`)}, ${keptBits}))`

/** The bits of a rounded distance; those to drop are still there. */
export const roundedBits = (distance: string) => `(reinterpretAsUInt64(${distance}) + ${halfStep})`

/** Of the 53 significant bits of a float. */
export const droppedBits = 43n
const halfStep = 1n << (droppedBits - 1n)
const keptBits = (1n << 64n) - (1n << droppedBits)

/** Rounds as `rounded` does in ClickHouse. */
export function round(value: number, center: number): number {
  const [bits] = new BigUint64Array(Float64Array.of(value - center).buffer)
  const [distance] = new Float64Array(BigUint64Array.of(((bits as bigint) + halfStep) & keptBits).buffer)
  return center + (distance as number)
}
