import { SearchError } from './search-error.ts'

/** A piece of a query. `text` of a quoted one is without its quotes. Places are in UTF-16 units. */
export type Token = {
  is: 'plain' | 'quoted' | 'operator' | '(' | ')' | ',' | 'end'
  text: string
  from: number
  to: number
}

const patterns = {
  space: /\s+/y,
  operator: /<>|<=|>=|==|!=|!~|=~|[=<>~]/y,
  mark: /[(),]/y,
  quoted: /"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`/sy,
  plain: /[^\s"'`(),=!<>~]+/y,
}

/** @throws SearchError at a quote that is never closed */
export function toTokens(text: string): Token[] {
  const tokens: Token[] = []
  for (let at = 0; at < text.length; ) {
    const take = (pattern: RegExp) => {
      pattern.lastIndex = at
      return pattern.exec(text)?.[0]
    }
    const space = take(patterns.space)
    if (space) {
      at += space.length
      continue
    }
    const found =
      given('operator', take(patterns.operator)) ??
      given('mark', take(patterns.mark)) ??
      given('quoted', take(patterns.quoted)) ??
      given('plain', take(patterns.plain))
    if (!found) throw new SearchError(refusal(text[at] as string), { at, expected: { is: 'nothing' } })
    const { kind, raw } = found
    const is = kind === 'mark' ? (raw as '(' | ')' | ',') : kind
    tokens.push({ is, text: kind === 'quoted' ? unquote(raw) : raw, from: at, to: at + raw.length })
    at += raw.length
  }
  tokens.push({ is: 'end', text: '', from: text.length, to: text.length })
  return tokens
}

const given = <Kind extends string>(kind: Kind, raw: string | undefined) =>
  raw === undefined ? undefined : { kind, raw }

const refusal = (character: string) =>
  character === '!' ? 'expected != or !~ here' : `the quote ${character} is never closed`

const unquote = (raw: string) =>
  raw.startsWith('`') ? raw.slice(1, -1) : raw.slice(1, -1).replace(/\\(["'\\])/g, '$1')

/** A name or a text as it stands in a query: quoted where it would be read as something else. */
export function toWritten(text: string): string {
  patterns.plain.lastIndex = 0
  const isPlain = patterns.plain.exec(text)?.[0] === text && !/:(min|max|last)$/i.test(text)
  return isPlain ? text : quote(text)
}

export const quote = (text: string) => `"${text.replace(/["\\]/g, '\\$&')}"`
