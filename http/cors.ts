import type { FastifyInstance, FastifyRequest } from 'fastify'

/**
 * Lets pages of other origins call the service (`SVC_CORS_ORIGINS`). They send a key, never a cookie: no answer has
 * `Access-Control-Allow-Credentials`, so browsers send no session with these calls. `X-Svc-Page` is not among the allowed
 * headers, or else a foreign page could act as one of ours (`session-check.ts`).
 */
export type Cors = {
  /** The origins that are allowed by name. */
  origins: string[]
  /** The headers of every answer to a page of this origin. */
  toHeaders(origin: string | undefined): Record<string, string>
  /** The headers that also answer a preflight. */
  preflightHeaders: Record<string, string>
}

const anyOrigin = '*'
/** Chromium keeps the answer of a preflight no longer. */
const preflightSeconds = 7_200
const requestHeaders = [
  'authorization',
  'content-type',
  'content-encoding',
  'idempotency-key',
  'if-none-match',
  'if-range',
  'last-event-id',
  'prefer',
  'range',
  'traceparent',
  'tracestate',
]
const answerHeaders = [
  'retry-after',
  'ratelimit-limit',
  'ratelimit-remaining',
  'ratelimit-reset',
  'content-disposition',
  'content-range',
  'etag',
]

type Settings = {
  /** Origins as browsers send them, or `*`. */
  origins: string[]
  /** Further headers that may carry a key. */
  authHeaders: string[]
}

/** @returns undefined when no other origin may call */
export function createCors({ origins, authHeaders }: Settings): Cors | undefined {
  if (origins.length === 0) return undefined
  const exposed = { 'access-control-expose-headers': answerHeaders.join(', ') }
  const isAny = origins.includes(anyOrigin)
  const forAny = { 'access-control-allow-origin': anyOrigin, ...exposed }
  // Caches must not hand the answer for one origin to another.
  const forOthers = { vary: 'Origin' }
  const byOrigin = new Map(
    origins.map((origin) => [origin, { 'access-control-allow-origin': origin, ...exposed, ...forOthers }]),
  )
  return {
    origins: isAny ? [] : origins,
    toHeaders: isAny ? () => forAny : (origin) => byOrigin.get(origin ?? '') ?? forOthers,
    preflightHeaders: {
      'access-control-allow-methods': 'GET, HEAD, POST, PUT, DELETE',
      'access-control-allow-headers': [...requestHeaders, ...authHeaders].join(', '),
      'access-control-max-age': String(preflightSeconds),
    },
  }
}

/** Adds the headers to every answer, and answers preflights. Call it before other hooks, which may answer with an error. */
export function addCors(app: FastifyInstance, { toHeaders, preflightHeaders }: Cors) {
  app.addHook('onRequest', (request, reply, done) => {
    reply.headers(toHeaders(request.headers.origin))
    if (isPreflight(request)) reply.code(204).headers(preflightHeaders).send()
    else done()
  })
}

const isPreflight = ({ method, headers }: FastifyRequest) =>
  method === 'OPTIONS' && headers.origin !== undefined && headers['access-control-request-method'] !== undefined
