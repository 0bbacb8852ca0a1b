import type { IncomingHttpHeaders } from 'node:http'
import type { Caller } from '../../http/route.ts'
import { refuseForeignPages } from '../../http/session-check.ts'
import { toSessionCookie } from '../../http/session-cookie.ts'
import { type OpenedSession, openSession, openSessionByLink } from '../../store/postgres/accounts/sessions.ts'
import type { Database } from '../../store/postgres/database.ts'

type Settings = {
  database: Database
  /** Finds the caller of a key; fails when nobody has it. */
  checkKey(headers: IncomingHttpHeaders): Caller | Promise<Caller>
  /** Charges the key for one call that changes something. */
  chargeCall(caller: Caller): Promise<unknown>
  /** The path of this address, and whether it has TLS, are the cookie's. */
  publicUrl: string | undefined
  sessionDays: number
}

const daySeconds = 24 * 3_600

/** Opens sessions of browsers: with a key, or with a link that works once. */
export function createSignIn({ database, checkKey, chargeCall, publicUrl, sessionDays: lastsDays }: Settings) {
  const toCookie = (headers: IncomingHttpHeaders, token: string, days: number) =>
    toSessionCookie({ token, maxAgeSeconds: days * daySeconds, headers, publicUrl })
  const toSession = (headers: IncomingHttpHeaders) => ({ userAgent: headers['user-agent'] ?? '', lastsDays })

  return {
    /** Opens a session for the owner of a key. */
    async withKey(apiKey: string, headers: IncomingHttpHeaders): Promise<SignedIn> {
      refuseForeignPages(headers)
      const caller = await checkKey({ authorization: apiKey })
      await chargeCall(caller)
      const opened = await openSession(database, caller, toSession(headers))
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
      return opened && toCookie(headers, opened.token, lastsDays)
    },

    /** A cookie that takes the place of the session's, and is gone at once. */
    noCookie: (headers: IncomingHttpHeaders) => toCookie(headers, '', 0),
  }
}

type SignedIn = { opened: OpenedSession; caller: Caller; cookie: string }

export type SignIn = ReturnType<typeof createSignIn>
