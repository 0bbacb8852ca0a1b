import type { IncomingHttpHeaders } from 'node:http'

/** Part of the name of every session cookie. */
export const sessionCookieName = 'svc_session'

/**
 * The name of the cookie. Browsers send a cookie to every port of a host, so two services on one machine need two names: the
 * port is part of it when the address has one.
 */
function toName({ host }: IncomingHttpHeaders): string {
  const port = /:(\d+)$/.exec(host ?? '')?.[1]
  return port === undefined ? sessionCookieName : `${sessionCookieName}_${port}`
}

/** The session that a browser sends; undefined when it sends none. */
export function readSessionToken(headers: IncomingHttpHeaders): string | undefined {
  const { cookie } = headers
  if (!cookie?.includes(sessionCookieName)) return undefined
  const start = `${toName(headers)}=`
  for (const part of cookie.split(';')) {
    const pair = part.trim()
    if (pair.startsWith(start) && pair.length > start.length) return pair.slice(start.length)
  }
  return undefined
}

type Cookie = { token: string; maxAgeSeconds: number; headers: IncomingHttpHeaders; publicUrl: string | undefined }

/** The header `Set-Cookie`. An age of 0 removes the cookie. */
export function toSessionCookie({ token, maxAgeSeconds, headers, publicUrl }: Cookie): string {
  const url = publicUrl === undefined ? undefined : new URL(publicUrl)
  const isSecure = url?.protocol === 'https:' || headers['x-forwarded-proto'] === 'https'
  // A proxy may serve other applications beside this one.
  const path = url?.pathname.replace(/(?<=.)\/$/, '') ?? '/'
  const parts = [
    `${toName(headers)}=${token}`,
    `Path=${path}`,
    `Max-Age=${maxAgeSeconds}`,
    'HttpOnly',
    'SameSite=Strict',
  ]
  return [...parts, ...(isSecure ? ['Secure'] : [])].join('; ')
}
