import { lookup, Resolver } from 'node:dns/promises'
import { isIP } from 'node:net'
import { Undeliverable } from './failure.ts'
import { isPublicAddress } from './public-address.ts'
import { isAllowedPrivate, type PrivateHosts, toHost } from './receiver-url.ts'

export type Address = { address: string; family: number }

/** All addresses of a name; rejects when it has none. */
export type Resolve = (name: string) => Promise<Address[]>

/**
 * The addresses that a sender may connect to. It must use one of these and not resolve the name again.
 *
 * @throws Undeliverable when there is none, or one of them is not public and no setting allows the host
 */
export async function findAddresses(
  url: URL,
  privateHosts: PrivateHosts,
  { resolvePublic, resolvePrivate }: { resolvePublic: Resolve; resolvePrivate: Resolve },
): Promise<Address[]> {
  const host = toHost(url)
  const isAllowed = isAllowedPrivate(url, privateHosts)
  const family = isIP(host)
  const addresses =
    family === 0
      ? await (isAllowed ? resolvePrivate : resolvePublic)(host).catch((error: unknown) => {
          throw new Undeliverable('name not found', error)
        })
      : [{ address: host, family }]
  if (addresses.length === 0) throw new Undeliverable('name not found')
  if (!isAllowed && !addresses.every((it) => isPublicAddress(it.address))) throw new Undeliverable('address not public')
  return addresses
}

/** Queries the name servers directly: the system's resolver blocks a thread per name, so slow names would delay others. */
export function createResolver({ timeoutMs }: { timeoutMs: number }): Resolve {
  const resolver = new Resolver({ timeout: timeoutMs, tries: 1 })
  return async (name) => {
    const [four, six] = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)])
    const found = [
      ...(four.status === 'fulfilled' ? four.value.map((address) => ({ address, family: 4 })) : []),
      ...(six.status === 'fulfilled' ? six.value.map((address) => ({ address, family: 6 })) : []),
    ]
    if (found.length === 0 && four.status === 'rejected') throw four.reason
    return found
  }
}

/** Resolves like other programs on this machine: with /etc/hosts and the names of a cluster. */
export const resolveLocally: Resolve = (name) => lookup(name, { all: true })
