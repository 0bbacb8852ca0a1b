import { createHash, timingSafeEqual } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import ipaddr from 'ipaddr.js'
import { mapMaybeAsync } from '../../runtime/map-maybe-async.ts'
import { createReadThroughCache } from '../../runtime/read-through-cache.ts'
import { HttpError } from '../errors.ts'
import type { Caller } from '../route.ts'
import { requireSameOrigin } from '../session-check.ts'

/**
 * Finds the caller by the headers of a reverse proxy that has signed the person in. They count only from a proxy that the settings
 * name by its address, or that sends a shared secret; with both settings both are needed. Whoever else sends them is as if the
 * headers were not there. The person is looked up for each request, so a browser in which another person signs in at the proxy
 * is that person's at once.
 *
 * A browser is signed in at the proxy by a cookie, so foreign pages are kept out as they are for sessions.
 */
export type ProxySignIn = {
  ranges: [ipaddr.IPv4 | ipaddr.IPv6, number][]
  secret: string | undefined
  /** Names in lower case. */
  headers: { secret: string; user: string; name: string; email: string; groups: string }
  /** True when the proxy passes on verified mail addresses only. */
  isEmailVerified: boolean
}

/** What the headers say. */
export type ProxyIdentity = { subject: string; userName: string; email: string | undefined; groups: string[] }

type Settings = ProxySignIn & {
  /** The account of the person, or why there is none. */
  findCaller(identity: ProxyIdentity): Promise<Caller | { refusal: string }>
  /** Called for each request with a caller. */
  onCaller?(caller: Caller): void
}

/** How long what was found for a person is used. */
const freshForMs = 1_000
const peopleMax = 10_000
const charactersMax = 1_000
const groupsMax = 2_000

export type ProxyCheck = ReturnType<typeof createProxyCheck>

/** @throws HttpError `identityUnknown`, `crossSite`, `badRequest` */
export function createProxyCheck(settings: Settings) {
  const { ranges, secret, headers: names, findCaller, onCaller } = settings
  const secretDigest = secret === undefined ? undefined : digest(secret)
  const lookUp = createReadThroughCache<Caller | { refusal: string }, ProxyIdentity>({
    find: (_id, identity) => findCaller(identity),
    freshForMs: { found: freshForMs, absent: freshForMs },
    entriesMax: peopleMax,
  })

  function isTrusted({ raw, headers }: FastifyRequest): boolean {
    if (ranges.length > 0 && !isInRanges(raw.socket.remoteAddress, ranges)) return false
    if (secretDigest === undefined) return ranges.length > 0
    const given = headers[names.secret]
    return typeof given === 'string' && timingSafeEqual(digest(given), secretDigest)
  }

  /** The one value of a header. Two would be one of the proxy and one of its client. */
  function readHeader({ raw }: FastifyRequest, name: string): string | undefined {
    const values = raw.headersDistinct[name] ?? []
    if (values.length > 1)
      throw new HttpError('badRequest', `The header ${name} came twice: the proxy must replace it.`)
    // Node reads bytes as Latin-1; proxies send UTF-8.
    const text = values[0] === undefined ? '' : Buffer.from(values[0], 'latin1').toString().trim()
    if (text.length > charactersMax && name !== names.groups) {
      throw new HttpError('badRequest', `The header ${name} has more than ${charactersMax} characters.`)
    }
    return text === '' ? undefined : text
  }

  function readIdentity(request: FastifyRequest): ProxyIdentity | undefined {
    const subject = readHeader(request, names.user)
    if (subject === undefined) return undefined
    const groups = (readHeader(request, names.groups) ?? '').split(',').map((it) => it.trim())
    return {
      subject,
      userName: readHeader(request, names.name) ?? subject,
      email: readHeader(request, names.email),
      groups: [...new Set(groups.filter(Boolean))].slice(0, groupsMax),
    }
  }

  function requireCaller(found: Caller | { refusal: string } | undefined): Caller {
    if (!found || 'refusal' in found) {
      throw new HttpError(
        'identityUnknown',
        found?.refusal ?? 'The proxy signs you in, but this service does not know you.',
      )
    }
    onCaller?.(found)
    return found
  }

  /** Undefined for a request that no trusted proxy has signed somebody in for. */
  return function checkProxy(request: FastifyRequest, mayChange: boolean): Caller | Promise<Caller> | undefined {
    if (request.headers[names.user] === undefined || !isTrusted(request)) return undefined
    const identity = readIdentity(request)
    if (identity === undefined) return undefined
    if (mayChange) requireSameOrigin(request.headers)
    return mapMaybeAsync(lookUp(digest(JSON.stringify(identity)).toString('base64'), identity), requireCaller)
  }
}

const digest = (text: string) => createHash('sha256').update(text).digest()

function isInRanges(text: string | undefined, ranges: ProxySignIn['ranges']): boolean {
  if (text === undefined || !ipaddr.isValid(text)) return false
  // A socket for both families has IPv4 addresses inside IPv6 ones.
  const address = ipaddr.process(text)
  return ranges.some((range) => address.kind() === range[0].kind() && address.match(range as [ipaddr.IPv4, number]))
}
