import { hash } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { type Changes, createReadThroughCache } from '../runtime/read-through-cache.ts'
import { endedSession, HttpError } from './errors.ts'
import type { Caller } from './route.ts'
import { readSessionToken } from './session-cookie.ts'

/**
 * Finds the caller by the session of a browser, cached like a key. A browser sends the cookie by itself, also when a foreign
 * page makes it call. `SameSite=Strict` keeps it away from other sites, but not from other ports and subdomains. So a call that
 * may change something counts only if the browser says that a page of this very origin makes it (`Sec-Fetch-Site`). Over plain
 * HTTP to other hosts than this one, browsers send no such header; there our pages send one of their own, which a page of
 * another origin cannot add without a permission (CORS) that this service never gives.
 */
type SessionCaller = Caller & Required<Pick<Caller, 'session'>>

type Settings = {
  /** Looks a session up by the SHA-256 digest (hex) of its token. */
  findCaller(tokenHash: string): Promise<SessionCaller | undefined>
  /** Notifies of changed sessions, by the same digest. */
  changes?: Changes
  /** Called for each request with a valid session. */
  onCaller?(caller: Caller): void
}

/** Without notifications of changes, an ended session works for at most this long in a process that cached it. */
const freshForMs = 1_000
const sessionsMax = 10_000

/** The header by which our pages say that they make a call. */
const pageHeader = 'x-svc-page'

/** @throws HttpError `sessionEnded`, `crossSite` */
export function createSessionCheck({ findCaller, changes, onCaller }: Settings) {
  const lookUp = createReadThroughCache<SessionCaller, undefined>({
    find: findCaller,
    freshForMs: { found: freshForMs, absent: freshForMs },
    entriesMax: sessionsMax,
    changes,
  })

  function requireCaller(caller: SessionCaller | undefined): Caller {
    if (!caller || caller.session.expiresAtMs <= Date.now()) throw endedSession()
    onCaller?.(caller)
    return caller
  }

  /** Undefined for a request without a session. */
  return function checkSession(headers: IncomingHttpHeaders, mayChange: boolean): Caller | Promise<Caller> | undefined {
    const token = readSessionToken(headers)
    if (token === undefined) return undefined
    if (mayChange) requireSameOrigin(headers)
    const caller = lookUp(hash('sha256', token, 'hex'), undefined)
    return caller instanceof Promise ? caller.then(requireCaller) : requireCaller(caller)
  }
}

/** @throws HttpError `crossSite` unless a page of this very origin makes the call */
export function requireSameOrigin(headers: IncomingHttpHeaders) {
  const site = headers['sec-fetch-site']
  if (site === 'same-origin' || (site === undefined && headers[pageHeader] !== undefined)) return
  throw crossSite()
}

/** Signing in is refused to foreign pages too, or else they could make a reader work in their account; programs may do it. */
export function refuseForeignPages(headers: IncomingHttpHeaders) {
  const site = headers['sec-fetch-site']
  if (site !== undefined && site !== 'same-origin') throw crossSite()
}

function crossSite(): HttpError {
  return new HttpError(
    'crossSite',
    'A session may change something only from the pages of this service: call with an API key instead (header Authorization).',
  )
}
