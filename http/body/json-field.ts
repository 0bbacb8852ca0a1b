import { z } from 'zod'
import { type ExactJson, writeExactJson } from './exact-json.ts'

/** Deeper ones would be answers that some clients cannot read. */
const levelsMax = 100

/** How the reference page calls a value of any kind. */
export const anyKind = ['object', 'array', 'string', 'number', 'boolean', 'null']

/**
 * Any JSON, checked and turned into the text it is kept as: read back, every string and every integer is the same, and
 * other numbers are the same 64-bit float. Absent is `undefined`.
 */
export function jsonText(bytesMax: number) {
  return z
    .unknown()
    .optional()
    .transform((value, context) => {
      // The body was parsed so that it holds nothing else.
      const json = (value ?? undefined) as ExactJson | undefined
      if (json === undefined) return undefined
      const fault = findFault(json, levelsMax)
      const text = fault === undefined ? writeExactJson(json) : ''
      if (fault === undefined && Buffer.byteLength(text) <= bytesMax) return text
      context.addIssue({ code: 'custom', message: fault ?? `must have ${bytesMax} bytes or fewer as JSON` })
      return z.NEVER
    })
    .meta({ type: anyKind })
}

/** A JSON object, as `jsonText` has it. */
export function jsonObjectText(bytesMax: number) {
  return z
    .custom<unknown>((value) => typeof value === 'object' && value !== null && !Array.isArray(value), {
      error: (issue) => (issue.input == null ? 'is missing' : 'expected an object'),
    })
    .pipe(jsonText(bytesMax))
    .transform((text) => text as string)
    .meta({ type: 'object', additionalProperties: true })
}

function findFault(json: ExactJson, levelsLeft: number): string | undefined {
  if (typeof json === 'number' && !Number.isFinite(json)) return 'holds a number beyond the range of a 64-bit float'
  if (typeof json !== 'object' || json === null) return undefined
  if (levelsLeft === 0) return `must be nested ${levelsMax} levels deep or less`
  for (const inner of Object.values(json)) {
    const fault = findFault(inner, levelsLeft - 1)
    if (fault !== undefined) return fault
  }
  return undefined
}
