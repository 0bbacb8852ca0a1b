import type { FastifyRequest } from 'fastify'
import { mapMaybeAsync } from '../runtime/map-maybe-async.ts'
import { adminOnly, HttpError, operatorOnly } from './errors.ts'
import { type Caller, mayChange, type RouteDescription } from './route.ts'

type Headers = FastifyRequest['headers']
type CallerCheck = (request: FastifyRequest) => Caller | Promise<Caller>

type Checks = {
  checkKey(headers: Headers): Caller | Promise<Caller>
  checkSession?(headers: Headers, mayChange: boolean): Caller | Promise<Caller> | undefined
}

/** Finds the caller of a route: by the key, else by the session of a browser, else by a share code. */
export function toCallerCheck(route: RouteDescription, { checkKey, checkSession }: Checks): CallerCheck {
  const changes = mayChange(route)
  function check({ headers }: FastifyRequest): Caller | Promise<Caller> {
    try {
      return checkKey(headers)
    } catch (error) {
      const caller = isKind(error, 'keyMissing') ? checkSession?.(headers, changes) : undefined
      if (caller === undefined) throw error
      return caller
    }
  }
  if (route.permission === 'admin') return (request) => mapMaybeAsync(check(request), requireAdmin)
  if (route.permission === 'operator') return (request) => mapMaybeAsync(check(request), requireOperator)
  if (route.permission !== 'reader') return check
  return (request) => {
    const { shareCode } = request.query as { shareCode?: unknown }
    if (typeof shareCode !== 'string') return check(request)
    const asVisitor = (error: unknown): Caller => {
      // A browser keeps the cookie of a session that has ended.
      if (isKind(error, 'keyMissing') || isKind(error, 'sessionEnded')) return toVisitor(shareCode)
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

const isKind = (error: unknown, kind: HttpError['kind']) => error instanceof HttpError && error.kind === kind

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
    isAdmin: false,
    isOperator: false,
    defaultWorkspaceName: null,
    limits: {},
    shareCode,
  }
}
