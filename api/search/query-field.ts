import { optional, text } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { parseQuery } from '../../store/search/parse.ts'
import type { Query } from '../../store/search/query.ts'
import { SearchError } from '../../store/search/search-error.ts'

/** The field of a request that holds a query. */
export const queryText = optional(text(10_000)).describe(
  'such as `metric.loss:min < 0.1 and (state = running or adam)`. Empty: every run',
)

/** @throws HttpError `badRequest` that says at which character the query cannot be read, and what was expected there */
export function readQuery(query: string): Query {
  try {
    return parseQuery(query)
  } catch (error) {
    if (!(error instanceof SearchError)) throw error
    throw new HttpError('badRequest', `query, character ${error.at + 1}: ${error.message}`)
  }
}
