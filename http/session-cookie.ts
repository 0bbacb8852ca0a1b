import type { IncomingHttpHeaders } from 'node:http'

/** Part of the name of every session cookie. */
export const sessionCookieName = 'svc_session'

type Name = { name: string; end?: string | undefined }

/**
 * The name of a cookie. Browsers send a cookie to every port of a host, so two services on one machine need two names: the
 * port is part of it when the address has one.
 */
function toFullName({ host }: IncomingHttpHeaders, { name, end }: Name): string {
  const port = /:(\d+)$/.exec(host ?? '')?.[1]
  return [name, port, end].filter((it) => it !== undefined).join('_')
}

/** A cookie of this service that a browser sends; undefined when it sends none of this name. */
export function readCookie(headers: IncomingHttpHeaders, name: Name): string | undefined {
  const { cookie } = headers
  if (!cookie?.includes(name.name)) return undefined
  const start = `${toFullName(headers, name)}=`
  for (const part of cookie.split(';')) {
    const pair = part.trim()
    if (pair.startsWith(start) && pair.length > start.length) return pair.slice(start.length)
  }
  return undefined
}

/** The session that a browser sends; undefined when it sends none. */
export const readSessionToken = (headers: IncomingHttpHeaders) => readCookie(headers, { name: sessionCookieName })

type Cookie = Name & {
  value: string
  /** Of what other sites lead to, a browser sends a cookie along only when it is lax. */
  sameSite: 'Strict' | 'Lax'
  maxAgeSeconds: number
  headers: IncomingHttpHeaders
  publicUrl: string | undefined
}

/** The header `Set-Cookie`. An age of 0 removes the cookie. */
export function toCookie({ value, sameSite, maxAgeSeconds, headers, publicUrl, ...name }: Cookie): string {
  const url = publicUrl === undefined ? undefined : new URL(publicUrl)
  const isSecure = url?.protocol === 'https:' || headers['x-forwarded-proto'] === 'https'
  // A proxy may serve other applications beside this one.
  const path = url?.pathname.replace(/(?<=.)\/$/, '') ?? '/'
  const parts = [
    `${toFullName(headers, name)}=${value}`,
    `Path=${path}`,
    `Max-Age=${maxAgeSeconds}`,
    'HttpOnly',
    `SameSite=${sameSite}`,
  ]
  return [...parts, ...(isSecure ? ['Secure'] : [])].join('; ')
}

type SessionCookie = Pick<Cookie, 'maxAgeSeconds' | 'headers' | 'publicUrl'> & { token: string }

/** The header `Set-Cookie` of a session. */
export const toSessionCookie = ({ token, ...cookie }: SessionCookie) =>
  toCookie({ ...cookie, name: sessionCookieName, value: token, sameSite: 'Strict' })
