import { z } from 'zod'
import { HttpError } from '../errors.ts'
import { BareFloat, type ExactJson, writeExactJson } from './exact-json.ts'

/**
 * The types of the fields of requests, each with its error message. They accept what existing clients send: `null` for
 * absent, integers as strings, values as strings or numbers.
 */

const int64Min = -(2n ** 63n)
const int64Max = 2n ** 63n - 1n

/** The message for a value of the wrong type; a missing value has its own message. */
export function expected(what: string) {
  return { error: (issue: { input?: unknown }) => (issue.input == null ? 'is missing' : `expected ${what}`) }
}

/** Turns `null` into absent before the field's own check. */
export function optional<T extends z.ZodType>(field: T) {
  return field.nullish().transform((value) => value ?? undefined)
}

/** Text that every store keeps unchanged: no NUL (Postgres) and no half of a surrogate pair (UTF-8). */
export function text(charactersMax: number, charactersMin = 0) {
  return z
    .string(expected('a string'))
    .min(charactersMin, charactersMin === 1 ? 'must not be empty' : `must have ${charactersMin} characters or more`)
    .max(charactersMax, `must have ${charactersMax} characters or fewer`)
    .refine(isStorable, 'must not hold NUL or half of a surrogate pair')
}

/** A name in an index of Postgres, whose entries have at most a third of a page (2,704 bytes). */
export function indexedText(charactersMax: number) {
  return text(charactersMax, 1).refine(
    (value) => Buffer.byteLength(value) <= indexedBytesMax,
    `must have ${indexedBytesMax} bytes or fewer in UTF-8`,
  )
}

const indexedBytesMax = 2_500

/** True for text that every store keeps unchanged. */
export function isStorable(value: string): boolean {
  return value.isWellFormed() && !value.includes('\0')
}

/** A signed 64-bit integer, exact: a number when it is safe, otherwise a bigint. */
export const int64 = z
  .union([z.number(), z.string(), z.bigint()], expected('an integer'))
  .transform((value, context) => toInt64(value) ?? reject(context, 'expected an integer from -2^63 to 2^63-1'))
  .meta({ type: ['integer', 'string'], format: 'int64' })

/** A list; each entry is checked. */
export function list<T extends z.ZodType>(entry: T, entriesMax: number) {
  return z.array(entry, expected('a list')).max(entriesMax, `must have ${entriesMax} entries or fewer`)
}

/** An object; unknown fields are ignored. */
export function object<Fields extends z.ZodRawShape>(fields: Fields) {
  return z.object(fields, expected('an object'))
}

/** 32 to 50 letters and digits. Only presence is checked here: any other text is an unknown experiment. */
export const experimentKey = text(200, 1).describe('the 32 to 50 letters and digits of an experiment')

/** Milliseconds since the Unix epoch. */
export const timestampMs = int64.describe('ms since the Unix epoch')

function toInt64(value: number | string | bigint): number | bigint | undefined {
  if (typeof value === 'number') return Number.isSafeInteger(value) ? value + 0 : wholeNumber(value)
  const exact = typeof value === 'bigint' ? value : /^\s*[+-]?\d{1,19}\s*$/.test(value) ? BigInt(value) : undefined
  if (exact === undefined || exact < int64Min || exact > int64Max) return undefined
  const short = Number(exact)
  return Number.isSafeInteger(short) ? short : exact
}

/** Accepts integers that are not safe, such as 1e18. */
function wholeNumber(value: number): bigint | undefined {
  if (!Number.isInteger(value)) return undefined
  const exact = BigInt(value)
  return exact < int64Min || exact > int64Max ? undefined : exact
}

/** A small integer, also as text. */
export function integerBetween(least: number, most: number) {
  return z.coerce
    .number('expected an integer')
    .int('expected an integer')
    .min(least, `must be ${least} or more`)
    .max(most, `must be ${most} or fewer`)
}

/** Selects one page of a long list. `page` is the `nextPage` of the previous answer: the id next to which this page begins. */
export const pageFields = (pageSizeMax: number) => ({
  page: optional(z.string(expected('a string')).regex(/^\d{1,18}$/, 'expected the nextPage of an earlier answer')),
  pageSize: optional(integerBetween(1, pageSizeMax)),
})

/** A boolean, also as a string. */
export const flag = z
  .union([z.boolean(), z.stringbool({ truthy: ['true'], falsy: ['false'] })], expected('true or false'))
  .meta({ type: 'boolean' })

