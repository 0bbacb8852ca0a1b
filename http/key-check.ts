import { hash } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { type Changes, createReadThroughCache } from '../runtime/read-through-cache.ts'
import { isMistyped } from '../store/postgres/accounts/api-key.ts'
import { endedKey, HttpError, unknownKey } from './errors.ts'
import type { Caller } from './route.ts'

/** Without notifications of changes, a revoked key works for at most this long in a process that cached it. */
const freshForMs = 1_000
const keysMax = 50_000

type Settings = {
  /** Looks a key up by its SHA-256 digest (hex). */
  findCaller(keyHash: string): Promise<Caller | undefined>
  /** Notifies of changed keys, by the same digest. */
  changes?: Changes
  /** Called for each request with a valid key. */
  onCaller?(caller: Caller): void
  /** Further header names that may carry a key, lower case. */
  authHeaders: string[]
}

/**
 * Finds the caller by the API key. Keys are cached until they change; when Postgres is down, cached keys still work, so that
 * ingest goes on. A key with a wrong checksum is rejected without a query.
 *
 * @throws HttpError `keyMissing`, `keyUnknown`, `keyEnded`
 */
export function createKeyCheck({ findCaller, changes, onCaller, authHeaders }: Settings) {
  const headerNames = ['authorization', ...authHeaders]
  const lookUp = createReadThroughCache<Caller, string>({
    // Here, and not for every request: a cached key has the right checksum.
    find: async (keyHash, key) => (isMistyped(key) ? undefined : await findCaller(keyHash)),
    freshForMs: { found: freshForMs, absent: freshForMs },
    entriesMax: keysMax,
    changes,
  })

  /** The fast path passes the same object for equal headers, so each key is hashed once. */
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
    const { keyExpiresAtMs } = caller
    if (keyExpiresAtMs !== null && keyExpiresAtMs <= Date.now()) throw endedKey(keyExpiresAtMs)
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
    const key = text && /^basic\s/i.test(text) ? readPassword(text) : text
    if (key) return key
  }
  return undefined
}

/** The password of `Basic` is the key; the user is anything. */
function readPassword(header: string): string {
  const pair = Buffer.from(header.replace(/^basic\s+/i, ''), 'base64').toString()
  return pair.slice(pair.indexOf(':') + 1).trim()
}

export type KeyCheck = ReturnType<typeof createKeyCheck>
