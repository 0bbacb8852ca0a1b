import type { IncomingHttpHeaders } from 'node:http'
import { HttpError } from './errors.ts'

/**
 * Clients that log live send this header with every request. What they do next depends on the answer:
 *
 * - They drop what got 503, and keep what got 429 until it is taken; so they get 429 instead.
 * - They wait as `Retry-After-Custom` says, or a minute without it.
 * - They read the code of an error only from 400 (and a few calls from 403), so below `/clientlib` a wrong key gets 400.
 */
const clientHeader = 'x-comet-debug-sdk-version'

const loggingPaths = /^\/clientlib\/(?!rest\/)/

export const isLoggingClient = (headers: IncomingHttpHeaders) => headers[clientHeader] !== undefined

/** The same error as the client at the other end understands it. */
export function toErrorForClient(error: HttpError, headers: IncomingHttpHeaders, path: string): HttpError {
  if (['keyUnknown', 'keyEnded', 'keyMissing'].includes(error.kind) && loggingPaths.test(path)) {
    return new HttpError('keyUnknownToLogger', error.message)
  }
  if (!isLoggingClient(headers) || (error.kind !== 'unavailable' && error.kind !== 'throttled')) return error
  const { cause, holdMs, message } = error
  const wait = error.headers['retry-after'] ?? '1'
  return new HttpError(error.kind === 'throttled' ? 'throttled' : 'sentAgainLater', message, {
    cause,
    holdMs,
    headers: { ...error.headers, 'retry-after-custom': wait },
  })
}
