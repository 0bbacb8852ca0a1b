/** A JSON value in which an integer beyond ±(2^53 - 1) is a `bigint`, so that no digit of it is lost. */
export type ExactJson = null | boolean | number | bigint | string | ExactJson[] | { [name: string]: ExactJson }

// An integer literal of 16 digits or more. Digits inside strings match too: they only cost the slower way.
const longInteger = /(?:^|[:[,\s])-?\d{16,}(?=[\s,\]}]|$)/
// A text of digits without end is no integer of 64 bits: turning it into a bigint would only hold up everyone else.
const digitsMax = 400

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
  const { source } = context
  return source.length <= digitsMax && /^-?\d+$/.test(source) ? BigInt(source) : value
}

const { rawJSON } = JSON as unknown as { rawJSON(text: string): unknown }

/** An integer of 64 bits for an answer: `JSON.stringify` writes all its digits. */
export function toJsonInteger(value: bigint): number {
  const short = Number(value)
  return Number.isSafeInteger(short) ? short : (rawJSON(String(value)) as number)
}
