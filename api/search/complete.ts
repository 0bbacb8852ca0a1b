import { parseQuery } from '../../store/search/parse.ts'
import { attributes, type Field, type Source, sourceWords } from '../../store/search/query.ts'
import { type Expected, SearchError } from '../../store/search/search-error.ts'
import { quote, toTokens, toWritten } from '../../store/search/tokens.ts'

/** A name that the runs of a project have. */
export type KnownName = { source: 'parameter' | 'other' | 'metric'; name: string }

type Suggestion = { text: string; is: 'field' | 'operator' | 'value' | 'word' }

/** What may replace the text from `from` to `to`. */
export type Completion = { from: number; to: number; suggestions: Suggestion[] }

type Known = {
  names: KnownName[]
  /** What runs have of a field, the most frequent first. */
  findValues(field: Field): Promise<string[]>
}

const suggestionsMax = 20
const operatorTexts = ['=', '!=', '<', '<=', '>', '>=', '~', '!~', 'in (', 'like', 'ilike']
const written = { parameter: 'param', other: 'other', metric: 'metric' } as const

/** What may stand at a place of a query that is being written, and begins as what is there already. */
export async function complete(text: string, at: number, { names, findValues }: Known): Promise<Completion> {
  const before = text.slice(0, at)
  const from = beginOf(before)
  const partial = before.slice(from)
  const head = before.slice(0, from)
  const rest = /^[^\s"'`(),=!<>~]*/.exec(text.slice(at))?.[0] ?? ''
  const found: Suggestion[] = []
  for (const expected of expectedAfter(head)) {
    if (expected.is === 'value') found.push(...(await findValues(expected.field)).map(toValueSuggestion))
    else found.push(...suggest(expected, names))
  }
  return { from, to: at + rest.length, suggestions: rank(found, partial.replaceAll(/["'`]/g, '')) }
}

/** Where the name or value begins that is being written at the end of a text. */
function beginOf(before: string): number {
  const plain = (text: string) => text.length - (/[^\s"'`(),=!<>~]*$/.exec(text)?.[0].length ?? 0)
  try {
    toTokens(before)
    return plain(before)
  } catch (error) {
    // A quote that is not closed yet, perhaps after `param.`.
    if (error instanceof SearchError) return before[error.at - 1] === '.' ? plain(before.slice(0, error.at)) : error.at
    throw error
  }
}

const toValueSuggestion = (value: string): Suggestion => ({
  text: /^[\w./-]+$/.test(value) && !/^(and|or|not|null|true|false)$/i.test(value) ? value : quote(value),
  is: 'value',
})

function expectedAfter(head: string): Expected[] {
  // A list that goes on expects another value of its field.
  const list = /^(.*)\bin\s*\([^()]*$/is.exec(head)
  if (list && /[(,]\s*$/.test(head)) return expectedAt(`${list[1]} = `)
  return expectedAt(head)
}

function expectedAt(head: string): Expected[] {
  try {
    parseQuery(closed(head))
    return [{ is: 'term' }, { is: 'nothing' }, ...afterName(head)]
  } catch (error) {
    if (!(error instanceof SearchError)) throw error
    return error.at >= head.trimEnd().length ? [error.expected] : []
  }
}

/** A word may be the name of a field whose test is still to come. */
function afterName(head: string): Expected[] {
  try {
    parseQuery(closed(`${head} =`))
    return []
  } catch (error) {
    const expected = error instanceof SearchError ? error.expected : undefined
    return expected?.is === 'value' ? [{ is: 'operator', field: expected.field }] : []
  }
}

/** With the parentheses that are still to be closed. */
function closed(head: string): string {
  const plain = head.replaceAll(/"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`/gs, '')
  const open = (plain.match(/\(/g)?.length ?? 0) - (plain.match(/\)/g)?.length ?? 0)
  return /\(\s*$/.test(head) || open <= 0 ? head : `${head}${')'.repeat(open)}`
}

function suggest(expected: Expected, names: KnownName[]): Suggestion[] {
  switch (expected.is) {
    case 'operator':
      return operatorTexts.map((text) => ({ text, is: 'operator' }))
    case 'nothing':
      return ['and', 'or'].map((text) => ({ text, is: 'word' }))
    case 'field':
      return toFields(names)
    case 'term':
      return [...toFields(names), ...['not', 'has', '('].map((text): Suggestion => ({ text, is: 'word' }))]
    case 'value':
      return []
  }
}

const toFields = (names: KnownName[]): Suggestion[] => [
  ...Object.keys(attributes).map((text): Suggestion => ({ text, is: 'field' })),
  ...names.map(({ source, name }): Suggestion => ({ text: `${written[source]}.${toWritten(name)}`, is: 'field' })),
]

/** What begins like the text stands before what only contains it; without the word before its dot, too. */
function rank(suggestions: Suggestion[], partial: string): Suggestion[] {
  const wanted = toComparable(partial)
  const places = suggestions.flatMap((it) => {
    const text = toComparable(it.text)
    const name = text.slice(text.indexOf('.') + 1)
    const place = [text.startsWith(wanted), name.startsWith(wanted), text.includes(wanted)].indexOf(true)
    return place === -1 || (wanted !== '' && it.is === 'word' && place > 0) ? [] : [{ it, place }]
  })
  return places
    .sort((a, b) => a.place - b.place)
    .slice(0, suggestionsMax)
    .map(({ it }) => it)
}

function toComparable(text: string): string {
  const plain = text.toLowerCase().replaceAll(/["'`]/g, '')
  const dot = plain.indexOf('.')
  const source: Source | undefined = dot > 0 ? sourceWords.get(plain.slice(0, dot)) : undefined
  return source ? `${source}${plain.slice(dot)}` : plain
}
