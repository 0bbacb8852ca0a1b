import type { IncomingHttpHeaders } from 'node:http'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { z } from 'zod'
import type { Account } from '../store/postgres/accounts/accounts.ts'

/**
 * Who may call a route. A server with a route that declares no permission does not start.
 * - `anyone`: no key is needed
 * - `reader`: any registered key, or the share code of a project (query `shareCode`) without a key
 * - `caller`: any registered key; the handler decides per workspace what it may see
 * - `auditor`: the key of an auditor or an admin of the organization: what is read of all of it
 * - `admin`: the key of an admin of the organization
 * - `operator`: the key of an admin of the first organization: what is of the whole service, not of one organization
 *
 * The session of a browser counts as the key that it was opened with; so does the identity that a trusted proxy names.
 */
const permissions = ['anyone', 'reader', 'caller', 'auditor', 'admin', 'operator'] as const

type Permission = (typeof permissions)[number]

/**
 * What a call that may change something is charged. A server with such a route that declares no charge does not start. A key
 * whose scope is `read` is refused by all that are charged, but for what is personal.
 * - `own`: the handler, or ingest, charges what is written to the experiment or model, and to the key
 * - `call`: the server charges the key one call, before the handler
 * - `personal`: the same, for what concerns the caller alone, such as the end of its own session
 * - `none`: it reads only
 */
const charges = ['own', 'call', 'personal', 'none'] as const

type Charge = (typeof charges)[number]

/** The account of a key, a session or an identity that a proxy names, or an anonymous visitor with a share code. */
export type Caller = Account & {
  shareCode?: string
  session?: { id: string; expiresAtMs: number }
  identity?: { id: string }
}

/** The checked parts of a request. `caller` is set unless the permission of the route is `anyone`. */
export type Call<Body, Query, Params> = FastCall<Body> & {
  query: Query
  params: Params
  request: FastifyRequest
  reply: FastifyReply
}

/** The parts of a request that the fast path has too. */
type FastCall<Body> = { body: Body; caller: Caller; headers: IncomingHttpHeaders }

type Fields = z.ZodType

/**
 * What a route takes and answers, without the handler. Every process builds the OpenAPI document from these, also for routes
 * that it does not serve.
 */
export type RouteDescription = {
  /** A GET changes nothing, unless its path begins with `/write/`: browsers let foreign pages make GETs (`session-check.ts`). */
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /**
   * The path below the prefix `/api/rest/v2`, with parameters in braces: `/project/{projectId}`. A last one with a star, `{path*}`,
   * is all of the rest, slashes too.
   */
  path: string
  /** True for a path without the prefix: monitoring clients call those. */
  atRoot?: boolean
  permission: Permission
  /** Every route that `mayChange` has one. */
  charge?: Charge
  /** The description on the reference page. */
  summary: string
  /** The heading on the reference page. */
  topic: string
  /** The half of the service that serves it: a label of its metrics. */
  tier?: 'ingest' | 'api'
  body?: Fields
  /**
   * The form of a route that takes a file instead of JSON: of any length, as a part of the form or as the whole body. The
   * handler reads it (see `upload.ts`); the schema only documents it.
   */
  upload?: Fields
  query?: Fields
  /** The parameters of the path. */
  params?: Fields
  answer: Fields
  /**
   * `envelope` adds msg, code, data and sdk_error_code to the answer; `plain` sends JSON without them; `text` sends
   * text/plain; `bytes` sends bytes, and the handler sets the content type; `empty` is HTTP 204.
   */
  shape: 'envelope' | 'plain' | 'text' | 'bytes' | 'empty'
  /** True when the handler checks the body itself, for speed; the schema then only documents it. */
  checksOwnBody?: boolean
  bodyBytesMax?: number
  /** True when the body may be an Apache Arrow stream instead of JSON: the handler gets its bytes. */
  takesArrow?: boolean
  /** True when a call without a body is one without fields. */
  mayLackBody?: boolean
}

type Handled = RouteDescription & { handle(call: Call<unknown, unknown, unknown>): Promise<unknown> | unknown }

export type Route = (Handled & { handleFast?: undefined }) | FastPathRoute

