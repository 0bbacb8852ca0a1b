import type { FastifyRequest } from 'fastify'
import { mapMaybeAsync } from '../runtime/map-maybe-async.ts'
import { adminOnly, auditorOnly, HttpError, operatorOnly } from './errors.ts'
import { toScopeCheck } from './key-scope.ts'
import { type Caller, mayChange, type RouteDescription } from './route.ts'
import type { ProxyCheck } from './sign-in/proxy-check.ts'

type Headers = FastifyRequest['headers']
type CallerCheck = (request: FastifyRequest) => Caller | Promise<Caller>

type Checks = {
  checkKey(headers: Headers): Caller | Promise<Caller>
  checkProxy?: ProxyCheck | undefined
  checkSession?(headers: Headers, mayChange: boolean): Caller | Promise<Caller> | undefined
}

/**
 * Finds the caller of a route: by the key, else by the headers of a trusted proxy, else by the session of a browser, else by a
 * share code. A person whom the proxy signs in but who has no account may still use a session.
 */
export function toCallerCheck(route: RouteDescription, { checkKey, checkProxy, checkSession }: Checks): CallerCheck {
  const changes = mayChange(route)
  const checkScope = toScopeCheck(route)
  const find: CallerCheck = (request) =>
    orElse(
      () => checkKey(request.headers),
      ['keyMissing'],
      (noKey) =>
        orElse(
          () => checkProxy?.(request, changes) ?? refuse(noKey),
          ['keyMissing', 'identityUnknown'],
          (noIdentity) => checkSession?.(request.headers, changes) ?? refuse(noIdentity),
        ),
    )
  const requireRole = requiredRoles[route.permission]
  const check: CallerCheck = (request) => mapMaybeAsync(mapMaybeAsync(find(request), requireRole), checkScope)
  if (route.permission !== 'reader') return check
  return (request) => {
    const { shareCode } = request.query as { shareCode?: unknown }
    if (typeof shareCode !== 'string') return check(request)
    const asVisitor = (error: unknown): Caller => {
      // A browser keeps the cookie of a session that has ended.
      if (withoutCaller.some((kind) => isKind(error, kind))) return toVisitor(shareCode)
      throw error
    }
    // With a key and a share code, the caller may read what either of them allows.
    const withCode = (caller: Caller): Caller => ({ ...caller, shareCode })
    try {
      const caller = check(request)
      return caller instanceof Promise ? caller.then(withCode, asVisitor) : withCode(caller)
    } catch (error) {
      return asVisitor(error)
    }
  }
}

const withoutCaller = ['keyMissing', 'sessionEnded', 'identityUnknown'] as const

const isKind = (error: unknown, kind: HttpError['kind']) => error instanceof HttpError && error.kind === kind

const refuse = (error: unknown): never => {
  throw error
}

/** What `check` finds; `next` goes on from an error of one of these kinds. */
function orElse(
  check: () => Caller | Promise<Caller>,
  kinds: HttpError['kind'][],
  next: (error: unknown) => Caller | Promise<Caller>,
): Caller | Promise<Caller> {
  const goOn = (error: unknown) => (kinds.some((kind) => isKind(error, kind)) ? next(error) : refuse(error))
  try {
    const found = check()
    return found instanceof Promise ? found.catch(goOn) : found
  } catch (error) {
    return goOn(error)
  }
}

type RoleCheck = (caller: Caller) => Caller

const anyRole: RoleCheck = (caller) => caller
const requiredRoles: Record<RouteDescription['permission'], RoleCheck> = {
  anyone: anyRole,
  reader: anyRole,
  caller: anyRole,
  auditor: (caller) => (caller.isAuditor || caller.isAdmin ? caller : refuse(auditorOnly())),
  admin: (caller) => (caller.isAdmin ? caller : refuse(adminOnly())),
  operator: (caller) => (caller.isOperator ? caller : refuse(operatorOnly())),
}

const nilId = '00000000-0000-0000-0000-000000000000'

/** A caller without a key, who may read only what the share code allows. */
function toVisitor(shareCode: string): Caller {
  return {
    keyId: nilId,
    userId: nilId,
    userName: '',
    kind: 'person',
    organizationId: nilId,
    viewerId: nilId,
    scope: 'read',
    place: null,
    keyExpiresAtMs: null,
    isAdmin: false,
    isAuditor: false,
    isOperator: false,
    defaultWorkspaceName: null,
    limits: {},
    shareCode,
  }
}
