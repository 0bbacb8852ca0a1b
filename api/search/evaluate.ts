import { compareNumbers, compareTexts } from '../projects/comparison.ts'
import type { Cell } from '../projects/run-order.ts'
import { attributes, type Field, fieldsOfWords, type Query, type Test, type Value } from './query.ts'

/** Returns what a run has of a field: no value, one, or several. */
export type ReadField = (field: Field) => Cell[]

/** Whether a run is asked for. A test of what it lacks fails, also a negated one; `not` turns whatever it stands before. */
export function isAskedFor(query: Query, read: ReadField, nowMs: number): boolean {
  switch (query.is) {
    case 'and':
      return query.of.every((it) => isAskedFor(it, read, nowMs))
    case 'or':
      return query.of.some((it) => isAskedFor(it, read, nowMs))
    case 'not':
      return !isAskedFor(query.of, read, nowMs)
    case 'has':
      return valuesOf(query.field, read).length > 0
    case 'word': {
      const text = query.text.toLowerCase()
      return fieldsOfWords.some((field) => valuesOf(field, read).some((it) => String(it).toLowerCase().includes(text)))
    }
    case 'test':
      return passes(query, valuesOf(query.field, read), nowMs)
  }
}

type Actual = string | number | boolean

const valuesOf = (field: Field, read: ReadField): Actual[] => read(field).flatMap((it) => it ?? [])

function passes(test: Test, actual: Actual[], nowMs: number): boolean {
  const isPassed = (it: Actual) => test.values.some((value) => holds(test, it, value, nowMs))
  return test.isNegated ? actual.length > 0 && !actual.some(isPassed) : actual.some(isPassed)
}

function holds({ field, operator }: Test, actual: Actual, value: Value, nowMs: number): boolean {
  if (value.is === 'pattern') return value.matches(String(actual))
  const order = compare(field, actual, value, nowMs)
  if (order === undefined) return false
  if (operator === '<') return order < 0
  if (operator === '<=') return order <= 0
  if (operator === '>') return order > 0
  if (operator === '>=') return order >= 0
  return order === 0
}

/** Below 0 when the value of a run is less; undefined when the two cannot be compared. */
function compare(field: Field, actual: Actual, value: Value, nowMs: number): number | undefined {
  const type = field.source === 'attribute' ? attributes[field.name]?.type : undefined
  if (type === 'time') return compareTimes(Number(actual), value, nowMs)
  if (type === 'duration') return compareLengths(Number(actual), value)
  if (type === 'state') return compareTexts(String(actual), toState(value.text))
  if (value.is === 'number') return compareNumbers(String(actual), value.text)
  if (value.is === 'flag') return compareTexts(String(actual).toLowerCase(), String(value.flag))
  return typeof actual === 'number'
    ? compareNumbers(String(actual), value.text)
    : compareTexts(String(actual), value.text)
}

function compareTimes(actual: number, value: Value, nowMs: number): number | undefined {
  if (value.is === 'time') return actual < value.fromMs ? -1 : actual < value.toMs ? 0 : 1
  if (value.is === 'duration') return actual - (nowMs - value.ms)
  return value.is === 'number' ? actual - value.number : undefined
}

/** A number is in seconds. */
function compareLengths(actual: number, value: Value): number | undefined {
  if (value.is === 'duration') return actual - value.ms
  return value.is === 'number' ? actual - value.number * 1_000 : undefined
}

/** Two states have other names in MLflow. */
const states = new Map([
  ['failed', 'crashed'],
  ['killed', 'lost'],
])
const toState = (text: string) => states.get(text.toLowerCase()) ?? text.toLowerCase()
