import { z } from 'zod'
import { type ExactJson, writeExactJson } from './exact-json.ts'

/** Some clients cannot read answers that are nested deeper. */
const levelsMax = 100

/** The JSON types of a value of any kind, for the reference page. */
export const anyKind = ['object', 'array', 'string', 'number', 'boolean', 'null']

/**
 * Any JSON, checked and turned into the text that is stored. Strings and integers are read back unchanged, other numbers as
 * the same 64-bit float. Absent is `undefined`.
 */
export function jsonText(bytesMax: number) {
  return z
    .unknown()
    .optional()
    .transform((value, context) => {
      // The body comes from `parseExactJson`, so it contains nothing else.
      const json = (value ?? undefined) as ExactJson | undefined
      if (json === undefined) return undefined
      const error = findError(json, levelsMax)
      const text = error === undefined ? writeExactJson(json) : ''
      if (error === undefined && Buffer.byteLength(text) <= bytesMax) return text
      context.addIssue({ code: 'custom', message: error ?? `must have ${bytesMax} bytes or fewer as JSON` })
      return z.NEVER
    })
    .meta({ type: anyKind })
}

/** A JSON object, stored as `jsonText` does. */
export function jsonObjectText(bytesMax: number) {
  return z
    .custom<unknown>((value) => typeof value === 'object' && value !== null && !Array.isArray(value), {
      error: (issue) => (issue.input == null ? 'is missing' : 'expected an object'),
    })
    .pipe(jsonText(bytesMax))
    .transform((text) => text as string)
    .meta({ type: 'object', additionalProperties: true })
}

function findError(json: ExactJson, levelsLeft: number): string | undefined {
  if (typeof json === 'number' && !Number.isFinite(json)) return 'holds a number beyond the range of a 64-bit float'
  if (typeof json !== 'object' || json === null) return undefined
  if (levelsLeft === 0) return `must be nested ${levelsMax} levels deep or less`
  for (const inner of Object.values(json)) {
    const error = findError(inner, levelsLeft - 1)
    if (error !== undefined) return error
  }
  return undefined
}
