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

/** Writes JSON in which every number is what it was when it was parsed. Its text holds no NUL, whatever its strings do. */
export function writeExactJson(value: ExactJson): string {
  return JSON.stringify(value, (_name, it) =>
    typeof it === 'bigint' || Object.is(it, -0) ? rawJSON(toDigits(it)) : it,
  )
}

const toDigits = (value: bigint | number) => (value === 0 ? '-0' : String(value))

/** JSON that was kept as text, as a part of an answer: `JSON.stringify` writes it as it was. */
export function toJsonAnswer(text: string): unknown {
  return JSON.parse(text, (_name: string, value: unknown, context?: { source?: string }) =>
    typeof value === 'number' && context?.source !== undefined && isAltered(value) ? rawJSON(context.source) : value,
  )
}

/** A number that `JSON.stringify` would not write as it came. */
const isAltered = (value: number) => Object.is(value, -0) || (Number.isInteger(value) && !Number.isSafeInteger(value))
