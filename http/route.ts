import type { IncomingHttpHeaders } from 'node:http'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { z } from 'zod'
import type { Account } from '../store/postgres/accounts/accounts.ts'

/**
 * Who may call a route. The types demand it, and a server with a route that declares none does not start:
 * - `anyone`: no key is asked for
 * - `reader`: any registered key, or the share code of a project (query `shareCode`) without a key
 * - `caller`: any registered key; what it may see is decided per workspace by the handler
 * - `admin`: the key of an admin of the organization
 */
const permissions = ['anyone', 'reader', 'caller', 'admin'] as const

type Permission = (typeof permissions)[number]

/** The person or machine behind a key, or nobody with a share code. */
export type Caller = Account & { shareCode?: string }

/** What a handler gets: the checked parts of the request. `caller` is always there unless the route is for anyone. */
type Call<Body, Query, Params> = FastCall<Body> & {
  query: Query
  params: Params
  request: FastifyRequest
  reply: FastifyReply
}

/** What is there of a request also when it came by the fast path. */
type FastCall<Body> = { body: Body; caller: Caller; headers: IncomingHttpHeaders }

type Fields = z.ZodType

/**
 * What a route takes and answers, without the handler. The OpenAPI document is made of it, also by processes that do not
 * serve the route.
 */
export type RouteDescription = {
  method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  /** Below the prefix `/api/rest/v2`. What differs from call to call stands in braces: `/project/{projectId}`. */
  path: string
  /** True for a path that is the whole address, as clients of monitoring have it. */
  atRoot?: boolean
  permission: Permission
  /** One sentence for the reference page. */
  summary: string
  /** The heading it stands under on the reference page. */
  topic: string
  /** Which half of the service serves it: the label of its figures. */
  tier?: 'ingest' | 'api'
  body?: Fields
  /**
   * The form of a route that takes a file instead of JSON: of any length, as a part of the form or as the whole body. It
   * is not read before the handler does so (see `upload.ts`); the schema documents the form.
   */
  upload?: Fields
  query?: Fields
  /** What stands in braces in the path. */
  params?: Fields
  answer: Fields
  /**
   * `envelope` adds msg, code, data and sdk_error_code to the answer; `plain` sends it as it is; `text` as text/plain;
   * `bytes` too, and the handler has set their content type; `empty` is HTTP 204.
   */
  shape: 'envelope' | 'plain' | 'text' | 'bytes' | 'empty'
  /** A body that its handler checks by itself, for speed; the schema then only documents it. */
  checksOwnBody?: boolean
  bodyBytesMax?: number
}

type Handled = RouteDescription & { handle(call: Call<unknown, unknown, unknown>): Promise<unknown> | unknown }

export type Route = (Handled & { handleFast?: undefined }) | FastPathRoute

/**
 * A route of the fast path, which checks the key and nothing else: it is open to routes for every caller only. With another
 * permission such a route is a type error, and a server with it does not start.
 */
export type FastPathRoute = Handled & {
  permission: 'caller'
  /** Does the same as `handle`, for a request that came by the fast path. */
  handleFast(call: FastCall<unknown>): Promise<string> | string
}

/** Where the routes are that are not `atRoot`. */
export const prefix = '/api/rest/v2'

/** The address of a route below a prefix, as the router has it. */
export const toUrl = ({ path }: RouteDescription, base: string) => base + path.replaceAll(/\{(\w+)\}/g, ':$1')

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

/** A body that is sent as it stands: JSON text already written, possibly in pieces. */
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

/** Declares a write of the stream, which is called very often: plain requests to it take the fast path (see `fast-path.ts`). */
export function fastRoute<B extends Fields>(typed: TypedFast<B>): FastPathRoute {
  return { ...typed, handleFast: typed.handle } as unknown as FastPathRoute
}

/** An answer with the fields that all of them have. */
export const toEnvelope = (answer: object) => ({ msg: 'Ok', ...answer, code: 200, data: null, sdk_error_code: 0 })

/**
 * Types are not checked when the service runs: a route from elsewhere may lack what they demand.
 *
 * @throws Error for a route that declares no permission, one that does not exist, or one that the fast path does not check
 */
export function checkPermission({ method, path, permission, handleFast }: Route): void {
  if (!permissions.includes(permission)) {
    throw new Error(`The route ${method} ${path} declares no permission: give it one of ${permissions.join(', ')}.`)
  }
  if (handleFast && permission !== 'caller') {
    throw new Error(
      `The route ${method} ${path} is on the fast path, which checks the key only: its permission must be caller.`,
    )
  }
}
