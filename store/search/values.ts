import { RE2JS } from 're2js'
import type { Operator, Value } from './query.ts'
import { SearchTooSlow } from './search-error.ts'
import type { Token } from './tokens.ts'

const number = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i
const special = new Map([
  ['nan', Number.NaN],
  ['inf', Number.POSITIVE_INFINITY],
  ['+inf', Number.POSITIVE_INFINITY],
  ['-inf', Number.NEGATIVE_INFINITY],
])
const duration = /^(\d+(?:\.\d+)?)(ms|s|m|h|d|w)$/i
const units: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 }
const time = /^\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,3})?)?(?:Z|[+-]\d{2}:\d{2})?)?$/i

/** What a token means where a value is expected; or what is wrong with a pattern. */
export function toValue(token: Token, operator: Operator): Value | string {
  const { text } = token
  if (operator === '~') return toPattern(text, (it) => it)
  if (operator === 'like' || operator === 'ilike') return toPattern(text, fromLike, operator === 'ilike')
  const isQuoted = token.is === 'quoted'
  if (!isQuoted) {
    if (number.test(text)) return { is: 'number', number: Number(text), text }
    const named = special.get(text.toLowerCase())
    if (named !== undefined) return { is: 'number', number: named, text }
    if (/^(true|false)$/i.test(text)) return { is: 'flag', flag: text.toLowerCase() === 'true', text }
    const [, count, unit] = duration.exec(text) ?? []
    if (unit) return { is: 'duration', ms: Number(count) * (units[unit.toLowerCase()] as number), text }
  }
  return toTime(text) ?? { is: 'text', text }
}

/** A day, minute, second or millisecond, in UTC unless it says otherwise. */
function toTime(text: string): Value | undefined {
  if (!time.test(text)) return undefined
  const isDay = text.length === 10
  const written = text.replace(' ', 'T')
  const fromMs = Date.parse(isDay || /(Z|[+-]\d{2}:\d{2})$/i.test(written) ? written : `${written}Z`)
  if (Number.isNaN(fromMs)) return undefined
  const precision = /\.\d+/.test(text) ? 1 : /:\d{2}:\d{2}/.test(text) ? 1_000 : isDay ? 86_400_000 : 60_000
  return { is: 'time', fromMs, toMs: fromMs + precision, text }
}

const instructionsMax = 2_000
const stepsMax = 100_000_000

/**
 * RE2: its time is linear in the text, whatever the expression. It is the product of both, though, so an expression that repeats
 * something hundreds of times is refused, and long texts are tried with short expressions only.
 */
function toPattern(text: string, toExpression: (text: string) => string, ignoresCase = false): Value | string {
  try {
    const flags = (ignoresCase ? RE2JS.CASE_INSENSITIVE : 0) | (toExpression === fromLike ? RE2JS.DOTALL : 0)
    const pattern = RE2JS.compile(toExpression(text), flags)
    const instructions = pattern.programSize()
    if (instructions > instructionsMax) return 'is too large a pattern'
    const matches = (actual: string) => {
      if (actual.length * instructions > stepsMax) {
        throw new SearchTooSlow(
          `a value has ${actual.length} characters, too many for the pattern ${text.slice(0, 100)}`,
        )
      }
      return pattern.matcher(actual).find()
    }
    return { is: 'pattern', matches, text }
  } catch {
    return 'is no regular expression of RE2'
  }
}

/** `%` is any text, `_` any character. */
const fromLike = (text: string) =>
  `^${text
    .replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')
    .replaceAll('%', '.*')
    .replaceAll('_', '.')}$`
