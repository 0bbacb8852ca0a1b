import { hash } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { type Changes, createReadThroughCache } from '../runtime/read-through-cache.ts'
import { isMistyped } from '../store/postgres/accounts/api-key.ts'
import { HttpError, unknownKey } from './errors.ts'
import type { Caller } from './route.ts'

/** While changes of keys are not told, a revoked one works for at most this long in a process that remembers it. */
const freshForMs = 1_000
const keysMax = 50_000

type Settings = {
  /** Looks a key up by its SHA-256 digest (hex). */
  findCaller(keyHash: string): Promise<Caller | undefined>
  /** Tells which keys have changed, by the same digest. */
  changes?: Changes
  /** Notes that a caller did something. */
  onCaller?(caller: Caller): void
  /** Further header names that may carry a key, lower case. */
  authHeaders: string[]
}

/**
 * Tells who is calling. Keys are remembered until they change; when the store is away, those already known go on working,
 * so that ingest does not stop with Postgres. A key whose checksum is wrong is refused without asking the store.
 *
 * @throws HttpError `keyMissing`, `keyUnknown`
 */
export function createKeyCheck({ findCaller, changes, onCaller, authHeaders }: Settings) {
  const headerNames = ['authorization', ...authHeaders]
  const lookUp = createReadThroughCache<Caller, string>({
    // Of a key that is remembered the checksum is right: it is not asked again for every request.
    find: async (keyHash, key) => (isMistyped(key) ? undefined : await findCaller(keyHash)),
    freshForMs: { found: freshForMs, absent: freshForMs },
    entriesMax: keysMax,
    changes,
  })

  /** The fast path gives the same headers again for every request that has them. */
  const digests = new WeakMap<IncomingHttpHeaders, { key: string; digest: string }>()

  function digestKey(headers: IncomingHttpHeaders): { key: string; digest: string } {
    const known = digests.get(headers)
    if (known) return known
    const key = readKey(headers, headerNames)
    if (key === undefined) {
      throw new HttpError('keyMissing', 'No API key was sent: set the header "Authorization: <API key>".')
    }
    const digested = { key, digest: hash('sha256', key, 'hex') }
    digests.set(headers, digested)
    return digested
  }

  function requireCaller(caller: Caller | undefined): Caller {
    if (!caller) throw unknownKey()
    onCaller?.(caller)
    return caller
  }

  return function checkKey(headers: IncomingHttpHeaders): Caller | Promise<Caller> {
    const { key, digest } = digestKey(headers)
    const caller = lookUp(digest, key)
    return caller instanceof Promise ? caller.then(requireCaller) : requireCaller(caller)
  }
}

function readKey(headers: IncomingHttpHeaders, names: string[]): string | undefined {
  for (const name of names) {
    const value = headers[name]
    const text = (Array.isArray(value) ? value[0] : value)?.replace(/^bearer\s+/i, '').trim()
    if (text) return text
  }
  return undefined
}
