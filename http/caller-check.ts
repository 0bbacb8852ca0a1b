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
  function find(request: FastifyRequest): Caller | Promise<Caller> {
    const { headers } = request
    const bySession = (error: unknown) => {
      const caller =
        isKind(error, 'keyMissing') || isKind(error, 'identityUnknown') ? checkSession?.(headers, changes) : undefined
      if (caller === undefined) throw error
      return caller
    }
    const byProxy = (error: unknown) => {
      const caller = isKind(error, 'keyMissing') ? checkProxy?.(request, changes) : undefined
      if (caller === undefined) return bySession(error)
      return caller instanceof Promise ? caller.catch(bySession) : caller
    }
    try {
      return checkKey(headers)
    } catch (error) {
      try {
        return byProxy(error)
      } catch (refusal) {
        if (refusal === error) throw error
        return bySession(refusal)
      }
    }
  }
  const check: CallerCheck = (request) => mapMaybeAsync(find(request), checkScope)
  if (route.permission === 'auditor')
    return (request) => mapMaybeAsync(mapMaybeAsync(find(request), requireAuditor), checkScope)
  if (route.permission === 'admin')
    return (request) => mapMaybeAsync(mapMaybeAsync(find(request), requireAdmin), checkScope)
  if (route.permission === 'operator')
    return (request) => mapMaybeAsync(mapMaybeAsync(find(request), requireOperator), checkScope)
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

function requireAuditor(caller: Caller): Caller {
  if (caller.isAuditor || caller.isAdmin) return caller
  throw auditorOnly()
}

function requireAdmin(caller: Caller): Caller {
  if (caller.isAdmin) return caller
  throw adminOnly()
}

function requireOperator(caller: Caller): Caller {
  if (caller.isOperator) return caller
  throw operatorOnly()
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
