import { z } from 'zod'
import { HttpError } from '../errors.ts'

/**
 * The kinds of field that requests are made of, each with the message that a caller gets. All of them take what
 * existing clients send: `null` for absent, integers as strings, values as strings or numbers.
 */

const int64Min = -(2n ** 63n)
const int64Max = 2n ** 63n - 1n

/** The message for a value of the wrong kind; one that is not there is told apart. */
function expected(what: string) {
  return { error: (issue: { input?: unknown }) => (issue.input == null ? 'is missing' : `expected ${what}`) }
}

/** Turns `null` into absent before the field's own check. */
export function optional<T extends z.ZodType>(field: T) {
  return field.nullish().transform((value) => value ?? undefined)
}

/** Text that every store can hold unaltered: no NUL (Postgres) and no half of a surrogate pair (UTF-8). */
export function text(charactersMax: number, charactersMin = 0) {
  return z
    .string(expected('a string'))
    .min(charactersMin, charactersMin === 1 ? 'must not be empty' : `must have ${charactersMin} characters or more`)
    .max(charactersMax, `must have ${charactersMax} characters or fewer`)
    .refine(isStorable, 'must not hold NUL or half of a surrogate pair')
}

/** A name that stands in an index of Postgres, where an entry may have a third of a page at most (2,704 bytes). */
export function indexedText(charactersMax: number) {
  return text(charactersMax, 1).refine(
    (value) => Buffer.byteLength(value) <= indexedBytesMax,
    `must have ${indexedBytesMax} bytes or fewer in UTF-8`,
  )
}

const indexedBytesMax = 2_500

/** True for text that is stored and read back the same. */
export function isStorable(value: string): boolean {
  return value.isWellFormed() && !value.includes('\0')
}

/** An integer of 64 bits with sign, exact: a number where that is safe, else a bigint. */
export const int64 = z
  .union([z.number(), z.string(), z.bigint()], expected('an integer'))
  .transform((value, context) => toInt64(value) ?? refuse(context, 'expected an integer from -2^63 to 2^63-1'))
  .meta({ type: ['integer', 'string'], format: 'int64' })

/** A list; each entry is checked by itself. */
export function list<T extends z.ZodType>(entry: T, entriesMax: number) {
  return z.array(entry, expected('a list')).max(entriesMax, `must have ${entriesMax} entries or fewer`)
}

/** An object; unknown fields are ignored. */
export function object<Fields extends z.ZodRawShape>(fields: Fields) {
  return z.object(fields, expected('an object'))
}

/** 32 to 50 letters and digits. Anything else names no experiment, so only its presence is checked here. */
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

/** A number such as 1e18 is an integer all the same, only not a safe one. */
function wholeNumber(value: number): bigint | undefined {
  if (!Number.isInteger(value)) return undefined
  const exact = BigInt(value)
  return exact < int64Min || exact > int64Max ? undefined : exact
}

/**
 * Which part of a long list is asked for. `page` is the `nextPage` of an earlier answer: the id after which, or before
 * which, this one begins.
 */
export const pageFields = (pageSizeMax: number) => ({
  page: optional(z.string(expected('a string')).regex(/^\d{1,18}$/, 'expected the nextPage of an earlier answer')),
  pageSize: optional(
    z.coerce
      .number('expected an integer')
      .int('expected an integer')
      .min(1, 'must be 1 or more')
      .max(pageSizeMax, `must be ${pageSizeMax} or fewer`),
  ),
})

/** A boolean, also spelled as a string. */
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

/** What is no finite number and is called by a name, in any case; undefined for every other text. */
export const toNotFinite = (text: string): number | undefined => notFinite.get(text.toLowerCase())

/** A 64-bit float, as a number or as a decimal string; NaN and the infinities come as strings. */
export const float64 = z
  .union([z.number(), z.string(), z.bigint()], {
    error: ({ input }) => (isOverflow(input) ? overflow : expected('a number or a numeric string').error({ input })),
  })
  .transform((value, context) => {
    const number = toFloat64(value)
    if (number === undefined) {
      return refuse(context, 'expected a number, or one of "NaN", "Infinity", "-Infinity" as a string')
    }
    return isOverflow(number) && !isNamed(value) ? refuse(context, overflow) : number
  })
  .meta({ type: ['number', 'string'], description: 'a 64-bit float; NaN and the infinities as strings' })

function toFloat64(value: number | string | bigint): number | undefined {
  if (typeof value !== 'string') return Number(value)
  const trimmed = value.trim()
  return decimal.test(trimmed) ? Number(trimmed) : toNotFinite(trimmed)
}

/** Digits that overflow a float are refused: storing them as Infinity would alter them. */
const overflow = 'is beyond the range of a 64-bit float'

function isOverflow(value: unknown): boolean {
  return value === Number.POSITIVE_INFINITY || value === Number.NEGATIVE_INFINITY
}

/** True for a value that is spelled as a name, not in digits. */
function isNamed(value: number | string | bigint): boolean {
  return typeof value === 'string' && toNotFinite(value.trim()) !== undefined
}

/** A value of a parameter or other: kept as text, the way it was sent. */
export const scalarText = z
  .union([z.string(), z.number(), z.bigint(), z.boolean()], expected('a string, a number or a boolean'))
  .transform((value) => (Object.is(value, -0) ? '-0' : String(value)))
  .pipe(text(1_000_000))
  .meta({ type: ['string', 'number', 'boolean'] })

function refuse(context: z.RefinementCtx, message: string): never {
  context.addIssue({ code: 'custom', message })
  return z.NEVER
}

/**
 * The first fault of a failed check as one sentence that names the field.
 *
 * @param within where the checked value stands in the request, when it is not the whole body
 */
export function describeFieldError(error: z.ZodError, within = ''): string {
  const issue = error.issues[0]
  if (!issue) return 'the request is wrong'
  const steps = issue.path.map((step) => (typeof step === 'number' ? `[${step}]` : `.${String(step)}`))
  const field = [within, ...steps].join('').replace(/^\./, '')
  return `${field || 'the body'}: ${issue.message}`
}

/**
 * Fields of a request as their schema has them.
 *
 * @throws HttpError that names the first field that is wrong
 */
export function checkFields<T extends z.ZodType>(fields: T, value: unknown): z.output<T> {
  const checked = fields.safeParse(value)
  if (checked.success) return checked.data
  throw toFieldError(checked.error, value)
}

/** A failed check as a refusal. Two fields have codes of their own, which clients switch on. */
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
