import { isStorable } from '../../http/body/fields.ts'

const headersMax = 50
const nameCharactersMax = 200
const valueCharactersMax = 8_000

const secretRefName = 'authorization-org-secret-ref'

/** What the sender sets by itself, and what would change how the request is understood. */
const reserved =
  /^(host|connection|keep-alive|te|trailer|transfer-encoding|upgrade|expect|content-(length|type|encoding)|proxy-.*|webhook-.*|:.*)$/

type Headers = { headers: Record<string, string>; secretRef?: string | undefined }

/**
 * The headers of a receiver, apart from the reference to a secret of the organization; or what is wrong with them, in words
 * that hold no value.
 */
export function parseHeaders(given: Record<string, unknown>): Headers | { fault: string } {
  const entries = Object.entries(given).filter((it): it is [string, string] => it[1] != null)
  if (entries.length > headersMax) return { fault: `must have ${headersMax} entries or fewer` }
  const names = entries.map(([name]) => name.toLowerCase())
  const twice = names.find((name, at) => names.indexOf(name) < at)
  if (twice !== undefined) return { fault: `${twice} is there twice` }
  if (names.includes('authorization') && names.includes(secretRefName)) {
    return { fault: 'holds Authorization and Authorization-Org-Secret-Ref: send one of them' }
  }
  for (const [name, value] of entries) {
    if (!/^[!#$%&'*+.^_`|~0-9a-z-]+$/i.test(name) || name.length > nameCharactersMax) {
      return { fault: 'holds a name that no header can have' }
    }
    if (reserved.test(name.toLowerCase())) return { fault: `${name} is set by the service` }
    if (value.length > valueCharactersMax)
      return { fault: `${name} must have ${valueCharactersMax} characters or fewer` }
    const isReference = name.toLowerCase() === secretRefName
    if (isReference && (value === '' || value.length > 200 || !isStorable(value))) {
      return { fault: `${name} must be the name of a secret` }
    }
    if (!isReference && !/^[\t\x20-\x7e]*$/.test(value))
      return { fault: `${name} must have visible ASCII characters only` }
  }
  const isReference = ([name]: [string, string]) => name.toLowerCase() === secretRefName
  return {
    headers: Object.fromEntries(entries.filter((it) => !isReference(it))),
    secretRef: entries.find(isReference)?.[1],
  }
}
