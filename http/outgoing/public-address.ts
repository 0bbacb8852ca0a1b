import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'

/** Addresses of cloud metadata services that are routed like public ones. */
const cloudMetadata = new Set(['168.63.129.16'])

/** The only part of IPv6 with public addresses: RFC 4291 leaves the rest unassigned. */
const globalUnicast = ipaddr.parseCIDR('2000::/3') as [ipaddr.IPv6, number]
/** Addresses that a network translates to IPv4: the last 32 bits are the IPv4 address (RFC 6052). */
const translated = ipaddr.parseCIDR('64:ff9b::/96') as [ipaddr.IPv6, number]

/**
 * True for an address of the public internet. False for this machine, its networks, link-local (where clouds answer with
 * credentials), shared, multicast, reserved, benchmarking, documentation and tunnel addresses, and for text that is no
 * canonical address. An IPv4 address inside an IPv6 one is checked as IPv4.
 */
export function isPublicAddress(text: string): boolean {
  // A zone names a network of this machine.
  if (text.includes('%')) return false
  if (ipaddr.IPv4.isValidFourPartDecimal(text)) return isPublicIPv4(ipaddr.IPv4.parse(text))
  if (isIP(text) !== 6) return false
  // URL writes it in hexadecimal: ipaddr.js reads `::8.8.8.8` as `::ffff:8.8.8.8`.
  const address = ipaddr.IPv6.parse(new URL(`http://[${text}]`).hostname.slice(1, -1))
  if (address.isIPv4MappedAddress()) return isPublicIPv4(address.toIPv4Address())
  if (address.match(translated)) return isPublicIPv4(new ipaddr.IPv4(address.toByteArray().slice(12)))
  return address.match(globalUnicast) && address.range() === 'unicast'
}

function isPublicIPv4(address: ipaddr.IPv4): boolean {
  return address.range() === 'unicast' && !cloudMetadata.has(address.toString())
}