export const decimal = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i
const notFinite = new Map([
  ['nan', Number.NaN],
  ['inf', Number.POSITIVE_INFINITY],
  ['+inf', Number.POSITIVE_INFINITY],
  ['-inf', Number.NEGATIVE_INFINITY],
  ['infinity', Number.POSITIVE_INFINITY],
  ['+infinity', Number.POSITIVE_INFINITY],
  ['-infinity', Number.NEGATIVE_INFINITY],
])

/** Reads the name of NaN or an infinity, in any case; undefined for every other text. */
export const toNotFinite = (text: string): number | undefined => notFinite.get(text.toLowerCase())

/** A 64-bit float, as a number or a decimal string; NaN and the infinities with quotes or without. */
export const float64 = z
  .union([z.number(), z.string(), z.bigint(), z.instanceof(BareFloat)], {
    error: ({ input }) => (isOverflow(input) ? overflow : expected('a number or a numeric string').error({ input })),
  })
  .transform((value, context) => {
    const number = toFloat64(value)
    if (number === undefined) {
      return reject(context, 'expected a number, or one of "NaN", "Infinity", "-Infinity" as a string')
    }
    return isOverflow(number) && !isNamed(value) ? reject(context, overflow) : number
  })
  .meta({ type: ['number', 'string'], description: 'a 64-bit float; NaN and the infinities with quotes or without' })

function toFloat64(value: number | string | bigint | BareFloat): number | undefined {
  if (value instanceof BareFloat) return value.float
  if (typeof value !== 'string') return Number(value)
  const trimmed = value.trim()
  return decimal.test(trimmed) ? Number(trimmed) : toNotFinite(trimmed)
}

/** Digits that overflow a float are rejected: Infinity would be another value. */
const overflow = 'is beyond the range of a 64-bit float'

function isOverflow(value: unknown): boolean {
  return value === Number.POSITIVE_INFINITY || value === Number.NEGATIVE_INFINITY
}

/** True for a value that is spelled as a name, not in digits. */
function isNamed(value: number | string | bigint | BareFloat): boolean {
  if (value instanceof BareFloat) return true
  return typeof value === 'string' && toNotFinite(value.trim()) !== undefined
}

/** A value of a parameter or other: a string as it was sent, anything else as its JSON text. */
export const loggedText = z
  .custom<ExactJson>((value) => value !== undefined, { error: 'is missing' })
  .transform((value) => {
    if (value instanceof BareFloat) return String(value.float)
    return typeof value === 'string' ? value : writeExactJson(value)
  })
  .pipe(text(1_000_000))
  .meta({ type: ['string', 'number', 'boolean', 'array', 'object', 'null'], items: { type: 'object' } })

function reject(context: z.RefinementCtx, message: string): never {
  context.addIssue({ code: 'custom', message })
  return z.NEVER
}

/**
 * Describes the first error of a failed check in one sentence that names the field.
 *
 * @param within the path of the checked value in the request, when it is not the whole body
 */
export function describeFieldError(error: z.ZodError, within = ''): string {
  const issue = error.issues[0]
  if (!issue) return 'the request is wrong'
  const steps = issue.path.map((step) => (typeof step === 'number' ? `[${step}]` : `.${String(step)}`))
  const field = [within, ...steps].join('').replace(/^\./, '')
  return `${field || 'the body'}: ${issue.message}`
}

/**
 * Checks the fields of a request against their schema.
 *
 * @throws HttpError that names the first field that is wrong
 */
export function checkFields<T extends z.ZodType>(fields: T, value: unknown): z.output<T> {
  const checked = fields.safeParse(value)
  if (checked.success) return checked.data
  throw toFieldError(checked.error, value)
}

/** Turns a failed check into an HTTP error. Two fields have their own codes, which clients switch on. */
export function toFieldError(error: z.ZodError, checked: unknown): HttpError {
  const message = describeFieldError(error)
  const field = error.issues[0]?.path.join('.')
  const value = field && typeof checked === 'object' ? (checked as Record<string, unknown> | null)?.[field] : undefined
  if (field === 'experimentKey' && (value ?? '') === '') return new HttpError('experimentKeyMissing', message)
  if (field === 'projectName' && (value ?? '') === '') return new HttpError('projectNameMissing', message)
  if (field === 'projectName' && typeof value === 'string' && error.issues[0]?.code === 'too_big') {
    return new HttpError('projectNameTooLong', message)
  }
  return new HttpError('badRequest', message)
}
