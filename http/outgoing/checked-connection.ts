import type { LookupFunction, Socket } from 'node:net'
import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls'
import type { Address } from './addresses.ts'
import { Undeliverable } from './failure.ts'
import { isPublicAddress } from './public-address.ts'

/** What keeps a connection on the addresses that were checked, and with whom it may be. */

/**
 * Options of a connection that trusts one more certificate authority, in PEM, than Node does. To be kept: to read Node's own ones
 * takes 40 ms, which connections with `ca` take each.
 */
export function trustAlso(extraCa: string | undefined): { secureContext?: SecureContext } {
  if (extraCa === undefined) return {}
  return { secureContext: createSecureContext({ ca: [...getCACertificates('default'), extraCa] }) }
}

/** A lookup that returns the checked addresses. */
export function lookUpIn(addresses: Address[]): LookupFunction {
  return (_host, { all }, done) => {
    const [first] = addresses as [Address]
    if (all) done(null, addresses)
    else done(null, first.address, first.family)
  }
}

/** Rejects when `stop` is aborted: a DNS query itself cannot be cancelled. */
export async function untilStopped<T>(work: Promise<T>, stop: AbortSignal): Promise<T> {
  const stopped = Promise.withResolvers<never>()
  const end = () => stopped.reject(stop.reason)
  if (stop.aborted) end()
  stop.addEventListener('abort', end, { once: true })
  try {
    return await Promise.race([work, stopped.promise])
  } finally {
    stop.removeEventListener('abort', end)
    work.catch(() => undefined)
  }
}

/** Looks at the address that the socket is really connected to. */
export function refuseNonPublic(socket: Socket) {
  socket.on('connect', () => {
    if (!isPublicAddress(socket.remoteAddress ?? '')) socket.destroy(new Undeliverable('address not public'))
  })
}
