import { hash } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { Refusal } from './errors.ts'
import { createLookup } from './lookup.ts'
import type { Caller } from './route.ts'

/** A key that was revoked works for at most this long in a process that has it cached. */
const freshForMs = 1_000
const keysMax = 50_000

type Settings = {
  /** Looks a key up by its SHA-256 digest (hex). */
  findCaller(keyHash: string): Promise<Caller | undefined>
  /** Further header names that may carry a key, lower case. */
  authHeaders: string[]
}

/**
 * Tells who is calling. Keys are remembered for a second; when the store is away, those already known go on working, so
 * that ingest does not stop with Postgres.
 *
 * @throws Refusal `keyMissing`, `keyUnknown`
 */
export function createKeyCheck({ findCaller, authHeaders }: Settings) {
  const headerNames = ['authorization', ...authHeaders]
  const lookUp = createLookup<Caller, undefined>({
    find: findCaller,
    freshForMs: { found: freshForMs, absent: freshForMs },
    entriesMax: keysMax,
  })

  return function checkKey(headers: IncomingHttpHeaders): Caller | Promise<Caller> {
    const key = readKey(headers, headerNames)
    if (key === undefined) {
      throw new Refusal('keyMissing', 'No API key was sent: set the header "Authorization: <API key>".')
    }
    const caller = lookUp(hash('sha256', key, 'hex'), undefined)
    return caller instanceof Promise ? caller.then(requireCaller) : requireCaller(caller)
  }
}

function requireCaller(caller: Caller | undefined): Caller {
  if (!caller) throw new Refusal('keyUnknown', 'This API key is not registered.')
  return caller
}

function readKey(headers: IncomingHttpHeaders, names: string[]): string | undefined {
  for (const name of names) {
    const value = headers[name]
    const text = (Array.isArray(value) ? value[0] : value)?.replace(/^bearer\s+/i, '').trim()
    if (text) return text
  }
  return undefined
}
