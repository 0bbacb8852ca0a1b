import type { KeyScope } from '../store/postgres/accounts/visibility.ts'
import { HttpError, restrictedKey } from './errors.ts'
import { type Caller, isWrite, type RouteDescription } from './route.ts'

/**
 * What a key may not do at all, whatever its user may: these are refused before the handler. What it may not do to one thing and
 * may to another, `store/postgres/accounts/visibility.ts` decides.
 */
const ofOrganization = new Set<RouteDescription['permission']>(['auditor', 'admin', 'operator'])

const ranks: Record<KeyScope, number> = { read: 0, write: 1, all: 2 }

type Check = (caller: Caller) => Caller

/** A check of the callers of a route. It throws HttpError `keyScope`, `keyRestricted`. */
export function toScopeCheck(route: RouteDescription): Check {
  const isOfOrganization = ofOrganization.has(route.permission)
  const needed: KeyScope = !isWrite(route) ? 'read' : isOfOrganization ? 'all' : 'write'
  return (caller) => {
    if (ranks[caller.scope] < ranks[needed]) throw wrongScope(caller.scope, needed)
    if (isOfOrganization && caller.place !== null) throw restrictedKey(caller.place)
    return caller
  }
}

/** For what a key that was made for less may not do: making keys and workspaces. @throws HttpError `keyScope`, `keyRestricted` */
export function requireWholeKey({ scope, place }: Caller) {
  if (scope !== 'all') throw wrongScope(scope, 'all')
  if (place !== null) throw restrictedKey(place)
}

export function wrongScope(scope: KeyScope, needed: KeyScope): HttpError {
  return new HttpError('keyScope', `This API key has the scope "${scope}": use one of scope "${needed}" for this.`)
}
