import { HttpError } from '../../http/errors.ts'
import { parseQuery } from '../../store/search/parse.ts'
import { attributes, type Query, type Test, type Value } from '../../store/search/query.ts'
import { SearchError } from '../../store/search/search-error.ts'

/**
 * Filters, orders and pages of what Postgres keeps few of: experiments, registered models and their versions, logged models. The
 * language is ours, which holds that of MLflow; runs are searched in the stores (`run-search.ts`).
 */

/** The value of a field, by where it is (`attribute`, `tag`, `parameter`, `metric`) and its name. */
type ValueOf = (source: string, name: string) => string | number | undefined

/** Quoted texts, to skip over them, and the word that MLflow has before names of attributes. */
const attributeWords = /("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`)|\battributes?\./gi

/** @returns whether something matches, by its values. @throws HttpError `badRequest` that says where it cannot be read */
export function parseFilter(filter: string): (read: ValueOf) => boolean {
  const query = readFilter(filter.replace(attributeWords, (_, quoted: string | undefined) => quoted ?? ''))
  return (read) => matches(query, withAliases(read))
}

/** The parser has names of its own for some attributes of runs, also where the same word is an attribute of something else. */
const withAliases =
  (read: ValueOf): ValueOf =>
  (source, name) => {
    const aliases = source === 'attribute' ? (attributes[name]?.aliases ?? []) : []
    return [name, ...aliases].map((it) => read(source, it)).find((it) => it !== undefined)
  }

/** @throws HttpError `badRequest` */
export function readFilter(filter: string): Query {
  try {
    return parseQuery(filter)
  } catch (error) {
    if (!(error instanceof SearchError)) throw error
    throw new HttpError('badRequest', `filter, character ${error.at + 1}: ${error.message}`)
  }
}

function matches(query: Query, read: ValueOf): boolean {
  switch (query.is) {
    case 'and':
      return query.of.every((it) => matches(it, read))
    case 'or':
      return query.of.some((it) => matches(it, read))
    case 'not':
      return !matches(query.of, read)
    case 'has':
      return read(...placeOf(query.field)) !== undefined
    case 'word':
      return String(read('attribute', 'name') ?? '')
        .toLowerCase()
        .includes(query.text.toLowerCase())
    case 'test': {
      const value = read(...placeOf(query.field))
      return value !== undefined && passes(query, value) !== query.isNegated
    }
  }
}

/** The parser knows the attributes of runs by our names; any other name without a word before it is an attribute too. */
function placeOf({ source, name }: Test['field']): [source: string, name: string] {
  if (source === 'any') return ['attribute', name]
  return [source === 'other' ? 'tag' : source, name]
}

function passes({ operator, values }: Test, actual: string | number): boolean {
  return values.some((value) => {
    if (value.is === 'pattern') return value.matches(String(actual))
    const order = compare(actual, value)
    switch (operator) {
      case '<':
        return order < 0
      case '<=':
        return order <= 0
      case '>':
        return order > 0
      case '>=':
        return order >= 0
      default:
        return order === 0
    }
  })
}

/** By number where both are; NaN where they cannot be compared. */
function compare(actual: string | number, { text }: Value): number {
  if (typeof actual === 'number') return actual === Number(text) ? 0 : actual - Number(text)
  return actual === text ? 0 : actual < text ? -1 : 1
}

/**
 * Sorts by `field`, `field ASC` or `field DESC`, one after the other. What has no value comes last.
 *
 * @throws HttpError `badRequest`
 */
export function sortBy<T>(items: T[], order: string[], toValueOf: (item: T) => ValueOf): T[] {
  const keys = order.map(parseOrder)
  return items.toSorted((a, b) => {
    for (const { source, name, isDescending } of keys) {
      const [left, right] = [toValueOf(a)(source, name), toValueOf(b)(source, name)]
      if (left === right) continue
      if (left === undefined || right === undefined) return left === undefined ? 1 : -1
      return left < right === isDescending ? 1 : -1
    }
    return 0
  })
}

const sources: Record<string, string> = {
  metric: 'metric',
  param: 'parameter',
  parameter: 'parameter',
  tag: 'tag',
  attribute: 'attribute',
}

/** @throws HttpError `badRequest` */
export function parseOrder(written: string): { source: string; name: string; isDescending: boolean } {
  const found =
    /^\s*(?:(metric|param|parameter|tag|attribute)s?\.)?(?:`([^`]+)`|"([^"]+)"|(\S+?))(?:\s+(asc|desc))?\s*$/i.exec(
      written,
    )
  if (!found)
    throw new HttpError('badRequest', `order_by: expected a field, and ASC or DESC, found ${written.slice(0, 200)}`)
  const [, source = 'attribute', quoted, doubled, plain, direction] = found
  const name = (quoted ?? doubled ?? plain) as string
  return {
    source: sources[source.toLowerCase()] as string,
    name,
    isDescending: direction?.toLowerCase() === 'desc',
  }
}

/** A page of a list. A token is how many came before. @throws HttpError `badRequest` */
export function readTokenPage<T>(items: T[], token: string | undefined, size: number): { page: T[]; next?: string } {
  const from = parseOffset(token)
  const end = from + size
  return { page: items.slice(from, end), ...(end < items.length && { next: toOffsetToken(end) }) }
}

export const toOffsetToken = (offset: number) => Buffer.from(`from ${offset}`).toString('base64url')

/** @throws HttpError `badRequest` */
export function parseOffset(token: string | undefined): number {
  if (!token) return 0
  const offset = /^from (\d{1,12})$/.exec(Buffer.from(token, 'base64url').toString())?.[1]
  if (offset === undefined)
    throw new HttpError('badRequest', 'page_token: expected the next_page_token of an earlier answer')
  return Number(offset)
}
