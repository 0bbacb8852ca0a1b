import type { Field } from './query.ts'

/** What could stand at a place of a query. */
export type Expected =
  | { is: 'term' }
  | { is: 'operator'; field: Field }
  | { is: 'value'; field: Field }
  | { is: 'field' }
  | { is: 'nothing' }

/** A query that cannot be read. The message says what was expected, `at` is where, counted from 0. */
export class SearchError extends Error {
  readonly at: number
  readonly expected: Expected

  constructor(message: string, { at, expected }: { at: number; expected: Expected }) {
    super(message)
    this.at = at
    this.expected = expected
  }
}

/** A query that can be read, but costs too much. */
export class SearchTooSlow extends Error {}
