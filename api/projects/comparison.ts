import { compare } from '../../runtime/compare.ts'
import { toNumber } from '../../store/search/numbers.ts'

/**
 * Compares a stored value with the value of a rule. Both are text; the type of the rule selects the comparison.
 */
export type Comparer = (actual: string) => number | undefined

/** Compares as numbers: negative, zero or positive; undefined if one is not a number or only one is NaN. */
export function compareNumbers(actual: string, wanted: string): number | undefined {
  const [left, right] = [toNumber(actual), toNumber(wanted)]
  if (left === undefined || right === undefined) return undefined
  if (Number.isNaN(left) || Number.isNaN(right)) return Number.isNaN(left) && Number.isNaN(right) ? 0 : undefined
  // Beyond 2^53 two integers may be the same float.
  if (left === right && !Number.isSafeInteger(left) && isInteger(actual) && isInteger(wanted)) {
    return compare(BigInt(actual), BigInt(wanted))
  }
  return compare(left, right)
}

/** Compares texts by their UTF-16 code units. */
export const compareTexts = (actual: string, wanted: string) => compare(actual, wanted)

export function compareFlags(actual: string, wanted: string): number | undefined {
  const [left, right] = [toFlag(actual), toFlag(wanted)]
  return left === undefined || right === undefined ? undefined : compare(left, right)
}

export function compareTimes(actual: string, wanted: string): number | undefined {
  const [left, right] = [toTimeMs(actual), toTimeMs(wanted)]
  return left === undefined || right === undefined ? undefined : compare(left, right)
}

const isInteger = (value: string) => /^[+-]?\d{1,400}$/.test(value.trim())

const flags = new Map([
  ['true', true],
  ['1', true],
  ['false', false],
  ['0', false],
])

export const toFlag = (value: string) => flags.get(value.trim().toLowerCase())

/** Milliseconds since the Unix epoch, or a date with or without a time; without a zone it is UTC. */
export function toTimeMs(value: string): number | undefined {
  const number = toNumber(value)
  if (number !== undefined) return number
  const text = value.trim().replace(' ', 'T')
  if (!/^\d{4}-\d{2}-\d{2}(T[\d:.]+)?(Z|[+-]\d{2}:?\d{2})?$/i.test(text)) return undefined
  const hasZone = !text.includes('T') || /(Z|[+-]\d{2}:?\d{2})$/i.test(text)
  const ms = Date.parse(hasZone ? text : `${text}Z`)
  return Number.isNaN(ms) ? undefined : ms
}
