/** A JSON value in which an integer beyond ±(2^53 - 1) is a `bigint`, so that no digit of it is lost. */
export type ExactJson = null | boolean | number | bigint | string | ExactJson[] | { [name: string]: ExactJson }

// An integer literal of 16 digits or more. Digits inside strings match too: they only cost the slower way.
const longInteger = /[:[,\s]-?\d{16,}(?=[\s,\]}])/

/**
 * Parses JSON without rounding integers. `JSON.parse` alone turns 9007199254740993 into 9007199254740992: a step would
 * be altered. Only texts that hold such a literal pay for the reviver.
 *
 * @throws SyntaxError when the text is not JSON
 */
export function parseExactJson(text: string): ExactJson {
  if (!longInteger.test(text)) return JSON.parse(text)
  return JSON.parse(text, keepLongIntegers)
}

function keepLongIntegers(_name: string, value: unknown, context?: { source?: string }) {
  if (typeof value !== 'number' || Number.isSafeInteger(value) || !context?.source) return value
  return /^-?\d+$/.test(context.source) ? BigInt(context.source) : value
}
