import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'

/** What clouds answer on besides the link-local addresses; it is routed like a public one. */
const metadataOfClouds = new Set(['168.63.129.16'])

/** Only from here are addresses given out: RFC 4291 leaves the rest of IPv6 unassigned. */
const globalUnicast = ipaddr.parseCIDR('2000::/3') as [ipaddr.IPv6, number]
/** Where a network translates IPv6 to IPv4, the last 32 bits say what is reached: RFC 6052. */
const translated = ipaddr.parseCIDR('64:ff9b::/96') as [ipaddr.IPv6, number]

/**
 * True for an address of the public internet. Everything else is not: this machine, its networks, link-local (where clouds
 * answer with credentials), shared, multicast, reserved, benchmarking, documentation, tunnels, and what is no address in
 * its one canonical spelling. An IPv4 address inside an IPv6 one is judged as what it reaches.
 */
export function isPublicAddress(text: string): boolean {
  // Zones name a network of this machine.
  if (text.includes('%')) return false
  if (ipaddr.IPv4.isValidFourPartDecimal(text)) return isPublicIPv4(ipaddr.IPv4.parse(text))
  if (isIP(text) !== 6) return false
  // In hexadecimal throughout: ipaddr.js takes `::8.8.8.8` for `::ffff:8.8.8.8`.
  const address = ipaddr.IPv6.parse(new URL(`http://[${text}]`).hostname.slice(1, -1))
  if (address.isIPv4MappedAddress()) return isPublicIPv4(address.toIPv4Address())
  if (address.match(translated)) return isPublicIPv4(new ipaddr.IPv4(address.toByteArray().slice(12)))
  return address.match(globalUnicast) && address.range() === 'unicast'
}

function isPublicIPv4(address: ipaddr.IPv4): boolean {
  return address.range() === 'unicast' && !metadataOfClouds.has(address.toString())
}