/** A route of the fast path, which checks only the key: its permission must be `caller`, or else the server does not start. */
export type FastPathRoute = Handled & {
  permission: 'caller'
  /** Does the same as `handle` for a request of the fast path. */
  handleFast(call: FastCall<unknown>): Promise<string> | string
}

/** The prefix of all routes that are not `atRoot`. */
export const prefix = '/api/rest/v2'

/** The heading of what only clients that log live call. */
export const clientTopic = 'Clients that log live'

/** The URL pattern of a route for the router. */
export const toUrl = ({ path }: RouteDescription, base: string) =>
  base + path.replace(/\{\w+\*\}$/, '*').replaceAll(/\{(\w+)\}/g, ':$1')

/** What the router calls the rest of a path, by the name that the route has for it. */
export function toParams({ path }: RouteDescription, params: unknown): unknown {
  const name = /\{(\w+)\*\}$/.exec(path)?.[1]
  if (name === undefined) return params
  const { '*': rest, ...others } = params as Record<string, unknown>
  return { ...others, [name]: rest }
}

export const uploadTypes = ['multipart/form-data']

type Typed<B extends Fields, Q extends Fields, P extends Fields, A extends Fields> = Omit<
  RouteDescription,
  'body' | 'query' | 'params' | 'answer'
> & {
  body?: B
  query?: Q
  params?: P
  answer: A
  handle(call: Call<z.output<B>, z.output<Q>, z.output<P>>): Promise<z.input<A> | RawAnswer> | z.input<A> | RawAnswer
}

/** JSON text that is sent unchanged. */
type RawAnswer = string | NodeJS.ReadableStream

/** Declares a route whose handler is typed by its schemas. */
export function route<
  B extends Fields = z.ZodUndefined,
  Q extends Fields = z.ZodUndefined,
  P extends Fields = z.ZodUndefined,
  A extends Fields = z.ZodType,
>(typed: Typed<B, Q, P, A>): Route {
  return typed as unknown as Route
}

type TypedFast<B extends Fields> = Omit<RouteDescription, 'body' | 'query' | 'params'> & {
  permission: 'caller'
  body: B
  /** Answers JSON text. */
  handle(call: FastCall<z.output<B>>): Promise<string> | string
}

/** Declares a frequent write: plain requests to it take the fast path (see `fast-path.ts`). */
export function fastRoute<B extends Fields>(typed: TypedFast<B>): FastPathRoute {
  return { ...typed, handleFast: typed.handle } as unknown as FastPathRoute
}

/** The heading of what clients of MLflow call. */
export const mlflowTopic = 'Clients of MLflow'

/** True when a call may change something: the reads that are POSTs, and all calls of logging clients, count as well. */
export const mayChange = ({ method, path }: RouteDescription) => method !== 'GET' || /^\/(write|clientlib)\//.test(path)

/** True when a call writes, or manages something. */
export const isWrite = ({ charge }: RouteDescription) => charge === 'own' || charge === 'call'

/** True when nobody misses a call that ends halfway. */
export const isRead = ({ charge }: RouteDescription) => charge === undefined || charge === 'none'

/** True when the server charges a call itself. */
export const isChargedCall = ({ charge }: RouteDescription) => charge === 'call' || charge === 'personal'

/** Adds the fields that every answer has. */
export const toEnvelope = (answer: object) => ({ msg: 'Ok', ...answer, code: 200, data: null, sdk_error_code: 0 })

/**
 * Checks at run time what the types demand.
 *
 * @throws Error for a route without a known permission, one that may change something without a charge, or a fast route with a permission other than `caller`
 */
export function checkDeclarations(it: Route): void {
  const { method, path, permission, charge, handleFast } = it
  if (!permissions.includes(permission)) {
    throw new Error(`The route ${method} ${path} declares no permission: give it one of ${permissions.join(', ')}.`)
  }
  if (mayChange(it) && !(charge && charges.includes(charge))) {
    throw new Error(`The route ${method} ${path} declares no charge: give it one of ${charges.join(', ')}.`)
  }
  if (handleFast && permission !== 'caller') {
    throw new Error(
      `The route ${method} ${path} is on the fast path, which checks the key only: its permission must be caller.`,
    )
  }
}
