import { HttpError } from './errors.ts'

/**
 * Some clients encode a name before their HTTP library encodes it again, so that `a b` arrives as `a%20b`. Such names are
 * decoded once more, but only when there is nothing of the name as it was sent.
 */

/** Handles a query, and once more with its texts decoded when a name in it does not exist. */
export async function withNamesDecodedAgain<T>(query: object, handle: (query: object) => Promise<T>): Promise<T> {
  try {
    return await handle(query)
  } catch (error) {
    if (!(error instanceof HttpError) || !error.kind.endsWith('Unknown')) throw error
    const fields = Object.entries(query).map(([name, value]) => [name, decodeAgain(value)] as const)
    if (fields.every(([name, value]) => value === query[name as keyof typeof query])) throw error
    return await handle(Object.fromEntries(fields)).catch(() => {
      throw error
    })
  }
}

const encodedByte = /%[0-9a-f]{2}/i

/** A text decoded once more; anything else as it is. */
export function decodeAgain<T>(value: T): T | string {
  if (typeof value !== 'string' || !encodedByte.test(value)) return value
  try {
    return decodeURIComponent(value)
  } catch {
    return value
  }
}
