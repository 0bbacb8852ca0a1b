import type { IncomingHttpHeaders } from 'node:http'
import { HttpError } from '../../http/errors.ts'
import type { Caller } from '../../http/route.ts'
import { refuseForeignPages } from '../../http/session-check.ts'
import { toSessionCookie } from '../../http/session-cookie.ts'
import type { CountSignIn } from '../../http/sign-in/sign-ins.ts'
import { type OpenedSession, openSession, openSessionByLink } from '../../store/postgres/accounts/sessions.ts'
import type { Database } from '../../store/postgres/database.ts'
import { Throttled } from '../../throttle/throttle.ts'

type Settings = {
  database: Database
  /** Finds the caller of a key; fails when nobody has it. */
  checkKey(headers: IncomingHttpHeaders): Caller | Promise<Caller>
  /** Charges the key for one call that changes something. */
  chargeCall(caller: Caller): Promise<unknown>
  /** The path of this address, and whether it has TLS, are the cookie's. */
  publicUrl: string | undefined
  sessionDays: number
  countSignIn: CountSignIn
}

const daySeconds = 24 * 3_600

/** Opens sessions of browsers: with a key, or with a link that works once. */
export function createSignIn(settings: Settings) {
  const { database, checkKey, chargeCall, publicUrl, sessionDays: lastsDays, countSignIn } = settings
  const toCookie = (headers: IncomingHttpHeaders, token: string, days: number) =>
    toSessionCookie({ token, maxAgeSeconds: days * daySeconds, headers, publicUrl })
  const toSession = (headers: IncomingHttpHeaders) => ({ userAgent: headers['user-agent'] ?? '', lastsDays })

  async function admit(apiKey: string, headers: IncomingHttpHeaders): Promise<Caller> {
    try {
      refuseForeignPages(headers)
      const caller = await checkKey({ authorization: apiKey })
      await chargeCall(caller)
      return caller
    } catch (error) {
      if (error instanceof HttpError || error instanceof Throttled) countSignIn('key', 'refused')
      throw error
    }
  }

  return {
    /** Opens a session for the owner of a key. */
    async withKey(apiKey: string, headers: IncomingHttpHeaders): Promise<SignedIn> {
      const caller = await admit(apiKey, headers)
      const opened = await openSession(database, caller, toSession(headers))
      countSignIn('key', 'opened')
      const { sessionId: id, expiresAtMs } = opened
      return {
        opened,
        caller: { ...caller, session: { id, expiresAtMs } },
        cookie: toCookie(headers, opened.token, lastsDays),
      }
    },

    /** The cookie of a session that a link opened; undefined when the link was used, or is too old. */
    async withLink(token: string, headers: IncomingHttpHeaders): Promise<string | undefined> {
      const opened = await openSessionByLink(database, token, toSession(headers))
      countSignIn('link', opened ? 'opened' : 'refused')
      return opened && toCookie(headers, opened.token, lastsDays)
    },

    /** A cookie that takes the place of the session's, and is gone at once. */
    noCookie: (headers: IncomingHttpHeaders) => toCookie(headers, '', 0),
  }
}

type SignedIn = { opened: OpenedSession; caller: Caller; cookie: string }

export type SignIn = ReturnType<typeof createSignIn>
