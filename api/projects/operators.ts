import { HttpError } from '../../http/errors.ts'
import { toNumber } from '../../store/search/numbers.ts'
import {
  type Comparer,
  compareFlags,
  compareNumbers,
  compareTexts,
  compareTimes,
  toFlag,
  toTimeMs,
} from './comparison.ts'

/** The test of a rule. A negated value test needs a value that fails `test`. */
export type Criterion = { tests: 'presence' | 'value'; isNegated: boolean; test(actual: string): boolean }

type Operator =
  | 'equal'
  | 'less'
  | 'less_or_equal'
  | 'greater'
  | 'greater_or_equal'
  | 'between'
  | 'in'
  | 'contains'
  | 'begins_with'
  | 'ends_with'
  | 'is_empty'
  | 'is_null'

/** The synonyms of each operator; `not_` before any of them negates it. */
const spellings: Record<Operator, string[]> = {
  equal: ['=', '==', 'equals'],
  less: ['<'],
  less_or_equal: ['<='],
  greater: ['>'],
  greater_or_equal: ['>='],
  between: [],
  in: [],
  contains: [],
  begins_with: ['starts_with', 'startswith'],
  ends_with: ['endswith'],
  is_empty: [],
  is_null: [],
}

const operators = new Map<string, { operator: Operator; isNegated: boolean }>([
  ...Object.entries(spellings).flatMap(([name, others]) =>
    [name, ...others].flatMap((it) => {
      const operator = name as Operator
      return [
        [it, { operator, isNegated: false }],
        [`not_${it}`, { operator, isNegated: true }],
      ] as const
    }),
  ),
  ...['!=', '<>'].map((it) => [it, { operator: 'equal', isNegated: true }] as const),
  ...['empty', 'null'].map((it) => [`is_not_${it}`, { operator: `is_${it}` as Operator, isNegated: true }] as const),
])

/** For the reference page. */
export const operatorsDescription =
  '=, !=, <, <=, >, >=, contains, starts with, ends with, between and in (a list of values), is empty, is null; "not" may ' +
  'stand before the words ("not contains", "is not null"). The words that rule builders use are the same: equal, ' +
  'not_equal, less, less_or_equal, greater, greater_or_equal, begins_with, ends_with, is_null, is_not_null, ...'

const comparisons = {
  double: { compare: compareNumbers, isValue: (it: string) => toNumber(it) !== undefined, what: 'a number' },
  string: { compare: compareTexts, isValue: () => true, what: 'a text' },
  boolean: { compare: compareFlags, isValue: (it: string) => toFlag(it) !== undefined, what: 'true or false' },
  datetime: {
    compare: compareTimes,
    isValue: (it: string) => toTimeMs(it) !== undefined,
    what: 'a time in ms, or as 2026-01-31 12:00:00',
  },
}

const types = new Map<string, keyof typeof comparisons>([
  ['string', 'string'],
  ['boolean', 'boolean'],
  ...['double', 'timenumber', 'integer', 'number'].map((it) => [it, 'double'] as const),
  ...['datetime', 'date'].map((it) => [it, 'datetime'] as const),
])

const valuesMax = 1_000

/**
 * Parses the operator, type and value of a rule.
 *
 * @param at the path of the rule in the request, for error messages
 * @throws HttpError `badRequest`
 */
export function toCriterion(rule: { operator?: unknown; type?: unknown; value?: unknown }, at: string): Criterion {
  const { operator, isNegated } = readOperator(rule.operator, `${at}.operator`)
  if (operator === 'is_null') return { tests: 'presence', isNegated, test: () => true }
  if (operator === 'is_empty') return { tests: 'value', isNegated, test: (actual) => actual === '' }
  return { tests: 'value', isNegated, test: toTest(operator, rule, at) }
}

function readOperator(given: unknown, at: string) {
  if (given == null) throw new HttpError('badRequest', `${at}: is missing`)
  const found =
    typeof given === 'string' &&
    operators.get(
      given
        .trim()
        .toLowerCase()
        .replace(/[\s-]+/g, '_'),
    )
  if (!found) throw new HttpError('badRequest', `${at}: expected one of ${operatorsDescription}`)
  return found
}

function toTest(
  operator: Operator,
  rule: { type?: unknown; value?: unknown },
  at: string,
): (actual: string) => boolean {
  if (operator === 'contains' || operator === 'begins_with' || operator === 'ends_with') {
    const part = readValue(rule.value, `${at}.value`)
    if (operator === 'contains') return (actual) => actual.includes(part)
    return operator === 'begins_with' ? (actual) => actual.startsWith(part) : (actual) => actual.endsWith(part)
  }
  const toComparer = (value: unknown, where: string) => createComparer(rule.type, value, where, at)
  if (operator === 'between' || operator === 'in') {
    const comparers = readValues(rule.value, `${at}.value`).map((it, index) => toComparer(it, `${at}.value[${index}]`))
    if (operator === 'in') return (actual) => comparers.some((compare) => compare(actual) === 0)
    const [low, high, ...more] = comparers
    if (!low || !high || more.length > 0)
      throw new HttpError('badRequest', `${at}.value: expected a list of two values`)
    return (actual) => (low(actual) ?? -1) >= 0 && (high(actual) ?? 1) <= 0
  }
  const compare = toComparer(rule.value, `${at}.value`)
  if (operator === 'equal') return (actual) => compare(actual) === 0
  if (operator === 'less') return (actual) => (compare(actual) ?? 0) < 0
  if (operator === 'less_or_equal') return (actual) => (compare(actual) ?? 1) <= 0
  if (operator === 'greater') return (actual) => (compare(actual) ?? 0) > 0
  return (actual) => (compare(actual) ?? -1) >= 0
}

function readValues(given: unknown, at: string): unknown[] {
  if (given == null) throw new HttpError('badRequest', `${at}: is missing`)
  if (!Array.isArray(given)) throw new HttpError('badRequest', `${at}: expected a list`)
  if (given.length > valuesMax) throw new HttpError('badRequest', `${at}: must have ${valuesMax} entries or fewer`)
  return given
}

function readValue(given: unknown, at: string): string {
  if (given == null) throw new HttpError('badRequest', `${at}: is missing`)
  if (['string', 'number', 'bigint', 'boolean'].includes(typeof given)) return String(given)
  throw new HttpError('badRequest', `${at}: expected a string, a number or a boolean`)
}

/** Without a type, two numbers are compared as numbers and other values as text. */
function createComparer(type: unknown, given: unknown, at: string, rule: string): Comparer {
  const wanted = readValue(given, at)
  const kind = type == null ? undefined : types.get(String(type).toLowerCase())
  if (type != null && kind === undefined) {
    throw new HttpError('badRequest', `${rule}.type: expected one of ${[...types.keys()].join(', ')}`)
  }
  if (kind !== undefined) {
    const { compare, isValue, what } = comparisons[kind]
    // Clients send 1 and 0 for true and false.
    const value = kind === 'double' && typeof given === 'boolean' ? String(Number(given)) : wanted
    if (!isValue(value)) throw new HttpError('badRequest', `${at}: expected ${what}`)
    return (actual) => compare(actual, value)
  }
  if (typeof given === 'boolean') return (actual) => compareFlags(actual, wanted)
  return (actual) => compareNumbers(actual, wanted) ?? compareUnlessNumbers(actual, wanted)
}

function compareUnlessNumbers(actual: string, wanted: string): number | undefined {
  const areNumbers = toNumber(actual) !== undefined && toNumber(wanted) !== undefined
  return areNumbers ? undefined : compareTexts(actual, wanted)
}
