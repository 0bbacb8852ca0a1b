import { type Field, type Operator, type Part, parts, type Query, sourceWords, toAttributeName } from './query.ts'
import { type Expected, SearchError } from './search-error.ts'
import { type Token, toTokens } from './tokens.ts'
import { toValue } from './values.ts'

/*
 * The language of searches, which holds the filters of MLflow:
 *
 *   or    = and { "or" and }
 *   and   = not { ["and"] not }
 *   not   = ["not"] ( "(" or ")" | "has" field | test | word )
 *   test  = field operator value | field ["not"] "in" "(" value { "," value } ")" | field ["not"] ("like" | "ilike") value
 *   field = [source "."] name [":min" | ":max" | ":last"]
 *
 * A name or a text with other characters stands in quotes. Keywords ignore case.
 */

const charactersMax = 10_000
const testsMax = 100
const levelsMax = 50

const operatorWords: Record<string, { operator: Operator; isNegated: boolean }> = {
  '=': { operator: '=', isNegated: false },
  '==': { operator: '=', isNegated: false },
  '!=': { operator: '=', isNegated: true },
  '<>': { operator: '=', isNegated: true },
  '<': { operator: '<', isNegated: false },
  '<=': { operator: '<=', isNegated: false },
  '>': { operator: '>', isNegated: false },
  '>=': { operator: '>=', isNegated: false },
  '~': { operator: '~', isNegated: false },
  '=~': { operator: '~', isNegated: false },
  '!~': { operator: '~', isNegated: true },
}
const listed = '=, !=, <, <=, >, >=, ~, !~, like, ilike or in'

/**
 * Reads a query. An empty one asks for every run.
 *
 * @throws SearchError that says where it cannot be read, and what was expected there
 */
