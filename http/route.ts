import type { FastifyReply, FastifyRequest } from 'fastify'
import type { z } from 'zod'
import type { Account } from '../store/postgres/accounts.ts'

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
type Call<Body, Query, Params> = {
  body: Body
  query: Query
  params: Params
  caller: Caller
  request: FastifyRequest
  reply: FastifyReply
}

type Fields = z.ZodType

export type Route = {
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
  handle(call: Call<unknown, unknown, unknown>): Promise<unknown> | unknown
}

type Typed<B extends Fields, Q extends Fields, P extends Fields, A extends Fields> = Omit<
  Route,
  'body' | 'query' | 'params' | 'answer' | 'handle'
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

/**
 * Types are not checked when the service runs: a route from elsewhere may lack what they demand.
 *
 * @throws Error for a route that declares no permission, or one that does not exist
 */
export function checkPermission({ method, path, permission }: Route): void {
  if (permissions.includes(permission)) return
  throw new Error(`The route ${method} ${path} declares no permission: give it one of ${permissions.join(', ')}.`)
}
