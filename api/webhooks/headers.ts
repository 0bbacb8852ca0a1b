import { isStorable } from '../../http/body/fields.ts'

const headersMax = 50
const nameCharactersMax = 200
const valueCharactersMax = 8_000

const secretRefName = 'authorization-org-secret-ref'

/** Headers that the sender sets itself or that change how the request is read. */
const reserved =
  /^(host|connection|keep-alive|te|trailer|transfer-encoding|upgrade|expect|content-(length|type|encoding)|proxy-.*|webhook-.*|:.*)$/

type Headers = { headers: Record<string, string>; secretRef?: string | undefined }

/**
 * Splits the headers of a receiver from its reference to a secret; or returns an error message, which never has a header
 * value.
 */
export function parseHeaders(given: Record<string, unknown>): Headers | { error: string } {
  const entries = Object.entries(given).filter((it): it is [string, string] => it[1] != null)
  if (entries.length > headersMax) return { error: `must have ${headersMax} entries or fewer` }
  const names = entries.map(([name]) => name.toLowerCase())
  const twice = names.find((name, at) => names.indexOf(name) < at)
  if (twice !== undefined) return { error: `${twice} is there twice` }
  if (names.includes('authorization') && names.includes(secretRefName)) {
    return { error: 'holds Authorization and Authorization-Org-Secret-Ref: send one of them' }
  }
  for (const [name, value] of entries) {
    if (!/^[!#$%&'*+.^_`|~0-9a-z-]+$/i.test(name) || name.length > nameCharactersMax) {
      return { error: 'holds a name that no header can have' }
    }
    if (reserved.test(name.toLowerCase())) return { error: `${name} is set by the service` }
    if (value.length > valueCharactersMax)
      return { error: `${name} must have ${valueCharactersMax} characters or fewer` }
    const isReference = name.toLowerCase() === secretRefName
    if (isReference && (value === '' || value.length > 200 || !isStorable(value))) {
      return { error: `${name} must be the name of a secret` }
    }
    if (!isReference && !/^[\t\x20-\x7e]*$/.test(value))
      return { error: `${name} must have visible ASCII characters only` }
  }
  const isReference = ([name]: [string, string]) => name.toLowerCase() === secretRefName
  return {
    headers: Object.fromEntries(entries.filter((it) => !isReference(it))),
    secretRef: entries.find(isReference)?.[1],
  }
}