export function parseQuery(text: string): Query {
  if (text.length > charactersMax) {
    throw new SearchError(`must have ${charactersMax} characters or fewer`, {
      at: charactersMax,
      expected: { is: 'nothing' },
    })
  }
  const tokens = toTokens(text)
  let place = 0
  let tests = 0
  const peek = (ahead = 0) => tokens[Math.min(place + ahead, tokens.length - 1)] as Token
  const next = () => tokens[place++] as Token
  const isWord = (word: string, token = peek()) => token.is === 'plain' && token.text.toLowerCase() === word
  const refuse = (message: string): never => {
    throw new SearchError(message, { at: peek().from, expected: { is: 'nothing' } })
  }
  const fail = (message: string, token: Token, expected: Expected = { is: 'nothing' }): never => {
    const found = token.is === 'end' ? '' : `, found ${text.slice(token.from, Math.min(token.to, token.from + 40))}`
    throw new SearchError(`${message}${found}`, { at: token.from, expected })
  }

  function readOr(level: number): Query {
    if (level > levelsMax) refuse(`must be nested ${levelsMax} levels deep or less`)
    const of = [readAnd(level)]
    while (isWord('or')) {
      next()
      of.push(readAnd(level))
    }
    return of.length === 1 ? (of[0] as Query) : { is: 'or', of }
  }

  function readAnd(level: number): Query {
    const of = [readNot(level)]
    for (;;) {
      if (isWord('and')) next()
      else if (peek().is === 'end' || peek().is === ')' || isWord('or')) break
      of.push(readNot(level))
    }
    return of.length === 1 ? (of[0] as Query) : { is: 'and', of }
  }

  function readNot(level: number): Query {
    if (!isWord('not')) return readTerm(level)
    if (level > levelsMax) refuse(`must be nested ${levelsMax} levels deep or less`)
    next()
    return { is: 'not', of: readNot(level + 1) }
  }

  function readTerm(level: number): Query {
    if (++tests > testsMax) refuse(`must have ${testsMax} tests or fewer`)
    const first = peek()
    if (first.is === '(') {
      next()
      const inner = readOr(level + 1)
      if (peek().is !== ')') fail('expected ) here', peek())
      next()
      return inner
    }
    if (isWord('has') && isOperand(peek(1))) {
      next()
      return { is: 'has', field: readField() }
    }
    if (isWord('has') && peek(1).is === 'end') fail('expected the name of a field after has', peek(1), { is: 'field' })
    if (!isOperand(first) || isWord('and') || isWord('or')) {
      fail('expected a test such as metric.loss < 0.1, or a word', first, { is: 'term' })
    }
    const begin = place
    const field = readField()
    const test = readTest(field)
    if (test) return test
    if (sourceOf(first) && field.source !== 'any') {
      const name = text.slice(first.from, peek(-1).to)
      fail(`expected ${listed} after ${name}`, peek(), { is: 'operator', field })
    }
    place = begin
    return { is: 'word', text: next().text }
  }

  function readTest(field: Field): Query | undefined {
    const token = peek()
    const isNegated = isWord('not') && ['in', 'like', 'ilike'].some((it) => isWord(it, peek(1)))
    if (isNegated) next()
    if (isWord('in')) return readList(field, isNegated)
    for (const operator of ['like', 'ilike'] as const) {
      if (isWord(operator)) {
        next()
        return { is: 'test', field, operator, isNegated, values: [readValue(field, operator)] }
      }
    }
    const found = token.is === 'operator' && operatorWords[token.text]
    if (!found) return undefined
    next()
    if (found.operator === '=' && isWord('null')) {
      next()
      return found.isNegated ? { is: 'has', field } : { is: 'not', of: { is: 'has', field } }
    }
    return { is: 'test', field, ...found, values: [readValue(field, found.operator)] }
  }

  function readList(field: Field, isNegated: boolean): Query {
    next()
    if (peek().is !== '(') fail('expected ( after in', peek())
    next()
    const values = [readValue(field, 'in')]
    while (peek().is === ',') {
      next()
      values.push(readValue(field, 'in'))
    }
    if (peek().is !== ')') fail('expected , or ) here', peek())
    next()
    return { is: 'test', field, operator: 'in', isNegated, values }
  }

  function readValue(field: Field, operator: Operator) {
    const token = peek()
    const expected: Expected = { is: 'value', field }
    if (!isOperand(token)) fail(`expected a value after ${peek(-1).text}, such as 0.1 or "adam"`, token, expected)
    const value = toValue(token, operator)
    if (typeof value === 'string') return fail(`${token.text} ${value}`, token, expected)
    next()
    return value
  }

  function readField(): Field {
    const first = next()
    const source = sourceOf(first)
    let name = first.text
    let of: Part | undefined
    if (source !== undefined) {
      name = first.text.slice(first.text.indexOf('.') + 1)
      if (name === '') {
        const quoted = peek()
        if (quoted.is !== 'quoted' || quoted.from !== first.to) {
          fail(`expected a name after ${first.text}`, { ...first, from: first.to, is: 'end' }, { is: 'field' })
        }
        name = next().text
      }
    }
    const isQuoted = peek(-1).is === 'quoted'
    const after = peek()
    if (isQuoted && after.is === 'plain' && after.from === peek(-1).to && toPart(after.text.slice(1))) {
      if (after.text.startsWith(':')) of = toPart(next().text.slice(1))
    } else if (!isQuoted) {
      const colon = name.lastIndexOf(':')
      of = colon > 0 ? toPart(name.slice(colon + 1)) : undefined
      if (of) name = name.slice(0, colon)
    }
    return toField(source, name, of, first)
  }

  function toField(source: Field['source'] | undefined, name: string, of: Part | undefined, token: Token): Field {
    const attribute = toAttributeName(name)
    if (source === 'attribute' || (source === undefined && attribute !== undefined && token.is === 'plain')) {
      if (attribute === undefined) return fail(`there is no attribute ${name}`, token, { is: 'field' })
      return { source: 'attribute', name: attribute, of: 'last' }
    }
    if (of && source !== 'metric' && source !== undefined) fail(`:${of} is of metrics`, token)
    return { source: source ?? (of ? 'metric' : 'any'), name, of: of ?? 'last' }
  }

  if (peek().is === 'end') return { is: 'and', of: [] }
  const query = readOr(0)
  if (peek().is !== 'end') fail('expected and, or, or the end', peek())
  return query
}

const isOperand = (token: Token) => token.is === 'plain' || token.is === 'quoted'

function sourceOf(token: Token) {
  const dot = token.text.indexOf('.')
  return token.is === 'plain' && dot > 0 ? sourceWords.get(token.text.slice(0, dot).toLowerCase()) : undefined
}

const toPart = (text: string) => parts.find((it) => it === text.toLowerCase())
