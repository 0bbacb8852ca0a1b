import { randomUUID } from 'node:crypto'

/**
 * A JSON value in which an integer beyond ±(2^53 - 1) is a `bigint`, so that no digit of it is lost, and a bare NaN or
 * infinity a `BareFloat`.
 */
export type ExactJson =
  | null
  | boolean
  | number
  | bigint
  | string
  | BareFloat
  | ExactJson[]
  | { [name: string]: ExactJson }

/** NaN, Infinity or -Infinity, written without quotes as Python's `json` does. A number that overflows is no such value. */
export class BareFloat {
  readonly float: number
  constructor(float: number) {
    this.float = float
  }
}

/** Integers of fewer digits are safe. */
const longDigits = 16
// Longer literals are no 64-bit integers: converting them to a bigint would only block other requests.
const digitsMax = 400

/**
 * Parses JSON without rounding integers. `JSON.parse` alone turns 9007199254740993 into 9007199254740992, which would change
 * a step. Only texts with such a literal pay for the reviver.
 *
 * @param bytes the bytes of the text, when the caller has them
 * @throws SyntaxError when the text is not JSON
 */
export function parseExactJson(text: string, bytes: Uint8Array = Buffer.from(text)): ExactJson {
  const reviver = mayHoldLongInteger(bytes) ? keepLongIntegers : undefined
  try {
    return JSON.parse(text, reviver)
  } catch (error) {
    if (!(error instanceof SyntaxError) || !/NaN|Infinity/.test(text)) throw error
    return parseBareFloats(text, error)
  }
}

/** Strings, to skip over them, and bare floats. */
const stringOrBareFloat = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\b(?:NaN|Infinity)\b/gs
/** Nobody can send it: it differs from process to process. */
const bareFloatMark = `${randomUUID()} `

/** @throws the error of the first attempt when the text is not JSON for another reason */
function parseBareFloats(text: string, firstError: SyntaxError): ExactJson {
  const marked = text.replace(stringOrBareFloat, (it) => (it.startsWith('"') ? it : `"${bareFloatMark}${it}"`))
  try {
    return JSON.parse(marked, toBareFloats)
  } catch {
    throw firstError
  }
}

/**
 * Looks for an integer literal of 16 digits or more. It reads every sixteenth byte only, since any run that long includes one
 * of them (measured: a regular expression took a tenth of the time of a batch). Digits inside a string may look like a literal:
 * that only costs the slower parse.
 *
 * It reads bytes, not characters, because the speed of reading characters varies with how the engine optimized the rest of
 * the process (measured: between 0.1 and 0.6 ms for 39 KB).
 */
function mayHoldLongInteger(bytes: Uint8Array): boolean {
  const { length } = bytes
  let after = 0
  for (let at = longDigits - 1; at < length; at = after + longDigits) {
    if (!isDigit(bytes[at] as number)) {
      after = at
      continue
    }
    let first = at
    while (first > after && isDigit(bytes[first - 1] as number)) first--
    let end = at + 1
    while (end < length && isDigit(bytes[end] as number)) end++
    if (end - first >= longDigits && standsAlone(bytes, first, end)) return true
    after = end
  }
  return false
}

const isDigit = (byte: number) => byte >= 48 && byte <= 57
const [minus, point] = Buffer.from('-.')
const standBefore = new Set(Buffer.from(':[, \t\r\n'))
const standAfter = new Set(Buffer.from(',]} \t\r\n'))

/** False for digits that belong to a fraction, an exponent or a word. */
function standsAlone(bytes: Uint8Array, first: number, end: number): boolean {
  const before = bytes[first - 1]
  // The most frequent case first: a fraction.
  if (before === point) return false
  const beforeSign = before === minus ? bytes[first - 2] : before
  const after = bytes[end]
  return (beforeSign === undefined || standBefore.has(beforeSign)) && (after === undefined || standAfter.has(after))
}

function toBareFloats(name: string, value: unknown, context?: { source?: string }) {
  const isMarked = typeof value === 'string' && value.startsWith(bareFloatMark)
  return isMarked ? new BareFloat(Number(value.slice(bareFloatMark.length))) : keepLongIntegers(name, value, context)
}

function keepLongIntegers(_name: string, value: unknown, context?: { source?: string }) {
  if (typeof value !== 'number' || Number.isSafeInteger(value) || !context?.source) return value
  const { source } = context
  return source.length <= digitsMax && /^-?\d+$/.test(source) ? BigInt(source) : value
}

const { rawJSON } = JSON as unknown as { rawJSON(text: string): unknown }

/** A 64-bit integer for an answer: `JSON.stringify` writes all its digits. */
export function toJsonInteger(value: bigint): number {
  const short = Number(value)
  return Number.isSafeInteger(short) ? short : (rawJSON(String(value)) as number)
}

/** Writes JSON that keeps every parsed number exactly. The text contains no NUL: JSON escapes those in strings. */
export function writeExactJson(value: ExactJson): string {
  return JSON.stringify(value, (_name, it) => {
    if (it instanceof BareFloat) return String(it.float)
    return typeof it === 'bigint' || Object.is(it, -0) ? rawJSON(toDigits(it)) : it
  })
}

const toDigits = (value: bigint | number) => (value === 0 ? '-0' : String(value))

/** Parses stored JSON text for an answer: `JSON.stringify` then writes its numbers unchanged. */
export function toJsonAnswer(text: string): unknown {
  return JSON.parse(text, (_name: string, value: unknown, context?: { source?: string }) =>
    typeof value === 'number' && context?.source !== undefined && isAltered(value) ? rawJSON(context.source) : value,
  )
}

/** True for a number that `JSON.stringify` would write differently. */
const isAltered = (value: number) => Object.is(value, -0) || (Number.isInteger(value) && !Number.isSafeInteger(value))
