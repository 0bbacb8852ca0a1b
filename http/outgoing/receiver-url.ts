import { isIP } from 'node:net'
import { isPublicAddress } from './public-address.ts'

/** The most that fits into an index of Postgres together with the name of a model. */
const charactersMax = 1_500

/** Private receivers that a setting allows: `host` for all its ports, or `host:port`. */
export type PrivateHosts = Pick<ReadonlySet<string>, 'has'>

/** For looking up a stored URL: nothing connects to it. */
export const anyHost: PrivateHosts = { has: () => true }

/** The normalized URL of a receiver, or an error message. */
export type ReceiverUrl = { url: string } | { error: string }

/**
 * Parses and normalizes the URL of a receiver: octal and hexadecimal numbers, other scripts, capitals, a trailing dot, the
 * default port. It rejects private addresses. The address behind a name is checked when the service connects to it.
 */
export function parseReceiverUrl(text: string, privateHosts: PrivateHosts): ReceiverUrl {
  if (!URL.canParse(text)) return { error: 'is not a URL: send one like https://example.com/hook' }
  const url = new URL(text)
  if (url.protocol !== 'https:') return { error: 'must begin with https://' }
  if (url.username !== '' || url.password !== '') {
    return { error: 'must not hold a user or password: send them in header.Authorization' }
  }
  if (url.hostname.endsWith('.')) url.hostname = url.hostname.slice(0, -1)
  if (url.hostname.endsWith('.') || url.hostname.includes('%')) return { error: 'has an invalid host' }
  if (url.port === '0') return { error: 'has an invalid port' }
  url.hash = ''
  if (url.href.length > charactersMax) return { error: `must have ${charactersMax} characters or fewer` }
  if (!isAllowedPrivate(url, privateHosts) && isKnownPrivate(toHost(url))) {
    return { error: 'must lead to a public address; SVC_WEBHOOK_PRIVATE_HOSTS lists private hosts that are allowed' }
  }
  return { url: url.href }
}

/** The host to connect to: IPv6 without its brackets. */
export function toHost(url: URL): string {
  return url.hostname.replace(/^\[(.*)\]$/, '$1')
}

/** True for a host that a setting allows although it is private. */
export function isAllowedPrivate(url: URL, privateHosts: PrivateHosts): boolean {
  return (
    privateHosts.has(url.hostname) ||
    privateHosts.has(`${url.hostname}:${url.port || (url.protocol === 'http:' ? '80' : '443')}`)
  )
}

function isKnownPrivate(host: string): boolean {
  if (isIP(host) !== 0) return !isPublicAddress(host)
  return host === 'localhost' || host.endsWith('.localhost')
}
